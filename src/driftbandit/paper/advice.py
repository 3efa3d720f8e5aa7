"""What `driftbandit advise` shows: the theory's conditions for planned settings, in words, and delays on clicks."""

from __future__ import annotations

import math
from typing import Any

from driftbandit.evaluation.delays import click_delay
from driftbandit.evaluation.results import Table
from driftbandit.paper.theory import Advice, advise
from driftbandit.report import Artefact

_RATES = (0.003, 0.01, 0.02, 0.05, 0.15)
_LIFTS = (1.5, 2.0, 4.0)


def run(
    *,
    shift: float,
    period: int = 800,
    horizon: int = 5000,
    delta: float = 0.01,
    window_delta: float = 0.1,
    window: int = 200,
    members: int = 2,
    **rest: Any,
) -> Artefact:
    """Check settings against Theorem 3.3 and Lemma 3.5; arguments are those of `advise`."""
    advice = advise(
        shift=shift,
        period=period,
        horizon=horizon,
        delta=delta,
        window_delta=window_delta,
        window=window,
        members=members,
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
            _cost(advice, horizon, members),
            _deltas(advice, window),
            *([_contamination(advice, window)] if math.isfinite(advice.harmless_change) else []),
            _practice(advice, window),
        ],
        tables=[Table("Conditions", ("setting", "given", "asked for", "verdict"), cells, numbers=False)],
        data=advice.as_dict(),
    )


def run_clicks(*, rate: float | None = None, lift: float | None = None, period: int = 20_000, **rest: Any) -> Artefact:
    """Delays of DriftUCB on clicks, for one rate and lift or for usual ones; arguments are those of `click_delay`."""
    rates = _RATES if rate is None else (rate,)
    lifts = _LIFTS if lift is None else (lift,)
    given = rate is not None and lift is not None
    delays = {
        (one, times): click_delay(one, times, period=period, **rest)
        for one in rates
        for times in lifts
        if given or not one * times >= 1.0  # NaN is for `click_delay` to refuse
    }
    if not delays:
        name, value = ("rate", rate) if lift is None else ("lift", lift)
        raise ValueError(f"{name}: {value:g} leaves no click rate below 1 before the shift")
    text = [
        "A policy that knows the tastes plays arms that get some multiple of the clicks of an average arm: the lift. "
        "When tastes change, these arms fall back to the average rate. So many decisions pass, typically, until "
        "DriftUCB raises the alarm:",
        *(_delay(one, times, delay, period) for (one, times), delay in delays.items() if given),
        "For lifts of 2 and more, half of the measured delays were between 0.8 and 1.7 times that. Of lifts below 2, "
        "many are not found. See docs/detection.md.",
    ]
    cells = tuple(
        (f"{100.0 * one:.3g} %", *(_rounded(delays[one, times]) if (one, times) in delays else "" for times in lifts))
        for one in rates
    )
    headings = ("clicks of an average arm", *(f"lift {times:g}" for times in lifts))
    return Artefact(
        name="advice",
        title="Delay until DriftUCB finds a shift on clicks",
        text=text,
        tables=[] if given else [Table("Decisions until the alarm", headings, cells)],
        data={"delays": [{"rate": one, "lift": times, "delay": delay} for (one, times), delay in delays.items()]},
    )


def _delay(rate: float, lift: float, delay: float, period: int) -> str:
    found = (
        f"At {100.0 * rate:.3g} % clicks and a lift of {lift:g}: about {_rounded(delay)} decisions. What is played "
        f"falls from {100.0 * rate * lift:.3g} % to {100.0 * rate:.3g} %."
    )
    if delay > period:
        found += f" The delay is more than the {period:,} between shifts: most are not found."
    return found


def _rounded(delay: float) -> str:
    """Two digits, since the formula knows no more."""
    return f"{float(f'{delay:.1e}'):,.0f}"


def _verdict(advice: Advice) -> str:
    broken = [condition.name for condition in advice.conditions if not condition.holds]
    if not broken:
        return "All conditions hold: the theory promises detection."
    return (
        f"Violated: {', '.join(broken)}. The theory promises nothing here. Its conditions are sufficient, not "
        "necessary: all six columns of the paper's Table 1 violate those on delta and window_delta, columns 1, 4 and 5 "
        "also the one on the shift, and DLinUCB with the settings behind that table detects every shift there."
    )


def _cost(advice: Advice, horizon: int, members: int) -> str:
    met = all(condition.holds for condition in advice.conditions)
    head = f"Regret bound over {horizon:,} rounds{'' if met else ', were the conditions met'}"
    if not math.isfinite(advice.bound):
        return f"{head}: none, since no window is long enough."
    several = "" if members == 1 else f", {advice.bound_of_several:,.0f} for {members} members at best (Theorem 3.6)"
    found = f"{head}: {advice.bound:,.0f} for one member (Theorem 3.3){several}."
    if advice.bound > advice.worst:
        return f"{found} That says nothing: losing every round outright costs {advice.worst:,.0f}."
    if advice.probability:
        found += f" With the largest deltas that the theory allows, it holds with probability {advice.probability:.4f}."
    return found


def _deltas(advice: Advice, window: int) -> str:
    ceiling = advice.delta_ceiling
    first = f"delta at most {ceiling:.2g}" if ceiling else "no delta at all, since a smaller one has a larger epsilon"
    least, most = advice.window_delta_floor, advice.window_delta_ceiling
    if least > most:
        return f"The theory allows {first}, and with a window of {window} no window_delta: it is too short."
    return f"The theory allows {first}, and with a window of {window} a window_delta of {least:.2g} to {most:.2g}."


def _contamination(advice: Advice, window: int) -> str:
    return (
        f"The reward of an arm that does not count as changed may change by {advice.harmless_change:.2g} at most, if a "
        f"member learns a window of {window} rewards meanwhile, without a wider confidence bound (the appendix)."
    )


def _practice(advice: Advice, window: int) -> str:
    if not math.isfinite(advice.expected_delay):
        return f"In practice: a window of {window} is too short to notice such a shift."
    return (
        f"In practice: {advice.misses_to_spawn} misses in a window of {window} spawn a member, about "
        f"{advice.expected_delay:.0f} rounds after a shift if every changed arm misses."
    )
