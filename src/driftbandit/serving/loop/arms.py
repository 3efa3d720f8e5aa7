"""Pools: the arms of a request, with what policies need to know of them."""

from __future__ import annotations

from collections import Counter

from driftbandit.core import Floats
from driftbandit.serving.loop.randomness import arm_numbers
from driftbandit.serving.loop.records import MAX_ARMS, Catalogue, Pool, Refused


def make_pool(
    arms: tuple[str, ...] | None,
    features: Floats | None,
    dim: int | None,
    catalogue: Catalogue | None,
    *,
    numbered: bool,
) -> Pool:
    """The pool of a request, or why it cannot be used.

    Parameters
    ----------
    arms, features :
        What the request has: ids or none, with features or without.
    dim, catalogue :
        What the loop has.
    numbered : bool
        Whether policies know arms by number.
    """
    if arms is not None and not 0 < len(set(arms)) == len(arms) <= MAX_ARMS:
        raise Refused(422, _wrong_ids(arms))
    if features is not None:
        if dim is None:
            raise Refused(422, "arms: this loop has no features (dim), so arms are given by id")
        if features.shape[1] != dim:
            raise Refused(422, f"arms: expected {dim} features an arm, got {features.shape[1]}")
        numbers = arm_numbers(arms or ()) if numbered else None
        return Pool(arms, arms or (), features, numbers, features.tobytes())
    if arms is None:
        if catalogue is None:
            raise Refused(422, "arms: expected a list, or a catalogue put before")
        _check(catalogue, dim)
        return Pool(None, catalogue.ids, catalogue.features, catalogue.numbers)
    if dim is None:
        return Pool(arms, arms, None, arm_numbers(arms))
    if catalogue is None:
        raise Refused(422, "arms: ids need a catalogue with features, and this loop has none")
    _check(catalogue, dim)
    rows = catalogue.rows
    try:
        at = [rows[arm] for arm in arms]
    except KeyError as error:
        raise Refused(422, f"arms: {error.args[0][:200]!r} is not in the catalogue") from error
    numbers = catalogue.numbers[at] if numbered else None
    return Pool(arms, arms, catalogue.features.take(at, axis=0), numbers)  # type: ignore[union-attr]


def _wrong_ids(arms: tuple[str, ...]) -> str:
    """What is wrong with ids that are none, too many, or not all different."""
    twice = next((arm for arm, count in Counter(arms).items() if count > 1), None)
    if twice is not None and len(arms) <= MAX_ARMS:
        return f"arms: expected different ids, got {twice[:200]!r} more than once"
    return f"arms: expected 1 to {MAX_ARMS:,} different ids, got {len(arms):,}"


def _check(catalogue: Catalogue, dim: int | None) -> None:
    have = None if catalogue.features is None else catalogue.features.shape[1]
    if dim is not None and have != dim:
        raise Refused(422, f"arms: the catalogue has {have} features an arm, the loop {dim}")
