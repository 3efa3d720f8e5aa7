"""Figure 4, does dLinUCB detect the changes or does it just forget: alarms against chance, and blind rivals.

Alarms are held against the true changes, and against the same alarms rotated at random along the stream. LinUCB with
restarts at fixed intervals and LinUCB on a sliding window stand beside the policies that detect.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.core import Change
from driftbandit.environments.rounds import Environment
from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.detection import Detection, alarm_rounds, followed_by_chance, shifts_followed
from driftbandit.evaluation.fingerprints import run_key
from driftbandit.evaluation.results import Table, mean_and_std
from driftbandit.evaluation.trace import Trace
from driftbandit.files import whole_file
from driftbandit.paper.figure4_policies import LENGTHS, PACE, PLAIN, RESTARTS, WINDOWS, restarts_of
from driftbandit.policies.registry import Builder, title_of

WITHIN = 300
"""Rewards after a change in which an alarm counts as an answer to it."""
ROTATIONS = 1000

FIRST_TUNING_SEED, TUNING_SEEDS = 100, 3


TUNED: dict[str, Builder] = {**RESTARTS, **WINDOWS}
"""Policies out of which the best restarts and the best window are chosen."""


@dataclass(frozen=True)
class Answers:
    """How the alarms of one policy on one stream answer the changes, over all seeds.

    Attributes
    ----------
    stream, policy : str
        Names as in the traces.
    reward, spread : float
        Mean total reward, and its standard deviation.
    alarms : float
        Alarms per run; for blind restarts, the restarts.
    gap, irregular : float
        Mean distance of neighbouring alarms, and their standard deviation divided by it: 0 for a clock, 1 for pure
        chance.
    quality : Detection
        Delays, missed changes and false alarms.
    share, chance : float
        Share of the changes with an alarm within `WITHIN` rewards, and the same for rotated alarms.
    luck : float
        Share of the rotations that do at least as well.
    changes, runs : int
        Changes of a run, and number of runs.
    """

    stream: str
    policy: str
    reward: float
    spread: float
    alarms: float
    gap: float
    irregular: float
    quality: Detection
    share: float
    chance: float
    luck: float
    changes: int
    runs: int

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        reward = f"{self.stream}: {title_of(self.policy)}", mean_and_std(self.reward, self.spread)
        if not self.alarms:
            return *reward, *("–",) * 7
        quality, changes = self.quality, self.changes
        return (
            *reward,
            f"{self.alarms:.0f} for {changes}",
            "–" if np.isnan(self.gap) else f"{self.gap:,.0f} ({self.irregular:.1f})",
            f"{quality.median_delay:,.0f}" if quality.delays else "–",
            f"{self.share:.0%}",
            f"{self.chance:.0%} ({self.luck:.2g})",
            f"{quality.missed / self.runs:.1f}",
            f"{quality.false_alarms / self.runs:.1f}",
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON; NaN becomes None."""
        plain = {name: value for name, value in vars(self).items() if name != "quality"}
        plain |= {"median_delay": self.quality.median_delay, "missed": self.quality.missed}
        plain |= {"false_alarms": self.quality.false_alarms}
        return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in plain.items()}


def answers_of(runs: Sequence[Trace]) -> Answers:
    """Hold the alarms of some runs of one policy on one stream against the changes and against chance."""
    quality, followed = Detection(), 0
    chance = np.zeros(ROTATIONS, dtype=np.int64)
    gaps: list[int] = []
    for trace in runs:
        alarms = alarm_rounds(trace.changes)
        quality.add(alarms, trace.shifts, len(trace))
        followed += shifts_followed(alarms, trace.shifts, WITHIN)
        # The runs have the same rounds but for their pools, so their alarms are alike: all are rotated alike.
        chance += followed_by_chance(alarms, trace.shifts, len(trace), WITHIN, rotations=ROTATIONS, seed=0)
        gaps.extend(np.diff(alarms).tolist())
    rewards = np.array([trace.rewards.sum() for trace in runs])
    changes = len(runs[0].shifts)
    shifts = max(changes * len(runs), 1)
    gap = float(np.mean(gaps)) if gaps else float("nan")
    return Answers(
        stream=runs[0].setting,
        policy=runs[0].policy,
        reward=float(rewards.mean()),
        spread=float(rewards.std(ddof=1)) if len(rewards) > 1 else float("nan"),
        alarms=(len(quality.delays) + quality.false_alarms) / len(runs),
        gap=gap,
        irregular=float(np.std(gaps)) / gap if gaps else float("nan"),
        quality=quality,
        share=followed / shifts,
        chance=float(chance.mean()) / shifts,
        luck=float((1 + (chance >= followed).sum()) / (1 + ROTATIONS)),
        changes=changes,
        runs=len(runs),
    )


