"""Arms by id, in the forms in which people give them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from driftbandit.core import Ints
from driftbandit.features.hashing import wide_key_of

ArmId = int | str
Record = Mapping[str, Any]
Arms = Mapping[ArmId, Record] | Sequence[Record | ArmId] | None


def listed(arms: Any, items: Mapping[ArmId, Record]) -> tuple[list[ArmId], list[Record | None]]:
    """Ids and features of arms in any form; the features of an id that is not among the items are None.

    >>> listed(["a", 7], {"a": {"price": 1}})
    (['a', 7], [{'price': 1}, None])
    """
    if isinstance(arms, Mapping):
        return [as_id(arm) for arm in arms], list(arms.values())
    if isinstance(arms, str) or not isinstance(arms, Iterable):
        raise ValueError(f"arms: expected a dictionary by id, or a list of dictionaries or ids, got {arms!r:.60}")
    ids: list[ArmId] = []
    records: list[Record | None] = []
    for arm in arms:
        if isinstance(arm, Mapping):
            if "id" not in arm:
                raise ValueError(f"arms: expected an 'id' in every arm, got {arm!r:.60}")
            ids.append(as_id(arm["id"]))
            records.append(arm)
        else:
            ids.append(as_id(arm))
            records.append(items.get(ids[-1]))
    return ids, records


def as_items(arms: Any) -> dict[ArmId, Record]:
    """Arms in any form as a dictionary by id."""
    items: dict[ArmId, Record] = {}
    for arm, record in zip(*listed(arms, {}), strict=True):
        if not isinstance(record, Mapping):
            raise ValueError(f"items: expected features for every id, got {record!r:.60} for {arm!r}")
        items[arm] = record
    return items


def as_id(arm: Any) -> ArmId:
    """The id of an arm, a text or a whole number, or ValueError."""
    if isinstance(arm, str):
        return arm
    if isinstance(arm, int | np.integer) and not isinstance(arm, bool) and -(1 << 63) <= arm < 1 << 63:
        return int(arm)
    raise ValueError(f"arms: expected ids that are texts or whole numbers that fit int64, got {arm!r:.60}")


@lru_cache(maxsize=100_000)
def number_of(arm: ArmId) -> int:
    """The number by which a policy knows an arm: itself, or a hash of its text."""
    return arm if isinstance(arm, int) else wide_key_of(arm)


def numbers_of(ids: Sequence[ArmId]) -> Ints:
    """The numbers of several arms; see `number_of`."""
    return np.array([number_of(arm) for arm in ids], dtype=np.int64)


def plain_record(record: Record) -> dict[str, Any]:
    """An arm's features as JSON can hold them."""
    return {name: _plain(value) for name, value in record.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, set | frozenset):
        value = sorted(value)
    return None if isinstance(value, float) and math.isnan(value) else value
