"""The theory's conditions for planned settings, in words: what `driftbandit advise` shows."""

from __future__ import annotations

import math
from typing import Any

from driftbandit.evaluation.results import Table
from driftbandit.paper.theory import Advice, advise
from driftbandit.report import Artefact


def run(
    *, shift: float, period: int, horizon: int, delta: float, window_delta: float, window: int, **rest: Any
) -> Artefact:
    """Check settings against Theorem 3.3 and Lemma 3.5; arguments are those of `advise`."""
    advice = advise(
        shift=shift,
        period=period,
        horizon=horizon,
        delta=delta,
        window_delta=window_delta,
        window=window,
        **rest,
    )
    given = {
        "shift": f"{shift:g}",
        "period": f"{period}",
        "delta": f"{delta:g}",
        "window": f"{window}",
        "window_delta": f"{window_delta:g}",
    }
    cells = tuple(
        (condition.name, given[condition.name], condition.asks, "holds" if condition.holds else "VIOLATED")
        for condition in advice.conditions
    )
    seen = "above" if advice.detectable else "below"
    return Artefact(
        name="advice",
        title="What Theorem 3.3 and Lemma 3.5 ask for",
        text=[
            _verdict(advice),
            f"A shift of {shift:g} is {seen} the {advice.least_shift:.3f} = 2 sqrt(ridge) + 2 epsilon that the theory "
            f"needs (epsilon {advice.epsilon:.3f}).",
            _cost(advice, horizon),
            _practice(advice, window),
        ],
        tables=[Table("Conditions", ("setting", "given", "asked for", "verdict"), cells, numbers=False)],
        data=advice.as_dict(),
    )


def _verdict(advice: Advice) -> str:
    broken = [condition.name for condition in advice.conditions if not condition.holds]
    if not broken:
        return "All conditions hold: the theory promises detection."
    return (
        f"Violated: {', '.join(broken)}. The theory promises nothing here. Its conditions are sufficient, not "
        "necessary: columns 1, 4 and 5 of the paper's Table 1 violate the one on the shift, and DLinUCB with the "
        "settings behind that table detects every shift there."
    )


def _cost(advice: Advice, horizon: int) -> str:
    met = all(condition.holds for condition in advice.conditions)
    head = f"Regret bound over {horizon:,} rounds{'' if met else ', were the conditions met'}"
    if not math.isfinite(advice.bound):
        return f"{head}: none, since no window is long enough."
    if advice.bound > advice.worst:
        return f"{head}: {advice.bound:,.0f}, which says nothing: losing every round outright costs less."
    return f"{head}: {advice.bound:,.0f}."


def _practice(advice: Advice, window: int) -> str:
    if not math.isfinite(advice.expected_delay):
        return f"In practice: a window of {window} is too short to notice such a shift."
    return (
        f"In practice: {advice.misses_to_spawn} misses in a window of {window} spawn a member, about "
        f"{advice.expected_delay:.0f} rounds after a shift if every changed arm misses."
    )
