"""How fast logs are read, and how much memory that takes: rows a second from Parquet with ten candidates by id.

``python -m driftbandit.benchmarks.reading`` writes two logs, one four times as long as the other, to a temporary
folder, and reads each in a fresh process on one thread. Memory is constant if both take the same. 'decode' is the
yardstick: the same files decoded by pyarrow, with nothing done to the columns. 'read ids' also looks for decisions that
came twice; the table of their ids grows up to 256 MB.

With ``--megabytes 100 1000`` the logs are CSV files of these sizes instead, and LinUCB is also evaluated on them. That
keeps a few numbers per decision, so its memory grows with the log, but not with its columns, candidates or features.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

CANDIDATES = 10
ITEMS = 200
PIECE = 100_000
"""Rows that are made at a time."""


def made_tables(rows: int | None = None, seed: int = 0) -> Iterator[Any]:
    """A made-up log with string ids, four columns of context, and an id for every decision; without end by default."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    names = pa.array([f"item-{number:04d}" for number in range(ITEMS)])
    devices = pa.array(["phone", "desk", "tablet"])
    start = 0
    while rows is None or start < rows:
        count = PIECE if rows is None else min(PIECE, rows - start)
        first = rng.integers(ITEMS, size=count)
        pools = (first[:, None] + 7 * np.arange(CANDIDATES)) % ITEMS
        shown = rng.integers(CANDIDATES, size=count)
        offsets = pa.array(np.arange(count + 1, dtype=np.int32) * CANDIDATES)
        yield pa.table(
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
        start += count


def write_log(path: Path, rows: int, seed: int = 0) -> None:
    """Write a made-up log to a Parquet file."""
    import pyarrow.parquet as pq

    writer = None
    for table in made_tables(rows, seed):
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=PIECE)
    if writer is not None:
        writer.close()


def write_csv(path: Path, megabytes: float, seed: int = 0) -> None:
    """Write a made-up log to a CSV file of about this size, at least one piece."""
    import pyarrow.compute as pc
    from pyarrow import csv

    with path.open("wb") as file:
        for number, table in enumerate(made_tables(seed=seed)):
            place = table.column_names.index("arms")
            plain = table.set_column(place, "arms", pc.binary_join(table["arms"].combine_chunks(), "|"))
            csv.write_csv(plain, file, csv.WriteOptions(include_header=number == 0))
            if file.tell() >= megabytes * 1e6:
                return


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


def evaluate(path: Path) -> int:
    """Decisions on which LinUCB was evaluated, beside the logger, uniform choice and the best arm."""
    from driftbandit.evaluation.builders import builders_of
    from driftbandit.evaluation.logged import evaluate_log
    from driftbandit.logs import read_log

    return evaluate_log(read_log(path), builders_of(["linucb"])).report.events


WORK = {"decode": decode, "read": read, "read ids": read_ids}
CSV_WORK = {"read": read, "read ids": read_ids, "evaluate": evaluate}


def measure(what: str, path: Path) -> None:
    """Print seconds, rows and the most memory of one reading as JSON. A short log is read first, to warm up."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    work = {**WORK, **CSV_WORK}[what]
    work(path.with_stem("warm"))
    start = time.process_time()
    rows = work(path)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "rows": rows, "peak": peak / 1024}))


def main(megabytes: list[float], rows: int = 500_000) -> None:
    """Measure both files, in every way, in fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        if megabytes:
            write_csv(Path(folder, "warm.csv"), 0.0)
        else:
            write_log(Path(folder, "warm.parquet"), 20_000)
        print(f"{'log':<8}{'rows':>12}{'what':>10}{'rows a second':>16}{'peak MB':>10}", flush=True)
        for name in megabytes or (rows, 4 * rows):
            path = Path(folder, "log.csv" if megabytes else "log.parquet")
            if megabytes:
                write_csv(path, name)
            else:
                write_log(path, int(name))
            size = f"{path.stat().st_size / 1e6:.0f} MB"
            for what in CSV_WORK if megabytes else WORK:
                command = [sys.executable, "-m", __spec__.name, "--measure", what, str(path)]
                found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
                speed = found["rows"] / found["seconds"]
                print(f"{size:<8}{found['rows']:>12,}{what:>10}{speed:>16,.0f}{found['peak']:>10.0f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[], help="sizes of CSV files to read instead")
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "PATH"), help="read one file and print JSON")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]))
    else:
        main(options.megabytes)
