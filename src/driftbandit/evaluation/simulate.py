"""Play a policy in a simulated world whose rewards of all arms are known."""

from __future__ import annotations

import time

import numpy as np

from driftbandit.core import Change, Policy
from driftbandit.environments.rounds import Rounds
from driftbandit.evaluation.trace import Trace


def simulate(policy: Policy, rounds: Rounds, *, name: str = "") -> Trace:
    """Play all rounds and return what happened.

    Parameters
    ----------
    policy : Policy
        It learns as it goes, so pass a fresh one.
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
    started = time.perf_counter()
    for t in range(len(rounds)):
        pool = catalogue[pools[t]]
        index = policy.choose(pool, arms[t])
        choices[t] = index
        found = policy.learn(pool[index], rewards[t, index], int(arms[t, index]))
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
        detects=bool(changes) or bool(getattr(policy, "evidence", ())),
    )
