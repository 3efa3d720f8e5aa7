"""The rounds of a simulated world, drawn from its settings and a seed: arms, a taste that moves, pools, rewards."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats, Ints, as_count
from driftbandit.environments import paths
from driftbandit.environments.rates import log_odds_line, logistic
from driftbandit.environments.rounds import Rounds

if TYPE_CHECKING:
    from driftbandit.environments.world import World

REACH = 4.0
"""Standard deviations of noise that `Rounds.reward_range` allows for beyond the means."""

_TAIL = 3.0
"""Degrees of freedom of Student's t."""

_OUTLIERS = 0.01
"""Share of outliers."""

_OUTLIER = 20.0
"""Size of an outlier in standard deviations."""

MEDIAN_PRICE = 2000.0
"""Median price of an arm with flags, in cents."""

_PRICE_SPREAD = 0.5
"""Standard deviation of the logarithm of a price."""

_CHUNK = 4096
"""Rounds whose features are gathered at a time."""


def draw_rounds(settings: World, seed: int, *, tastes: int | None = None) -> Rounds:
    """All rounds of a world; the same seed and settings give the same rounds, bit for bit.

    With `tastes`, the arms and the path of theta are those of that seed; pools and noise are those of `seed`.
    """
    seed = as_count("seed", seed, least=0)
    fixed = seed if tastes is None else as_count("tastes", tastes, least=0)
    streams = [np.random.default_rng([part_seed, part]) for part, part_seed in enumerate((fixed, fixed, seed, seed))]
    catalogue = _catalogue(settings, streams[0])
    path, regime, shifts = _path(settings, catalogue, streams[1])
    arms = draw_pools(settings.horizon, settings.arms, settings.pool, streams[2])
    catalogue, pools = _project(settings, catalogue, path, regime, arms)
    base = _expected(catalogue, pools, path, regime)
    if settings.features == "flags":
        base /= _length_of_flags(settings.free_dim)
    if settings.has_constant:
        catalogue = np.hstack([catalogue, np.ones((len(catalogue), 1))])
    catalogue = catalogue * settings.feature_scale
    if settings.column_scale:
        catalogue *= settings.column_scale
    means, rewards, (low, high) = _rewards(settings, base, streams[3])
    scale = settings.reward_scale
    return Rounds(
        catalogue=catalogue,
        pools=pools,
        arms=arms,
        means=means * scale,
        rewards=rewards * scale,
        shifts=shifts,
        noise=_told_noise(settings) * scale,
        reward_range=(low * scale, high * scale),
        seed=seed,
        batch=settings.batch,
        delay=settings.delay,
    )


def _told_noise(settings: World) -> float:
    """Standard deviation of a reward: its noise, or that of a click of an average arm, if its rate is known."""
    if settings.reward == "gaussian":
        return settings.noise
    rate = settings.clicks[0] if settings.reward == "rates" else 0.5
    return math.sqrt(rate * (1.0 - rate))


def _catalogue(settings: World, rng: Generator) -> Floats:
    dim = settings.free_dim
    if settings.features == "uniform":
        return paths.unit(rng.random((settings.arms, dim)))
    if settings.features == "sphere":
        return paths.unit(rng.standard_normal((settings.arms, dim)))
    if settings.features == "flags":
        flags = rng.integers(2, size=(settings.arms, dim - 1)).astype(np.float64)
        cents = np.rint(MEDIAN_PRICE * np.exp(_PRICE_SPREAD * rng.standard_normal((settings.arms, 1))))
        return np.hstack([flags, cents / MEDIAN_PRICE])
    deviations = np.sqrt((dim - np.arange(dim)) / dim)
    return paths.unit(rng.standard_normal((settings.arms, dim)) * deviations)


def _length_of_flags(dim: int) -> float:
    """Root mean square length of an arm that is a price beside flags."""
    return math.sqrt((dim - 1) / 2.0 + math.exp(2.0 * _PRICE_SPREAD**2))


def _path(settings: World, catalogue: Floats, rng: Generator) -> tuple[Floats, Ints, Ints]:
    """Thetas (R, d), the index of the theta of each round (T,), and the shifts."""
    horizon = settings.horizon
    draw = paths.DRAWS[settings.thetas](settings.free_dim)
    none = np.empty(0, dtype=np.int64)
    if settings.path == "still" or settings.share == 0.0:
        return draw(rng, 1), np.zeros(horizon, dtype=np.int64), none
    if settings.path in ("rotation", "brownian"):
        if settings.path == "rotation":
            path = paths.rotation(rng, horizon, draw, settings.turns)
        else:
            path = paths.brownian(rng, horizon, draw, settings.step)
        return path, np.arange(horizon), none
    if settings.path == "seasons":
        ends = _jumps(settings, catalogue, rng, 2, draw)
        return paths.seasons(horizon, ends[0], ends[1], settings.turns), np.arange(horizon), none
    if settings.times == "fixed":
        shifts = paths.fixed_shifts(horizon, settings.period)
    else:
        shifts = paths.coin_flip_shifts(horizon, settings.period, rng)
    segment = np.searchsorted(shifts, np.arange(horizon), side="right")
    count = settings.regimes if settings.path == "recurring" else len(shifts) + 1
    thetas = _jumps(settings, catalogue, rng, count, draw)
    if settings.path == "jolts":
        edges = [0, *shifts.tolist(), horizon]
        parts = [
            paths.wander(rng, theta, stop - start, settings.step)
            for theta, (start, stop) in zip(thetas, itertools.pairwise(edges), strict=True)
        ]
        return np.concatenate(parts), np.arange(horizon), shifts
    return thetas, segment % count, shifts


