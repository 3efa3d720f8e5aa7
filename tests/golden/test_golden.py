"""A golden trace per policy, and the same choices without the compiler."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("worlds", HERE / "worlds.py")
worlds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worlds)

GOLDEN = json.loads((HERE / "traces.json").read_text())

# Most of the time without the compiler is theirs: fewer rounds, with shifts that come sooner. The others need 280, in
# which a window of 200 fills.
SLOW = ["pooled-scopes", "ucb-glm", "driftucb", "dyclu", "exp-discounts", "denband", "discounted-linucb"]


@pytest.mark.parametrize("name", worlds.BUILDERS)
def test_choices_have_not_changed(name):
    assert worlds.trace_of(name) == GOLDEN[name]


def test_the_traces_are_worth_guarding():
    assert set(GOLDEN) == set(worlds.BUILDERS)
    assert len({trace["choices"] for trace in GOLDEN.values()}) >= len(GOLDEN) - 1
    detecting = [name for name in GOLDEN if name.startswith("dlinucb") or name.endswith(("-quick", "-pooled"))]
    assert len(detecting) == 20
    assert all(GOLDEN[name]["changes"] for name in detecting)


@pytest.mark.parametrize(
    ("names", "world"),
    [
        ([name for name in worlds.BUILDERS if name not in SLOW], {"horizon": 280}),
        (SLOW, {"horizon": 180, "period": 80}),
        (["dlinucb", "linucb"], {"dim": 25, "shift": 0.6, "horizon": 120}),
    ],
    ids=["280 rounds of most policies", "180 of the slow ones", "pools large enough for a matrix product"],
)
def test_the_same_lines_without_the_compiler_make_the_same_choices(names, world):
    result = subprocess.run(
        [sys.executable, str(HERE / "worlds.py"), ",".join(names), json.dumps(world)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {name: worlds.trace_of(name, **world) for name in names}
