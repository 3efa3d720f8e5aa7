"""Confidence sequences of doubly robust estimates: narrower than those of IPS where a reward model predicts well.

The doubly robust term of an event, q(pi) + w (r - q), has the policy's value as its mean given the past, whatever the
model says, as long as the model has learned from earlier events alone. So the method of `anytime` applies once the term
has known bounds (Waudby-Smith and others, arXiv 2210.10768). If rewards and predictions stay between 0 and 1 and no
weight exceeds M, a term lies between -M and 1 + M.

The paper also truncates the predictions at k / w, which makes do with a bound of k and needs no M. That takes the
weights of all candidates, and logs give the propensity of the displayed one alone.

Other estimators have no such sequence. ``snips`` and ``sndr`` are ratios of two sums, not means of terms; ``dm``,
``switch_dr`` and ``dros`` have a bias, so that a sequence would enclose something else than the policy's value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats
from driftbandit.evaluation.anytime import Sequence, enclosed, error_of_one_side, largest_of, looks_at
from driftbandit.evaluation.samples import Sample
from driftbandit.evaluation.value_intervals import bounded

NO_SEQUENCE = {
    "snips": "it is a ratio, not a mean",
    "sndr": "it is a ratio, not a mean",
    "dm": "it has a bias, so that its terms do not have the policy's value as their mean",
    "switch_dr": "it has a bias, so that its terms do not have the policy's value as their mean",
    "dros": "it has a bias, so that its terms do not have the policy's value as their mean",
}
"""Why there is no confidence sequence of the other estimators."""

_ROUNDING = 1e-9


def dr_sequence(
    sample: Sample,
    other: Sample | None = None,
    *,
    largest_weight: float,
    other_largest: float | None = None,
    low: float = 0.0,
    high: float = 1.0,
    at: ArrayLike | None = None,
    level: float = 0.95,
) -> Sequence:
    """Confidence sequence of a policy's mean value by doubly robust terms, or of its difference to another policy's.

    Parameters
    ----------
    sample, other : Sample
        The policy, and a policy to subtract, on the same events in the order of the log. Predictions come from earlier
        events alone, and every arm's prediction lies between `low` and `high`: `shadow_values` with ``bounded=True``
        makes such samples.
    largest_weight, other_largest : float
        Numbers that the weights cannot exceed, known beforehand: 1 / the smallest propensity that the logger may give.
        By default the second equals the first; it is 1 for the logger.
    low, high : float
        Range that rewards and predictions cannot leave.
    at, level :
        As in `anytime.confidence_sequence`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> weights, rewards = 2.0 * rng.integers(2, size=2000), 1.0 * (rng.random(2000) < 0.3)
    >>> sequence = dr_sequence(Sample(weights, rewards, np.full(2000, 0.3), np.full(2000, 0.3)), largest_weight=2.0)
    >>> sequence.latest.low < 0.3 < sequence.latest.high
    True
    """
    _, _, span = bounded(sample.weights, sample.rewards, low, high)
    events, alpha = looks_at(at, len(sample)), error_of_one_side(level)
    terms, most = _terms("largest_weight", sample, largest_weight, low, high)
    if other is None:
        return enclosed((terms - low) / span, (-most, 1.0 + most), (0.0, 1.0), events, alpha).scaled(low, span)
    if not np.array_equal(sample.rewards, other.rewards):
        raise ValueError(f"other: expected a sample of the same {len(sample)} events, got other rewards")
    theirs, least = _terms(
        "other_largest", other, largest_weight if other_largest is None else other_largest, low, high
    )
    # With the same model, the terms differ by (w - v) (r - q) and by what the model expects of the two policies.
    reach = 1.0 + (max(most, least) if np.array_equal(sample.predicted, other.predicted) else most + least)
    return enclosed((terms - theirs) / span, (-reach, reach), (-1.0, 1.0), events, alpha).scaled(0.0, span)


def _terms(name: str, sample: Sample, largest: float, low: float, high: float) -> tuple[Floats, float]:
    """The terms of every event, and the largest weight, both checked."""
    rounding = _ROUNDING * (high - low)
    for column in (sample.predicted, sample.expected):
        if column.min() < low - rounding or column.max() > high + rounding:
            raise ValueError(
                f"predicted, expected: expected predictions from {low:g} to {high:g}, like the rewards, got "
                f"{column.min():g} to {column.max():g}; shadow_values(..., bounded=True) holds them there"
            )
    terms = sample.terms("dr")
    return terms.base + terms.correction, largest_of(name, largest, sample.weights)
