"""What one policy would have earned on a log: everything that estimators and intervals need, and a file of it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Change, Floats, Ints
from driftbandit.evaluation.estimators import Terms
from driftbandit.evaluation.intervals import Interval
from driftbandit.evaluation.samples import Sample
from driftbandit.evaluation.stored import loaded_result, save_result
from driftbandit.evaluation.value_intervals import bootstrap_interval

Estimand = Literal["shadow", "replayed"]
_META = b"driftbandit valuation"
_COLUMNS = ("weights", "rewards", "predicted", "expected")


@dataclass(frozen=True, eq=False)
class Valuation:
    """A policy's run through a log.

    Attributes
    ----------
    name : str
        The policy.
    estimand : {'shadow', 'replayed'}
        Which question was asked: the mean value of the policy that learns every logged reward, or of the policy that
        learns only accepted events.
    sample : Sample
        Weights, rewards and predictions of all events. Every estimator and interval is computed from these.
    accepted : array of bool, shape (n,)
        Which events the policy learned from; all of them under 'shadow'.
    rows : array of int64, shape (n,)
        Their rows in the log.
    times : array of shape (n,)
        When they happened.
    smallest_propensity : float
        The smallest probability with which the logger displayed an arm.
    changes : tuple of (int, Change)
        What the policy detected, each with the number of the event, from 0.
    seconds : float
        Time that the policy took.
    """

    name: str
    estimand: Estimand
    sample: Sample
    accepted: NDArray[np.bool_]
    rows: Ints
    times: Floats
    smallest_propensity: float
    changes: tuple[tuple[int, Change], ...] = ()
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, part: slice) -> Valuation:
        """Some of the events, with the changes that were detected at them; the time that the policy took is shared.

        `smallest_propensity` stays that of the whole log, because it is a bound that holds for any part.
        """
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise ValueError(f"part: expected a slice of consecutive events, such as [100:], got {part!r}")
        start, stop, _ = part.indices(len(self))
        part, count = slice(start, stop), max(stop - start, 0)
        return replace(
            self,
            sample=self.sample[part],
            accepted=self.accepted[part],
            rows=self.rows[part],
            times=self.times[part],
            changes=tuple((event - start, change) for event, change in self.changes if start <= event < stop),
            seconds=self.seconds * count / max(len(self), 1),
        )

    @property
    def share_accepted(self) -> float:
        """Share of the events that the policy learned from; drift looks 1 / this share times faster to it."""
        return float(self.accepted.mean())

    @property
    def effective_events(self) -> float:
        """Effective sample size: (sum of w)^2 / sum of w^2; how many events of equal weight would say as much."""
        squares = float(self.sample.weights @ self.sample.weights)
        return float(self.sample.weights.sum()) ** 2 / squares if squares else 0.0

    def terms(self, estimator: str = "dr", *, limit: float | None = None) -> Terms:
        """What each event adds to an estimate; see `Sample.terms`."""
        return self.sample.terms(estimator, limit=limit)

    def interval(self, estimator: str = "dr", *, limit: float | None = None, level: float = 0.95) -> Interval:
        """The value with a block bootstrap interval."""
        return bootstrap_interval(self.terms(estimator, limit=limit), level=level)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a Parquet file with one row per event, whole or not at all."""
        facts = {
            "events": len(self),
            "name": self.name,
            "estimand": self.estimand,
            "smallest_propensity": self.smallest_propensity,
            "changes": [[event, asdict(change)] for event, change in self.changes],
            "seconds": self.seconds,
        }
        columns = {"row": self.rows, "time": self.times, "accepted": self.accepted}
        save_result(path, _META, {**columns, **{name: getattr(self.sample, name) for name in _COLUMNS}}, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Valuation:
        """Read a valuation back.

        Raises
        ------
        ValueError
            If the file is not a whole Parquet file written by `save`.
        """
        with loaded_result(path, _META, "valuation") as (table, facts):
            if table.num_rows != facts["events"]:
                raise ValueError(f"{table.num_rows} rows for {facts['events']} events")
            return cls(
                name=facts["name"],
                estimand=facts["estimand"],
                sample=Sample(*(table[name].to_numpy() for name in _COLUMNS)),
                accepted=table["accepted"].to_numpy(),
                rows=table["row"].to_numpy(),
                times=table["time"].to_numpy(),
                smallest_propensity=facts["smallest_propensity"],
                changes=tuple((event, Change(**change)) for event, change in facts["changes"]),
                seconds=facts["seconds"],
            )
