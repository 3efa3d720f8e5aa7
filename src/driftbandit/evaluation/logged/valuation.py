"""What one policy would have earned on a log: everything that estimators and intervals need, and a file of it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Change, Floats, Ints
from driftbandit.evaluation.estimators import Terms
from driftbandit.evaluation.intervals import Interval
from driftbandit.evaluation.samples import Sample
from driftbandit.evaluation.value_intervals import bootstrap_interval
from driftbandit.files import whole_file

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
        import pyarrow as pa  # noqa: PLC0415 - only files need it, and it is slow to import
        from pyarrow import parquet  # noqa: PLC0415

        facts = {
            "events": len(self),
            "name": self.name,
            "estimand": self.estimand,
            "smallest_propensity": self.smallest_propensity,
            "changes": [[event, asdict(change)] for event, change in self.changes],
            "seconds": self.seconds,
        }
        columns = {"row": self.rows, "time": self.times, "accepted": self.accepted}
        table = pa.table({**columns, **{name: getattr(self.sample, name) for name in _COLUMNS}})
        with whole_file(path) as partial:
            parquet.write_table(
                table.replace_schema_metadata({_META: json.dumps(facts)}), partial, write_page_checksum=True
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Valuation:
        """Read a valuation back.

        Raises
        ------
        ValueError
            If the file is not a whole Parquet file written by `save`.
        """
        import pyarrow as pa  # noqa: PLC0415 - as in `save`
        from pyarrow import parquet  # noqa: PLC0415

        try:
            with open(path, "rb") as file:
                table = parquet.read_table(file, page_checksum_verification=True)
            facts = json.loads((table.schema.metadata or {})[_META])
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
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: not a driftbandit valuation ({error})") from error
