"""Does the audit find the truth? ``python -m driftbandit.benchmarks.shop_audit``.

Logs of the made-up shop, whose shifts and click rates are known. On logs with two shifts: how far the dates are off,
whether the named features are those that changed, and whether policies are ranked by their true values wherever the
intervals separate them. On still logs: how many alarms are raised.
"""

from __future__ import annotations

import argparse
import itertools
from functools import partial
from typing import Any, cast

import numpy as np

from driftbandit.audit.audit import Audit, audit, changes_in, trust_in, unmixed_encoder
from driftbandit.core import Change, Floats, Policy
from driftbandit.environments.shop import LOCAL, Shop, ShopLog
from driftbandit.evaluation.value_intervals import bootstrap_interval
from driftbandit.logs import read_log
from driftbandit.policies.entry import Brief
from driftbandit.policies.registry import REGISTRY

CANDIDATES = ("driftucb", "linucb", "lints", "dlinucb-auto", "discounted-linucb")


class Noting:
    """A policy that notes what it chooses."""

    def __init__(self, policy: Any) -> None:
        self.dim = policy.dim
        self.choices: list[int] = []
        self._policy = policy

    def choose(self, features: Floats, arms: Any = None) -> int:
        """Choose, and note it."""
        self.choices.append(self._policy.choose(features, arms))
        return self.choices[-1]

    def learn(self, features: Floats, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn."""
        changes: tuple[Change, ...] = self._policy.learn(features, reward, arm)
        return changes


def noting(name: str, brief: Brief) -> Policy:
    """A policy of the registry that notes its choices."""
    return cast(Policy, Noting(REGISTRY[name].build(brief)))


def audited(shop: ShopLog) -> Audit:
    """The audit of a log of the shop with the candidates, which note their choices."""
    builds = {name: partial(noting, name) for name in CANDIDATES}
    return audit(read_log(shop.decisions, items=shop.items), builds)


def main() -> None:
    """Print what the audit finds beside the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=200_000)
    parser.add_argument("--logs", type=int, default=3, help="logs with two shifts")
    parser.add_argument("--still", type=int, default=20, help="logs without")
    options = parser.parse_args()
    for seed in range(options.logs):
        shop = Shop(decisions=options.decisions).log(seed)
        found = audited(shop)
        print(f"log {seed}: shifts at {shop.shifts.tolist()}")
        for change in found.changes:
            off = np.min(np.abs(shop.shifts - change.row)) / len(shop)
            names = ", ".join(feature.name for feature in change.features)
            print(f"  dated {change.row:,} ({off:.2%} of the log off): {names}")
        _print_order(found, shop)
    alarms = [_still_alarms(options.decisions, seed) for seed in range(options.still)]
    print(f"{sum(alarms)} alarms in {options.still} still logs of {options.decisions:,} decisions")


def _print_order(found: Audit, shop: ShopLog) -> None:
    """Values beside the truth, and every pair whose difference has an interval without 0."""
    truth = {name: shop.value(np.array(policy.choices)) for name, policy in found.learned.items()}
    rows = {row.name: row for row in found.policies}
    for name in sorted(truth, key=lambda name: -truth[name]):
        print(f"  {name:18} true {truth[name]:.4f}, estimated {rows[name].value}, {rows[name].verdict}")
    told = right = 0
    for one, other in itertools.combinations(truth, 2):
        gap = bootstrap_interval(found.values[one].terms("dr"), found.values[other].terms("dr"))
        if gap.low > 0.0 or gap.high < 0.0:
            told += 1
            right += (gap.estimate > 0.0) == (truth[one] > truth[other])
    print(f"  {told} of {len(truth) * (len(truth) - 1) // 2} pairs are told apart, {right} of them rightly")
    local = [feature.name for feature in found.changes[-1].features] if found.changes else []
    print(f"  the last change names {sum(LOCAL in name for name in local)} of {len(local)} features of '{LOCAL}'")


def _still_alarms(decisions: int, seed: int) -> int:
    """Changes found in a still log."""
    shop = Shop(decisions=decisions, still=True).log(seed)
    log = read_log(shop.decisions, items=shop.items)
    return len(changes_in(log, unmixed_encoder(log), trust_in(log)))


if __name__ == "__main__":
    main()
