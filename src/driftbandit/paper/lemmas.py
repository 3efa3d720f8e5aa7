"""The paper's theorems and lemmas, each beside a simulation: does what was proved show?

The settings are those that the theory asks for, where it allows any; `worlds_of_lemmas` draws the rewards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftbandit.evaluation.results import Table, number_of
from driftbandit.paper.theory import advise, chance_of_bounds
from driftbandit.paper.verdicts import Claim, judged, verdict_table
from driftbandit.paper.worlds_of_lemmas import (
    DIM,
    FOREIGN,
    LEAST_CHANGE,
    PERIOD,
    RIDGE,
    STAGES,
    contaminated,
    early,
    leaders,
    misses_in_a_still_world,
    out_of_date,
)
from driftbandit.plots import COLOURS, Picture
from driftbandit.report import Artefact

NOISES = (0.01, 0.1, 0.5)
DELTAS = (0.01, 0.1, 0.3)
WINDOW_DELTAS = (0.1, 0.02, 1.0 / (2.0 * PERIOD))
WINDOW = 200
_NAMES = (
    "Theorem 3.2: rewards outside of the bound",
    "appendix: the same, contaminated",
    "Lemma 3.4: early detection",
    "Lemma 3.5: late detection",
    "Lemma 3.7: led by an outdated member",
)
_NOISE = 0.01  # of the simulations of detection: the theory allows deltas there


def run(*, seeds: Sequence[int], **_: Any) -> Artefact:
    """Hold each theorem and lemma against a simulation; it takes seconds, so that nothing is kept between runs."""
    parts = [_coverage(seeds), _contamination(seeds), _early(seeds), _late(seeds), _selection(seeds)]
    tables, claims, used = (list(each) for each in zip(*parts, strict=True))
    return Artefact(
        name="lemmas",
        title="Theorems and lemmas against simulations",
        text=[
            f"Each with {number_of('seed', len(seeds))}; ridge {RIDGE:g}, {DIM} features. The printed epsilon is "
            "negative; here it is positive.",
            "A bound that holds with room to spare is no fault of a theorem, but says little about what to expect.",
        ],
        tables=[*tables, verdict_table(claims)],
        figures={"lemmas": _figure(dict(zip(_NAMES, used, strict=True)))},
        data={"claims": [claim.as_dict() for claim in claims], "used": dict(zip(_NAMES, used, strict=True))},
    )


def _figure(used: dict[str, float]) -> Picture:
    """How much of what each bound allows was seen."""
    figure = Picture(figsize=(8.0, 3.0), layout="constrained")
    axes = figure.subplots()
    axes.barh(list(used), list(used.values()), color=COLOURS[0], height=0.6)
    for row, value in enumerate(used.values()):
        axes.text(value + 0.01, row, "none" if value == 0.0 else f"{value:.2g}", va="center")
    axes.axvline(1.0, color=COLOURS[1], linestyle="--", label="the most that the paper allows")
    axes.set_xlim(0.0, max(1.15, 1.15 * max(used.values())))
    axes.set_xlabel("seen, as a share of what the paper allows")
    axes.invert_yaxis()
    axes.legend(loc="lower right", bbox_to_anchor=(0.85, 0.05))
    return figure


def _coverage(seeds: Sequence[int]) -> tuple[Table, Claim, float]:
    """Theorem 3.2: a reward lies outside of B + epsilon with probability delta at most, while nothing changes."""
    rates = {
        (noise, delta): float(np.mean([misses_in_a_still_world(noise, delta, seed) for seed in seeds]))
        for noise in NOISES
        for delta in DELTAS
    }
    cells = tuple((f"{noise:g}", *(f"{rates[noise, delta]:.4f}" for delta in DELTAS)) for noise in NOISES)
    table = Table(
        "Theorem 3.2: share of rewards outside of B + epsilon",
        ("noise", *(f"delta {delta:g}" for delta in DELTAS)),
        cells,
        "At most delta is promised. Nothing changes in these worlds.",
    )
    worst = max(rate / delta for (_, delta), rate in rates.items())
    claim = Claim(
        "A reward misses the confidence bound with probability delta_1 at most (Theorem 3.2).",
        f"At most {worst:.2f} times delta_1 in all nine worlds.",
        judged(worst <= 1.0),
    )
    return table, claim, worst


def _contamination(seeds: Sequence[int]) -> tuple[Table, Claim, float]:
    """The appendix: a model that has learned foreign rewards needs a bound that is wider by their deviation."""
    counts = (0, 5, 20, 50)
    found = {count: np.mean([contaminated(count, seed) for seed in seeds], axis=0) for count in counts}
    cells = tuple((f"{count}", f"{plain:.3f}", f"{wide:.3f}") for count, (plain, wide) in found.items())
    table = Table(
        "Contamination: share of expected rewards outside of the bound",
        ("foreign rewards of 200", "plain bound", "with their deviation added"),
        cells,
        f"Foreign rewards are {FOREIGN:g} too high; noise 0.1, delta 0.01.",
    )
    inside, outside = (max(shares[k] for shares in found.values()) for k in range(2))
    claim = Claim(
        "A contaminated model keeps its bound if the foreign rewards' deviation is added (the appendix).",
        f"At most {outside:.3f} outside, of 0.01 allowed; without it up to {inside:.2f}.",
        judged(outside <= 0.01),
    )
    return table, claim, outside / 0.01


def _early(seeds: Sequence[int]) -> tuple[Table, Claim, float]:
    """Lemma 3.4: while nothing changes, a member is given up with probability delta_2 per round at most."""
    found = {delta: np.mean([early(0.01, delta, WINDOW, seed) for seed in seeds], axis=0) for delta in WINDOW_DELTAS}
    cells = tuple((f"{delta:.2g}", f"{right:.5f}", f"{printed:.4f}") for delta, (right, printed) in found.items())
    table = Table(
        "Lemma 3.4: share of rounds in which a healthy member is given up",
        ("window_delta", "as in Algorithm 1", "with the proof's width"),
        cells,
        "At most window_delta is promised. Every reward misses with probability delta = 0.01, the most that a healthy "
        "member may. The printed proof leaves out the square root of the width.",
    )
    right, printed = (max(rates[k] / delta for delta, rates in found.items()) for k in range(2))
    claim = Claim(
        "Early detection has probability delta_2 at most (Lemma 3.4).",
        f"At most {right:.2f} times delta_2; with the width that the proof prints, up to {printed:.0f} times.",
        judged(right <= 1.0),
    )
    return table, claim, right


def _late(seeds: Sequence[int]) -> tuple[Table, Claim, float]:
    """Lemma 3.5 and Theorem 3.3: changes are found within the window, and no more members are made than promised."""
    allowed = advise(noise=_NOISE, shift=LEAST_CHANGE, period=PERIOD, ridge=RIDGE)
    delta, window_delta = allowed.delta_ceiling, allowed.window_delta_ceiling
    theirs = advise(noise=_NOISE, shift=LEAST_CHANGE, period=PERIOD, ridge=RIDGE, window_delta=window_delta)
    lemma: dict[str, Any] = {"delta": delta, "window_delta": window_delta, "window": math.ceil(theirs.window)}
    usual: dict[str, Any] = {"delta": 0.01, "window_delta": 0.1, "window": WINDOW}
    cells, late, promised = [], 0.0, 0.0
    for name, settings, share in (("the lemma's", lemma, 1.0), ("usual", usual, 1.0), ("usual", usual, 0.5)):
        runs = np.array([out_of_date(_NOISE, share, seed, **settings) for seed in seeds])
        in_time, delay, spawned = runs[:, 0].mean(), np.median(runs[:, 1]), runs[:, 2].mean() / STAGES
        if settings is lemma:
            late, promised = 1.0 - in_time, spawned
        row = (name, f"{settings['window']}", f"{share:g}", f"{in_time:.4f}", _rounds(delay), f"{spawned:.2f}")
        cells.append(row)
    table = Table(
        "Lemma 3.5: outdated members that are given up within a window",
        ("settings", "window", "share of arms", "in time", "median delay", "members made per stage"),
        tuple(cells),
        f"The lemma's settings: delta {delta:.2g}, window_delta {window_delta:.2g}; it promises "
        f"{1.0 - window_delta:.4f} in time, and the proof of Theorem 3.3 at most two members per stage. Changes of at "
        f"least {LEAST_CHANGE:g} every {PERIOD} rounds, noise {_NOISE:g}. With half of the arms no "
        "delta will do: a change that makes arms better which the policy does not play is not seen at all.",
    )
    claim = Claim(
        "With the lemma's settings late detection has probability delta_2 at most (Lemma 3.5), and the bounds hold "
        f"with probability {chance_of_bounds(delta, window_delta):.4f} (Theorem 3.3).",
        f"{100.0 * late:.2f} % late, of {100.0 * window_delta:.2f} % allowed; {promised:.2f} members made per stage.",
        judged(late <= window_delta and promised <= 2.0),
    )
    return table, claim, late / window_delta


def _rounds(delay: float) -> str:
    return f"{delay:.0f}" if math.isfinite(delay) else "never"


def _selection(seeds: Sequence[int]) -> tuple[Table, Claim, float]:
    """Lemma 3.7: how often a member leads that is not the best."""
    found = [stage for seed in seeds for stage in leaders(_NOISE, seed)]
    led, bounds = (np.array([stage[k] for stage in found]) for k in range(2))
    above = float(np.mean(led > bounds))
    table = Table(
        "Lemma 3.7: rounds led by an outdated member after its successor was born",
        ("stages", "mean", "most", "the lemma's bound, mean", "stages above their bound"),
        ((f"{len(found)}", f"{led.mean():.1f}", f"{led.max():.0f}", f"{bounds.mean():.1f}", f"{100.0 * above:.0f} %"),),
        "The gap in the bound is the difference of the two members' miss rates while both live.",
    )
    claim = Claim(
        "A member that is not the best leads at most 8 ln(S) / g^2 + 1 + pi^2 / 3 times in a stage (Lemma 3.7).",
        f"{led.mean():.1f} times on average, of {bounds.mean():.0f} allowed; above it in {100.0 * above:.0f} % of "
        "stages.",
        judged(led.mean() <= bounds.mean() and above == 0.0, bool(led.mean() <= bounds.mean())),
    )
    return table, claim, float(np.mean(led / bounds))
