"""A log of decisions that is read as it is used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.blemishes import Report
from driftbandit.core import Floats, Ints, as_count
from driftbandit.logs.catalogue import Catalogue, Names
from driftbandit.logs.columns import Columns
from driftbandit.logs.decisions import Checker, Decisions
from driftbandit.logs.events import Events
from driftbandit.logs.sources import Source, open_source, open_table

BATCH_ROWS = 8192
"""Rows read at a time: enough that Python's share of the work is small, and few enough for wide features."""

Logged = Literal["uniform", "estimated"]


class BatchEncoder(Protocol):
    """What a log needs of an encoder."""

    def encode_many(
        self, contexts: Mapping[str, Any], arms: Mapping[str, Any], owners: Ints, members: Ints
    ) -> ArrayLike:
        """Features of shape (m, d): row j crosses context owners[j] with arm members[j]."""
        ...


def read_log(
    source: Any,
    *,
    items: Any = None,
    columns: Columns | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    logged: Logged | None = None,
    format: str | None = None,
    batch_rows: int = BATCH_ROWS,
) -> DecisionLog:
    """Open a log of decisions. Its rows are read when they are used, a few at a time.

    Parameters
    ----------
    source : path, table, dictionary or list
        A CSV, Parquet, NDJSON or DSJSON file, a folder of such files, an export of the service, day files of the
        Yahoo! log, an Arrow, pandas or Polars table, obp's `bandit_feedback`, or coba's logged interactions.
    items : path or table, optional
        Table of the arms: an id, optional `from` and `until`, and any columns that describe them. Needed if the log
        does not say which arms could have been shown: then the pool is every item alive.
    columns : mapping or path of a TOML file, optional
        Which column is the time, scope, decision, arms, arm, propensity, reward, features and the time of the reward
        (`rewarded`); which ones to ignore; and under `items` the same for the item table. What is not given is
        found by itself.
    logged : {'uniform', 'estimated'}, optional
        How arms were drawn. By default the log must have a column of propensities. 'uniform': each arm of the pool
        with the same probability. 'estimated': by how often each arm was shown when it could have been; this is only
        right if the logger did not look at the context, and all that is computed from it is 'estimated' too.
    format : {'csv', 'tsv', 'parquet', 'json', 'r6a'}, optional
        Format of files whose name does not tell; 'r6a' is that of the Yahoo! log.
    batch_rows : int
        Most rows held at a time.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing or cannot be read, a column that is needed is missing, or the log does not say how its
        arms were drawn.

    Examples
    --------
    >>> import pyarrow as pa
    >>> log = read_log(
    ...     pa.table({
    ...         "device": ["phone", "desk", "phone"], "arms": [["tea", "cup"], ["cup"], ["cup", "tea"]],
    ...         "arm": ["tea", "cup", "tea"], "propensity": [0.5, 1.0, 1.5], "reward": [1, 0, 1],
    ...     })
    ... )
    >>> for decisions in log:
    ...     print(decisions.rewards, decisions.contexts["device"], [log.arms.ids[row] for row in decisions.members])
    [1. 0.] ['phone' 'desk'] ['tea', 'cup', 'cup']
    >>> print(log.report)
    3 lines, 2 events
    skipped: propensity above 1: 1 (the table:3)
    """
    if logged not in (None, "uniform", "estimated"):
        raise ValueError(f"logged: expected 'uniform', 'estimated' or None, got {logged!r}")
    names = Columns.of(columns)
    opened = open_source(source, names, as_count("batch_rows", batch_rows), format)
    arms = Catalogue() if items is None else _items(items, names)
    if "arms" not in opened.roles and not arms.known:
        raise ValueError(
            f"{opened.name}: no column says which arms could have been shown; name it by columns={{'arms': ...}}, or "
            "give items= the table of all arms, with from and until if they come and go (--columns FILE, --items FILE)"
        )
    if logged is None and "propensity" not in opened.roles:
        raise ValueError(
            f"{opened.name}: no column of propensities; name it by columns={{'propensity': ...}}, or say logged="
            "'uniform' if each candidate was equally likely, or logged='estimated' if the logger did not look at the "
            "context (--columns FILE, --logged uniform, --logged estimated)"
        )
    return DecisionLog(opened, arms, logged or "column")


def _items(items: Any, names: Columns) -> Catalogue:
    where = str(items) if isinstance(items, str | os.PathLike) else "items"
    return Catalogue.of(open_table(items), names.items, where)


