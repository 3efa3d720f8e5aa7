"""Worlds in which the conditions of the paper's theorems can be met, and what happens there."""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB

DIM = 10
RIDGE = 0.1
PERIOD = 800
STAGES = 6
LEAST_CHANGE = 0.9
"""Every arm's expected reward changes by at least this at a shift."""

FOREIGN = 1.0
"""Deviation of a foreign reward."""

_ARMS = 10
_COSINE = 0.95  # arms lie this close to the direction in which tastes change
_LEARNED = 200  # rewards of a model that foreign ones contaminate


def misses_in_a_still_world(noise: float, delta: float, seed: int, rounds: int = 2_000) -> float:
    """Share of the rewards that miss the confidence bound of one member, in a world where nothing changes."""
    rng = np.random.default_rng(seed)
    policy = DLinUCB.preset("paper", DIM, noise, delta=delta, spawn_delta=delta, window_delta=1e-12)
    theta = _unit(rng.random((1, DIM)))[0]
    for _ in range(rounds):
        pool = _unit(rng.standard_normal((_ARMS, DIM)))
        x = pool[policy.choose(pool)]
        policy.learn(x, float(x @ theta + noise * rng.standard_normal()))
    (member,) = policy.members
    return 1.0 - member.updates / member.age


def contaminated(foreign: int, seed: int, noise: float = 0.1, delta: float = 0.01) -> tuple[float, float]:
    """Shares of expected rewards outside of the plain bound, and outside of the one with the deviation added."""
    rng = np.random.default_rng(seed)
    theta = _unit(rng.random((1, DIM)))[0]
    x = _unit(rng.standard_normal((_LEARNED, DIM)))
    rewards = x @ theta + noise * rng.standard_normal(_LEARNED)
    rewards[:foreign] += FOREIGN
    matrix = np.linalg.inv(RIDGE * np.eye(DIM) + x.T @ x)
    arms = _unit(rng.standard_normal((1_000, DIM)))
    errors = np.abs(arms @ (matrix @ (x.T @ rewards) - theta))
    widths = np.sqrt(np.einsum("ki,ij,kj->k", arms, matrix, arms))
    radius = noise**2 * math.sqrt(DIM * math.log(1.0 + _LEARNED / (RIDGE * delta))) + math.sqrt(RIDGE)
    return float(np.mean(errors > radius * widths)), float(np.mean(errors > (radius + foreign * FOREIGN) * widths))


def early(delta: float, window_delta: float, window: int, seed: int, rounds: int = 20_000) -> tuple[float, float]:
    """Shares of rounds in which a member whose rewards miss with probability `delta` is given up.

    First with the width of Algorithm 1, then with that of the printed proof, which lacks a square root.
    """
    misses = np.random.default_rng(seed).random(rounds) < delta
    total = np.cumsum(misses, dtype=np.int64)
    total[window:] -= total[:-window].copy()
    length = np.minimum(np.arange(1, rounds + 1), window)
    square = math.log(1.0 / window_delta) / (2.0 * length)
    rate = total / length
    return float(np.mean(rate > delta + np.sqrt(square))), float(np.mean(rate > delta + square))


def out_of_date(
    noise: float, share: float, seed: int, *, delta: float, window_delta: float, window: int
) -> tuple[float, float, int]:
    """Share of shifts after which the outdated members were given up within a window, median delay, members made.

    A `share` of the arms change at a shift; the others lie across the direction in which tastes change.
    """
    rng = np.random.default_rng(seed)
    settings = {"delta": delta, "spawn_delta": delta, "window_delta": window_delta, "window": window}
    policy = DLinUCB.preset("paper", DIM, noise, ridge=RIDGE, **settings)
    delays, made = [], 1
    for stage in range(STAGES):
        delay = math.inf
        for t in range(PERIOD):
            pool = _pool(rng, share)
            x = pool[policy.choose(pool)]
            sign = 1.0 if stage % 2 == 0 else -1.0
            for change in policy.learn(x, float(sign * 0.5 * x[0] + noise * rng.standard_normal())):
                made += change.kind == "spawned"
                if change.kind == "retired":
                    delay = min(delay, t + 1.0)
        if stage:
            delays.append(delay)
    return float(np.mean(np.array(delays) <= window / share)), float(np.median(delays)), made


def leaders(noise: float, seed: int) -> list[tuple[float, float]]:
    """Of each stage with two members: how often the outdated one led after the other was born, and Lemma 3.7's bound.

    The members differ by the gap between their miss rates while both live.
    """
    rng = np.random.default_rng(seed)
    policy = DLinUCB.preset("paper", DIM, noise, ridge=RIDGE)
    found = []
    theta = _unit(rng.random((1, DIM)))[0]
    for stage in range(STAGES):
        if stage:
            theta = _unit(rng.random((1, DIM)))[0]
        led, both, misses = 0, 0, np.zeros(2)
        for _ in range(PERIOD):
            pool = _unit(rng.standard_normal((_ARMS, DIM)))
            x = pool[policy.choose(pool)]
            before = policy.members
            if len(before) > 1:
                both += 1
                led += policy.leader == before[0].id
            policy.learn(x, float(x @ theta + noise * rng.standard_normal()))
            if len(before) > 1:
                after = {member.id: member.updates for member in policy.members}
                old, new = before[0], before[-1]
                misses += [float(after.get(one.id, one.updates) == one.updates) for one in (old, new)]
        gap = (misses[0] - misses[1]) / both if both else 0.0
        if gap > 0.0:
            found.append((float(led), 8.0 * math.log(PERIOD) / gap**2 + 1.0 + math.pi**2 / 3.0))
    return found


def _pool(rng: np.random.Generator, share: float) -> Floats:
    """Unit vectors, of which a `share` lie close to the first axis and the others at right angles to it."""
    pool = rng.standard_normal((_ARMS, DIM))
    changed = rng.random(_ARMS) < share
    pool[:, 0] = 0.0
    pool = _unit(pool)
    cosine = rng.uniform(_COSINE, 1.0, _ARMS)
    pool[changed] *= np.sqrt(1.0 - cosine[changed, None] ** 2)
    pool[changed, 0] = cosine[changed]
    return pool


def _unit(vectors: Floats) -> Floats:
    """Vectors of length 1 in the same directions."""
    unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
