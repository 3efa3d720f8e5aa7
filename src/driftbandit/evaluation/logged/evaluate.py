"""A log, some policies, one table: what each of them would have earned."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from driftbandit.core import unknown_name
from driftbandit.evaluation.builders import build_policies
from driftbandit.evaluation.logged.comparison import Method, ValueRow, check_anytime, compare_values, value_cells
from driftbandit.evaluation.logged.preparing import Preparation, prepare
from driftbandit.evaluation.logged.runs import ALIKE, BEST_ARM, LOGGER, replayed_values, shadow_values
from driftbandit.evaluation.logged.valuation import Estimand
from driftbandit.evaluation.progress import Progress, progress_bar
from driftbandit.evaluation.results import Table
from driftbandit.policies.choosing_memory.click_warning import ClickWarning

if TYPE_CHECKING:
    from driftbandit.features import Encoder
    from driftbandit.logs import DecisionLog, Events, Report
    from driftbandit.policies.registry import Builder

_QUESTIONS = {
    "shadow": "Shadow value: what each policy would have earned per decision, had it chosen what is shown and learned "
    "every logged reward.",
    "replayed": "Replayed value: what each policy would have earned per decision, had it learned from its own choices "
    "alone. It learned the share of the decisions in the column 'learned'; drift looked that much faster to it.",
}
_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class LogEvaluation:
    """What `evaluate_log` found.

    Attributes
    ----------
    name : str
        The log.
    rows : list of ValueRow
        The baselines and the policies: value, interval, difference to the logger, verdict.
    interval : str
        How the intervals were made.
    caveat : str
        What every value has to say, such as 'estimated propensities'; empty if nothing.
    report : Report
        How many rows were read, and which could not be used.
    preparation : Preparation
        Where the features came from, and what the policies were told.
    smallest_propensity : float
        The smallest probability with which the logger displayed an arm.
    """

    name: str
    rows: list[ValueRow]
    interval: str
    caveat: str
    report: Report
    preparation: Preparation
    smallest_propensity: float

    def text(self) -> list[str]:
        """What a reader of the table has to know, one paragraph each."""
        first = self.rows[0]
        how = f"Estimator {first.estimator}, {_LEVEL:.0%} intervals ({self.interval})"
        if self.interval == "anytime":
            how += f", which hold if the logger never gives less than {self.smallest_propensity:.3g} to an arm it shows"
        brief, encoder = self.preparation.brief, self.preparation.encoder
        made = "the log's own" if encoder is None else f"made from {_columns(encoder)}"
        low, high = brief.reward_range
        return [
            _QUESTIONS[first.estimand],
            f"{how}. Differences come from the same decisions, not from two intervals.",
            *([f"With {self.caveat}: right only if the logger did not look at the context."] if self.caveat else []),
            f"Features: {brief.dim}, {made}. Policies that ask are told noise {brief.noise:.3g} and rewards from "
            f"{low:g} to {high:g}, as the first {self.preparation.decisions:,} decisions suggest.",
            *str(self.report).splitlines(),
        ]

    def table(self) -> Table:
        """The rows as a table."""
        headings, cells = value_cells(self.rows, self.caveat)
        if self.rows[0].estimand == "replayed":
            headings = (*headings, "learned")
            cells = [(*line, _share(row)) for line, row in zip(cells, self.rows, strict=True)]
        return Table("Value per decision", headings, tuple(cells), numbers=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; `policies` as in an audit's file."""
        brief = self.preparation.brief
        return {
            "log": self.name,
            "estimand": self.rows[0].estimand,
            "estimator": self.rows[0].estimator,
            "interval": self.interval,
            "level": _LEVEL,
            "caveat": self.caveat,
            "rows": self.report.to_json(),
            "features": brief.dim,
            "noise": brief.noise,
            "reward_range": list(brief.reward_range),
            "smallest_propensity": self.smallest_propensity,
            "policies": [row.as_dict() for row in self.rows],
        }


