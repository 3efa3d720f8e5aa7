"""GLR-klUCB: kl-UCB that restarts when a likelihood-ratio test says that an arm's mean changed.

The test looks at all rewards of an arm since the last restart and at every way to split them in two, so it needs no
window and no size of change; arms are played in turn for a small share of the rounds, which grows with every alarm.
Besson, Kaufmann, Maillard and Seznec, JMLR 2022.

SMPyBandits multiplies ln t in the index by 3, tests every tenth reward only, and its helper for delta returns 3.16 at
any horizon. Here the index has ln t, every reward is tested by default, and delta is 1 / sqrt(horizon).
"""

from __future__ import annotations

import math
from typing import Literal

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_count, as_number
from driftbandit.detection.glr import GLR, check_splits, glr_threshold
from driftbandit.kernels import arms as kernel
from driftbandit.kernels import glr
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule, is_forced
from driftbandit.policies.entry import Entry, from_brief

_FORCED = kernel.COLUMNS
_START = _FORCED + 1
_TEST = _FORCED + 2
_LARGEST_SHARE = 0.5


class GLRklUCB(ArmPolicy):
    """kl-UCB with a likelihood-ratio test for every arm.

    With n the plays of an arm since its last restart at time tau, it plays the highest q with n kl(mean, q) <= ln(t -
    tau), where kl is the divergence of two Bernoulli distributions; a round of forced exploration plays the arm of the
    pool with the fewest forced plays, ties to the lowest id.

    Parameters
    ----------
    restart : {'global', 'local'}
        What an alarm restarts: all arms, or only the arm it is about.
    horizon : int
        Rounds that the defaults of `delta` and `forced_share` are made for.
    delta : float, optional
        Probability of a false alarm for an arm; by default 1 / sqrt(horizon).
    forced_share : float, optional
        Share of rounds of forced exploration before the first alarm (alpha); after k - 1 alarms it is sqrt(k) times
        as large, at most 1/2. By default sqrt(K ln(horizon) / horizon) with K the arms played since the last restart.
    check_every : int
        Plays of an arm between two tests.
    splits : int
        Splits of an arm's rewards that are tested, see `GLR`.
    reward_range, max_arms, seed :
        As in `UCB1`; an arm costs 32 * splits bytes here, hence the lower default of `max_arms`.

    Examples
    --------
    >>> policy = GLRklUCB(delta=0.01)
    >>> for reward in [0.0] * 20 + [1.0] * 4:
    ...     changes = policy.learn(None, reward, arm=7)
    >>> changes[0].round, changes[0].member, changes[0].evidence["changed_at"]
    (24, 7, 20.0)
    """

    evidence = ("statistic", "threshold", "changed_at")
    _parts = (*ArmPolicy._parts, "_table", "alarms")

    def __init__(
        self,
        *,
        restart: Literal["global", "local"] = "global",
        horizon: int = 10_000,
        delta: float | None = None,
        forced_share: float | None = None,
        check_every: int = 1,
        splits: int = 200,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 10_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        if restart not in ("global", "local"):
            raise ValueError(f"restart: expected 'global' or 'local', got {restart!r}")
        self.restart = restart
        self.horizon = as_count("horizon", horizon, least=2)
        test = GLR(delta=self.horizon**-0.5 if delta is None else delta, splits=splits)  # it checks these settings
        self.delta, self.splits = test.delta, test.splits
        self.forced_share = (
            None if forced_share is None else as_number("forced_share", forced_share, 0.0, _LARGEST_SHARE)
        )
        self.check_every = as_count("check_every", check_every)
        self._table = ArmTable(max_arms, extra_columns=_TEST - kernel.COLUMNS + glr.row_size(self.splits))
        self.max_arms = self._table.max_arms
        self.alarms = 0

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        pool = as_arms(arms, features)
        if is_forced(self._table, self._share()):
            return self._table.least(pool, _FORCED)
        return self._best(pool)

    def _index(self) -> tuple[ArmTable, Rule]:
        return self._table, (kernel.KL, (self._table.plays, float(_START)))

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm` and test whether its mean changed."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        forced = is_forced(self._table, self._share())
        entry = self._table.add(arm, scaled, self.rounds)
        entry[_FORCED] += forced
        self.rounds += 1
        test = entry[_TEST:]
        glr.add(test, scaled, self.rounds)
        samples = int(test[glr.SAMPLES])
        if samples % self.check_every:
            return ()
        statistic, since = glr.evidence(test)
        threshold = glr_threshold(samples, self.delta)
        if statistic <= threshold:
            return ()
        self.alarms += 1
        if self.restart == "global":
            self._table.clear()
        else:
            entry[: kernel.LAST] = test[:] = 0.0
            entry[_START] = self._table.plays
        evidence = {"statistic": statistic, "threshold": threshold, "changed_at": since}
        return self._report(Change(self.rounds, "restarted", arm, evidence))

    def _after_restore(self) -> None:
        check_splits(self._table.stats[:, _TEST:], self.splits)

    def _share(self) -> float:
        """Share of forced rounds, alpha_k in episode k."""
        share = self.forced_share
        if share is None:
            share = math.sqrt(len(self._table) * math.log(self.horizon) / self.horizon)
        return min(share * math.sqrt(self.alarms + 1.0), _LARGEST_SHARE)


ENTRIES = (
    Entry(
        name="glr-klucb",
        title="GLR-klUCB",
        summary="context-free kl-UCB; a likelihood-ratio alarm restarts all arms",
        policy=GLRklUCB,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="glr-klucb",
        place=270,
        contextual=False,
    ),
)
