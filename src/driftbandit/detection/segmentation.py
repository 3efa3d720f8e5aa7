"""When did the world change? Look at a whole log at once, past and future.

A log is cut into blocks. Around one fit of the whole log, the log-likelihood of a block is nearly a parabola: its slope
(the score) and its curvature (the information) are all that is kept, so that the log may be larger than memory. A split
of a stretch of blocks gains what two fits explain beyond one (twice the log-likelihood ratio). The best split counts if
its gain is rare in a still log of the same shape: the same decisions, with the sign and size of every prediction error
drawn anew (a wild bootstrap). Stretches are split again until nothing is left to find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from driftbandit.core import Floats, Ints

TWINS = 199
"""Still logs of the same shape; the smallest rate of false alarms that can be told is 1 in TWINS + 1."""

_LEAST_BLOCKS = 8
"""Fewest blocks between two splits."""

_GRID = 50
"""About how many places of a stretch are tried to tell whether it is to be split at all."""

_MOST_MOVED = 8
"""Most weights that a split names."""

_SURE = 4.0
"""Standard errors at which a weight is said to have changed; chance alone reaches that in one of 16,000 weights."""

_TOLD = 1e-6
"""Least share of a weight's information that must be its own, not that of weights found before."""

_LEVEL = 0.95
"""Probability that the interval of a date holds the date."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """A log in blocks, seen from one fit of the whole.

    Attributes
    ----------
    rows : array of int64, shape (B + 1,)
        Where blocks start, and the end of the last.
    scores : array of shape (B, d)
        Sums over each block of features times prediction error, divided by the variance of a reward where that matters.
    information : array of shape (B, d, d)
        Sums of the outer products of features, weighted likewise.
    twins : array of shape (TWINS, B, d)
        Scores of still logs of the same shape.
    """

    rows: Ints
    scores: Floats
    information: Floats
    twins: Floats


@dataclass(frozen=True)
class Split:
    """A change of the world.

    Attributes
    ----------
    row : int
        The first row after it.
    low, high : int
        Rows between which it lies with a probability of 95 %.
    false_alarm_rate : float
        Share of still logs of the same shape in which a split is as good as this one, at least 1 in TWINS + 1.
    before, after : array of shape (d,)
        Weights on either side, up to the neighbouring changes, relative to those of the whole log.
    moved : tuple of int
        Which weights changed: the one whose change alone explains most, then the one that explains most of the rest,
        and so on, as long as a weight is surely among them.
    """

    row: int
    low: int
    high: int
    false_alarm_rate: float
    before: Floats
    after: Floats
    moved: tuple[int, ...]


def collect(batches: Iterable[tuple[Floats, Floats, Floats]], rows: Ints, *, seed: int = 0) -> Blocks:
    """Sum a log up in blocks.

    Parameters
    ----------
    batches : iterable of (features, errors, weights)
        Features of the displayed arms, shape (n, d); reward minus prediction, divided by the variance of a reward
        unless the model is logistic; and how much a decision tells about the weights: rate times (1 - rate) for a
        logistic model, 1 / variance for a linear one. One after the other they make up the log.
    rows : array of int64, shape (B + 1,)
        Where blocks start, and the end of the log.
    seed : int
        Seed of the still twins.
    """
    rng = np.random.default_rng(seed)
    count = len(rows) - 1
    blocks: Blocks | None = None
    first = 0
    for features, errors, weights in batches:
        if blocks is None:
            d = features.shape[1]
            blocks = Blocks(rows, np.zeros((count, d)), np.zeros((count, d, d)), np.zeros((TWINS, count, d)))
        for b, part in _parts(rows, first, len(errors)):
            x, slopes = features[part], features[part] * errors[part, None]
            blocks.scores[b] += slopes.sum(axis=0)
            blocks.information[b] += (x * weights[part, None]).T @ x
            blocks.twins[:, b] += rng.standard_normal((TWINS, len(x))) @ slopes
        first += len(errors)
    if blocks is None or first != rows[-1]:
        raise ValueError(f"batches: expected {rows[-1]} rows, got {first}")
    return blocks


def _parts(rows: Ints, first: int, count: int) -> Iterator[tuple[int, slice]]:
    """Blocks that the rows from `first` on fall into, and which of these rows belong to each."""
    begin = int(np.searchsorted(rows, first, side="right")) - 1
    for b in range(begin, len(rows) - 1):
        low, high = max(int(rows[b]) - first, 0), min(int(rows[b + 1]) - first, count)
        if low >= high:
            return
        yield b, slice(low, high)


def find_splits(blocks: Blocks, *, level: float = 0.01, ridge: float = 1.0) -> list[Split]:
    """All changes, in order of time.

    Parameters
    ----------
    blocks : Blocks
        The log, as `collect` sums it up.
    level : float
        A split counts if at most this share of still logs would have one as good.
    ridge : float
        Information that every weight starts with; 1 holds log-odds to a few units.

    Examples
    --------
    Two features; the second one's weight changes at row 600 of 1,000.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((1000, 2))
    >>> theta = np.where(np.arange(1000)[:, None] < 600, [1.0, 1.0], [1.0, -1.0])
    >>> rewards = (x * theta).sum(axis=1) + 0.5 * rng.standard_normal(1000)
    >>> errors = rewards - x @ np.linalg.lstsq(x, rewards, rcond=None)[0]
    >>> variance = errors.var()
    >>> blocks = collect([(x, errors / variance, np.full(1000, 1 / variance))], np.arange(0, 1001, 20))
    >>> [(split.row, split.moved) for split in find_splits(blocks)]
    [(600, (1,))]
    """
    found: dict[int, float] = {}
    stretches = [(0, len(blocks.scores))]
    while stretches:
        low, high = stretches.pop()
        if high - low < 2 * _LEAST_BLOCKS:
            continue
        rate = _false_alarm_rate(blocks, low, high, ridge)
        if rate <= level:
            best = int(np.argmax(_gains(blocks.scores[None], blocks, low, high, ridge)[0]))
            found[low + best] = rate
            stretches += [(low, low + best), (low + best, high)]
    return _described(blocks, found, ridge)


def _false_alarm_rate(blocks: Blocks, low: int, high: int, ridge: float) -> float:
    """Share of still twins whose best split of a stretch is as good as the log's, counting the log as one of them.

    Splits are tried at a coarse grid, the same for all.
    """
    step = max((high - low) // _GRID, 1)
    ours = _gains(blocks.scores[None], blocks, low, high, ridge, step).max()
    theirs = _gains(blocks.twins, blocks, low, high, ridge, step).max(axis=1)
    return (1 + int((theirs >= ours).sum())) / (TWINS + 1)


def _gains(scores: Floats, blocks: Blocks, low: int, high: int, ridge: float, step: int = 1) -> Floats:
    """Gain of splitting a stretch before each of its blocks, for each of several logs; -inf where it is not tried."""
    parts, information = scores[:, low:high], blocks.information[low:high]
    whole, whole_information = parts.sum(axis=1), information.sum(axis=0)
    one = _explained(whole, whole_information, ridge)
    gains = np.full(parts.shape[:2], -np.inf)
    left, left_information = np.zeros_like(whole), np.zeros_like(whole_information)
    for b in range(high - low - _LEAST_BLOCKS + 1):
        if b >= _LEAST_BLOCKS and (b - _LEAST_BLOCKS) % step == 0:
            right = _explained(whole - left, whole_information - left_information, ridge)
            gains[:, b] = _explained(left, left_information, ridge) + right - one
        left += parts[:, b]
        left_information += information[b]
    return gains


def _explained(scores: Floats, information: Floats, ridge: float) -> Floats:
    """What a fit of its own explains of each row of scores: twice the gain in log-likelihood."""
    factor = cho_factor(information + ridge * np.eye(len(information)))
    explained: Floats = np.einsum("rd,dr->r", scores, cho_solve(factor, scores.T))
    return explained


def _described(blocks: Blocks, found: dict[int, float], ridge: float) -> list[Split]:
    """The changes before these blocks, each dated and described between its neighbours."""
    ends = [0, *sorted(found), len(blocks.scores)]
    splits = []
    for before, middle, after in zip(ends, ends[1:], ends[2:], strict=False):
        low, high = _interval(_gains(blocks.scores[None], blocks, before, after, ridge)[0])
        old, new = (_fitted(blocks, slice(*part), ridge) for part in ((before, middle), (middle, after)))
        row = int(blocks.rows[middle])
        splits.append(
            Split(
                row=row,
                low=min(int(blocks.rows[before + low - 1]), row),
                high=max(int(blocks.rows[before + high + 1]), row),
                false_alarm_rate=found[middle],
                before=old,
                after=new,
                moved=_moved(blocks, before, middle, after, ridge),
            )
        )
    return splits


def _fitted(blocks: Blocks, part: slice, ridge: float) -> Floats:
    """Weights that fit some blocks."""
    information = blocks.information[part].sum(axis=0)
    weights: Floats = np.linalg.solve(information + ridge * np.eye(len(information)), blocks.scores[part].sum(axis=0))
    return weights


def _moved(blocks: Blocks, before: int, middle: int, after: int, ridge: float) -> tuple[int, ...]:
    """Weights that changed at block `middle`, by score tests: each given those found before, all others unchanged."""
    later = blocks.information[middle:after].sum(axis=0)
    whole = blocks.information[before:after].sum(axis=0) + ridge * np.eye(len(later))
    explained = np.linalg.solve(whole, later).T
    score: Floats = blocks.scores[middle:after].sum(axis=0) - explained @ blocks.scores[before:after].sum(axis=0)
    variance: Floats = later - explained @ later
    least = _TOLD * np.diag(whole)
    found: list[int] = []
    while len(found) < _MOST_MOVED:
        left = np.diag(variance)
        tests = np.divide(score**2, left, out=np.zeros(len(score)), where=left > least)
        best = int(np.argmax(tests))
        if tests[best] < _SURE**2:
            break
        found.append(best)
        share = variance[:, best] / variance[best, best]
        score = score - share * score[best]
        variance = variance - np.outer(share, variance[best])
    return tuple(found)


def _interval(gains: Floats) -> tuple[int, int]:
    """Least and largest block of the interval that holds the date, by likelihood."""
    weights = np.exp(0.5 * (gains - gains.max()))
    cumulated = np.cumsum(weights) / weights.sum()
    tail = (1.0 - _LEVEL) / 2.0
    return int(np.searchsorted(cumulated, tail)), int(np.searchsorted(cumulated, 1.0 - tail))
