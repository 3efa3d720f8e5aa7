"""Simulated worlds: arms, a taste that moves, and rewards, from a handful of numbers and a seed.

``synthetic("table1", seed=3)`` is the world behind the paper's Table 1. Presets carry a version: a preset whose draws
change gets a new one, so that old results stay reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats, Ints, as_count, as_number
from driftbandit.environments import paths
from driftbandit.environments.rounds import Rounds

_REACH = 4.0
"""Standard deviations of noise that `Rounds.reward_range` allows for beyond the means."""

_TAIL = 3.0
_OUTLIERS = 0.01
_OUTLIER = 20.0
"""Degrees of freedom of Student's t; share of outliers and their size in standard deviations."""

_CHUNK = 4096
"""Rounds whose features are gathered at a time."""


@dataclass(frozen=True)
class World:
    """Settings of a simulated world.

    Attributes
    ----------
    path : {'jumps', 'recurring', 'rotation', 'brownian', 'still'}
        How theta moves: redrawn at every shift, alternating between a few, turning, wandering, or not at all.
    features : {'gaussian', 'uniform'}
        Arms of unit length from N(0, (d - i) / d) in coordinate i (the authors' code) or from U(0, 1) (the paper's
        text).
    thetas : {'positive', 'sphere'}
        Thetas of unit length with coordinates from U(0, 1), or anywhere on the sphere.
    dim, arms, pool : int
        Features, arms in the catalogue, arms shown in a round.
    noise : float
        Standard deviation of the noise; with outliers, of the rounds without one. Clicks have no other noise than
        themselves: with them, this, `tails` and `noise_jump` must be left alone.
    tails : {'normal', 'student', 'outliers'}
        Law of the noise: Gaussian, Student's t with 3 degrees of freedom, or Gaussian with one round in a hundred
        20 standard deviations off.
    noise_jump : float
        Factor by which the noise changes halfway.
    shift : float
        Smallest size of a shift.
    rule : {'distance', 'arms'}
        What has that size: the L2 distance of the thetas, or the change of the expected reward for `share` of the arms.
    share : float
        Share of arms that a shift changes (rho), on a 'jumps' path. Under 'distance' the other arms are projected,
        for one period, onto the null space of the latest change of theta; at 0 theta never changes.
    period : int
        Rounds between shifts.
    times : {'fixed', 'coin'}
        Shifts exactly every `period` rounds, or at the first heads of a coin after them.
    horizon : int
        Number of rounds.
    regimes : int
        How many thetas alternate on a 'recurring' path.
    turns, step : float
        Full turns of a 'rotation'; step per coordinate and round of a 'brownian' path.
    reward : {'gaussian', 'click', 'logit'}
        x'theta plus noise; or a click, with a probability that goes from the low to the high end of `clicks`
        linearly, or linearly in log-odds, as x'theta goes from -1 to 1. Clicks make the last feature a constant 1, so
        that these probabilities are linear in the features.
    clicks : (float, float)
        Lowest and highest click probability.
    feature_scale, reward_scale : float
        Factors of all features and all rewards, the means among them.
    """

    path: Literal["jumps", "recurring", "rotation", "brownian", "still"] = "jumps"
    features: Literal["gaussian", "uniform"] = "gaussian"
    thetas: Literal["positive", "sphere"] = "positive"
    dim: int = 10
    arms: int = 1000
    pool: int = 10
    noise: float = 0.05
    tails: Literal["normal", "student", "outliers"] = "normal"
    noise_jump: float = 1.0
    shift: float = 0.9
    rule: Literal["distance", "arms"] = "distance"
    share: float = 1.0
    period: int = 800
    times: Literal["fixed", "coin"] = "fixed"
    horizon: int = 5000
    regimes: int = 2
    turns: float = 1.0
    step: float = 0.005
    reward: Literal["gaussian", "click", "logit"] = "gaussian"
    clicks: tuple[float, float] = (0.05, 0.20)
    feature_scale: float = 1.0
    reward_scale: float = 1.0

    def __post_init__(self) -> None:
        choices = {
            "path": ("jumps", "recurring", "rotation", "brownian", "still"),
            "features": ("gaussian", "uniform"),
            "thetas": ("positive", "sphere"),
            "tails": ("normal", "student", "outliers"),
            "rule": ("distance", "arms"),
            "times": ("fixed", "coin"),
            "reward": ("gaussian", "click", "logit"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        least = {"dim": 1 + (self.path == "rotation") + (self.reward != "gaussian")}
        least["regimes"] = 2 if self.path == "recurring" else 1
        for name in ("dim", "arms", "pool", "period", "horizon", "regimes"):
            self._set(name, as_count(name, getattr(self, name), least=least.get(name, 1)))
        if self.pool > self.arms:
            raise ValueError(f"pool: expected at most {self.arms} (arms), got {self.pool}")
        for name in ("noise", "noise_jump", "shift", "turns", "step"):
            self._set(name, as_number(name, getattr(self, name), 0.0))
        for name in ("feature_scale", "reward_scale"):
            self._set(name, as_number(name, getattr(self, name), 0.0, open_low=True))
        self._set("share", as_number("share", self.share, 0.0, 1.0))
        if self.share != 1.0 and self.path != "jumps":
            raise ValueError(f"share: expected 1 on a {self.path!r} path, got {self.share:g}")
        if self.share and not round(self.share * self.arms):
            raise ValueError(f"share: {self.share:g} of {self.arms} arms is no arm; expected 0 or more")
        self._set_clicks()
        if self.reward != "gaussian":
            self._refuse_noise()

    def rounds(self, seed: int) -> Rounds:
        """All rounds of this world; the same as `synthetic(self, seed)`."""
        return synthetic(self, seed)

    def _set_clicks(self) -> None:
        if not isinstance(self.clicks, tuple | list) or len(self.clicks) != 2:
            raise ValueError(f"clicks: expected a lowest and a highest probability, got {self.clicks!r}")
        low = as_number("clicks", self.clicks[0], 0.0, 1.0)
        high = as_number("clicks", self.clicks[1], low, 1.0)
        if self.reward == "logit" and not 0.0 < low <= high < 1.0:
            raise ValueError(f"clicks: log-odds need probabilities strictly between 0 and 1, got {self.clicks!r}")
        self._set("clicks", (low, high))

    def _refuse_noise(self) -> None:
        """Clicks are as noisy as their rates make them; settings that would do nothing must not look as if they did."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("noise", "tails", "noise_jump") and value != field.default:
                raise ValueError(
                    f"{field.name}: clicks have no noise but their own; expected the default, {field.default!r}, with "
                    f"reward={self.reward!r}, got {value!r}"
                )

    def _set(self, name: str, value: object) -> None:
        """Store a checked setting as a plain Python number, whatever kind of number came."""
        object.__setattr__(self, name, value)


PRESETS: dict[str, World] = {
    "table1-v1": World(),
    "text-v1": World(features="uniform", rule="arms"),
    "stationary-v1": World(path="still", noise=0.1, horizon=20_000),
    "rotation-v1": World(path="rotation", noise=0.1),
    "brownian-v1": World(path="brownian", noise=0.1),
    "recurring-v1": World(path="recurring", noise=0.1, period=500),
}
PRESETS |= {
    name.replace("-v1", "-clicks-v1"): replace(world, reward="click", noise=World.noise)
    for name, world in PRESETS.items()
}


def world(preset: str = "table1", **overrides: Any) -> World:
    """Settings of a preset ('table1' is the newest version of it), any of them overridden."""
    return _override(PRESETS[preset_name(preset)], overrides)


def _override(settings: World, overrides: dict[str, Any]) -> World:
    if unknown := sorted(overrides.keys() - {f.name for f in fields(World)}):
        raise ValueError(f"settings: unknown {', '.join(unknown)}")
    return replace(settings, **overrides)


def preset_name(preset: str) -> str:
    """Full name of a preset, with its version."""
    versions = [name for name in PRESETS if name in (preset, f"{preset}-{name.split('-')[-1]}")]
    if not versions:
        raise ValueError(f"preset: expected one of {', '.join(PRESETS)}, got {preset!r}")
    return max(versions, key=lambda name: int(name.rsplit("-v", 1)[1]))


def synthetic(preset: str | World = "table1", seed: int = 0, **overrides: Any) -> Rounds:
    """Make all rounds of a simulated world.

    Parameters
    ----------
    preset : str or World
        A preset's name, or settings of your own.
    seed : int
        The same seed and settings give the same rounds, bit for bit.
    **overrides :
        Settings of `World` to change.

    Examples
    --------
    >>> rounds = synthetic("table1", seed=1, noise=0.01, horizon=1000)
    >>> rounds.catalogue.shape, rounds.pools.shape, rounds.shifts.tolist()
    ((1000, 10), (1000, 10), [800])

    The world that the paper's text describes does not exist:

    >>> synthetic("text", seed=1)
    Traceback (most recent call last):
    ...
    ValueError: shift: no theta in 204,800 draws changes 100 % of the arms by more than 0.9; the best changed 0.0 %
    """
    settings = _override(preset, overrides) if isinstance(preset, World) else world(preset, **overrides)
    streams = [np.random.default_rng([as_count("seed", seed, least=0), part]) for part in range(4)]
    catalogue = _catalogue(settings, streams[0])
    path, regime, shifts = _path(settings, catalogue, streams[1])
    arms = _pools(settings.horizon, settings.arms, settings.pool, streams[2])
    catalogue, pools = _project(settings, catalogue, path, regime, arms)
    base = _expected(catalogue, pools, path, regime)
    if settings.reward != "gaussian":
        catalogue = np.hstack([catalogue, np.ones((len(catalogue), 1))])
    means, rewards, (low, high) = _rewards(settings, base, streams[3])
    scale = settings.reward_scale
    return Rounds(
        catalogue=catalogue * settings.feature_scale,
        pools=pools,
        arms=arms,
        means=means * scale,
        rewards=rewards * scale,
        shifts=shifts,
        noise=(settings.noise if settings.reward == "gaussian" else 0.5) * scale,
        reward_range=(low * scale, high * scale),
        seed=seed,
    )


def _free_dim(settings: World) -> int:
    """Features that vary: all but the constant that click worlds add."""
    return settings.dim - (settings.reward != "gaussian")


def _catalogue(settings: World, rng: Generator) -> Floats:
    dim = _free_dim(settings)
    if settings.features == "uniform":
        return paths.unit(rng.random((settings.arms, dim)))
    deviations = np.sqrt((dim - np.arange(dim)) / dim)
    return paths.unit(rng.standard_normal((settings.arms, dim)) * deviations)


def _path(settings: World, catalogue: Floats, rng: Generator) -> tuple[Floats, Ints, Ints]:
    """Thetas (R, d), which of them rules each round (T,), and the shifts."""
    horizon = settings.horizon
    draw = paths.DRAWS[settings.thetas](_free_dim(settings))
    none = np.empty(0, dtype=np.int64)
    if settings.path == "still" or settings.share == 0.0:
        return draw(rng, 1), np.zeros(horizon, dtype=np.int64), none
    if settings.path in ("rotation", "brownian"):
        if settings.path == "rotation":
            path = paths.rotation(rng, horizon, draw, settings.turns)
        else:
            path = paths.brownian(rng, horizon, draw, settings.step)
        return path, np.arange(horizon), none
    if settings.times == "fixed":
        shifts = paths.fixed_shifts(horizon, settings.period)
    else:
        shifts = paths.coin_flip_shifts(horizon, settings.period, rng)
    segment = np.searchsorted(shifts, np.arange(horizon), side="right")
    count = settings.regimes if settings.path == "recurring" else len(shifts) + 1
    thetas = _jumps(settings, catalogue, rng, count, draw)
    return thetas, segment % count, shifts


def _jumps(settings: World, catalogue: Floats, rng: Generator, count: int, draw: paths.Draw) -> Floats:
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


def _pools(horizon: int, arms: int, pool: int, rng: Generator) -> Ints:
    """`pool` different arms for every round, in random order."""
    if pool * pool > arms:
        chunk = max(1, _CHUNK * 1000 // arms)
        shuffled = [
            rng.permuted(np.tile(np.arange(arms), (min(chunk, horizon - start), 1)), axis=1)[:, :pool]
            for start in range(0, horizon, chunk)
        ]
        return np.concatenate(shuffled)
    # Few enough that most rows drawn with replacement have no repeat: redraw the others.
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
    # Arms are exchangeable, so the first ones may be those that change.
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
        positive = settings.features == "uniform" and settings.thetas == "positive"
        low = 0.0 if positive and settings.path not in ("rotation", "brownian") else -1.0
        margin = _REACH * settings.noise * max(settings.noise_jump, 1.0)
        return base, base + noise, (low - margin, 1.0 + margin)
    low, high = settings.clicks
    climb = (1.0 + base) / 2.0
    if settings.reward == "click":
        means = low + (high - low) * climb
    else:
        ends = np.log([low / (1.0 - low), high / (1.0 - high)])
        means = 1.0 / (1.0 + np.exp(-(ends[0] + (ends[1] - ends[0]) * climb)))
    clicks = (rng.random((len(base), 1)) < means).astype(np.float64)
    return means, clicks, (0.0, 1.0)


def _noise(tails: str, rounds: int, rng: Generator) -> Floats:
    """One number a round of standard deviation 1, but for outliers."""
    if tails == "student":
        heavy: Floats = rng.standard_t(_TAIL, (rounds, 1)) / np.sqrt(_TAIL / (_TAIL - 2.0))
        return heavy
    noise: Floats = rng.standard_normal((rounds, 1))
    if tails == "outliers":
        hit = rng.random((rounds, 1)) < _OUTLIERS
        noise += _OUTLIER * hit * rng.choice([-1.0, 1.0], (rounds, 1))
    return noise
