"""`World`: the settings of a simulated world with one taste at a time, checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from driftbandit.core import as_count, as_number
from driftbandit.environments.drawing import draw_rounds
from driftbandit.environments.rounds import Rounds

Path = Literal["jumps", "recurring", "rotation", "brownian", "seasons", "jolts", "still"]
Features = Literal["gaussian", "uniform", "sphere", "flags"]
Thetas = Literal["positive", "sphere"]
Tails = Literal["normal", "student", "outliers"]
Rule = Literal["distance", "arms", "exact"]
Times = Literal["fixed", "coin"]
Reward = Literal["gaussian", "click", "logit", "rates"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "path": get_args(Path),
    "features": get_args(Features),
    "thetas": get_args(Thetas),
    "tails": get_args(Tails),
    "rule": get_args(Rule),
    "times": get_args(Times),
    "reward": get_args(Reward),
}
_OF_NOISE = ("noise", "tails", "noise_jump", "offset")
"""Settings that clicks have no use for."""


@dataclass(frozen=True)
class World:
    """Settings of a simulated world.

    Attributes
    ----------
    path : {'jumps', 'recurring', 'rotation', 'brownian', 'seasons', 'jolts', 'still'}
        How theta moves: redrawn at every shift, alternating between a few, turning, wandering, going smoothly back and
        forth between two, wandering and redrawn at every shift, or not at all.
    shift : float
        Smallest size of a shift; on a 'jolts' path, from where the regime before began.
    rule : {'distance', 'arms', 'exact'}
        What is at least `shift`: the L2 distance of the thetas, or the change of the expected reward for `share` of the
        arms. Under 'exact' the distance of the thetas is `shift` itself, at most 2: theta turns that far in a random
        direction.
    share : float
        Share of arms that a shift changes (rho), on a 'jumps' path. Unless the rule is 'arms', the other arms are
        projected, for one period, onto the null space of the latest change of theta; at 0 theta never changes.
    period : int
        Rounds between shifts.
    times : {'fixed', 'coin'}
        Shifts come exactly every `period` rounds, or at the first heads of a coin flipped in every round after that.
    regimes : int
        How many thetas alternate on a 'recurring' path.
    turns : float
        Full turns of a 'rotation'; on a 'seasons' path, how often theta goes to the other taste and comes back.
    step : float
        Step per coordinate and round of a 'brownian' or 'jolts' path.
    horizon : int
        Number of rounds.
    features : {'gaussian', 'uniform', 'sphere', 'flags'}
        Arms of unit length from N(0, (d - i) / d) in coordinate i (the authors' code), from U(0, 1) (the paper's
        text), or in any direction; or 0/1 flags beside a price, in units of the median price.
    thetas : {'positive', 'sphere'}
        Thetas of unit length with coordinates from U(0, 1), or anywhere on the sphere. With 'flags' they are divided by
        the root mean square length of the arms.
    dim, arms, pool : int
        Features, arms in the catalogue, arms shown in a round.
    feature_scale : float
        Factor of all features.
    column_scale : tuple of float
        One more factor for each feature, as if it were measured in other units; none if empty. The rewards stay as they
        are.
    constant : bool
        Whether the last feature is a constant 1; `dim` counts it, theta has no part in it. Clicks always have one.
    reward : {'gaussian', 'click', 'logit', 'rates'}
        x'theta plus noise; or a click, with a probability that goes from the low to the high end of `clicks` linearly,
        or linearly in log-odds, as x'theta goes from -1 to 1; or ('rates') with log-odds linear in x'theta and scaled
        so that `clicks` are the rates of an average arm and of the best arm of a pool, on average over pools.
    clicks : (float, float)
        Lowest and highest click probability; with 'rates', the average one and that of the best arm of a pool.
    noise : float
        Standard deviation of the noise; with outliers, in the rounds without one. Clicks have no noise but their own:
        with them, `noise`, `tails`, `noise_jump` and `offset` must keep their defaults.
    tails : {'normal', 'student', 'outliers'}
        Law of the noise: Gaussian, Student's t with 3 degrees of freedom, or Gaussian with one round in a hundred
        20 standard deviations off.
    noise_jump : float
        Factor by which the noise changes halfway.
    offset : float
        Added to all rewards and their means.
    reward_scale : float
        Factor of all rewards and their means, the offset included.
    batch, delay : int
        When rewards are learned; see `Rounds`.
    """

    path: Path = "jumps"
    shift: float = 0.9
    rule: Rule = "distance"
    share: float = 1.0
    period: int = 800
    times: Times = "fixed"
    regimes: int = 2
    turns: float = 1.0
    step: float = 0.005
    horizon: int = 5000

    features: Features = "gaussian"
    thetas: Thetas = "positive"
    dim: int = 10
    arms: int = 1000
    pool: int = 10
    feature_scale: float = 1.0
    column_scale: tuple[float, ...] = ()
    constant: bool = False

    reward: Reward = "gaussian"
    clicks: tuple[float, float] = (0.05, 0.20)
    noise: float = 0.05
    tails: Tails = "normal"
    noise_jump: float = 1.0
    offset: float = 0.0
    reward_scale: float = 1.0

    batch: int = 1
    delay: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        if not isinstance(self.constant, bool):
            raise ValueError(f"constant: expected True or False, got {self.constant!r}")
        self._set_counts()
        for name in ("noise", "noise_jump", "shift", "turns", "step"):
            self._set(name, as_number(name, getattr(self, name), 0.0))
        for name in ("feature_scale", "reward_scale"):
            self._set(name, as_number(name, getattr(self, name), 0.0, open_low=True))
        self._set("offset", as_number("offset", self.offset))
        self._set("share", as_number("share", self.share, 0.0, 1.0))
        if self.share != 1.0 and self.path != "jumps":
            raise ValueError(f"share: expected 1 on a {self.path!r} path, got {self.share:g}")
        if self.share and not round(self.share * self.arms):
            raise ValueError(f"share: {self.share:g} of {self.arms} arms is no arm; expected 0 or more")
        self._set_column_scale()
        self._set_clicks()
        if self.reward != "gaussian":
            self._refuse_noise()
        self._refuse_misfits()

    @property
    def has_constant(self) -> bool:
        """Whether the last feature is a constant 1."""
        return self.constant or self.reward != "gaussian"

    @property
    def free_dim(self) -> int:
        """Features that vary: all but the constant."""
        return self.dim - self.has_constant

    def rounds(self, seed: int) -> Rounds:
        """All rounds of this world; the same as `synthetic(self, seed)`."""
        return draw_rounds(self, seed)

    def _set_counts(self) -> None:
        plane = self.path in ("rotation", "seasons") or self.reward == "rates" or self.features == "flags"
        plane = plane or self.rule == "exact"
        least = {"dim": 1 + plane + self.has_constant, "regimes": 2 if self.path == "recurring" else 1, "delay": 0}
        for name in ("dim", "arms", "pool", "period", "horizon", "regimes", "batch", "delay"):
            self._set(name, as_count(name, getattr(self, name), least=least.get(name, 1)))
        if self.pool > self.arms:
            raise ValueError(f"pool: expected at most {self.arms} (arms), got {self.pool}")

    def _set_column_scale(self) -> None:
        given = self.column_scale
        if not isinstance(given, tuple | list) or len(given) not in (0, self.dim):
            raise ValueError(f"column_scale: expected no factor, or one for each of {self.dim} features, got {given!r}")
        self._set("column_scale", tuple(as_number("column_scale", value, 0.0, open_low=True) for value in given))

    def _set_clicks(self) -> None:
        if not isinstance(self.clicks, tuple | list) or len(self.clicks) != 2:
            raise ValueError(f"clicks: expected a lowest and a highest probability, got {self.clicks!r}")
        low = as_number("clicks", self.clicks[0], 0.0, 1.0)
        high = as_number("clicks", self.clicks[1], low, 1.0)
        if self.reward in ("logit", "rates") and not 0.0 < low <= high < 1.0:
            raise ValueError(f"clicks: log-odds need probabilities strictly between 0 and 1, got {self.clicks!r}")
        self._set("clicks", (low, high))

    def _refuse_noise(self) -> None:
        """Refuse noise settings for clicks, where they would have no effect."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _OF_NOISE and value != field.default:
                raise ValueError(
                    f"{field.name}: clicks have no noise but their own; expected the default, {field.default!r}, with "
                    f"reward={self.reward!r}, got {value!r}"
                )

    def _refuse_misfits(self) -> None:
        """Refuse combinations that have no meaning."""
        if self.reward == "rates" and self.features != "sphere":
            raise ValueError(f"features: expected 'sphere' with reward='rates', got {self.features!r}")
        if self.features == "flags" and self.reward != "gaussian":
            raise ValueError(f"reward: expected 'gaussian' with features='flags', got {self.reward!r}")
        if self.features == "flags" and self.rule != "distance":
            raise ValueError(f"rule: expected 'distance' with features='flags', got {self.rule!r}")

        if self.rule == "exact" and not 0.0 < self.shift <= 2.0:
            raise ValueError(f"shift: expected more than 0 and at most 2 with rule='exact', got {self.shift:g}")
        if self.rule == "exact" and self.path == "recurring" and self.regimes > 2:
            raise ValueError(f"regimes: expected 2 with rule='exact', got {self.regimes}")

    def _set(self, name: str, value: object) -> None:
        """Store a checked setting as a plain Python number, whatever its type was."""
        object.__setattr__(self, name, value)
