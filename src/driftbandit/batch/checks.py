"""Checks of what is passed for many scopes at once; an error names the argument, what was expected and what came."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.batch.threads import share_out
from driftbandit.core import Change, Floats, Ints, as_pool, not_finite
from driftbandit.kernels.compile import jit


class NotLearned(ValueError):
    """Some rewards could not be learned; all others were.

    Attributes
    ----------
    left : list of int
        Places of these rewards in the call.
    changes : list of (int, Change)
        The changes that the other rewards revealed.
    """

    def __init__(self, message: str, left: list[int], changes: list[tuple[int, Change]]) -> None:
        super().__init__(message)
        self.left = left
        self.changes = changes


def as_scopes(scopes: ArrayLike, size: int) -> Ints:
    """Turn scopes into an int64 array of shape (n,) with numbers below `size`, or raise ValueError."""
    numbers = as_counts("scopes", scopes, None, 0)
    if len(numbers) and numbers.max() >= size:
        raise ValueError(f"scopes: expected numbers from 0 to {size - 1}, got {numbers.max()}")
    return numbers


def as_counts(name: str, values: ArrayLike, length: int | None, least: int) -> Ints:
    """Turn whole numbers into an int64 array of shape (length,), or raise ValueError; a single number is repeated."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: expected a flat array of whole numbers, got lists of unequal length") from error
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name}: expected whole numbers, got dtype {array.dtype}")
    if length is not None and not array.ndim:
        array = np.full(length, array)
    if array.ndim != 1 or (length is not None and len(array) != length):
        raise ValueError(f"{name}: expected shape ({'n' if length is None else length},), got {array.shape}")
    if len(array) and (array.min() < least or array.max() > np.iinfo(np.int64).max):
        raise ValueError(f"{name}: expected whole numbers of at least {least}, got {array.min()}")
    # Writeable too, although nothing is written: for read-only arrays, another type, kernels are compiled anew.
    return np.require(array, np.int64, ["C", "A", "W"])


def as_offsets(features: ArrayLike, counts: ArrayLike | None, length: int, dim: int) -> tuple[Floats, Ints]:
    """All pools one below the other, shape (total, dim), and where each begins and ends, shape (n + 1,)."""
    if counts is None:
        try:
            array = np.asarray(features)
        except ValueError as error:
            raise ValueError("features: expected shape (n, K, dim), got pools of unequal size; pass counts") from error
        if array.ndim != 3 or array.shape[0] != length or array.shape[2] != dim or (length and not array.shape[1]):
            raise ValueError(f"features: expected shape ({length}, K, {dim}) without counts, got {array.shape}")
        arms = array.shape[1]
        return as_lines(array.reshape(-1, dim), length * arms, dim), np.arange(length + 1) * arms
    each = as_counts("counts", counts, length, 1)
    total = int(each.sum(dtype=np.float64))  # as integers of 64 bits, they might not fit
    return as_lines(features, total, dim, ", as counts add up to"), np.append(0, np.cumsum(each))


def as_lines(features: ArrayLike, length: int, dim: int, reason: str = "") -> Floats:
    """Turn arms one below the other into a float64 array of shape (length, dim), or raise ValueError.

    `reason` says in the message why so many are expected.
    """
    lines = as_pool(features, dim) if length or np.size(features) else np.zeros((0, dim))
    if len(lines) != length:
        raise ValueError(f"features: expected {length} rows{reason}, got {len(lines)}")
    return lines


def as_rewards(rewards: ArrayLike, length: int, low: float, high: float) -> Floats:
    """Turn rewards into a float64 array of shape (n,) within the bounds, or raise ValueError."""
    try:
        array = np.asarray(rewards)
        values = np.require(array, np.float64, ["C", "A", "W"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"rewards: expected {length} numbers ({error})") from error
    if array.dtype.kind not in "fiub" and array.size:
        raise ValueError(f"rewards: expected numbers, got dtype {array.dtype}")
    if values.shape != (length,):
        raise ValueError(f"rewards: expected shape ({length},), got {values.shape}")
    if (bad := np.flatnonzero(~((values >= low) & (values <= high)))).size:
        raise ValueError(f"rewards: expected numbers from {low:g} to {high:g}, got {values[bad[0]]} at {bad[0]}")
    return values


def check_squares(features: Floats, most: float, threads: int) -> None:
    """Raise ValueError unless every row is finite and has |x|^2 of at most `most`."""
    bad: list[int] = []

    def look(part: slice) -> None:
        if (row := _first_above(features, most, part.start, part.stop)) >= 0:
            bad.append(row)

    share_out(look, range(len(features)), threads, effort=features.shape[1])
    if bad:
        row = min(bad)
        error = not_finite(features[row])
        raise ValueError(f"{error} (row {row}); nothing was done")


@jit
def _first_above(features: Floats, most: float, start: int, stop: int) -> int:
    """The first row from `start` to before `stop` with |x|^2 above `most`, or not a number; -1 if there is none."""
    for k in range(start, stop):
        square = 0.0
        for i in range(features.shape[1]):
            square += features[k, i] * features[k, i]
        if not square <= most or square == np.inf:
            return k
    return -1


@contextmanager
def called(name: str) -> Iterator[None]:
    """Let errors about features name the argument that holds them."""
    try:
        yield
    except ValueError as error:
        raise ValueError(re.sub("^features", name, str(error))) from error


def not_learned(
    left: list[int], count: int, scope: int, features: Floats, changes: list[tuple[int, Change]]
) -> NotLearned:
    """Explain that, of so many rewards, these were not learned; the first, of this scope, had these features."""
    why = not_usable(f"reward {left[0]}", scope, features)
    return NotLearned(f"{why}; {len(left)} of {count} rewards were not learned", left, changes)


def not_usable(what: str, scope: int, features: Floats) -> ValueError:
    """Explain why a scope refused features."""
    if np.isfinite(features).all():
        largest = np.abs(features).max()
        return ValueError(f"features: {what}, of scope {scope}: an absolute value of {largest:g} is too large for it")
    return ValueError(f"features: {what}, of scope {scope}: {str(not_finite(features)).removeprefix('features: ')}")
