"""How tastes move: the path of theta through an environment's life."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats, Ints

_BATCH = 4096
MOST_CANDIDATES = 50 * _BATCH

Draw = Callable[[Generator, int], Floats]
"""Draws n thetas of unit length, shape (n, d)."""

Progress = Callable[[Floats, Floats], Floats]
"""How far a change goes: from one theta (d,) and n candidates (n, d) to n numbers."""


def positive_thetas(dim: int) -> Draw:
    """Coordinates from U(0, 1), then unit length."""
    return lambda rng, n: unit(rng.random((n, dim)))


def sphere_thetas(dim: int) -> Draw:
    """Uniform on the unit sphere."""
    return lambda rng, n: unit(rng.standard_normal((n, dim)))


def unit(vectors: Floats) -> Floats:
    """Scale rows to length one."""
    scaled: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def fixed_shifts(horizon: int, period: int) -> Ints:
    """A shift exactly every `period` rounds."""
    return np.arange(period, horizon, period)


def coin_flip_shifts(horizon: int, period: int, rng: Generator) -> Ints:
    """After `period` quiet rounds, a coin is flipped before each round; heads is a shift, as in the authors' code."""
    gaps = period - 1 + rng.geometric(0.5, size=horizon // period + 1)
    shifts: Ints = np.cumsum(gaps)
    return shifts[shifts < horizon]


def jumps(
    rng: Generator,
    count: int,
    draw: Draw,
    measure: Progress,
    enough: float,
    explain: Callable[[float], str],
    *,
    closed: bool = False,
) -> Floats:
    """Thetas of `count` regimes, each redrawn until its distance from the one before satisfies `measure` >= `enough`.

    On a closed path the last theta must also be that far from the first.

    Raises
    ------
    ValueError
        If none of about 200,000 candidates is far enough; `explain` turns the best value seen into the message.
    """
    thetas = [draw(rng, 1)[0]]
    while len(thetas) < count:
        neighbours = [thetas[-1], thetas[0]] if closed and len(thetas) == count - 1 else [thetas[-1]]
        best = 0.0
        for _ in range(0, MOST_CANDIDATES, _BATCH):
            candidates = draw(rng, _BATCH)
            values = np.min([measure(theta, candidates) for theta in neighbours], axis=0)
            good = np.flatnonzero(values >= enough)
            if len(good):
                thetas.append(candidates[good[0]])
                break
            best = max(best, float(values.max()))
        else:
            raise ValueError(explain(best))
    return np.array(thetas)


def exact_jumps(rng: Generator, count: int, draw: Draw, size: float) -> Floats:
    """Thetas of `count` regimes, each turned from the one before in a random direction, by exactly the distance `size`.

    >>> thetas = exact_jumps(np.random.default_rng(0), 3, positive_thetas(10), 0.2)
    >>> np.linalg.norm(np.diff(thetas, axis=0), axis=1).round(12).tolist()
    [0.2, 0.2]
    """
    angle = 2.0 * np.arcsin(size / 2.0)
    thetas = [draw(rng, 1)[0]]
    for drawn in rng.standard_normal((count - 1, len(thetas[0]))):
        old = thetas[-1]
        aside = drawn - (drawn @ old) * old
        new = np.cos(angle) * old + np.sin(angle) * aside / np.linalg.norm(aside)
        thetas.append(new / np.linalg.norm(new))
    return np.array(thetas)


def rotation(rng: Generator, horizon: int, draw: Draw, turns: float) -> Floats:
    """Theta turns at constant speed in a random plane, `turns` full turns over the horizon."""
    start = draw(rng, 1)[0]
    other = rng.standard_normal(len(start))
    other -= (other @ start) * start
    other /= np.linalg.norm(other)
    angle = 2.0 * np.pi * turns * np.arange(horizon)[:, None] / horizon
    path: Floats = np.cos(angle) * start + np.sin(angle) * other
    return path


def brownian(rng: Generator, horizon: int, draw: Draw, step: float) -> Floats:
    """Theta takes a Gaussian step of size `step` per coordinate every round and is scaled back to unit length."""
    draw(rng, 1)  # a draw that earlier versions made to learn the dimension, without which the rounds would change
    return wander(rng, draw(rng, 1)[0], horizon, step)


def wander(rng: Generator, start: Floats, rounds: int, step: float) -> Floats:
    """A Brownian path of unit length from `start`, one theta per round."""
    theta = start
    steps = step * rng.standard_normal((rounds, len(start)))
    path = np.empty(steps.shape)
    for t in range(rounds):
        path[t] = theta
        theta = theta + steps[t]
        theta /= np.sqrt(theta @ theta)
    return path


def seasons(horizon: int, one: Floats, other: Floats, turns: float) -> Floats:
    """Theta goes along the arc from `one` to `other` and back `turns` times, in time as a sine wave."""
    angle = np.arccos(np.clip(one @ other, -1.0, 1.0))
    share = 0.5 - 0.5 * np.cos(2.0 * np.pi * turns * np.arange(horizon)[:, None] / horizon)
    path: Floats = (np.sin((1.0 - share) * angle) * one + np.sin(share * angle) * other) / np.sin(angle)
    return path


DRAWS = {"positive": positive_thetas, "sphere": sphere_thetas}
