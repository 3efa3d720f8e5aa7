"""Which policy would have earned more than the logger? A table with intervals, differences and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from driftbandit.core import unknown_name
from driftbandit.evaluation.anytime import anytime_interval, difference_sequence
from driftbandit.evaluation.estimators import Terms
from driftbandit.evaluation.intervals import Interval
from driftbandit.evaluation.logged.runs import LOGGER
from driftbandit.evaluation.logged.valuation import Valuation
from driftbandit.evaluation.robust_sequences import NO_SEQUENCE, dr_sequence
from driftbandit.evaluation.samples import ESTIMATORS
from driftbandit.evaluation.value_intervals import bootstrap_interval, normal_interval

Method = Literal["bootstrap", "normal", "anytime"]
_METHODS = {"bootstrap": bootstrap_interval, "normal": normal_interval}
_BASELINE = "the baseline"
_MOST_DECISIONS = 1e12
"""Beyond this a number of decisions says no more than 'none seen'."""


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One policy in the table.

    Attributes
    ----------
    name, estimand, estimator : str
        Who, which question was asked ('shadow' or 'replayed'), and how it was answered.
    value : Interval
        What the policy would have earned per decision.
    difference : Interval
        The same minus what the baseline earned, estimated on the same events.
    verdict : str
        'better', 'worse', 'the baseline', or 'cannot tell' and how many more decisions might tell.
    share_accepted : float
        Share of the events that the policy learned from.
    """

    name: str
    estimand: str
    estimator: str
    value: Interval
    difference: Interval
    verdict: str
    share_accepted: float

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON, under the names that an audit's file uses."""
        ends = asdict(self.difference)
        return {
            "name": self.name,
            "estimand": self.estimand,
            "estimator": self.estimator,
            "value": self.value.estimate,
            "low": self.value.low,
            "high": self.value.high,
            "difference": {"value": ends["estimate"], "low": ends["low"], "high": ends["high"]},
            "verdict": self.verdict,
            "share_accepted": self.share_accepted,
        }