def other_seeds(seeds: Sequence[int]) -> list[int]:
    """Seeds to choose settings on, none of which is reported.

    >>> other_seeds(range(200, 203)), other_seeds([101])
    ([100, 101, 102], [100, 102, 103])
    """
    fresh = (seed for seed in itertools.count(FIRST_TUNING_SEED) if seed not in seeds)
    return list(itertools.islice(fresh, TUNING_SEEDS))


def answers(
    found: Mapping[str, Environment], detected: Sequence[Trace], seeds: Sequence[int], options: CompareOptions
) -> list[Answers]:
    """Play the rivals of dLinUCB on these streams, and score all alarms.

    Parameters
    ----------
    found : mapping of name to Environment
        The streams.
    detected : sequence of Trace
        dLinUCB's own runs on these streams.
    seeds : sequence of int
        Pool seeds to report; periods and windows are chosen on others.
    options : CompareOptions
        As in `compare`.
    """
    totals = _tuning_totals(found, other_seeds(seeds), options)
    rivals = compare(PLAIN, found, seeds, **options)
    rows = []
    for stream, environment in found.items():
        names = [max(field, key=lambda name: totals[f"{stream}: {name}"]) for field in (RESTARTS, WINDOWS)]
        played = compare({name: TUNED[name] for name in names}, {stream: environment}, seeds, **options)
        runs = [trace for trace in (*detected, *rivals) if trace.setting == stream] + played
        rows += [
            answers_of([_with_restarts(trace) for trace in runs if trace.policy == policy])
            for policy in dict.fromkeys(trace.policy for trace in runs)
        ]
    return rows


def _tuning_totals(found: Mapping[str, Environment], seeds: Sequence[int], options: CompareOptions) -> dict[str, float]:
    """Reward of every period and window on every stream, over these seeds.

    The totals are kept in a file with the fingerprint of all runs, because reading the runs again takes seconds.
    """
    runs = itertools.product(found.items(), TUNED.items(), seeds)
    keys = [run_key(environment, seed, name, build) for (_, environment), (name, build), seed in runs]
    fingerprint = hashlib.sha256(json.dumps(keys).encode()).hexdigest()
    out = options.get("out")
    file = None if out is None else Path(out, "tuning.json")
    if file is not None and not options.get("fresh", False):
        with suppress(OSError, ValueError, KeyError, TypeError):  # not there, or of other runs: played again
            kept = json.loads(file.read_text(encoding="utf-8"))
            if kept["fingerprint"] == fingerprint:
                return dict(kept["totals"])
    totals = {f"{stream}: {name}": 0.0 for stream in found for name in TUNED}
    for trace in compare(TUNED, found, seeds, **options):
        totals[f"{trace.setting}: {trace.policy}"] += float(trace.rewards.sum())
    if file is not None:
        with whole_file(file) as partial:
            partial.write_text(json.dumps({"fingerprint": fingerprint, "totals": totals}), encoding="utf-8")
    return totals


def _with_restarts(trace: Trace) -> Trace:
    """A trace in which blind restarts count as alarms, to see how much of the scoring a clock can earn."""
    lengths = {restarts_of(length): length for length in (*LENGTHS, PACE)}
    if trace.policy not in lengths:
        return trace
    period = lengths[trace.policy]
    due = range(period, len(trace), period)
    return replace(trace, changes=tuple(Change(round_, "restarted", 0, {}) for round_ in due))


def answers_table(rows: Sequence[Answers], seeds: Sequence[int]) -> Table:
    """Reward and alarms of every policy on every stream."""
    headings = ("stream and policy", "reward", "alarms", "gap", "delay", f"within {WITHIN}", "chance")
    chosen = ", ".join(map(str, other_seeds(seeds)))
    note = (
        "Per run, mean over pool seeds. alarms: for so many changes; for blind restarts, the restarts. gap: mean "
        "rewards between alarms, and in brackets how irregular they are (standard deviation over mean: 0 for a clock, "
        "about 1 for pure chance). delay: from a change to the first alarm before the next change, median. "
        f"within {WITHIN}: share of the changes with an alarm in the {WITHIN} rewards after them. chance: the same "
        f"share when the alarms are rotated at random along the stream, mean of {ROTATIONS:,} rotations, and in "
        "brackets the share of rotations that do at least as well. missed: changes without an alarm before the next "
        "one. false: all alarms but the first after a change. The last two rows of a stream have the best period and "
        f"window out of {', '.join(f'{length:,}' for length in LENGTHS)} on pool seeds {chosen}."
    )
    title = "Does it detect the changes, or does it just forget?"
    return Table(title, (*headings, "missed", "false"), tuple(row.cells() for row in rows), note)