def evaluate_log(
    log: DecisionLog,
    policies: Mapping[str, Builder],
    *,
    estimand: Estimand = "shadow",
    estimator: str | None = None,
    limit: float | None = None,
    interval: Method = "bootstrap",
    encoder: Encoder | None = None,
    dim: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> LogEvaluation:
    """Say what policies would have earned on a log, beside the logger, uniform choice and the best arm.

    Parameters
    ----------
    log : DecisionLog
        The log, as `read_log` opens it. It is read at most three times: its beginning, if need be to estimate
        propensities, and whole.
    policies : mapping of str to builder
        Functions that make a policy from a `Brief`; `builders_of` finds them by name.
    estimand : {'shadow', 'replayed'}
        Which question to ask; see `shadow_values` and `replayed_values`.
    estimator, limit :
        As in `Sample.terms`; by default 'dr', or 'ips' with the interval 'anytime', which knows only these two.
    interval : {'bootstrap', 'normal', 'anytime'}
        As in `compare_values`. For 'anytime', rewards are taken to stay in the smallest range that holds 0, 1 and all
        rewards of the log.
    encoder, dim :
        As in `prepare`.
    seed : int
        Seed of everything that is drawn.
    progress : bool
        Show how far the policies are, in a terminal or a notebook.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from driftbandit.evaluation.builders import builders_of
    >>> from driftbandit.logs import read_log
    >>> shown = ["tea", "cup"] * 500
    >>> table = pa.table({
    ...     "arms": [["tea", "cup"]] * 1000, "arm": shown, "propensity": [0.5] * 1000,
    ...     "reward": [float(arm == "cup") for arm in shown],
    ... })
    >>> found = evaluate_log(read_log(table), builders_of(["linucb"]))
    >>> [(row.name, round(row.value.estimate, 1), row.verdict) for row in found.rows if row.name != "uniform"]
    [('logger', 0.5, 'the baseline'), ('best arm', 1.0, 'better'), ('linucb', 1.0, 'better')]
    """
    if estimand not in _QUESTIONS:
        raise ValueError(unknown_name("estimand", estimand, _QUESTIONS))
    estimator = estimator or ("ips" if interval == "anytime" else "dr")
    if interval == "anytime":
        check_anytime(estimator)
    prepared = prepare(log, encoder=encoder, dim=dim, seed=seed)
    built = build_policies(policies, prepared.brief)
    with progress_bar("running policies", wanted=progress, unit="decisions") as show, warnings.catch_warnings():
        warnings.simplefilter("ignore", ClickWarning)  # for users who chose the noise; here the log did
        events = _counted(log.events(prepared.encoder), show)
        run = shadow_values if estimand == "shadow" else partial(replayed_values, seed=seed)
        values = run(built, events, bounded=interval == "anytime")
    rewards = values[LOGGER].sample.rewards
    rows = compare_values(
        values,
        estimator=estimator,
        limit=limit,
        interval=interval,
        level=_LEVEL,
        reward_range=(min(float(rewards.min()), 0.0), max(float(rewards.max()), 1.0)),
    )
    return LogEvaluation(
        name=log.name,
        rows=rows,
        interval=interval,
        caveat=log.caveat,
        report=log.report,
        preparation=prepared,
        smallest_propensity=values[LOGGER].smallest_propensity,
    )


def _counted(batches: Iterable[Events], show: Progress) -> Iterator[Events]:
    done = 0
    for events in batches:
        yield events
        done += len(events)
        show(done, None)


def _columns(encoder: Encoder) -> str:
    names = [[column.name for column in side] for side in encoder.columns.values()]
    return " × ".join(", ".join(side) for side in names if side) or "a constant"


def _share(row: ValueRow) -> str:
    return "–" if row.name in (LOGGER, ALIKE, BEST_ARM) else f"{row.share_accepted:.1%}"