def compare_values(
    values: Mapping[str, Valuation],
    *,
    estimator: str = "dr",
    limit: float | None = None,
    interval: Method = "bootstrap",
    baseline: str = LOGGER,
    level: float = 0.95,
    smallest_propensity: float | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> list[ValueRow]:
    """Value, interval, paired difference to a baseline and verdict of every policy.

    Parameters
    ----------
    values : mapping of str to Valuation
        What `shadow_values` or `replayed_values` returned.
    estimator, limit :
        As in `Sample.terms`.
    interval : {'bootstrap', 'normal', 'anytime'}
        The last may be looked at again and again while the log grows; it knows 'ips', and 'dr' if the values were made
        with ``bounded=True``. Ratios ('snips', 'sndr') and estimators with a bias ('dm', 'switch_dr', 'dros') have no
        such interval.
    baseline : str
        Whom to compare with.
    level : float
        Confidence level of each interval.
    smallest_propensity : float, optional
        For 'anytime': the smallest probability that the logger ever gives. By default the smallest one in the log,
        which is exact only if the logger never goes below it.
    reward_range : (float, float)
        For 'anytime': range that rewards cannot leave.

    Examples
    --------
    >>> import numpy as np
    >>> from driftbandit.evaluation.samples import Sample
    >>> shown, rewards = np.tile([0, 1], 500), np.tile([0.0, 0.0, 0.0, 1.0], 250)
    >>> def valuation(name, weights):
    ...     sample = Sample(weights, rewards, np.zeros(1000), np.zeros(1000))
    ...     return Valuation(name, "shadow", sample, np.ones(1000, bool), np.arange(1000), np.arange(1000.0), 0.5)
    >>> values = {"logger": valuation("logger", np.ones(1000)), "second": valuation("second", 2.0 * shown)}
    >>> for row in compare_values(values):
    ...     print(row.name, row.value.estimate, row.verdict)
    logger 0.25 the baseline
    second 0.5 better
    """
    if baseline not in values:
        raise ValueError(unknown_name("baseline", baseline, values))
    if interval not in (*_METHODS, "anytime"):
        raise ValueError(unknown_name("interval", interval, [*_METHODS, "anytime"]))
    if interval == "anytime":
        check_anytime(estimator)
    rows = []
    against = values[baseline]
    for name, value in values.items():
        if interval == "anytime":
            least = smallest_propensity or min(value.smallest_propensity, against.smallest_propensity)
            alone, gap = _anytime(value, against, estimator, 1.0 / least, reward_range, level)
        else:
            alone, gap = _fixed(value, against, interval, estimator, limit, level)
        verdict = _BASELINE if name == baseline else verdict_of(gap, len(value))
        rows.append(ValueRow(name, value.estimand, estimator, alone, gap, verdict, value.share_accepted))
    return rows


def _fixed(
    value: Valuation, against: Valuation, method: str, estimator: str, limit: float | None, level: float
) -> tuple[Interval, Interval]:
    find = _METHODS[method]
    terms: Terms = value.terms(estimator, limit=limit)
    return find(terms, level=level), find(terms, against.terms(estimator, limit=limit), level=level)


def check_anytime(estimator: str) -> None:
    """Refuse an estimator that has no confidence sequence, with the reason."""
    if estimator in NO_SEQUENCE:
        raise ValueError(
            f"estimator: expected 'ips' or 'dr' with an interval that holds at any time; {estimator!r} has no such "
            f"interval, because {NO_SEQUENCE[estimator]}"
        )
    if estimator not in ESTIMATORS:
        raise ValueError(unknown_name("estimator", estimator, ESTIMATORS))


def _anytime(
    value: Valuation,
    against: Valuation,
    estimator: str,
    most: float,
    reward_range: tuple[float, float],
    level: float,
) -> tuple[Interval, Interval]:
    low, high = reward_range
    ours, theirs = value.sample, against.sample
    bounds: dict[str, Any] = {"low": low, "high": high, "level": level}
    largest = 1.0 if value.name == LOGGER else most
    other_largest = 1.0 if against.name == LOGGER else most
    # The logger's rewards are their own predictions, so its terms are the same for both estimators.
    if estimator == "ips" or value.name == LOGGER:
        alone = anytime_interval(ours.weights, ours.rewards, largest_weight=most, **bounds)
    else:
        alone = dr_sequence(ours, largest_weight=most, **bounds).latest
    if estimator == "ips" or value is against:
        gap = difference_sequence(
            ours.weights,
            theirs.weights,
            ours.rewards,
            largest_weight=largest,
            other_largest=other_largest,
            **bounds,
        )
    else:
        gap = dr_sequence(ours, theirs, largest_weight=largest, other_largest=other_largest, **bounds)
    return alone, gap.latest


def verdict_of(difference: Interval, decisions: int) -> str:
    """What an interval of a difference says after so many decisions.

    An interval shrinks with the square root of the number of decisions. The number that would bring its nearer end to
    0, if the estimated difference is the true one, is given to two digits.

    >>> verdict_of(Interval(0.02, 0.01, 0.03), 1000), verdict_of(Interval(-0.02, -0.03, -0.01), 1000)
    ('better', 'worse')
    >>> verdict_of(Interval(0.01, -0.01, 0.03), 1000)  # half as wide with four times as many
    'cannot tell; needs about 3,000 more decisions'
    >>> verdict_of(Interval(0.0, -0.01, 0.01), 1000)
    'cannot tell; no difference seen'
    """
    if difference.low > 0.0:
        return "better"
    if difference.high < 0.0:
        return "worse"
    gap = difference.estimate
    reach = gap - difference.low if gap > 0.0 else difference.high - gap
    needed = decisions * (reach / gap) ** 2 if gap else math.inf
    if not needed < _MOST_DECISIONS:
        return "cannot tell; no difference seen"
    more = max(needed - decisions, 1.0)
    digits = 10 ** max(math.floor(math.log10(more)) - 1, 0)
    return f"cannot tell; needs about {math.ceil(more / digits) * digits:,} more decisions"


def value_table(rows: list[ValueRow]) -> str:
    """The rows as a Markdown table.

    >>> rows = [ValueRow("mine", "shadow", "dr", Interval(0.5, 0.4, 0.6), Interval(0.1, 0.05, 0.15), "better", 1.0)]
    >>> print(value_table(rows))
    | policy | shadow value (dr) | minus logger | verdict |
    |---|---:|---:|---|
    | mine | 0.5 [0.4, 0.6] | 0.1 [0.05, 0.15] | better |
    """
    headings, cells = value_cells(rows)
    lines = ["| " + " | ".join(line) + " |" for line in (headings, *cells)]
    return "\n".join([lines[0], "|---|---:|---:|---|", *lines[1:]])


def value_cells(rows: Sequence[ValueRow], caveat: str = "") -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and cells of the table; the caveat stands beside the estimator."""
    question = f"{rows[0].estimand} value ({', '.join(filter(None, (rows[0].estimator, caveat)))})" if rows else "value"
    baseline = next((row.name for row in rows if row.verdict == _BASELINE), LOGGER)
    cells: list[tuple[str, ...]] = [(row.name, str(row.value), str(row.difference), row.verdict) for row in rows]
    return ("policy", question, f"minus {baseline}", "verdict"), cells
