"""The benchmark of a log as long as R6A, on a short one."""

import subprocess
import sys

from driftbandit.benchmarks import r6a


def test_it_reads_and_replays_what_it_wrote(tmp_path):
    command = [sys.executable, "-m", "driftbandit.benchmarks.r6a", "--lines", "2000", "--processes", "1"]
    first = subprocess.run([*command, "--folder", tmp_path], capture_output=True, text=True, check=True).stdout
    assert first.startswith("wrote 2,000 lines, ")
    assert "2,000 lines; the log takes 0.00 GB" in first
    again = r6a.measure(str(tmp_path), processes=1)
    for name in ("LinUCB", "dLinUCB"):
        assert f"| replay, {name}: {again[f'{name} matched']:,} agree |" in first
    assert again["lines"] == 2000
