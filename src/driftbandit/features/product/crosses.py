"""Which products of context and arm columns there are, and where each goes: a column of its own, or a hashed one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.features.columns.base import Rows
from driftbandit.features.product.kernel import (
    ABSENT,
    GROUP,
    HASHED,
    KEY,
    cross,
    pair_hash,
    sign_of,
    slot_of,
    target_table,
)
from driftbandit.features.product.side import Side

Crosses = Literal["all", "none"] | Sequence[tuple[str, str]]

TIMES = " × "
_NAMED = 2
"""So many of the products that share a hashed column are named; the others are counted."""

_LARGEST_TABLE = 1 << 18
"""So many pairs of columns at most have their targets written down, which takes 2 MB; see `kernel`."""

NO_COMPONENTS: Floats = np.zeros((0, 0))


class Layout:
    """The columns of the product of two sides.

    If all products together take at most `most` columns, each has its own. Otherwise they are hashed, with a sign, into
    `most` columns; what is not a product of two columns (the constant, the context's and the arm's own columns) still
    has its own columns then, if they take no more than half of them.

    Attributes
    ----------
    full : int
        Number of products.
    width : int
        Number of columns.
    """

    def __init__(self, context: Side, arms: Side, crosses: Crosses, context_only: bool, most: int) -> None:
        self.context, self.arms = context, arms
        wanted = _wanted(context, arms, crosses, context_only)
        sizes = np.outer(_group_sizes(context), _group_sizes(arms)) * wanted
        self.full = int(sizes.sum())
        own = wanted.copy()
        if self.full > most:
            own[1:, 1:] = False
            if sizes[own].sum() > most // 2:
                own[:] = False
        self.hashed_from = int(sizes[own].sum())
        self.width = self.full if self.full <= most else most
        self.starts: Ints = np.where(wanted, HASHED, ABSENT).astype(np.int64)
        # The constant first, then the arm's columns, then the context's, then their products.
        order = sorted(zip(*np.nonzero(own), strict=True), key=lambda pair: (pair[0] > 0, pair[1] > 0, *pair))
        at = 0
        for group, other in order:
            self.starts[group, other] = at
            at += int(sizes[group, other])
        self._targets: Ints = np.zeros((0, 0), dtype=np.int64)
        if len(context) * len(arms) <= _LARGEST_TABLE:
            self._targets = np.empty((len(context), len(arms)), dtype=np.int64)
            size = self.width - self.hashed_from
            target_table(self.starts, self.hashed_from, size, context.table, arms.table, self._targets)

    def fill(self, context: Rows, owners: Ints, arms: Rows, members: Ints, components: Floats, out: Floats) -> None:
        """Add the products of the rows to `out`, which must be zero; see `kernel.cross`."""
        cross(
            self.starts,
            self.hashed_from,
            self._targets,
            self.context.table,
            *context,
            owners,
            self.arms.table,
            *arms,
            members,
            components,
            out,
        )

    def names(self) -> tuple[str, ...]:
        """A readable name for every column."""
        parts: list[list[str]] = [[] for _ in range(self.width)]
        counts, filled = np.zeros((2, self.width), dtype=np.int64)
        arm_groups, arm_keys = self.arms.table[:, GROUP], self.arms.table[:, KEY]
        for i, label in enumerate(self.context.labels):
            group, place, key, _ = self.context.table[i].tolist()
            starts = self.starts[group][arm_groups]
            mixed = pair_hash(np.int64(key), arm_keys)
            hashed = self.hashed_from + slot_of(mixed, self.width - self.hashed_from)
            owned = starts + place * self.arms.table[:, 3] + self.arms.table[:, 1]
            columns = np.where(starts == HASHED, hashed, owned)
            present = np.flatnonzero(starts != ABSENT)
            counts += np.bincount(columns[present], minlength=self.width)
            for j in present[filled[columns[present]] < _NAMED].tolist():
                column = int(columns[j])
                minus = starts[j] == HASHED and sign_of(int(mixed[j])) < 0
                parts[column].append(("-" if minus else "+") + product_name(label, self.arms.labels[j]))
                filled[column] += 1
        return tuple(_joined(shown[:_NAMED], int(count)) for shown, count in zip(parts, counts, strict=True))


def product_name(context: str, arm: str) -> str:
    """Name of the product of two columns, either of which may be the constant, whose name is empty.

    >>> product_name("device=phone", "genre=jazz"), product_name("", "genre=jazz"), product_name("", "")
    ('device=phone × genre=jazz', 'genre=jazz', 'constant')
    """
    return TIMES.join(part for part in (context, arm) if part) or "constant"


def _joined(shown: list[str], count: int) -> str:
    """Names with signs as one, such as 'a - b + 3 more'."""
    if not shown:
        return "unused"
    text = " ".join(f"{part[0]} {part[1:]}" for part in shown).removeprefix("+ ")
    return text if count == len(shown) else f"{text} + {count - len(shown)} more"


def _wanted(
    context: Side, arms: Side, crosses: Crosses, context_only: bool
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Which groups of the context are multiplied with which groups of the arm; group 0 is the constant."""
    wanted = np.zeros((len(context.columns) + 1, len(arms.columns) + 1), dtype=bool)
    wanted[0, :] = True
    wanted[1:, 0] = context_only
    if crosses in ("all", "none"):
        wanted[1:, 1:] = crosses == "all"
        return wanted
    if isinstance(crosses, str) or not isinstance(crosses, Sequence):
        raise ValueError(f"crosses: expected 'all', 'none' or pairs of a context and an arm column, got {crosses!r}")
    known = [[column.name for column in side.columns] for side in (context, arms)]
    for pair in crosses:
        if (
            not isinstance(pair, tuple | list)
            or len(pair) != 2
            or any(one not in names for one, names in zip(pair, known, strict=True))
        ):
            raise ValueError(
                f"crosses: expected pairs of a context column ({', '.join(known[0])}) and an arm column "
                f"({', '.join(known[1])}), got {pair!r}"
            )
        wanted[known[0].index(pair[0]) + 1, known[1].index(pair[1]) + 1] = True
    return wanted


def _group_sizes(side: Side) -> Ints:
    return np.array([1, *(len(column.labels) for column in side.columns)])
