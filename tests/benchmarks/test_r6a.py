"""The benchmark of a log as long as R6A, on a short one."""

import subprocess
import sys


def test_it_reads_and_replays_what_it_wrote(tmp_path):
    command = [sys.executable, "-m", "driftbandit.benchmarks.r6a", "--lines", "2000", "--processes", "1"]
    first = subprocess.run([*command, "--folder", tmp_path], capture_output=True, text=True, check=True).stdout
    assert first.startswith("wrote 2,000 lines, ")
    assert "2,000 lines; the log takes 0.00 GB" in first
    again = subprocess.run([*command, "--folder", tmp_path], capture_output=True, text=True, check=True).stdout
    assert "wrote" not in again
    agree = [line.split(":")[1].split("|")[0] for line in first.splitlines() if "agree" in line]
    assert agree == [line.split(":")[1].split("|")[0] for line in again.splitlines() if "agree" in line]
    assert len(agree) == 2
