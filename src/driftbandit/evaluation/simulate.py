"""Play a policy in a simulated world whose rewards of all arms are known."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from driftbandit.core import Change, Policy, Scope, ScopedPolicy, takes_scope
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
        The world; every policy that plays the same rounds sees the same pools, rewards and noise.
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
    choices = np.empty(len(rounds), dtype=np.int64)
    changes: list[Change] = []
    catalogue, pools, arms = rounds.catalogue, rounds.pools, rounds.arms
    rewards = rounds.rewards
    scopes = _scopes(policy, rounds)
    choose: Callable[..., int] = policy.choose
    learn: Callable[..., tuple[Change, ...]] = policy.learn
    started = time.perf_counter()
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
    seconds = time.perf_counter() - started
    return Trace(
        policy=name or type(policy).__name__,
        setting="",
        seed=rounds.seed,
        choices=choices,
        rewards=np.take_along_axis(rewards, choices[:, None], axis=1)[:, 0],
        regret=rounds.regret_of(choices),
        shifts=rounds.shifts,
        changes=tuple(changes),
        seconds=seconds,
        detects=bool(changes) or bool(getattr(policy, "detects", getattr(policy, "evidence", ()))),
    )


def _scopes(policy: Policy | ScopedPolicy, rounds: Rounds) -> list[Scope] | None:
    """The scope of each round, for a policy that takes one."""
    if not takes_scope(policy):
        return None
    return [EVERYONE] * len(rounds) if rounds.scopes is None else rounds.scopes.tolist()
