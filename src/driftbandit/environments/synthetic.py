"""Simulated worlds: settings, presets, and the rounds made from settings and a seed.

``synthetic("table1", seed=3)`` is the world behind the paper's Table 1. Presets have a version: a preset whose draws
change gets a new version, so that old results stay reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from driftbandit.core import as_count, as_number, unknown_name
from driftbandit.environments.drawing import draw_rounds
from driftbandit.environments.rounds import Rounds


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
        Standard deviation of the noise; with outliers, in the rounds without one. Clicks have no noise but their own:
        with them, `noise`, `tails` and `noise_jump` must keep their defaults.
    tails : {'normal', 'student', 'outliers'}
        Law of the noise: Gaussian, Student's t with 3 degrees of freedom, or Gaussian with one round in a hundred
        20 standard deviations off.
    noise_jump : float
        Factor by which the noise changes halfway.
    shift : float
        Smallest size of a shift.
    rule : {'distance', 'arms'}
        What is at least `shift`: the L2 distance of the thetas, or the change of the expected reward for `share` of the
        arms.
    share : float
        Share of arms that a shift changes (rho), on a 'jumps' path. Under 'distance' the other arms are projected,
        for one period, onto the null space of the latest change of theta; at 0 theta never changes.
    period : int
        Rounds between shifts.
    times : {'fixed', 'coin'}
        Shifts come exactly every `period` rounds, or at the first heads of a coin flipped in every round after that.
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
        Factors of all features, and of all rewards and their means.
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
        return draw_rounds(self, seed)

    def _set_clicks(self) -> None:
        if not isinstance(self.clicks, tuple | list) or len(self.clicks) != 2:
            raise ValueError(f"clicks: expected a lowest and a highest probability, got {self.clicks!r}")
        low = as_number("clicks", self.clicks[0], 0.0, 1.0)
        high = as_number("clicks", self.clicks[1], low, 1.0)
        if self.reward == "logit" and not 0.0 < low <= high < 1.0:
            raise ValueError(f"clicks: log-odds need probabilities strictly between 0 and 1, got {self.clicks!r}")
        self._set("clicks", (low, high))

    def _refuse_noise(self) -> None:
        """Refuse noise settings for clicks, where they would have no effect."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("noise", "tails", "noise_jump") and value != field.default:
                raise ValueError(
                    f"{field.name}: clicks have no noise but their own; expected the default, {field.default!r}, with "
                    f"reward={self.reward!r}, got {value!r}"
                )

    def _set(self, name: str, value: object) -> None:
        """Store a checked setting as a plain Python number, whatever its type was."""
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
    """Settings of a preset ('table1' is its newest version), with overrides."""
    return _override(PRESETS[preset_name(preset)], overrides)


def _override(settings: World, overrides: dict[str, Any]) -> World:
    if unknown := sorted(overrides.keys() - {f.name for f in fields(World)}):
        raise ValueError(unknown_name("settings", unknown, [f.name for f in fields(World)]))
    return replace(settings, **overrides)


def preset_name(preset: str) -> str:
    """Full name of a preset, with its version."""
    versions = [name for name in PRESETS if name in (preset, f"{preset}-{name.split('-')[-1]}")]
    if not versions:
        raise ValueError(unknown_name("preset", preset, PRESETS))
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
    return draw_rounds(settings, seed)
