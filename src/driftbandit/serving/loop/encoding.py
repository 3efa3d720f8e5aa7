"""Named features: a loop with an encoder in its settings takes names where other loops take arrays of numbers.

A decision then gives its context by column, and its arms by id or with their columns. The loop encodes context and
arms to the same (K, d) array that other loops are sent, and everything else goes on as it does there.

**What the log holds.** It holds what was asked: the context, the ids of the pool, and the columns of arms that came
with the decision. It does not hold the encoded features. An encoder is a value that never changes and is part of the
settings in the log, so encoding again gives the same numbers bit for bit, in recovery and in `driftbandit rerun`. A
decision among ten arms with 64 features takes a few hundred bytes in this way instead of 5 kB, and other programs read
names in the log. An open decision keeps the encoded row of the arm that was played, so its reward is learned from what
the policy saw, whatever becomes of the catalogue and the settings before its window closes.

**Cost.** The encoder keeps the rows of arms that it has met, and finds them by their columns. Lists cannot be looked
up, so they become tuples here, once for every arm of a catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from driftbandit.core import LARGEST, Floats
from driftbandit.features import Encoder
from driftbandit.serving.loop.events import Record, Refused

Scalar = (
    bool
    | Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
    | Annotated[str, Meta(max_length=2_000)]
    | None
)
Named = dict[Annotated[str, Meta(max_length=200)], Scalar | Annotated[list[Scalar], Meta(max_length=10_000)]]
"""Values by column, as requests give them."""

_LARGEST_COLUMN = 10_000
_MOST_PRODUCTS = 10_000_000
"""Bounds of an encoder, so that making it and naming its features takes no more than a second or so."""

_CHECKED = 100
"""So many arms are encoded together when a catalogue is checked."""


class NamedFeatures:
    """Checks and encodes the contexts and arms of a loop.

    Parameters
    ----------
    described : dict
        What `Encoder.to_json` returned.

    Raises
    ------
    ValueError
        If this describes no encoder, one that still has to be fitted, or one that is too large.

    Examples
    --------
    >>> from driftbandit.features import Category, Flag
    >>> named = NamedFeatures(Encoder([Flag("member")], [Category("genre", ["jazz"])]).to_json())
    >>> named.encode({"member": True}, named.records(["a"], [{"genre": "jazz"}])).shape
    (1, 8)
    >>> named.encode({"membre": True}, [])
    Traceback (most recent call last):
    driftbandit.serving.loop.events.Refused: context: unknown column 'membre'; the encoder knows: member
    """

    def __init__(self, described: Mapping[str, Any]) -> None:
        _check_sizes(described)
        try:
            self.encoder = Encoder.from_json(described)
            columns = self.encoder.columns
        except (OverflowError, MemoryError, RecursionError, IndexError) as error:
            raise ValueError(f"encoder: expected what Encoder.to_json returned ({error})") from error
        products = 1
        for side in columns.values():
            products *= 1 + sum(len(column.labels) for column in side)
        if products > _MOST_PRODUCTS:
            raise ValueError(f"encoder: expected at most {_MOST_PRODUCTS:,} products of columns, got {products:,}")
        self._context = frozenset(column.name for column in columns["context"])
        self.arm_columns = frozenset(column.name for column in columns["arms"])
        self.ids_suffice = self.arm_columns <= {"id"}
        """Whether arms need no columns beside their id."""

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self.encoder.dim

    def records(self, ids: Sequence[str], given: Floats | Sequence[Record] | None) -> list[Record]:
        """The columns of arms in the form that `encode` takes; a column 'id' is filled in.

        Raises
        ------
        Refused
            If features are numbers, a column is unknown, or no columns are given where the encoder needs them.
        """
        if isinstance(given, np.ndarray):
            raise Refused(422, "arms: expected features by name, since this loop has an encoder, got lists of numbers")
        if given is None:
            if not self.ids_suffice:
                raise Refused(422, f"arms: expected features by name for every arm: {_listed(self.arm_columns)}")
            given = [{}] * len(ids)
        found = []
        for name, record in zip(ids, given, strict=True):
            if not record.keys() <= self.arm_columns:
                _refuse_column(f"arms: {name[:200]!r}", record, self.arm_columns)
            frozen = {key: tuple(value) if type(value) is list else value for key, value in record.items()}
            if "id" in self.arm_columns and frozen.setdefault("id", name) != name:
                raise Refused(422, f"arms: {name[:200]!r}: expected its own id in the column 'id', or nothing")
            found.append(frozen)
        return found

    def encode(self, context: Record, records: Sequence[Record]) -> Floats:
        """Features of arms for a context, shape (K, dim); refuses values that the encoder cannot use."""
        if not context.keys() <= self._context:
            _refuse_column("context", context, self._context)
        try:
            return self.encoder.encode(context, records)
        except ValueError as error:
            raise Refused(422, str(error)) from error

    def check(self, ids: Sequence[str], given: Floats | Sequence[Record] | None) -> None:
        """Refuse arms that the encoder cannot use."""
        records = self.records(ids, given)
        for start in range(0, len(records), _CHECKED):
            self.encode({}, records[start : start + _CHECKED])


def numbers_only(features: Floats | list[Record] | None) -> Floats | None:
    """The features of arms of a loop without an encoder; refuses features by name."""
    if isinstance(features, list):
        raise Refused(422, "arms: this loop has no encoder in its settings, so features are lists of numbers")
    return features


def canonical(described: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """An encoder's description as JSON gives it back, equal for equal encoders, and the number of its features."""
    encoder = NamedFeatures(described).encoder
    return msgspec.json.decode(msgspec.json.encode(encoder.to_json())), encoder.dim


def encoder_names(described: Mapping[str, Any]) -> tuple[str, ...]:
    """What an encoder calls its features."""
    return _names(msgspec.json.encode(described))


@lru_cache(maxsize=32)
def _names(described: bytes) -> tuple[str, ...]:
    return Encoder.from_json(msgspec.json.decode(described)).names


def _check_sizes(described: Mapping[str, Any]) -> None:
    """Refuse columns that would take much memory before they are made."""
    for side in ("context", "arms"):
        columns = described.get(side)
        for column in columns if isinstance(columns, list) else ():
            for key in ("size", "buckets"):
                size = column.get(key) if isinstance(column, dict) else None
                if isinstance(size, int | float) and size > _LARGEST_COLUMN:
                    raise ValueError(f"encoder: {side}: {key}: expected at most {_LARGEST_COLUMN:,}, got {size}")


def _refuse_column(what: str, record: Record, known: frozenset[str]) -> None:
    unknown = next(name for name in record if name not in known)
    raise Refused(422, f"{what}: unknown column {unknown[:200]!r}; the encoder knows: {_listed(known)}")


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"
