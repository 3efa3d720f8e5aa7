"""Evaluate a learning policy on logged data, without bias, by keeping only the events where it agrees with the log.

The log must come from a logger that displayed a uniformly random candidate. An event counts, and is learned from, if
the policy chooses the displayed article; any other is skipped as if it had never been. Li, Chu, Langford and Wang,
WSDM 2011.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, Floats, Ints, Policy
from driftbandit.environments.log import Log
from driftbandit.evaluation.intervals import Interval, ratio_interval


@dataclass(frozen=True, eq=False)
class Replay:
    """What a replay found.

    Attributes
    ----------
    matched : array of shape (m,)
        Events, by their number in the log, that count.
    rewards : array of shape (m,)
        Their rewards.
    logged : array of shape (n,)
        Rewards of all events: what the random logger got.
    changes : tuple of (int, Change)
        What the policy detected, each with the number of the event; `Change.round` counts matched events.
    seconds : float
        Time of the whole replay.
    """

    matched: Ints
    rewards: Floats
    logged: Floats
    changes: tuple[tuple[int, Change], ...]
    seconds: float

    @property
    def rate(self) -> float:
        """Mean reward of the events that count (the click-through rate); NaN without any."""
        return float(self.rewards.mean()) if len(self.rewards) else float("nan")

    def interval(self, *, level: float = 0.95, seed: int = 0) -> Interval:
        """The rate with a block bootstrap interval."""
        return ratio_interval(self.rewards, np.ones(len(self.rewards)), level=level, seed=seed)

    @property
    def normalised(self) -> float:
        """The rate divided by that of the random logger on the same log."""
        return self.rate / float(self.logged.mean())

    def curve(self, points: int = 100) -> tuple[Ints, Floats]:
        """Normalised rate over time: event numbers, and both rates up to there, one over the other."""
        ends = np.linspace(0, len(self.logged), points + 1).astype(np.int64)[1:]
        counts = np.searchsorted(self.matched, ends)
        ours = np.append(0.0, np.cumsum(self.rewards))[counts] / np.maximum(counts, 1)
        theirs = np.cumsum(self.logged)[ends - 1] / ends
        with np.errstate(divide="ignore", invalid="ignore"):
            return ends, np.where((counts > 0) & (theirs > 0), ours / theirs, np.nan)


def replay(
    policy: Policy | Any,
    log: Log,
    *,
    scopes: ArrayLike | None = None,
    user_features: bool = False,
    equal_pools: bool = True,
    seed: int = 0,
) -> Replay:
    """Replay a log: choose at every event, learn where the choice agrees with the log.

    Parameters
    ----------
    policy : Policy
        It learns as it goes, so pass a fresh one; `PerScope` and `CLUB` where there are scopes.
    log : Log
        Events with their candidates, displayed uniformly at random.
    scopes : array of shape (n,), optional
        Whose model chooses at each event, such as the user's group.
    user_features : bool
        Show the user's features for every candidate (the article side, for `PerArm`) instead of the articles'.
    equal_pools : bool
        Where candidate sets differ in size, small ones agree more often by chance; keep an agreement with probability
        size / largest size, so that every event has the same chance to count.
    seed : int
        Seed of that rejection.

    Examples
    --------
    >>> import tempfile
    >>> from driftbandit import LinUCB
    >>> from driftbandit.environments.yahoo import read_yahoo
    >>> from driftbandit.environments.yahoo_synthetic import write_synthetic
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = write_synthetic(folder, 2000, seed=1)
    ...     log, report = read_yahoo(folder)
    >>> result = replay(LinUCB(log.dim), log)
    >>> 0 < len(result.matched) < len(log) / 5
    True
    """
    if scopes is not None and np.shape(scopes) != (len(log),):
        raise ValueError(f"scopes: expected shape ({len(log)},), got {np.shape(scopes)}")
    owners = None if scopes is None else np.asarray(scopes).tolist()
    sizes = np.diff(log.pool_offsets)
    chance = sizes / max(int(sizes.max(initial=1)), 1) if equal_pools else np.ones(len(sizes))
    luck = np.random.default_rng(seed).random(len(log))
    lucky = luck < chance[log.pools] if len(log) else np.empty(0, dtype=bool)
    # Candidate sets repeat, so their features and ids are gathered once.
    members = [
        log.pool_members[start:stop] for start, stop in zip(log.pool_offsets, log.pool_offsets[1:], strict=False)
    ]
    pools = [np.ascontiguousarray(log.features[rows]) for rows in members]
    arms = [log.articles[rows] for rows in members]
    matched: list[int] = []
    changes: list[tuple[int, Change]] = []
    started = time.perf_counter()
    for event, (pool, shown, keep) in enumerate(
        zip(log.pools.tolist(), log.shown.tolist(), lucky.tolist(), strict=True)
    ):
        features = np.repeat(log.users[event : event + 1], len(arms[pool]), axis=0) if user_features else pools[pool]
        scope = {} if owners is None else {"scope": owners[event]}
        if policy.choose(features, arms[pool], **scope) != shown or not keep:
            continue
        found = policy.learn(features[shown], float(log.rewards[event]), int(arms[pool][shown]), **scope)
        matched.append(event)
        changes.extend((event, change) for change in found)
    kept = np.array(matched, dtype=np.int64)
    return Replay(kept, log.rewards[kept], log.rewards, tuple(changes), time.perf_counter() - started)
