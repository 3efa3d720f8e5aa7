"""The mutation tester itself, on a few lines."""

from pathlib import Path

from .fork import Baseline
from .mutants import Source

TEXT = '''\
def last(rows, *, limit=3):
    """More than one > two."""
    total = 0
    total += max(rows)
    try:
        return f"SELECT seq FROM events WHERE seq > {total} ORDER BY seq DESC LIMIT {limit}"
    except db.Error:
        return (
            total
            - 1
        )
'''


def source(tmp_path: Path, *, sql: bool = True) -> Source:
    path = tmp_path / "file.py"
    path.write_text(TEXT)
    return Source(path, "file.py", sql=sql)


def test_what_is_mutated(tmp_path):
    found = source(tmp_path)
    became = [found.read(mutant)["became"] for mutant in found.mutants]
    assert "def last(rows, *, limit= 4):" in became
    assert "def last(rows, /, limit=3):" not in became, "a marker is no operator"
    assert "total -= max(rows)" in became
    assert "total += min(rows)" in became
    assert "except db.CosmicRayTestingException:" in became
    assert 'return f"SELECT seq FROM events WHERE seq >= {total} ORDER BY seq DESC LIMIT {limit}"' in became
    assert 'return f"SELECT seq FROM events WHERE seq > {total} ORDER BY seq LIMIT {limit}"' in became
    assert not any("two" in line for line in became), "prose is no statement"
    assert len(found.mutants) - len(source(tmp_path, sql=False).mutants) == 2


def test_a_mutant_is_known_by_what_it_reads(tmp_path):
    found = source(tmp_path)
    (mutant,) = (each for each in found.mutants if each.operator == "ReplaceBinaryOperator_Sub_Add")
    assert found.read(mutant) == {"file": "file.py", "function": "last", "was": "- 1", "became": "+ 1"}
    assert found.lines_of(mutant) == range(8, 12)


def test_tests_that_run_a_line_quick_ones_first():
    base = Baseline({"a": 2.0, "b": 1.0, "c": 0.5}, {1: [""], 2: ["a", "b"], 3: ["b"]}, [])
    assert base.tests_of(range(2, 4)) == ["b", "a"]
    assert base.tests_of(range(3, 5)) == ["b"]
    assert base.tests_of(range(4, 5)) == []
    assert base.tests_of(range(1, 3)) == ["c", "b", "a"], "what runs on import can break any test"
