"""Confidence sequences: intervals that may be looked at after every event.

An ordinary 95 % interval that is looked at a hundred times is wrong at some look far more often than in 5 % of logs. A
confidence sequence is wrong at any look at all in at most 5 %. It needs no stationarity: what it encloses after t
events is the mean of the first t conditional values, whatever world, logger or policy change on the way, as long as
weights depend on the past alone (Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, arXiv 2210.10768).

The method. Let x_t >= 0 with a conditional mean m_t <= 1, and let c_t <= 1 be any guess made before x_t. Then for every
bet b in [0, 1) the product over t of ``exp(b (x_t - m_t) - (-ln(1 - b) - b) (x_t - c_t)^2)`` is a nonnegative
supermartingale that starts at 1 (Fan, Grama and Liu, 2015). So is its mixture over bets with a truncated gamma density,
which has a closed form in s = sum of (x_t - m_t) and v = sum of (x_t - c_t)^2 (Howard, Ramdas, McAuliffe and Sekhon,
Annals of Statistics 2021, Proposition 9). By Ville's inequality it ever exceeds 1 / alpha with probability alpha at
most; the means for which it never did are the sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats, Ints, as_number
from driftbandit.evaluation.estimators import as_columns
from driftbandit.evaluation.intervals import Interval
from driftbandit.evaluation.value_intervals import bounded

Numbers = TypeVar("Numbers", Floats, float)

_RHO = 1.0
"""Parameter of the gamma density; the sequence is tightest where v is about this large or a few times larger."""
_HALVINGS = 60


@dataclass(frozen=True, eq=False, slots=True)
class Sequence:
    """Intervals over time.

    Attributes
    ----------
    events : array of shape (m,)
        After how many events.
    estimates, low, high : arrays of shape (m,)
        The estimate after so many events, by IPS unless said otherwise, and the ends of its interval.
    """

    events: Ints
    estimates: Floats
    low: Floats
    high: Floats

    @property
    def latest(self) -> Interval:
        """The interval after the last event."""
        return Interval(float(self.estimates[-1]), float(self.low[-1]), float(self.high[-1]))

    def scaled(self, start: float, unit: float) -> Sequence:
        """The same sequence with every number times `unit`, counted from `start`."""
        return Sequence(self.events, start + unit * self.estimates, start + unit * self.low, start + unit * self.high)


def confidence_sequence(
    weights: ArrayLike,
    rewards: ArrayLike,
    *,
    low: float = 0.0,
    high: float = 1.0,
    largest_weight: float | None = None,
    at: ArrayLike | None = None,
    level: float = 0.95,
) -> Sequence:
    """Confidence sequence of the mean value of a policy, from its weights and the rewards.

    Parameters
    ----------
    weights, rewards : arrays of shape (n,)
        In the order of the log. Each weight depends on earlier events and on this event's candidates alone.
    low, high : float
        Range that rewards cannot leave.
    largest_weight : float, optional
        A number that no weight can exceed, known beforehand: 1 / the smallest propensity that the logger may give. With
        it the upper end is bounded through w (r - low) instead of w (high - r), which is much tighter where rewards are
        rare, such as clicks.
    at : array of int, optional
        After how many events intervals are wanted; by default after the last. Asking for all or one of them makes no
        difference to their validity.
    level : float
        Probability that no interval at all misses.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> weights, rewards = 2.0 * rng.integers(2, size=2000), 1.0 * (rng.random(2000) < 0.3)
    >>> sequence = confidence_sequence(weights, rewards, at=[100, 2000])
    >>> ((sequence.low < 0.3) & (0.3 < sequence.high)).tolist(), sequence.high[1] < sequence.high[0]
    ([True, True], np.True_)
    """
    w, r, span = bounded(weights, rewards, low, high)
    events, alpha = looks_at(at, len(w)), error_of_one_side(level)
    gains = w * (r - low) / span
    if largest_weight is not None:
        most = largest_of("largest_weight", largest_weight, w)
        return enclosed(gains, (0.0, most), (0.0, 1.0), events, alpha).scaled(low, span)
    below = _lower_ends(gains, events, alpha)
    above = 1.0 - _lower_ends(w * (high - r) / span, events, alpha)
    return Sequence(events, np.cumsum(gains)[events - 1] / events, below, above).scaled(low, span)


def anytime_interval(weights: ArrayLike, rewards: ArrayLike, **options: float | None) -> Interval:
    """The interval of `confidence_sequence` after the last event, with the same options.

    Examples
    --------
    >>> interval = anytime_interval([1.0] * 500, [0.0, 1.0] * 250)
    >>> 0.4 < interval.low < 0.5 < interval.high < 0.6
    True
    """
    return confidence_sequence(weights, rewards, **options).latest  # type: ignore[arg-type]


def difference_sequence(
    weights: ArrayLike,
    other_weights: ArrayLike,
    rewards: ArrayLike,
    *,
    largest_weight: float,
    other_largest: float | None = None,
    low: float = 0.0,
    high: float = 1.0,
    at: ArrayLike | None = None,
    level: float = 0.95,
) -> Sequence:
    """Confidence sequence of the difference between the mean values of two policies, on the same events.

    Parameters
    ----------
    weights, other_weights, rewards : arrays of shape (n,)
        Weights of the policy, of the policy to subtract (all 1 for the logger), and the rewards.
    largest_weight, other_largest : float
        Numbers that the weights cannot exceed, known beforehand; by default the second equals the first, and it is 1
        for the logger.
    low, high, at, level :
        As in `confidence_sequence`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shown, rewards = rng.integers(2, size=3000), rng.random(3000)
    >>> rewards = 1.0 * (rewards < np.where(shown == 1, 0.6, 0.2))
    >>> sequence = difference_sequence(2.0 * shown, np.ones(3000), rewards, largest_weight=2.0, other_largest=1.0)
    >>> 0.0 < sequence.latest.low < 0.2 < sequence.latest.high
    True
    """
    w, r, span = bounded(weights, rewards, low, high)
    v, _ = as_columns(other_weights=other_weights, rewards=r)
    events, alpha = looks_at(at, len(w)), error_of_one_side(level)
    ours = largest_of("largest_weight", largest_weight, w)
    theirs = largest_of("other_largest", ours if other_largest is None else other_largest, v)
    # The difference has the mean of (w - v) (r - low), because weights have a mean of 1.
    gains = (w - v) * (r - low) / span
    return enclosed(gains, (-theirs, ours), (-1.0, 1.0), events, alpha).scaled(0.0, span)


@dataclass(slots=True)
class RunningValue:
    """Sums from which `confidence_sequence`'s interval is made while events come in one at a time.

    Attributes
    ----------
    events : int
        Number of events.
    weight, reward : float
        Sums of the weights, and of weight times reward.
    gain_squares, loss_squares : float
        Sums of squares for the lower and for the upper end.

    Examples
    --------
    >>> value = RunningValue()
    >>> for weight, reward in [(2.0, 1.0), (0.0, 1.0)] * 100:
    ...     value.add(weight, reward)
    >>> value.interval() == anytime_interval([2.0, 0.0] * 100, [1.0] * 200)
    True
    """

    events: int = 0
    weight: float = 0.0
    reward: float = 0.0
    gain_squares: float = 0.0
    loss_squares: float = 0.0

    def add(self, weight: float, reward: float, low: float = 0.0, high: float = 1.0) -> None:
        """Count an event; a reward outside the range from `low` to `high` counts as the nearer end."""
        reward = min(max(reward, low), high)
        gains, losses = self._totals(low, high)
        unit = weight / (high - low)
        self.gain_squares += (unit * (reward - low) - min(_so_far(gains, self.events), 1.0)) ** 2
        self.loss_squares += (unit * (high - reward) - min(_so_far(losses, self.events), 1.0)) ** 2
        self.events += 1
        self.weight += weight
        self.reward += weight * reward

    def merge(self, other: RunningValue) -> None:
        """Add what was counted elsewhere, such as on another shard, with the same range."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def interval(self, low: float = 0.0, high: float = 1.0, level: float = 0.95) -> Interval | None:
        """The interval after these events, given the range they were added with; None before the first."""
        if not self.events:
            return None
        squares = np.array([self.gain_squares, self.loss_squares])
        below, above = _solve(
            np.array(self._totals(low, high)), squares, np.full(2, self.events), error_of_one_side(level)
        ).tolist()
        return Interval(self.reward / self.events, low + (high - low) * below, high - (high - low) * above)

    def _totals(self, low: float, high: float) -> tuple[float, float]:
        gains, losses = self.reward - low * self.weight, high * self.weight - self.reward
        return gains / (high - low), losses / (high - low)


