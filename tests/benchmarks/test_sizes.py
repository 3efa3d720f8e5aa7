"""What a scope costs: the numbers of the table are those of real states, kept as the service keeps them."""

import re
from pathlib import Path

import pytest

from driftbandit import DLinUCB, DriftUCB, LinUCB
from driftbandit.benchmarks import sizes

FRESH = {"linucb": LinUCB, "dlinucb": lambda dim: DLinUCB(dim, noise="auto"), "driftucb": DriftUCB}


def state_of(policy: str, dim: int) -> int:
    """Bytes of the numbers of a scope that remembers no first rewards."""
    return sum(array.nbytes for array in FRESH[policy](dim).state().values())


@pytest.mark.parametrize("policy", FRESH)
@pytest.mark.parametrize("dim", [2, 6])
def test_costs_are_the_state_and_little_more(policy: str, dim: int) -> None:
    cost = sizes.measure(policy, dim, 300, total=1 << 20)
    assert cost.state == state_of(policy, dim)  # no change yet
    # A name, an entry of a dictionary and a page that is not full come on top: less than a page of 4 KiB each.
    assert cost.state < cost.memory < cost.state + 4096
    assert cost.state < cost.store < cost.state + 4096


def test_a_young_scope_costs_what_its_rewards_do() -> None:
    costs = [sizes.measure("driftucb", 25, rewards, total=1 << 20) for rewards in (1, 50, 300)]
    assert costs[0].memory < 600
    assert costs[1].memory < 12_000
    assert costs[1].memory < costs[2].memory < costs[2].state == state_of("driftucb", 25)


def test_the_documentation_has_these_numbers() -> None:
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \| ([\d,]+) \|", text.split("begin scopes")[1], re.MULTILINE)
    cases = [(policy, int(dim), int(rewards)) for policy, dim, rewards, _ in found]
    advice = "put what `python -m driftbandit.benchmarks.sizes` prints into docs/service.md"
    assert cases == list(sizes.CASES), advice
    states = {
        (policy, int(dim)): int(size.replace(",", "")) for policy, dim, rewards, size in found if rewards == "300"
    }
    assert states == {(policy, dim): state_of(policy, dim) for policy, dim in states}, advice


def test_the_table_has_a_row_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "measure", lambda policy, dim, rewards: sizes.Cost(dim, 1000.0 * dim, 2.0))
    rows = sizes.table().splitlines()
    assert len(rows) == 2 + len(sizes.CASES)
    assert rows[2] == "| `linucb` | 6 | 300 | 6 | 6,000 | 2 | 6.0 GB |"
