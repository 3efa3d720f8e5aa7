"""From raw columns to decisions that can be used; everything else is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbandit.blemishes import EXAMPLES, Report
from driftbandit.core import Floats, Ints
from driftbandit.environments.log import UNIFORM_WITHIN
from driftbandit.logs import arrow
from driftbandit.logs.arrow import Mask
from driftbandit.logs.catalogue import Catalogue, Names
from driftbandit.logs.seen import Seen

EVERYONE = ""
"""Name of the scope of decisions that name none."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive rows of a file as they were read.

    Attributes
    ----------
    roles : dict of str to Arrow array
        The columns with a meaning, by role (see `driftbandit.logs.columns.ROLES`).
    context : dict of str to Arrow array
        All other columns, by name.
    file : str
        Where the rows come from.
    lines : array of int64
        Line of each row in that file, from 1.
    shift : int
        What to add to a line to get the number of the row in the whole log, from 0.
    """

    roles: Mapping[str, Any]
    context: Mapping[str, Any]
    file: str
    lines: Ints
    shift: int


@dataclass(frozen=True, eq=False)
class Decisions:
    """Some consecutive decisions of a log, without features.

    Attributes
    ----------
    columns : dict of str to Arrow array
        Context of each decision.
    members, offsets : arrays of int64
        Pools as rows of the catalogue, one after the other, and where each starts.
    shown : array of int64
        Position of the displayed arm in its pool.
    propensities, rewards, times : arrays of float64
        Probability of the displayed arm, what it earned, and when.
    scopes : array of int64
        Who asked, as rows of the log's scopes.
    rows : array of int64
        Number of the row in the log, from 0.
    ids : Arrow array of strings or None
        Ids of the decisions, if the log has them.
    features : array of shape (m, d) or None
        Features of the candidates, if the log has them.
    delays : array of float64 or None
        Seconds from each decision to its reward, if the log says when rewards came; NaN where it does not.
    """

    columns: Mapping[str, Any]
    members: Ints
    offsets: Ints
    shown: Ints
    propensities: Floats
    rewards: Floats
    scopes: Ints
    times: Floats
    rows: Ints
    ids: Any = None
    features: Floats | None = None
    delays: Floats | None = None

    def __len__(self) -> int:
        return len(self.shown)

    @cached_property
    def contexts(self) -> dict[str, Any]:
        """The context, by column: floats with NaN for missing, or objects with None for missing."""
        return {name: arrow.values(column) for name, column in self.columns.items()}

    @cached_property
    def owners(self) -> Ints:
        """Decision to which each of `members` belongs."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def displayed(self) -> Ints:
        """Row of the displayed arm in the catalogue."""
        rows: Ints = self.members[self.offsets[:-1] + self.shown]
        return rows


