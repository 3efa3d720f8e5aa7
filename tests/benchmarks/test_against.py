"""A checkout timed beside another one."""

import pytest

pytest.importorskip("msgspec", reason="needs the extra `serve`")

from driftbandit.benchmarks import against

TELLS_WHERE = """
import os, sys
while sys.stdin.readline():
    print(3.0 if os.environ["PYTHONPATH"] == sys.argv[1] else 6.0, flush=True)
"""


def test_ratios_are_of_this_checkout_to_the_other(tmp_path):
    assert against.ratio(tmp_path, TELLS_WHERE, str(tmp_path), turns=3) == (6.0, 3.0, 2.0)


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="is no checkout of driftbandit"):
        against.main(tmp_path)
