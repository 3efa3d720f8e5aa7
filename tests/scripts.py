"""Runs scripts quickly: forks a process for each from one that has imported the packages of others, not ours.

Run as a script. Each line of its input is the path of a script, each line of its output the exit status. The script
runs as ``python script.py`` would in its own folder; what it prints lands beside it in a file that ends in .out.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
import warnings
from pathlib import Path

import matplotlib.figure  # noqa: F401
import numba  # noqa: F401
import scipy.stats  # noqa: F401


def play(path: Path) -> None:
    """Become a process that runs the script and nothing else."""
    with path.with_suffix(".out").open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(path.parent)
    sys.argv, sys.path[0] = [str(path)], str(path.parent)
    status = 1
    try:
        runpy.run_path(str(path), run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Run what is asked for until there is nothing more."""
    for line in sys.stdin:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of NumPy's BLAS, which knows about forks
            child = os.fork()
        if not child:
            play(Path(line.rstrip("\n")))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
