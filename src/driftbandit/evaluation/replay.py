"""Evaluate a learning policy on logged data, without bias, by keeping only the events where it agrees with the log.

The log must come from a logger that displayed a uniformly random candidate. An event counts, and is learned from, if
the policy chooses the displayed article; any other event is skipped as if it had not happened. Li, Chu, Langford and
Wang, WSDM 2011.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Change, Floats, Ints, Policy, ScopedPolicy, takes_scope
from driftbandit.environments.log import Log
from driftbandit.evaluation.agreement import Questions, agreements
from driftbandit.evaluation.at_once import replay_scopes
from driftbandit.evaluation.intervals import Interval, block_length, bootstrap, ratio_interval
from driftbandit.evaluation.simulate import EVERYONE
from driftbandit.evaluation.stored import loaded_result, save_result

_META = b"driftbandit replay"


@dataclass(frozen=True, eq=False)
class Replay:
    """What a replay found.

    Attributes
    ----------
    matched : array of shape (m,)
        Numbers of the events that count.
    rewards : array of shape (m,)
        Their rewards.
    logged : array of shape (n,)
        Rewards of all events: what the random logger got.
    changes : tuple of (int, Change)
        What the policy detected, each with the number of the event; `Change.round` counts matched events.
    seconds : float
        Time of the whole replay.
    key : str
        Fingerprint of what produced the replay, if it is kept in a file.
    """

    matched: Ints
    rewards: Floats
    logged: Floats
    changes: tuple[tuple[int, Change], ...]
    seconds: float
    key: str = ""

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
        """Normalised rate over time: event numbers, and the policy's rate divided by the logger's, up to each event."""
        ends = np.linspace(0, len(self.logged), points + 1).astype(np.int64)[1:]
        counts = np.searchsorted(self.matched, ends)
        ours = np.append(0.0, np.cumsum(self.rewards))[counts] / np.maximum(counts, 1)
        theirs = np.cumsum(self.logged)[ends - 1] / ends
        with np.errstate(divide="ignore", invalid="ignore"):
            return ends, np.where((counts > 0) & (theirs > 0), ours / theirs, np.nan)

    def trailing(self, share: float = 0.1, points: int = 200) -> tuple[Ints, Floats]:
        """Normalised rate in a moving window: the events at which windows end, and the rate in each window."""
        width = max(round(share * len(self.logged)), 1)
        ends = np.unique(np.linspace(min(width, len(self.logged)), len(self.logged), points).astype(np.int64))
        ends = ends[ends > 0]
        starts = np.maximum(ends - width, 0)
        first, last = np.searchsorted(self.matched, starts), np.searchsorted(self.matched, ends)
        rewards, logged = np.append(0.0, np.cumsum(self.rewards)), np.append(0.0, np.cumsum(self.logged))
        with np.errstate(divide="ignore", invalid="ignore"):
            ours = (rewards[last] - rewards[first]) / (last - first)
            return ends, ours / ((logged[ends] - logged[starts]) / (ends - starts))

    def block_sums(self) -> Floats:
        """Rewards and number of the events that count, then of all events, in blocks of consecutive events: (4, B)."""
        count = len(self.logged)
        if not count:
            return np.zeros((4, 1))
        starts = np.arange(0, count, block_length(count))
        block = self.matched // block_length(count)
        return np.array(
            [
                np.bincount(block, weights=self.rewards, minlength=len(starts)),
                np.bincount(block, minlength=len(starts)),
                np.add.reduceat(self.logged, starts),
                np.diff(starts, append=count),
            ],
            dtype=np.float64,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all but the log's own rewards to a Parquet file, whole or not at all."""
        facts = {
            "matched": len(self.matched),
            "events": len(self.logged),
            "changes": [[event, asdict(change)] for event, change in self.changes],
            "seconds": self.seconds,
            "key": self.key,
        }
        save_result(path, _META, {"event": self.matched, "reward": self.rewards}, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str], logged: Floats) -> Replay:
        """Read a replay back; `logged` are the rewards of the log.

        Raises
        ------
        ValueError
            If the file is not a whole Parquet file written by `save`, or belongs to another log.
        """
        with loaded_result(path, _META, "replay") as (table, facts):
            if table.num_rows != facts["matched"] or len(logged) != facts["events"]:
                raise ValueError(f"{facts['matched']} matches in a log of {facts['events']} events")
            changes = tuple((event, Change(**change)) for event, change in facts["changes"])
            matched, rewards = table["event"].to_numpy(), table["reward"].to_numpy()
            return cls(matched, rewards, logged, changes, facts["seconds"], facts["key"])


def rate_ratio(
    ours: Sequence[Replay], theirs: Sequence[Replay] | None = None, *, level: float = 0.95, seed: int = 0
) -> Interval:
    """Rate of some replays over that of others on the same logs, with a block bootstrap interval.

    Parameters
    ----------
    ours, theirs : sequences of Replay
        One replay per log, in the same order; by default `theirs` is the random logger.
    level : float
        Confidence level.
    seed : int
        Seed of the resampling.
    """
    tops = [replay.block_sums() for replay in ours]
    bottoms = tops if theirs is None else [replay.block_sums() for replay in theirs]
    if not tops or [sums.shape for sums in tops] != [sums.shape for sums in bottoms]:
        raise ValueError("ours, theirs: expected replays of the same logs, at least one")
    rows = slice(2, 4) if theirs is None else slice(0, 2)
    sums = np.vstack([np.hstack(tops)[:2], np.hstack(bottoms)[rows]])
    return bootstrap(sums, lambda s: (s[0] / s[1]) / (s[2] / s[3]), level=level, seed=seed)


def replay(
    policy: Policy | ScopedPolicy,
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
    policy : Policy or ScopedPolicy
        It learns as it goes, so pass a fresh one.
    log : Log
        Events with their candidates, displayed uniformly at random. The log must say so, by `uniform` or by its
        propensities.
    scopes : array of shape (n,), optional
        Whose model chooses at each event, such as the user's group, for policies that take a scope. By default everyone
        is one scope.
    user_features : bool
        Show the user's features for every candidate (the article side, for `PerArm`) instead of the articles'.
    equal_pools : bool
        Small candidate sets agree more often by chance. If True, an agreement is kept with probability size / largest
        size, so that every event has the same chance to count.
    seed : int
        Seed of the generator that decides which agreements are kept under `equal_pools`.

    Raises
    ------
    ValueError
        If the log is not known to be uniform: the policies would come out in the wrong order.

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
    owners = owners_of(policy, log, scopes)
    questions = Questions(log, lucky_events(log, equal_pools=equal_pools, seed=seed), owners, user_features)
    started = time.perf_counter()
    matched, changes = answered(policy, questions)
    return Replay(matched, log.rewards[matched], log.rewards, changes, time.perf_counter() - started)


def owners_of(policy: Policy | ScopedPolicy, log: Log, scopes: ArrayLike | None) -> NDArray[Any] | None:
    """Whose model chooses at each event, None for a policy without scopes; ValueError if the log cannot be replayed."""
    if not log.is_uniform:
        raise ValueError(
            "log: replay is only right for a log in which every candidate was equally likely, and this one "
            + ("does not say so; if it was, make it with uniform=True" if log.propensities is None else "was not")
            + "; for any other log, use the estimators that weight by propensity"
        )
    if scopes is None:
        return np.full(len(log), EVERYONE) if takes_scope(policy) else None
    if np.shape(scopes) != (len(log),):
        raise ValueError(f"scopes: expected shape ({len(log)},), got {np.shape(scopes)}")
    if getattr(policy, "is_scoped", True) is False:
        kind = type(policy).__name__
        raise ValueError(f"scopes: {kind} takes no scope; pass a policy that does, such as PerScope({kind}(...))")
    return np.asarray(scopes)


def lucky_events(log: Log, *, equal_pools: bool, seed: int) -> NDArray[np.bool_]:
    """Which events count if the policy agrees; parameters as in `replay`."""
    sizes = np.diff(log.pool_offsets)
    chance = sizes / max(int(sizes.max(initial=1)), 1) if equal_pools else np.ones(len(sizes))
    luck = np.random.default_rng(seed).random(len(log))
    return luck < chance[log.pools] if len(log) else np.empty(0, dtype=bool)


def answered(policy: Policy | ScopedPolicy, questions: Questions) -> tuple[Ints, tuple[tuple[int, Change], ...]]:
    """Let a policy go through the events; returns those that count, and the changes with the event of each."""
    if (found := replay_scopes(policy, questions)) is not None:
        return found
    matched: list[int] = []
    changes: list[tuple[int, Change]] = []
    for event in agreements(policy, questions):
        matched.append(event)
        changes.extend((event, change) for change in questions.tell(policy, event))
    return np.array(matched, dtype=np.int64), tuple(changes)
