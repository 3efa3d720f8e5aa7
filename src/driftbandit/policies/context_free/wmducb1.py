"""WMDUCB1: UCB1 that restarts when an arm's windowed mean shifts.

The mean of an arm's last `window` rewards is compared with the mean of the `window` before; a gap beyond the Hoeffding
bound restarts all arms. Yu and Mannor, ICML 2009, give the rule with side observations of arms that were not played.
Without them, as here and in the dLinUCB paper, only an arm's own plays are tested, and an arm needs 2 * window plays
before its first test.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, Floats, as_arm, as_arms, as_count, as_number
from driftbandit.kernels import arms as kernel
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule
from driftbandit.policies.entry import Entry, from_brief
from driftbandit.state import Stateful


class WMDUCB1(ArmPolicy):
    """UCB1 with windowed mean-shift detection.

    Parameters
    ----------
    window : int
        Rewards in each of the two windows.
    check_every : int
        Rewards between two tests of the same stream.
    delta : float
        Error probability of one test; the threshold is ``sqrt(ln(2 / delta) / window)`` on the scale [0, 1].
    stream : {'arm', 'pooled'}
        Test every arm on its own plays (`Change.member` is then the arm's id), or all rewards as one stream. The pooled
        stream can raise an alarm where arms are too many to be played often, but it also takes the policy's own
        learning for a shift.
    reward_range, max_arms, seed :
        As in `UCB1`; an arm costs 16 * window bytes here, hence the lower default of `max_arms`.

    Examples
    --------
    >>> policy = WMDUCB1(window=20, check_every=10)
    >>> for reward in [0.0] * 20 + [1.0] * 20:
    ...     changes = policy.learn(None, reward, arm=1)
    >>> changes[0].kind, changes[0].round, changes[0].evidence["gap"]
    ('restarted', 40, 1.0)
    """

    evidence = ("gap", "threshold")
    _parts = (*ArmPolicy._parts, "_table", "_pooled")

    def __init__(
        self,
        *,
        window: int = 100,
        check_every: int = 50,
        delta: float = 0.05,
        stream: Literal["arm", "pooled"] = "arm",
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 10_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        self.window = as_count("window", window)
        self.check_every = as_count("check_every", check_every)
        self.delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
        if stream not in ("arm", "pooled"):
            raise ValueError(f"stream: expected 'arm' or 'pooled', got {stream!r}")
        self.stream = stream
        self.threshold = math.sqrt(math.log(2.0 / self.delta) / self.window)
        per_arm = 2 * self.window if stream == "arm" else 0
        self._table = ArmTable(max_arms, extra_columns=per_arm)
        self.max_arms = self._table.max_arms
        self._pooled = _Ring(0 if stream == "arm" else 2 * self.window)

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        return self._best(as_arms(arms, features))

    def _index(self) -> tuple[ArmTable, Rule]:
        return self._table, self._table.rule("ucb1")

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm` and test its stream for a shift."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        entry = self._table.add(arm, scaled, self.rounds)
        self.rounds += 1
        if self.stream == "arm":
            ring, count = entry[kernel.COLUMNS :], int(entry[kernel.COUNT])
        else:
            self._pooled.count += 1
            ring, count = self._pooled.values, self._pooled.count
        ring[(count - 1) % len(ring)] = scaled
        if count < len(ring) or count % self.check_every:
            return ()
        gap = abs(_window_gap(ring, count))
        if gap <= self.threshold:
            return ()
        self._table.clear()
        self._pooled.count = 0
        evidence = {"gap": gap, "threshold": self.threshold}
        member = arm if self.stream == "arm" else 0
        return self._report(Change(self.rounds, "restarted", member, evidence))


class _Ring(Stateful):
    """The latest rewards of one stream."""

    _parts = ("count", "values")

    def __init__(self, length: int) -> None:
        self.count = 0
        self.values = np.zeros(length)


def _window_gap(ring: Floats, count: int) -> float:
    """Mean of the newer half of a full ring minus the mean of its older half."""
    ordered = np.roll(ring, -(count % len(ring)))
    half = len(ring) // 2
    return float(ordered[half:].mean() - ordered[:half].mean())


ENTRIES = (
    Entry(
        name="wmducb1",
        title="WMDUCB1",
        summary="context-free UCB1 that restarts when an arm's windowed mean shifts",
        policy=WMDUCB1,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="wmducb1",
        place=220,
        contextual=False,
    ),
)
