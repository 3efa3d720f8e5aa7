"""Did the world change? When, how sure, which features, and what did it cost?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq

from driftbandit.core import Floats, Ints
from driftbandit.detection.segmentation import Split, collect, find_splits
from driftbandit.logs import Events

Batches = Callable[[], Iterable[Events]]
"""Goes through a log from its beginning."""

_BLOCKS = 400
"""Most blocks that a log is cut into."""

_LEAST_ROWS = 25
"""Fewest rows of a block."""

_SAMPLE = 40_000
"""Decisions from which the model of the whole log is fitted, evenly spread."""

_STEPS = 10
"""Newton steps of a logistic fit; it converges in fewer."""

_MOST_ARMS = 64
"""Arms up to which each gets a feature of its own, so that arms that come and go do not look like a change."""


@dataclass(frozen=True)
class FeatureChange:
    """A feature whose weight changed: its name, and its weight before and after.

    Weights are in log-odds where rewards are clicks, else in units of reward.
    """

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class WorldChange:
    """A change of the world, found by looking at the whole log.

    Attributes
    ----------
    row, low_row, high_row : int
        Row of the log of the first decision after it, and between which rows it lies with a probability of 95 %.
    time : float
        Time of `row`, in seconds.
    false_alarm_rate : float
        Share of still logs of the same shape that would raise an alarm as strong as this one, at most.
    features : tuple of FeatureChange
        Those whose weights changed: the one that explains most, then the one that explains most of the rest.
    cost : float
        Reward per decision that is lost after the change by going on to act on the tastes before it, as the model of
        the log sees it.
    """

    row: int
    low_row: int
    high_row: int
    time: float
    false_alarm_rate: float
    features: tuple[FeatureChange, ...]
    cost: float


def find_changes(
    batches: Batches,
    names: Sequence[str],
    arms: Sequence[str],
    *,
    count: int,
    clicks: bool,
    level: float = 0.01,
    seed: int = 0,
) -> list[WorldChange]:
    """All changes of the world in a log, in order of time.

    Parameters
    ----------
    batches : callable
        Goes through the log, which is read three times.
    names : sequence of str
        Names of the features.
    arms : sequence of str
        Ids of the arms.
    count : int
        Decisions in the log.
    clicks : bool
        Whether rewards are 0 or one other value; then the model of rewards is logistic, else linear.
    level : float
        Share of still logs that may raise an alarm.
    seed : int
        Seed of the still logs.
    """
    own = len(arms) if len(arms) <= _MOST_ARMS else 0
    names = [*names, *(f"id={arm}" for arm in arms[:own])]
    model = _Model.of(batches(), count, clicks, own)
    blocks = max(min(_BLOCKS, count // _LEAST_ROWS), 1)
    rows = np.linspace(0, count, blocks + 1).astype(np.int64)
    splits = find_splits(collect(model.seen(batches()), rows, seed=seed), level=level)
    places, costs = _places_and_costs(batches(), splits, model, count)
    return [
        WorldChange(
            row=places[split.row][0],
            low_row=places[split.low][0],
            high_row=places[min(split.high, count - 1)][0],
            time=places[split.row][1],
            false_alarm_rate=split.false_alarm_rate,
            features=_features(split, names, model),
            cost=cost,
        )
        for split, cost in zip(splits, costs, strict=True)
    ]


def _features(split: Split, names: Sequence[str], model: _Model) -> tuple[FeatureChange, ...]:
    factor = (1.0 if model.clicks else model.unit) / model.scale
    before, after = (factor * (model.theta + weights) for weights in (split.before, split.after))
    return tuple(FeatureChange(names[model.kept[j]], float(before[j]), float(after[j])) for j in split.moved)


@dataclass(frozen=True, eq=False)
class _Model:
    """One model of all rewards: logistic for clicks, linear else.

    Rewards are counted in clicks, or in standard deviations around their mean; features in root mean squares.
    """

    arms: int
    kept: Ints
    scale: Floats
    theta: Floats
    unit: float
    clicks: bool

    @classmethod
    def of(cls, batches: Iterable[Events], count: int, clicks: bool, arms: int) -> _Model:
        """Fit an even sample of the log, with features that it has, and one for each arm if `arms` is not 0."""
        step = max(count // _SAMPLE, 1)
        features, rewards = [], []
        first = 0
        for events in batches:
            picked = np.arange(-first % step, len(events), step)
            features.append(_with_arms(events, events.shown_places()[picked], arms))
            rewards.append(events.rewards[picked])
            first += len(events)
        x, y = np.concatenate(features), np.concatenate(rewards)
        scale = np.sqrt(np.mean(x**2, axis=0))
        kept = np.flatnonzero(scale)
        scale = scale[kept]
        x = x[:, kept] / scale
        if clicks:
            unit = float(y[np.argmax(np.abs(y))]) or 1.0
            return cls(arms, kept, scale, _logistic_fit(x, y / unit), unit, clicks)
        theta: Floats = lstsq(x, y)[0]
        unit = float(np.std(y - x @ theta)) or 1.0
        return cls(arms, kept, scale, theta / unit, unit, clicks)

    def features(self, events: Events, rows: Ints | slice) -> Floats:
        """Scaled features of some candidates."""
        return _with_arms(events, rows, self.arms)[:, self.kept] / self.scale

    def means(self, x: Floats, theta: Floats) -> Floats:
        """Expected rewards, in units, of scaled features."""
        line: Floats = x @ theta
        return 1.0 / (1.0 + np.exp(-np.clip(line, -30.0, 30.0))) if self.clicks else line

    def seen(self, batches: Iterable[Events]) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Features, errors and weights of the displayed arms, as `collect` takes them."""
        for events in batches:
            x = self.features(events, events.shown_places())
            means = self.means(x, self.theta)
            weights = means * (1.0 - means) if self.clicks else np.ones(len(x))
            yield x, events.rewards / self.unit - means, weights


