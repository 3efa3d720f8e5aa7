"""What tests need and can be made beforehand: compiled loops over many scopes and logs, and collected test files.

``make test`` runs it on one core while another compiles the policies.
"""

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
import pytest

from driftbandit import DLinUCB, DriftUCB, LinTS, LinUCB, PerScope
from driftbandit.batch import ManyScopes
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.evaluation.replay import replay

_DIM = 6  # features of a log in the R6A format


def collect() -> None:
    """Let pytest rewrite the asserts of all test files, which it keeps."""
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"])


def compile_loops() -> None:
    """Read a log, and choose, learn and replay for many scopes with every kind of policy that can."""
    pools = np.zeros((2, 3, _DIM))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "day")
        write_synthetic(path, 20, seed=0, candidates=3)
        log, _ = read_yahoo(path)
    for policy in (DriftUCB(_DIM), DLinUCB(_DIM, noise=0.1), LinTS(_DIM), LinUCB(_DIM)):
        many = ManyScopes(policy, 2, threads=1)
        arms = many.choose_many([0, 1], pools)
        many.learn_many([0, 1], pools[[0, 1], arms], [0.0, 0.0])
        replay(PerScope(policy), log, scopes=np.arange(20) % 2)


if __name__ == "__main__":
    collect()
    compile_loops()
