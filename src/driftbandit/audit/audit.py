"""The audit: five questions to a log, answered in one object."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbandit.audit.changes import WorldChange, find_changes
from driftbandit.audit.trust import Trust, TrustCheck
from driftbandit.core import Floats, Ints, takes_scope
from driftbandit.evaluation.builders import build_policies
from driftbandit.evaluation.logged import Valuation, ValueRow, compare_values, prepare, shadow_values
from driftbandit.evaluation.logged.runs import LOGGER
from driftbandit.evaluation.workers import On, check_on
from driftbandit.features import Encoder
from driftbandit.features.arms import ArmId, Record
from driftbandit.logs import DecisionLog, Report
from driftbandit.logs.learning import dim_of, fit_encoder, items_at, save_learned, takes_features
from driftbandit.policies.entry import Builder

_PRODUCT = 256
"""Most features with which changes are looked for; they are not hashed unless there are more."""

_MISSING = 0.01
"""Share of rows without a reward that is worth a warning."""

_BUCKETS = 30
"""Windows of the reward over time."""


@dataclass(frozen=True, eq=False)
class Course:
    """Reward over time: the logger's, and what a policy would have earned.

    Attributes
    ----------
    rows : array
        Row at which each window ends.
    logger, policy : arrays
        Mean reward of the window.
    name : str
        The policy.
    """

    rows: Ints
    logger: Floats
    policy: Floats
    name: str


@dataclass(frozen=True)
class Tuned:
    """Settings chosen on the first half of a log and reported on the second.

    Attributes
    ----------
    family : str
        The policy that was tuned.
    chosen : str
        Name of the settings that earned most in the first half.
    tried : int
        How many there were.
    row : ValueRow
        Their value in the second half, and the difference to the logger there.
    """

    family: str
    chosen: str
    tried: int
    row: ValueRow


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; see `audit`.

    Attributes
    ----------
    name : str
        The log.
    caveat : str
        What every value has to say, such as 'estimated propensities'; empty if nothing.
    report : Report
        Rows that could not be used.
    trust : Trust
        What the log's numbers say about itself.
    encoder : Encoder or None
        What made the features; None if the log had them.
    changes : list of WorldChange
        Found by looking at the whole log.
    online : dict of str to list of int
        Rows at which policies that detect changes noticed one, while they went through the log.
    policies : list of ValueRow
        What each policy would have earned, by shadow value.
    values : dict of str to Valuation
        What the rows are computed from, by name.
    tuned : list of Tuned
        Policies whose settings were tuned.
    course : Course
        Reward over time.
    learned : dict of str to policy
        The policies, having learned the whole log.
    items : dict
        Features by id of the arms that could be shown at its end.
    """

    name: str
    caveat: str
    report: Report
    trust: Trust
    encoder: Encoder | None
    changes: list[WorldChange]
    online: dict[str, list[int]]
    policies: list[ValueRow]
    values: dict[str, Valuation]
    tuned: list[Tuned]
    course: Course
    learned: dict[str, Any]
    items: dict[ArmId, Record]

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before believing any number; empty if all is well."""
        said = self.trust.warnings
        missing = self.report.skipped.get("reward missing", 0)
        if missing > _MISSING * self.report.lines:
            said.append(
                f"{missing / self.report.lines:.1%} of the rows have no reward and were left out. If no reward means "
                "no click, write 0 there: without these rows everything looks better than it is."
            )
        for kind, count in self.report.skipped.items():
            if kind != "reward missing" and count > _MISSING * self.report.lines:
                said.append(
                    f"{count / self.report.lines:.1%} of the rows were left out: {kind}. If these rows differ from the "
                    "others, nothing below holds for all decisions."
                )
        return said

    @property
    def best(self) -> ValueRow | None:
        """The policy that earned most among those that are surely better than the logger; None if none is."""
        better = [row for row in self.policies if row.verdict == "better" and row.name in self.learned]
        return max(better, key=lambda row: row.value.estimate, default=None)

    @property
    def favourite(self) -> str:
        """Name of the best candidate; if none is surely better than the logger, of the one with the highest value."""
        if self.best is not None:
            return self.best.name
        rows = [row for row in self.policies if row.name in self.learned]
        return max(rows, key=lambda row: row.value.estimate).name

    def save_best(self, path: str | os.PathLike[str]) -> None:
        """Write the favourite, having learned the whole log, with the encoder, if there is one, and the last items.

        `Recommender.load` reads it, and `driftbandit.load` the policy alone.
        """
        save_learned(path, self.learned[self.favourite], self.encoder, self.items)


def audit(
    log: DecisionLog,
    policies: Mapping[str, Builder],
    *,
    grids: Mapping[str, Mapping[str, Builder]] | None = None,
    encoder: Encoder | None = None,
    seed: int = 0,
    on: On = "local",
    say: Callable[[str], None] = lambda step: None,
) -> Audit:
    """Ask a log the five questions.

    Parameters
    ----------
    log : DecisionLog
        The log, as `read_log` opens it. It is read several times.
    policies : mapping of str to function
        Candidates by name: functions of a `Brief` that make a fresh policy; see `prepare` for what they are told.
    grids : mapping of str to mapping, optional
        Policies to tune: settings by name, each a function as above.
    encoder : Encoder, optional
        What makes features. By default one is fitted to the beginning of the log; a log that has features of its own
        needs none.
    seed : int
        Seed of everything that is drawn.
    on : {'local', 'ray'}
        Where the settings of `grids` are tried: in this process, or on a Ray cluster, one per core. The results are the
        same.
    say : callable
        Called with what is being done, for progress.
    """
    if not policies:
        raise ValueError("policies: expected at least one candidate, got none")
    check_on(on)
    say("reading the beginning")
    prepared = prepare(log, encoder=encoder, seed=seed)
    learned = build_policies(policies, prepared.brief)
    if unfit := [name for name, policy in learned.items() if not takes_features(policy) or takes_scope(policy)]:
        raise ValueError(f"policies: expected policies with features and without scopes, got {', '.join(unfit)}")
    wide = encoder or unmixed_encoder(log)
    say("checking propensities")
    trust = trust_in(log)
    report = log.report
    say("looking for changes")
    changes = changes_in(log, wide, trust, seed)
    say("running policies through the log")
    grids = grids or {}
    settings = {_trial(family, label): build for family, grid in grids.items() for label, build in grid.items()}
    trials = build_policies(settings, prepared.brief)
    values = shadow_values({**learned, **trials}, log.events(prepared.encoder), on_ray=trials if on == "ray" else ())
    say("comparing them")
    kept = {name: value for name, value in values.items() if name not in trials}
    rows = compare_values(kept)
    return Audit(
        name=log.name,
        caveat=log.caveat,
        report=report,
        trust=trust,
        encoder=prepared.encoder,
        changes=changes,
        online={
            name: [int(values[name].rows[event]) for event, _ in values[name].changes]
            for name, policy in learned.items()
            if getattr(policy, "detects", False)
        },
        policies=rows,
        values=kept,
        tuned=[_tuned(family, grid, values) for family, grid in grids.items()],
        course=_course(values, rows),
        learned=learned,
        items=items_at(log, float(values[LOGGER].times[-1])),
    )


def unmixed_encoder(log: DecisionLog) -> Encoder | None:
    """An encoder whose features are not hashed unless there are very many; None if the log has features."""
    return None if next(iter(log)).features is not None else fit_encoder(log, _PRODUCT)


def changes_in(log: DecisionLog, encoder: Encoder | None, trust: Trust, seed: int = 0) -> list[WorldChange]:
    """All changes of the world in a log; see `find_changes`."""
    names = encoder.names if encoder is not None else [f"feature {j}" for j in range(dim_of(log, None))]
    arms = list(map(str, log.arms.ids))
    return find_changes(lambda: log.events(encoder), names, arms, count=trust.decisions, clicks=trust.clicks, seed=seed)


def trust_in(log: DecisionLog) -> Trust:
    """What a log's numbers say about itself."""
    check = TrustCheck()
    for decisions in log:
        check.add(decisions)
    return check.result()


def _trial(family: str, label: str) -> str:
    return f"{family} [{label}]"


def _tuned(family: str, grid: Iterable[str], values: Mapping[str, Valuation]) -> Tuned:
    """The best settings of the first half, valued on the second."""
    labels = list(grid)
    half = len(values[LOGGER]) // 2
    first = [values[_trial(family, label)].terms("dr")[:half].value for label in labels]
    chosen = labels[int(np.argmax(first))]
    name = _trial(family, chosen)
    later = {who: values[who][half:] for who in (LOGGER, name)}
    return Tuned(family, chosen, len(labels), compare_values(later)[1])


def _course(values: Mapping[str, Valuation], rows: Sequence[ValueRow]) -> Course:
    logger = values[LOGGER]
    best = max(rows, key=lambda row: row.value.estimate).name
    window = max(len(logger) // _BUCKETS, 1)
    ends, earned = logger.terms("dr").over_time(window, _BUCKETS)
    return Course(logger.rows[ends - 1], earned, values[best].terms("dr").over_time(window, _BUCKETS)[1], best)
