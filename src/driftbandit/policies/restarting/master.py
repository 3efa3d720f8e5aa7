"""MASTER: LinUCBs of many lengths, and tests of whether they still earn what they promise.

Time is cut into blocks of 1, 2, 4, ... rounds. In a block, fresh LinUCBs of shorter lengths start at random times and
take over while they last, to find what the long one may overlook. If rewards fall short of what the optimistic models
promised, everything restarts from blocks of length 1. Wei and Luo, COLT 2021.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import (
    Change,
    as_count,
    as_dim,
    as_example,
    as_number,
    as_reward,
    not_finite,
)
from driftbandit.models.ridge import Radius, RidgeModel
from driftbandit.policies.base import MemberPolicy
from driftbandit.policies.entry import Brief, Entry, noise_as_width

_EARNED, _BROKEN, _PROMISE = range(3)
"""Sums over the block: rewards, promises minus rewards, and the least promise."""


class MASTER(MemberPolicy):
    """MASTER over LinUCB.

    **The published constants make both tests vacuous.** With rho(t) = 1 / sqrt(t), 100,000 rounds and delta = 1 /
    100,000, Test 1 can fire only for instances of 479 million rounds and more, Test 2 only after 53 million; with the
    defaults, the policy is LinUCB restarted at doubling times. Reports of restarts of MASTER must come from scaled
    constants, which are settings here: rho_hat(t) = scale * rate / sqrt(t), Test 1 fires at first * rho_hat, Test 2 at
    second * rho_hat. The registry's entry uses scaled constants.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean; used by the default radius only.
    horizon : int
        Rewards expected in all (T), for the published scale; blocks grow no longer than this.
    rate : float
        LinUCB's average regret after t rounds is taken to be rho(t) = rate / sqrt(t), in units of the reward range.
    scale : float, optional
        rho_hat(t) / rho(t), by default the published 6 (log2(T) + 1) ln(T / delta) with delta = 1 / T.
    first : float or None
        Test 1: an instance that ends earned, per round, first * rho_hat(its length) more than the least that was
        promised in the block. It compares promises for different pools; if pools change from round to round, the least
        promise says little and the test gives false alarms: None leaves the test out.
    second : float
        Test 2: promises exceeded rewards, on the block's average, by second * rho_hat(rounds in the block).
    reward_range : (float, float)
        Mapped to [0, 1]; rewards and promises beyond it are clipped in the tests.
    ridge, explore, delta :
        LinUCB's; the default radius is that of Abbasi-Yadkori et al. at error probability `delta`.
    seed : int
        Seed of the generator that draws when instances start.

    Examples
    --------
    >>> round(MASTER(dim=5, noise=0.1, horizon=100_000).scale, 2)
    2432.86
    """

    evidence = ("test", "statistic", "bound", "rounds")
    _parts = (*MemberPolicy._parts, "_order", "_spent", "_live", "_marks", "_sums")

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        horizon: int = 10_000,
        rate: float = 1.0,
        scale: float | None = None,
        first: float | None = 9.0,
        second: float = 3.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        ridge: float = 1.0,
        explore: float | Radius | None = None,
        delta: float = 0.01,
        seed: int = 0,
    ) -> None:
        dim = as_dim(dim)
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        radius = Radius.abbasi_yadkori(dim, noise=noise, ridge=ridge, delta=delta)
        # The width used to choose is also the width of the promise.
        acts = radius if explore is None else explore
        acts = acts if isinstance(acts, Radius) else Radius.fixed(acts)
        super().__init__(dim, RidgeModel(dim, ridge=ridge, explore=acts, radius=acts), seed)
        self.horizon = horizon = as_count("horizon", horizon)
        if scale is None:
            scale = 6.0 * (math.log2(horizon) + 1.0) * 2.0 * math.log(horizon)  # ln(T / delta) = 2 ln T
        self.scale = as_number("scale", scale, 0.0)
        self.rate = as_number("rate", rate, 0.0)
        self.first = None if first is None else as_number("first", first, 0.0)
        self.second = as_number("second", second, 0.0)
        self._least = as_number("reward_range", reward_range[0])
        most = as_number("reward_range", reward_range[1], self._least, open_low=True)
        self._span = most - self._least
        self.reward_range = (self._least, most)
        self.noise, self.ridge, self.explore, self.delta = noise, ridge, explore, delta
        orders = math.ceil(math.log2(horizon)) + 1
        self._bank = np.tile(self._bank, (orders, 1))  # same-length instances never overlap: one row per order
        self._live = np.zeros(orders, dtype=np.int64)
        self._marks = np.zeros(orders)  # the block's earnings when the instance started
        self._order = self._spent = 0
        self._sums = np.zeros(3)
        self._start_block(0)

    @property
    def instances(self) -> tuple[int, ...]:
        """Lengths of the running instances, shortest first; the shortest one plays."""
        return tuple(1 << int(order) for order in np.flatnonzero(self._live))

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Teach the active instance, run the tests, and start the instances that are due."""
        x = as_example(features, self.dim)
        reward = as_reward(reward)
        row = self._bank[self._leader]
        promise = sum(self._model.predict(row, x))
        if not math.isfinite(promise):
            raise not_finite(x)
        self._model.update(row, x, reward)
        self.rounds += 1
        self._spent += 1
        earned, promised = self._unit(reward), self._unit(promise)
        self._sums[_EARNED] += earned
        self._sums[_BROKEN] += promised - earned
        self._sums[_PROMISE] = min(self._sums[_PROMISE], promised)
        failure = self._test()
        if failure is not None:
            self._start_block(0)
            return self._report(Change(self.rounds, "restarted", 0, failure))
        if self._spent == 1 << self._order:
            self._start_block(min(self._order + 1, len(self._live) - 1))
        else:
            self._schedule()
        return ()

    def _unit(self, value: float) -> float:
        return min(max((value - self._least) / self._span, 0.0), 1.0)

    def _rho_hat(self, rounds: int) -> float:
        return self.scale * self.rate / math.sqrt(rounds)

    def _test(self) -> dict[str, float] | None:
        """Evidence of the test that failed, if one did."""
        if self.first is not None:
            for order in np.flatnonzero(self._live).tolist():
                length = 1 << order
                if self._spent % length:
                    break  # a longer instance ends here only if all shorter ones do
                bound = float(self._sums[_PROMISE]) + self.first * self._rho_hat(length)
                mean = float(self._sums[_EARNED] - self._marks[order]) / length
                if mean >= bound:
                    return {"test": 1.0, "statistic": mean, "bound": bound, "rounds": float(length)}
        bound = self.second * self._rho_hat(self._spent)
        excess = float(self._sums[_BROKEN]) / self._spent
        if excess >= bound:
            return {"test": 2.0, "statistic": excess, "bound": bound, "rounds": float(self._spent)}
        return None

    def _start_block(self, order: int) -> None:
        self._order = order
        self._spent = 0
        self._live[:] = 0
        self._sums[:] = 0.0, 0.0, 1.0
        self._schedule()

    def _schedule(self) -> None:
        """Start the instances that are due before the next round (Procedure 1)."""
        for order in range(self._order + 1):
            if self._spent % (1 << order):
                break
            # rho(2^n) / rho(2^m); the instance that spans the block always exists.
            starts = self._generator.random() < 2.0 ** ((order - self._order) / 2.0)
            self._live[order] = starts
            if starts:
                self._model.reset(self._bank[order])
                self._marks[order] = self._sums[_EARNED]
        self._leader = int(np.argmax(self._live))

    def _after_restore(self) -> None:
        orders = len(self._live)
        if not (self._order < orders and self._spent < 1 << self._order and self._leader <= self._order):
            raise ValueError("state: order, spent and leader contradict each other")
        if not self._live[self._leader]:
            raise ValueError(f"state: live: no instance of order {self._leader}, which leads")


def _settings(brief: Brief) -> dict[str, Any]:
    # The published constants cannot restart within any horizon here; these can, and did not restart in a still world.
    low, high = brief.reward_range
    rate = brief.noise * brief.dim**0.5 / (high - low)
    return noise_as_width("reward_range", "seed", rate=rate, scale=1.0, first=None, second=25.0)(brief)


ENTRIES = (
    Entry(
        name="master",
        title="MASTER",
        summary="LinUCBs of many lengths that restart when promises are broken; scaled constants",
        policy=MASTER,
        settings=_settings,
        told=("noise", "reward_range"),
        page="master",
        place=190,
    ),
)