@dataclass
class Checker:
    """Turns pieces into decisions and counts what cannot be used, one kind per row, in the order of the checks."""

    catalogue: Catalogue
    scopes: Names
    report: Report
    logged: str
    shares: Floats | None = None
    dim: int | None = None
    _seen: Seen = field(default_factory=Seen)
    _last: float = -np.inf

    def check(self, piece: Piece) -> Decisions:
        """The usable decisions of a piece."""
        count = len(piece.lines)
        self.report.lines += count
        bad = np.zeros(count, dtype=bool)

        def skip(kind: str, where: Mask) -> None:
            fresh = where & ~bad
            if fresh.any():
                lines = piece.lines[fresh]
                self.report.skip(kind, piece.file, lines[:EXAMPLES].tolist(), len(lines))
                bad[fresh] = True

        times = self._times(piece, skip)
        members, sizes = self._pools(piece, times, skip)
        chosen = self._chosen(piece, skip)
        owners = np.repeat(np.arange(count), sizes)
        starts = np.cumsum(sizes) - sizes
        shown = self._shown(members, owners, starts, chosen, skip)
        propensities = self._propensities(piece, members, owners, sizes, chosen, skip)
        rewards = _numbers(piece, "reward", skip)
        skip("reward not finite", ~np.isfinite(rewards))
        self._check_features(piece, sizes, skip, bad)
        ids = self._ids(piece, skip, bad)
        good = ~bad
        keep = good[owners]
        rows = piece.lines + piece.shift
        found = Decisions(
            {name: column if good.all() else column.filter(pa.array(good)) for name, column in piece.context.items()},
            members[keep],
            np.append(0, np.cumsum(sizes[good])),
            shown[good],
            propensities[good],
            rewards[good],
            self._scopes(piece)[good],
            (rows.astype(np.float64) if times is None else times)[good],
            rows[good],
            None if ids is None else ids.filter(pa.array(good)),
            self._features(piece, good),
            self._delays(piece, times, good),
        )
        self._note(piece, found, good)
        self.report.events += len(found)
        return found

    def _times(self, piece: Piece, skip: Any) -> Floats | None:
        if "time" not in piece.roles:
            return None
        times, unreadable = arrow.seconds(piece.roles["time"])
        skip("time neither a number nor ISO 8601", unreadable)
        skip("time missing", ~np.isfinite(times))
        return times

    def _delays(self, piece: Piece, times: Floats | None, good: Mask) -> Floats | None:
        if "rewarded" not in piece.roles or times is None:
            return None
        came, unreadable = arrow.seconds(piece.roles["rewarded"])
        self._remark(piece, "time of the reward not readable", unreadable & good)
        delays: Floats = came - times
        self._remark(piece, "reward before its decision", (delays < 0.0) & good)
        return np.where(delays >= 0.0, delays, np.nan)[good]

    def _pools(self, piece: Piece, times: Floats | None, skip: Any) -> tuple[Ints, Ints]:
        if "arms" in piece.roles:
            ids, sizes, unreadable = arrow.pools(piece.roles["arms"])
            skip("pool not readable", unreadable)
            members = self.catalogue.rows_of(ids)
        else:
            members, sizes = self.catalogue.alive(
                (piece.lines + piece.shift).astype(np.float64) if times is None else times
            )
        skip("pool empty", sizes == 0)
        return members, sizes

    def _chosen(self, piece: Piece, skip: Any) -> Ints:
        ids, unreadable = arrow.texts(piece.roles["arm"])
        skip("arm not readable", unreadable)
        skip("arm missing", arrow.nulls(ids))
        return self.catalogue.rows_of(ids)

    def _shown(self, members: Ints, owners: Ints, starts: Ints, chosen: Ints, skip: Any) -> Ints:
        hits = np.flatnonzero(members == chosen[owners])
        shown = np.full(len(chosen), -1)
        shown[owners[hits]] = hits - starts[owners[hits]]
        skip("arm not in the pool", shown < 0)
        width = len(self.catalogue) + 1  # members begin at -1, an id that is missing
        keys = np.sort(owners * width + members + 1)
        twice = np.zeros(len(chosen), dtype=bool)
        twice[keys[1:][keys[1:] == keys[:-1]] // width] = True
        skip("an arm twice in the pool", twice)
        return shown

    def _propensities(self, piece: Piece, members: Ints, owners: Ints, sizes: Ints, chosen: Ints, skip: Any) -> Floats:
        logged = None
        if "propensity" in piece.roles and self.logged != "estimated":
            logged = _numbers(piece, "propensity", skip if self.logged == "column" else lambda kind, where: None)
        if self.logged == "column":
            assert logged is not None  # the log was refused otherwise
            skip("propensity not finite", ~np.isfinite(logged))
            skip("propensity 0", logged == 0)
            skip("propensity negative", logged < 0)
            skip("propensity above 1", logged > 1)
            return logged
        uniform = 1.0 / np.maximum(sizes, 1)
        if self.shares is not None:
            total = np.bincount(owners, weights=self.shares[members], minlength=len(chosen))
            return np.divide(self.shares[chosen], total, out=uniform, where=total > 0)
        if logged is not None:
            differs = np.abs(logged - uniform) > UNIFORM_WITHIN * uniform
            self._remark(piece, "propensity is not 1 / size of the pool, though the log is said to be uniform", differs)
        return uniform

    def _check_features(self, piece: Piece, sizes: Ints, skip: Any, bad: Mask) -> None:
        if "features" not in piece.roles:
            return
        column = piece.roles["features"]
        lengths = _lengths(column)
        skip("features do not fit the pool", lengths != sizes)
        rows = arrow.whole(column.flatten())
        owners = np.repeat(np.arange(len(sizes)), np.maximum(lengths, 0))
        dims = _lengths(rows)
        if self.dim is None:
            usable = dims[~bad[owners] & (dims > 0)]
            self.dim = int(usable[0]) if len(usable) else None
        wrong = np.zeros(len(sizes), dtype=bool)
        wrong[owners[dims != (self.dim or 0)]] = True
        skip("features of another length than the first", wrong)
        values, _ = arrow.numbers(arrow.whole(rows.flatten()))
        wrong = np.zeros(len(sizes), dtype=bool)
        wrong[np.repeat(owners, np.maximum(dims, 0))[~np.isfinite(values)]] = True
        skip("features not finite", wrong)

    def _features(self, piece: Piece, good: Mask) -> Floats | None:
        if "features" not in piece.roles:
            return None
        rows = arrow.whole(piece.roles["features"].filter(pa.array(good)).flatten())
        return arrow.numbers(arrow.whole(rows.flatten()))[0].reshape(len(rows), -1 if len(rows) else self.dim or 1)

    def _ids(self, piece: Piece, skip: Any, bad: Mask) -> Any:
        if "decision" not in piece.roles:
            return None
        ids, unreadable = arrow.texts(piece.roles["decision"])
        skip("decision id not readable", unreadable)
        usable = np.flatnonzero(~bad & ~arrow.nulls(ids))
        again = np.zeros(len(bad), dtype=bool)
        again[usable] = self._seen.again(ids.take(pa.array(usable)))
        skip("decision twice", again)
        return ids

    def _scopes(self, piece: Piece) -> Ints:
        if "scope" not in piece.roles:
            return np.full(len(piece.lines), self.scopes.row_of(EVERYONE))
        codes = self.scopes.rows_of(arrow.texts(piece.roles["scope"])[0])
        if (codes < 0).any():
            codes = np.where(codes < 0, self.scopes.row_of(EVERYONE), codes)
        return codes

    def _note(self, piece: Piece, found: Decisions, good: Mask) -> None:
        if self.catalogue.known:
            unknown = np.zeros(len(good), dtype=bool)
            unknown[np.flatnonzero(good)[found.owners[found.members >= self.catalogue.known]]] = True
            self._remark(piece, "an arm that is not in the item table", unknown)
        before = np.append(self._last, found.times)
        earlier = np.zeros(len(good), dtype=bool)
        earlier[np.flatnonzero(good)[before[1:] < before[:-1]]] = True
        self._remark(piece, "earlier than the row before", earlier)
        self._last = float(before[-1])

    def _remark(self, piece: Piece, kind: str, where: Mask) -> None:
        lines = piece.lines[where]
        self.report.note(kind, piece.file, lines[:EXAMPLES].tolist(), len(lines))


def _numbers(piece: Piece, role: str, skip: Any) -> Floats:
    values, unreadable = arrow.numbers(piece.roles[role])
    skip(f"{role} not a number", unreadable)
    skip(f"{role} missing", arrow.nulls(piece.roles[role]) | np.isnan(values))
    return values


def _lengths(column: Any) -> Ints:
    """Length of each list, -1 where there is none."""
    lengths: Ints = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths
