"""How sensitive dLinUCB is to its settings: regret where tastes shift, beside false alarms where nothing changes.

One setting is varied at a time, from those of the paper's Table 1. Settings that react sooner have less regret in a
world of large shifts, so regret alone would praise them: their false alarms in still worlds are the other half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from driftbandit.environments import World
from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.results import Table, mean_and_std, number_of
from driftbandit.evaluation.study import Place, Result, play_study
from driftbandit.paper.cells import spread
from driftbandit.paper.sensitivity_picture import sensitivity_figure
from driftbandit.paper.table1_columns import COLUMNS
from driftbandit.paper.theory import advise
from driftbandit.policies.registry import REGISTRY, Builder, title_of
from driftbandit.report import Artefact

SHIFTS = COLUMNS[1].world
"""Where regret is measured: noise 0.05, shift 0.9, every 800 of 5,000 rounds."""

STILL = replace(SHIFTS, path="still", horizon=20_000)
"""Where every alarm is false."""

PRESETS = ("dlinucb", "dlinucb-paper")
REFERENCES = ("driftucb", "linucb", "oracle")

DETECTABLE = advise(noise=SHIFTS.noise, shift=SHIFTS.shift).least_shift
"""Smallest shift for which Theorem 3.3 promises anything: 2 sqrt(ridge) + 2 epsilon."""


@dataclass(frozen=True)
class Knob:
    """A setting, the values to try, and the value of Table 1.

    Attributes
    ----------
    name, title : str
        Key, and its name in the table.
    values : mapping of str to dict
        Keywords of `DLinUCB` by label.
    usual : str
        Label of the value in Table 1.
    presets : tuple of str
        Which variants of dLinUCB it is turned on.
    """

    name: str
    title: str
    values: Mapping[str, dict[str, Any]]
    usual: str
    presets: tuple[str, ...] = PRESETS


def _plain(name: str, *values: float) -> dict[str, dict[str, Any]]:
    return {f"{value:g}": {name: value} for value in values}


KNOBS = (
    Knob("window", "window", _plain("window", 20, 50, 100, 200, 400, 800), "200"),
    Knob(
        "delta",
        "delta_1",
        {f"{d:g}": {"delta": d, "spawn_delta": d / 5.0} for d in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)},
        "0.01",
    ),
    Knob("window_delta", "delta_2", _plain("window_delta", 0.0006, 0.01, 0.03, 0.1, 0.3, 0.6), "0.1"),
    Knob("ridge", "ridge", _plain("ridge", 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), "0.1"),
    Knob(
        "explore",
        "exploration",
        {"alpha_t": {"explore": None}, **_plain("explore", 0.05, 0.1, 0.3, 0.6, 1.2)},
        "0.6",
        presets=("dlinucb",),
    ),
    Knob(
        "noise",
        "noise told / true",
        {f"{factor:g}": {"noise": factor * SHIFTS.noise} for factor in (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)},
        "1",
    ),
)

SIZES = {f"{factor:g}": factor * DETECTABLE for factor in (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)}
"""Sizes of a shift by label: times the smallest for which the theory promises detection."""


@dataclass(frozen=True)
class Reading:
    """What one setting costs: regret and misses where tastes shift, regret and false alarms where nothing changes."""

    regret: float
    regret_std: float
    found: int
    missed: int
    still_regret: float
    false_alarms: float

    def as_dict(self) -> dict[str, float | None]:
        """Plain numbers, for JSON; NaN becomes None."""
        return {name: None if math.isnan(value) else value for name, value in vars(self).items()}

    def cells(self) -> tuple[str, str, str]:
        """Regret, false alarms, and shifts missed, as text."""
        shifts = self.found + self.missed
        return (
            mean_and_std(self.regret, self.regret_std),
            f"{self.false_alarms:.1f}" if shifts else "–",
            f"{self.missed} of {shifts}" if shifts else "–",
        )


def run(
    *,
    seeds: Sequence[int],
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Turn every knob, in a world with shifts and in a still one."""
    settings = _settings()
    usual: dict[str, Builder] = {name: REGISTRY[name].build for name in (*PRESETS, *REFERENCES)}
    found = play_study(
        {
            "shifts": Place(SHIFTS, seeds, {**usual, **settings}),
            "still": Place(STILL, seeds, {**usual, **settings}),
            **{f"size {label}": Place(_sized(size), seeds, usual) for label, size in SIZES.items()},
        },
        **options,
    )
    readings = {policy: _reading(found["shifts", policy], found["still", policy]) for policy in {**usual, **settings}}
    sizes = {
        label: {policy: _reading(found[f"size {label}", policy], found["still", policy]) for policy in usual}
        for label in SIZES
    }
    knobs = {
        knob.name: {
            preset: {label: readings[_name(preset, knob, label)] for label in knob.values} for preset in knob.presets
        }
        for knob in KNOBS
    }
    return Artefact(
        name="sensitivity",
        title="How sensitive dLinUCB is to its settings",
        text=[
            f"Regret where tastes shift (noise 0.05, shift 0.9, every 800 of 5,000 rounds) beside false alarms per run "
            f"of 20,000 rounds in which nothing changes; {number_of('seed', len(seeds))}. One setting at a time is "
            "changed from those of Table 1; with delta_1 goes spawn_delta, a fifth of it.",
            "In the table of sizes, shifts have exactly the size that is stated (preset exact-v1). With noise 0.05 the "
            f"theory promises something for shifts from {DETECTABLE:.3f} on.",
        ],
        tables=[_knob_table(knobs), _size_table(sizes), _reference_table(readings)],
        figures={
            "sensitivity": sensitivity_figure(
                [(knob.title, knob.usual, knobs[knob.name]) for knob in KNOBS],
                {policy: readings[policy].regret for policy in ("driftucb", "linucb")},
                ("shift / detectable shift", _by_policy(sizes)),
            )
        },
        data={
            "knobs": {
                name: {preset: {label: reading.as_dict() for label, reading in of.items()} for preset, of in by.items()}
                for name, by in knobs.items()
            },
            "sizes": {
                label: {policy: reading.as_dict() for policy, reading in by.items()} for label, by in sizes.items()
            },
            "detectable": DETECTABLE,
            "references": {policy: readings[policy].as_dict() for policy in (*PRESETS, *REFERENCES)},
        },
    )


def _settings() -> dict[str, Builder]:
    """Builders of every preset with every value of every knob."""
    return {
        _name(preset, knob, label): partial(REGISTRY[preset].build, **values)
        for knob in KNOBS
        for preset in knob.presets
        for label, values in knob.values.items()
        if label != knob.usual
    }


def _name(preset: str, knob: Knob, label: str) -> str:
    """Name in the results; the preset's own if nothing was changed."""
    return preset if label == knob.usual else f"{preset} {knob.name} {label}"


def _sized(size: float) -> World:
    return replace(SHIFTS, rule="exact", shift=size)


def _reading(shifts: Sequence[Result], still: Sequence[Result]) -> Reading:
    regret = [result.regret for result in shifts]
    return Reading(
        regret=float(np.mean(regret)),
        regret_std=spread(regret),
        found=sum(result.found for result in shifts),
        missed=sum(result.missed for result in shifts),
        still_regret=float(np.mean([result.regret for result in still])),
        false_alarms=float(np.mean([result.false_alarms for result in still])),
    )


def _by_policy(sizes: Mapping[str, Mapping[str, Reading]]) -> dict[str, dict[str, Reading]]:
    return {policy: {label: by[policy] for label, by in sizes.items()} for policy in (*PRESETS, "linucb", "driftucb")}


def _knob_table(knobs: Mapping[str, Mapping[str, Mapping[str, Reading]]]) -> Table:
    lines = []
    for knob in KNOBS:
        for label in knob.values:
            name = f"{knob.title} {label}" + (" *" if label == knob.usual else "")
            cells: tuple[str, ...] = ()
            for preset in PRESETS:
                of = knobs[knob.name].get(preset)
                cells += of[label].cells() if of else ("–",) * len(_HEADINGS)
            lines.append((name, *cells))
    return Table(
        "Regret and false alarms, one setting at a time",
        ("setting", *_HEADINGS, *(f"printed: {heading}" for heading in _HEADINGS)),
        tuple(lines),
        "* the value of Table 1. Regret and missed shifts are those of the world with shifts; false alarms are those "
        "of a run of 20,000 rounds in which nothing changes. The left half is dLinUCB as in Table 1; 'printed' is "
        "Algorithm 1 as printed, which explores by alpha_t.",
    )


_HEADINGS = ("regret", "false alarms", "missed")


def _size_table(sizes: Mapping[str, Mapping[str, Reading]]) -> Table:
    lines = []
    for label, by in sizes.items():
        found = [f"{by[name].found} of {by[name].found + by[name].missed}" for name in (*PRESETS, "driftucb")]
        regret = [mean_and_std(by[name].regret, by[name].regret_std) for name in (*PRESETS, *REFERENCES)]
        lines.append((f"{label} ({SIZES[label]:.2f})", *found, *regret))
    return Table(
        "Shifts below and above what the theory calls detectable",
        (
            "shift",
            *(f"found by {title_of(name)}" for name in (*PRESETS, "driftucb")),
            *(f"regret of {title_of(name)}" for name in (*PRESETS, *REFERENCES)),
        ),
        tuple(lines),
        f"A shift is given in multiples of {DETECTABLE:.3f}, and in brackets as the distance between the old taste and "
        "the new.",
    )


def _reference_table(readings: Mapping[str, Reading]) -> Table:
    return Table(
        "For comparison",
        ("policy", *_HEADINGS),
        tuple((title_of(name), *readings[name].cells()) for name in (*PRESETS, *REFERENCES)),
        "DriftUCB is told nothing; OracleLinUCB is told the shifts. LinUCB and OracleLinUCB do not look for changes.",
    )