def _jumps(settings: World, catalogue: Floats, rng: Generator, count: int, draw: paths.Draw) -> Floats:
    if settings.rule == "exact":
        return paths.exact_jumps(rng, count, draw, settings.shift)
    closed = settings.path == "recurring"
    if settings.rule == "distance":
        return paths.jumps(
            rng,
            count,
            draw,
            lambda old, new: np.linalg.norm(new - old, axis=1),
            settings.shift,
            lambda best: (
                f"shift: no theta in {paths.MOST_CANDIDATES:,} draws is {settings.shift:g} away from the last one; "
                f"the farthest was {best:.3f}"
            ),
            closed=closed,
        )
    return paths.jumps(
        rng,
        count,
        draw,
        lambda old, new: (np.abs(catalogue @ (new - old).T) > settings.shift).mean(axis=0),
        settings.share,
        lambda best: (
            f"shift: no theta in {paths.MOST_CANDIDATES:,} draws changes {100 * settings.share:g} % of the arms "
            f"by more than {settings.shift:g}; the best changed {100 * best:.1f} %"
        ),
        closed=closed,
    )


def draw_pools(horizon: int, arms: int, pool: int, rng: Generator) -> Ints:
    """`pool` different arms for every round, in random order."""
    if pool * pool > arms:
        chunk = max(1, _CHUNK * 1000 // arms)
        shuffled = [
            rng.permuted(np.tile(np.arange(arms), (min(chunk, horizon - start), 1)), axis=1)[:, :pool]
            for start in range(0, horizon, chunk)
        ]
        return np.concatenate(shuffled)
    # Pools are so small that most rows drawn with replacement have no repeat: redraw the others.
    pools = rng.integers(arms, size=(horizon, pool))
    while True:
        ordered = np.sort(pools, axis=1)
        repeated = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(repeated):
            return pools
        pools[repeated] = rng.integers(arms, size=(len(repeated), pool))


def _project(settings: World, catalogue: Floats, path: Floats, regime: Ints, arms: Ints) -> tuple[Floats, Ints]:
    """Take the shifts away from a share 1 - rho of the arms; returns the catalogue and the rows shown."""
    if settings.share == 1.0 or settings.rule == "arms" or len(path) == 1:
        return catalogue, arms
    changed = round(settings.share * settings.arms)
    # Arms are exchangeable, so let the first ones be those that change.
    versions = [catalogue]
    for change in paths.unit(np.diff(path, axis=0)):
        version = catalogue.copy()
        version[changed:] -= np.outer(version[changed:] @ change, change)
        versions.append(version)
    return np.concatenate(versions), arms + settings.arms * regime[:, None]


def _expected(catalogue: Floats, pools: Ints, path: Floats, regime: Ints) -> Floats:
    """x'theta of every arm shown."""
    if len(path) <= 64:
        table = catalogue @ path.T
        expected: Floats = table[pools, regime[:, None]]
        return expected
    expected = np.empty(pools.shape)
    for start in range(0, len(pools), _CHUNK):
        part = slice(start, start + _CHUNK)
        np.einsum("tkd,td->tk", catalogue[pools[part]], path[regime[part]], out=expected[part])
    return expected


def _rewards(settings: World, base: Floats, rng: Generator) -> tuple[Floats, Floats, tuple[float, float]]:
    """Expected rewards, rewards, and their range. All arms of a round share its noise."""
    if settings.reward == "gaussian":
        noise = settings.noise * _noise(settings.tails, len(base), rng)
        noise[len(base) // 2 :] *= settings.noise_jump
        means = base + settings.offset if settings.offset else base
        return means, means + noise, _range(settings, means)
    low, high = settings.clicks
    climb = (1.0 + base) / 2.0
    if settings.reward == "click":
        means = low + (high - low) * climb
    elif settings.reward == "logit":
        ends = np.log([low / (1.0 - low), high / (1.0 - high)])
        means = logistic(ends[0] + (ends[1] - ends[0]) * climb)
    else:
        intercept, slope = log_odds_line(low, high, settings.free_dim, settings.pool)
        means = logistic(intercept + slope * base)
    clicks = (rng.random((len(base), 1)) < means).astype(np.float64)
    return means, clicks, (0.0, 1.0)


def _range(settings: World, means: Floats) -> tuple[float, float]:
    """Bounds of almost all rewards of a world without clicks."""
    margin = REACH * settings.noise * max(settings.noise_jump, 1.0)
    if settings.features == "flags":  # whose arms may be of any length
        return float(means.min()) - margin, float(means.max()) + margin
    positive = settings.features == "uniform" and settings.thetas == "positive"
    low = 0.0 if positive and settings.path not in ("rotation", "brownian", "jolts") else -1.0
    return low - margin + settings.offset, 1.0 + margin + settings.offset


def _noise(tails: str, rounds: int, rng: Generator) -> Floats:
    """One number per round, of standard deviation 1 except for outliers."""
    if tails == "student":
        heavy: Floats = rng.standard_t(_TAIL, (rounds, 1)) / np.sqrt(_TAIL / (_TAIL - 2.0))
        return heavy
    noise: Floats = rng.standard_normal((rounds, 1))
    if tails == "outliers":
        hit = rng.random((rounds, 1)) < _OUTLIERS
        noise += _OUTLIER * hit * rng.choice([-1.0, 1.0], (rounds, 1))
    return noise