def _with_arms(events: Events, rows: Ints | slice, arms: int) -> Floats:
    """Features of some candidates; beside them, if `arms` is not 0, a column for each arm."""
    features = events.features[rows]
    return np.hstack([features, np.eye(arms)[events.arms[rows]]]) if arms else features


def _logistic_fit(x: Floats, y: Floats) -> Floats:
    """Weights of a logistic regression with a ridge of 1, by Newton's method."""
    theta = np.zeros(x.shape[1])
    ridge = np.eye(len(theta))
    for _ in range(_STEPS):
        rates = 1.0 / (1.0 + np.exp(-np.clip(x @ theta, -30.0, 30.0)))
        curvature = (x * (rates * (1.0 - rates))[:, None]).T @ x + ridge
        step = np.linalg.solve(curvature, x.T @ (y - rates) - theta)
        theta = theta + step
        if np.abs(step).max() < 1e-8:
            break
    return theta


def _places_and_costs(
    batches: Iterable[Events], splits: Sequence[Split], model: _Model, count: int
) -> tuple[dict[int, tuple[int, float]], list[float]]:
    """Row and time of the decisions that splits name, and what acting on the old tastes loses until the next split.

    A decision's row differs from its number where earlier rows could not be used.
    """
    named = np.unique([min(at, count - 1) for split in splits for at in (split.row, split.low, split.high)])
    ends = [*(split.row for split in splits), count]
    places: dict[int, tuple[int, float]] = {}
    losses = [0.0] * len(splits)
    first = 0
    for events in batches if splits else ():
        for at in named[(named >= first) & (named < first + len(events))].tolist():
            places[at] = int(events.rows[at - first]), float(events.times[at - first])
        for s, split in enumerate(splits):
            low, high = max(ends[s] - first, 0), min(ends[s + 1] - first, len(events))
            if low < high:
                losses[s] += _loss(events, low, high, model, split)
        first += len(events)
    return places, [loss / (end - start) for loss, start, end in zip(losses, ends, ends[1:], strict=False)]


def _loss(events: Events, low: int, high: int, model: _Model, split: Split) -> float:
    """What events `low` to `high` lose by playing the best arm of the weights before instead of those after."""
    begin, end = int(events.offsets[low]), int(events.offsets[high])
    x = model.features(events, slice(begin, end))
    starts = events.offsets[low:high] - begin
    old, new = (model.means(x, model.theta + weights) for weights in (split.before, split.after))
    best: Floats = np.maximum.reduceat(new, starts)
    return model.unit * float((best - new[_first_best(old, starts)]).sum())


def _first_best(values: Floats, starts: Ints) -> Ints:
    """Where the first largest value of each stretch is."""
    sizes = np.diff(starts, append=len(values))
    top = np.repeat(np.maximum.reduceat(values, starts), sizes)
    at = np.flatnonzero(values == top)
    owners = np.repeat(np.arange(len(starts)), sizes)[at]
    return at[np.searchsorted(owners, np.arange(len(starts)))]