class DecisionLog:
    """Decisions that are read as they are used; iterate over it, as often as you like, to get batches of them.

    `read_log` makes one.

    Attributes
    ----------
    name : str
        Where it comes from.
    arms : Catalogue
        The arms; it grows as the log is read if arms are not in an item table.
    scopes : list of str
        Names of the scopes seen so far.
    logged : {'column', 'uniform', 'estimated'}
        Where the propensities come from.
    report : Report
        What the last (or current) reading found.
    """

    def __init__(self, source: Source, arms: Catalogue, logged: str) -> None:
        self.name = source.name
        self.arms = arms
        self.logged = logged
        self.report = Report()
        self._source = source
        self._scopes = Names()
        self._shares: Floats | None = None
        self._context: dict[str, None] = {}

    @property
    def scopes(self) -> list[str]:
        """Names of the scopes seen so far, by number."""
        return self._scopes.ids

    @property
    def caveat(self) -> str:
        """What every number that uses the propensities has to say; empty if they are known."""
        return "estimated propensities" if self.logged == "estimated" else ""

    def __iter__(self) -> Iterator[Decisions]:
        if self.logged == "estimated" and self._shares is None:
            self._shares = self._estimate()
        return self._read(self.logged)

    def _read(self, logged: str) -> Iterator[Decisions]:
        """Batches of decisions; raises ValueError at the end if there was none."""
        report = self.report = Report()
        checker = Checker(self.arms, self._scopes, report, logged, self._shares)
        for piece in self._source.pieces(report, self.arms):
            found = checker.check(piece)
            if len(found):
                yield found
        if not report.events:
            raise ValueError(f"{self.name}: no decision can be used\n{report}")

    def _estimate(self) -> Floats:
        """Share of the pools with an arm in which it was shown, for every arm."""
        offered, shown = np.zeros(0), np.zeros(0)
        for found in self._read("uniform"):
            offered = _plus(offered, np.bincount(found.members, minlength=len(self.arms)))
            shown = _plus(shown, np.bincount(found.displayed(), minlength=len(self.arms)))
        return shown / np.maximum(offered, 1)

    def check(self) -> Report:
        """Read everything once and say what was found.

        Raises
        ------
        ValueError
            If no decision can be used; the message has the report.
        """
        for _ in self:
            pass
        return self.report

    def events(self, encoder: BatchEncoder | None = None) -> Iterator[Events]:
        """Batches of decisions with features.

        Parameters
        ----------
        encoder : Encoder, optional
            Makes features of context and arms. By default the features are those in the log.

        Raises
        ------
        ValueError
            If neither the log nor an encoder gives features.
        """
        for found in self:
            features = found.features
            if encoder is not None:
                made = encoder.encode_many(self._full(found), self.arms.columns(), found.owners, found.members)
                features = np.asarray(made, dtype=np.float64)
            if features is None:
                raise ValueError(f"{self.name}: the log has no numeric features; pass an encoder")
            yield Events(
                features,
                found.members,
                found.offsets,
                found.shown,
                found.propensities,
                found.rewards,
                found.scopes,
                found.times,
                found.rows,
            )

    def _full(self, found: Decisions) -> dict[str, Any]:
        """Contexts with every column that an earlier batch had."""
        self._context |= dict.fromkeys(found.contexts)
        missing = [None] * len(found)
        return {name: found.contexts.get(name, missing) for name in self._context}

    def records(self, count: int = 10_000) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """The first decisions as (context, arms), each a dictionary by column, such as an encoder is fitted on.

        Parameters
        ----------
        count : int
            How many decisions, or all if there are fewer.
        """
        as_count("count", count)
        made: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        for found in self:
            facts = self.arms.columns()
            arms = {row: {name: facts[name][row] for name in facts} for row in np.unique(found.members).tolist()}
            for at in range(min(len(found), count - len(made))):
                pool = found.members[found.offsets[at] : found.offsets[at + 1]].tolist()
                context = {name: column[at] for name, column in found.contexts.items()}
                made.append((context, [arms[row] for row in pool]))
            if len(made) == count:
                break
        return made


def _plus(left: Floats, right: Sequence[int] | Ints) -> Floats:
    """Sum of two arrays, the shorter one filled up with zeros."""
    size = max(len(left), len(right))
    total: Floats = np.pad(left, (0, size - len(left))) + np.pad(right, (0, size - len(right)))
    return total
