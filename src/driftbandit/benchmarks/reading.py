"""How fast logs are read, and how much memory that takes: rows a second from Parquet with ten candidates by id.

``python -m driftbandit.benchmarks.reading`` writes two logs, one four times as long as the other, to a temporary
folder, and reads each in a fresh process on one thread. Memory is constant if both take the same. 'decode' is the
yardstick: the same files decoded by pyarrow, with nothing done to the columns. 'read ids' also looks for decisions that
came twice; the table of their ids grows up to 256 MB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CANDIDATES = 10
ITEMS = 200


def write_log(path: Path, rows: int, seed: int = 0) -> None:
    """A made-up log with string ids, four columns of context, and an id for every decision."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    names = pa.array([f"item-{number:04d}" for number in range(ITEMS)])
    devices = pa.array(["phone", "desk", "tablet"])
    writer = None
    for start in range(0, rows, 100_000):
        count = min(100_000, rows - start)
        first = rng.integers(ITEMS, size=count)
        pools = (first[:, None] + 7 * np.arange(CANDIDATES)) % ITEMS
        shown = rng.integers(CANDIDATES, size=count)
        offsets = pa.array(np.arange(count + 1, dtype=np.int32) * CANDIDATES)
        table = pa.table(
            {
                "decision": pa.array([f"{start + number:09x}" for number in range(count)]),
                "time": np.arange(start, start + count, dtype=np.float64),
                "device": devices.take(pa.array(rng.integers(3, size=count))),
                "hour": rng.integers(24, size=count),
                "age": rng.normal(40, 10, size=count),
                "segment": pa.array([f"s{number}" for number in rng.integers(12, size=count)]),
                "arms": pa.ListArray.from_arrays(offsets, names.take(pa.array(pools.reshape(-1)))),
                "arm": names.take(pa.array(pools[np.arange(count), shown])),
                "propensity": np.full(count, 1.0 / CANDIDATES),
                "reward": (rng.random(count) < 0.05).astype(np.float64),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=100_000)
    if writer is not None:
        writer.close()


def decode(path: Path) -> int:
    """Rows of a file of which nothing but the columns is made."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as opened:
        return sum(batch.num_rows for batch in opened.iter_batches(8192, use_threads=False))


def read(path: Path) -> int:
    """Decisions of a file, with their contexts as plain columns."""
    from driftbandit.logs import read_log

    log = read_log(path, columns={"ignore": ["decision"]})
    return sum(len(found) * bool(found.contexts) for found in log)


def read_ids(path: Path) -> int:
    """The same, with the ids of the decisions."""
    from driftbandit.logs import read_log

    return sum(len(found) * bool(found.contexts) for found in read_log(path))


WORK = {"decode": decode, "read": read, "read ids": read_ids}


def measure(what: str, path: Path) -> None:
    """Print seconds, rows and the most memory of one reading as JSON. A short log is read first, to warm up."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    work = WORK[what]
    warm = path.with_name("warm.parquet")
    work(warm)
    start = time.process_time()
    rows = work(path)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "rows": rows, "peak": peak / 1024}))


def main(rows: int = 500_000) -> None:
    """Measure both files, both ways, in fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder, "warm.parquet"), 20_000)
        write_log(Path(folder, "short.parquet"), rows)
        write_log(Path(folder, "long.parquet"), 4 * rows)
        print(f"{'log':<8}{'rows':>12}{'what':>10}{'rows a second':>16}{'peak MB':>10}")
        for name in ("short", "long"):
            for what in WORK:
                command = [sys.executable, "-m", __spec__.name, what, str(Path(folder, f"{name}.parquet"))]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                speed = found["rows"] / found["seconds"]
                print(f"{name:<8}{found['rows']:>12,}{what:>10}{speed:>16,.0f}{found['peak']:>10.0f}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        measure(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