def enclosed(x: Floats, ends: tuple[float, float], means: tuple[float, float], events: Ints, alpha: float) -> Sequence:
    """The sequence of terms x that stay between two ends known beforehand, as their conditional means do."""
    (bottom, top), (least, most) = ends, means
    below = bottom + (most - bottom) * _lower_ends((x - bottom) / (most - bottom), events, alpha)
    above = top - (top - least) * _lower_ends((top - x) / (top - least), events, alpha)
    return Sequence(events, np.cumsum(x)[events - 1] / events, np.maximum(below, least), np.minimum(above, most))


def _lower_ends(x: Floats, events: Ints, alpha: float) -> Floats:
    """Lower ends for the mean of the conditional means of x >= 0, which are at most 1, after so many events."""
    sums = np.cumsum(x)
    guesses = np.minimum(_so_far(sums - x, np.arange(len(x), dtype=np.float64)), 1.0)
    squares = np.cumsum((x - guesses) ** 2)
    return _solve(sums[events - 1], squares[events - 1], events, alpha)


def _so_far(totals: Numbers, counts: Numbers) -> Numbers:
    """The mean so far, started at 1/2; held at 1 or below, it is the guess c_t of the method."""
    return (totals + 0.5) / (counts + 1.0)


def _solve(totals: Floats, squares: Floats, events: Ints, alpha: float) -> Floats:
    """The smallest means that the mixture has not refuted, by halving."""
    threshold = -math.log(alpha)
    bottom, top = np.zeros(len(events)), np.minimum(totals / events, 1.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (bottom + top)
        refuted = _log_wealth(totals - events * middle, squares) > threshold
        bottom, top = np.where(refuted, middle, bottom), np.where(refuted, top, middle)
    ends: Floats = np.where(_log_wealth(totals, squares) > threshold, bottom, 0.0)
    return ends


def _log_wealth(s: Floats, v: Floats) -> Floats:
    """Logarithm of the gamma-exponential mixture, for s >= 0."""
    from scipy.special import gammainc, gammaln  # noqa: PLC0415 - SciPy is slow to import

    def lower_gamma(a: Floats | float, x: Floats | float) -> Floats:
        found: Floats = np.log(gammainc(a, x)) + gammaln(a)
        return found

    total = s + v + _RHO
    wealth: Floats = (
        s
        + v
        + _RHO * math.log(_RHO)
        - (v + _RHO) * np.log(total)
        + lower_gamma(v + _RHO, total)
        - lower_gamma(_RHO, _RHO)
    )
    return wealth


def looks_at(at: ArrayLike | None, count: int) -> Ints:
    """After how many events to look, checked."""
    if not count:
        raise ValueError("weights, rewards: expected at least one event, got none")
    looks = np.array([count]) if at is None else np.asarray(at)
    if looks.ndim != 1 or looks.dtype.kind not in "iu" or not len(looks) or looks.min() < 1 or looks.max() > count:
        raise ValueError(f"at: expected whole numbers from 1 to {count}")
    return looks.astype(np.int64)


def error_of_one_side(level: float) -> float:
    """The error probability of one side."""
    return 0.5 * (1.0 - as_number("level", level, 0.0, 1.0 - 1e-12))


def largest_of(name: str, given: float, weights: Floats) -> float:
    """A number that no weight exceeds, checked."""
    most = as_number(name, given, 0.0, open_low=True)
    if weights.max() > most * (1.0 + 1e-9):
        raise ValueError(f"{name}: expected a number that no weight exceeds, got {most:g} beside {weights.max():g}")
    return most
