"""An encoder when everything is settled: the two sides, the layout of their product, and its components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats, Ints
from driftbandit.features.columns.base import Column
from driftbandit.features.product.crosses import NO_COMPONENTS, Crosses, Layout
from driftbandit.features.product.projection import WIDEST, component_names, principal
from driftbandit.features.product.side import Side
from driftbandit.features.sample import Sample
from driftbandit.features.tables import columns_of

LARGEST_PRODUCT = 128
"""Without `dim`, a product of at most this many columns is kept whole."""

USUAL_DIM = 64
"""Without `dim`, a larger product is reduced to this many columns."""

_UNLIMITED = 1 << 62


class Plan:
    """What becomes of every column; see `Encoder` for the arguments.

    Attributes
    ----------
    dim : int
        Number of features of an arm.
    components : array of shape (columns, dim)
        Directions to project onto; empty if nothing is projected.
    """

    def __init__(
        self,
        context: Sequence[Column],
        arms: Sequence[Column],
        *,
        crosses: Crosses,
        dim: int | None,
        reduce: str,
        context_only: bool,
        sample: Sample | None = None,
        components: Floats = NO_COMPONENTS,
    ) -> None:
        shared = frozenset(one.name for one in context) & frozenset(one.name for one in arms)
        self.context, self.arms = Side("context", context, shared), Side("arms", arms, shared)
        layout = Layout(self.context, self.arms, crosses, context_only, _UNLIMITED)
        self.dim = dim or (layout.full if layout.full <= LARGEST_PRODUCT else USUAL_DIM)
        self.components = NO_COMPONENTS
        if layout.full > self.dim:
            most = self.dim if reduce == "hash" else max(WIDEST, self.dim)
            layout = Layout(self.context, self.arms, crosses, context_only, most)
        self.dim = min(self.dim, layout.width)
        self._layout = layout
        if layout.width > self.dim:
            self.components = self._principal(sample) if sample is not None else components
            if self.components.shape != (layout.width, self.dim) or not np.isfinite(self.components).all():
                raise ValueError(
                    f"components: expected finite numbers of shape {(layout.width, self.dim)}, got shape "
                    f"{self.components.shape}; a projection has to be fitted to a sample"
                )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A readable name for every feature."""
        names = self._layout.names()
        return component_names(self.components, names) if len(self.components) else names

    def encode(self, context: Mapping[str, Any], arms: Sequence[Mapping[str, Any]]) -> Floats:
        """See `Encoder.encode`."""
        row = self.context.row(context)
        index, value, members = self.arms.places(arms)
        if not len(members):
            raise ValueError("arms: expected at least one arm, got none")
        return self._crossed(row, np.zeros(len(members), dtype=np.int64), (index, value), members)

    def encode_many(self, contexts: Any, arms: Any, owners: ArrayLike, members: ArrayLike) -> Floats:
        """See `Encoder.encode_many`."""
        sides = ((self.context, contexts, "owners", owners), (self.arms, arms, "members", members))
        (first, own), (second, member) = (_rows(*side) for side in sides)
        if len(own) != len(member):
            raise ValueError(f"owners, members: expected one length, got {len(own)} and {len(member)}")
        return self._crossed(first, own, second, member)

    def _crossed(self, context: tuple[Ints, Floats], owners: Ints, arms: tuple[Ints, Floats], members: Ints) -> Floats:
        out = np.zeros((len(members), self.dim))
        self._layout.fill(context, owners, arms, members, self.components, out)
        return out

    def _principal(self, sample: Sample) -> Floats:
        context = self.context.rows(sample.context, sample.contexts)
        arms = self.arms.rows(sample.arms, sample.count)
        wide = np.zeros((len(sample.members), self._layout.width))
        self._layout.fill(context, sample.owners, arms, sample.members, NO_COMPONENTS, wide)
        return principal(wide, self.dim)


def _rows(side: Side, table: Any, name: str, places: ArrayLike) -> tuple[tuple[Ints, Floats], Ints]:
    """The rows of a table, and which of them are wanted."""
    wanted = np.asarray(places)
    if wanted.ndim != 1 or (len(wanted) and wanted.dtype.kind not in "iu"):
        raise ValueError(f"{name}: expected whole numbers of shape (m,), got {wanted.dtype} of shape {wanted.shape}")
    columns, count = columns_of(table, side.what, side.names)
    if not side.names:  # nothing is read from the table, which may be empty
        count = max(count, int(wanted.max(initial=-1)) + 1)
    if len(wanted) and not 0 <= wanted.min() <= wanted.max() < count:
        raise ValueError(
            f"{name}: expected rows of {side.what}, 0 to {count - 1}, got {wanted.min()} to {wanted.max()}"
        )
    return side.rows(columns, count), np.ascontiguousarray(wanted, dtype=np.int64)
