"""Play a policy in a simulated world whose rewards of all arms are known."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np

from driftbandit.core import Change, Ints, Policy, Scope, ScopedPolicy, takes_scope
from driftbandit.environments.rounds import Rounds
from driftbandit.evaluation.trace import Trace

EVERYONE = 0
"""The scope that a scoped policy is told in rounds without scopes."""


def simulate(policy: Policy | ScopedPolicy, rounds: Rounds, *, name: str = "") -> Trace:
    """Play all rounds and return what happened.

    Parameters
    ----------
    policy : Policy or ScopedPolicy
        It learns as it goes, so pass a fresh one. A scoped policy is told the rounds' scopes; without scopes, everyone
        is one scope.
    rounds : Rounds
        The world; every policy that plays the same rounds sees the same pools, rewards and noise. Where it says that
        rewards come late, a policy that minds (`Traits.minds_pending`) is told how many of its choices are unanswered,
        and if it is scoped, how many of those for the scope at hand.
    name : str
        Name of the policy in the trace, its class name by default.

    Examples
    --------
    >>> from driftbandit import LinUCB, synthetic
    >>> rounds = synthetic("table1", seed=0, horizon=500)
    >>> trace = simulate(LinUCB(rounds.dim), rounds)
    >>> len(trace), bool(trace.regret.sum() < 10)
    (500, True)
    """
    play = _play_late if rounds.batch > 1 or rounds.delay else _play
    started = time.perf_counter()
    choices, changes = play(policy, rounds)
    seconds = time.perf_counter() - started
    return Trace(
        policy=name or type(policy).__name__,
        setting="",
        seed=rounds.seed,
        choices=choices,
        rewards=np.take_along_axis(rounds.rewards, choices[:, None], axis=1)[:, 0],
        regret=rounds.regret_of(choices),
        shifts=rounds.shifts,
        changes=tuple(changes),
        seconds=seconds,
        detects=bool(changes) or bool(getattr(policy, "detects", getattr(policy, "evidence", ()))),
    )


def _play(policy: Policy | ScopedPolicy, rounds: Rounds) -> tuple[Ints, list[Change]]:
    """Choices and changes if every reward is learned before the next choice."""
    choices = np.empty(len(rounds), dtype=np.int64)
    changes: list[Change] = []
    catalogue, pools, arms = rounds.catalogue, rounds.pools, rounds.arms
    rewards = rounds.rewards
    scopes = _scopes(policy, rounds)
    choose: Callable[..., int] = policy.choose
    learn: Callable[..., tuple[Change, ...]] = policy.learn
    for t in range(len(rounds)):
        pool = catalogue[pools[t]]
        if scopes is None:
            index = choose(pool, arms[t])
            found = learn(pool[index], rewards[t, index], int(arms[t, index]))
        else:
            index = choose(pool, arms[t], scope=scopes[t])
            found = learn(pool[index], rewards[t, index], int(arms[t, index]), scope=scopes[t])
        choices[t] = index
        if found:
            changes.extend(found)
    return choices, changes


def _play_late(policy: Policy | ScopedPolicy, rounds: Rounds) -> tuple[Ints, list[Change]]:
    """Choices and changes if rewards come in batches or with a delay, as `Rounds` says."""
    choices = np.empty(len(rounds), dtype=np.int64)
    changes: list[Change] = []
    scopes = _scopes(policy, rounds)
    minds = getattr(policy, "minds_pending", False) is True
    pending: Counter[Scope] = Counter()
    choose: Callable[..., int] = policy.choose
    learn: Callable[..., tuple[Change, ...]] = policy.learn

    def told(t: int) -> dict[str, Scope]:
        return {} if scopes is None else {"scope": scopes[t]}

    learned = 0
    for t in range(len(rounds)):
        scope = EVERYONE if scopes is None else scopes[t]
        known = {"pending": pending[scope]} if minds else {}
        choices[t] = choose(rounds.catalogue[rounds.pools[t]], rounds.arms[t], **told(t), **known)
        pending[scope] += 1
        last = t == len(rounds) - 1
        while learned <= t and (last or (learned // rounds.batch + 1) * rounds.batch - 1 + rounds.delay <= t):
            index = choices[learned]
            features = rounds.catalogue[rounds.pools[learned, index]]
            arm = int(rounds.arms[learned, index])
            changes.extend(learn(features, rounds.rewards[learned, index], arm, **told(learned)))
            pending[EVERYONE if scopes is None else scopes[learned]] -= 1
            learned += 1
    return choices, changes


def _scopes(policy: Policy | ScopedPolicy, rounds: Rounds) -> list[Scope] | None:
    """The scope of each round, for a policy that takes one."""
    if not takes_scope(policy):
        return None
    return [EVERYONE] * len(rounds) if rounds.scopes is None else rounds.scopes.tolist()
