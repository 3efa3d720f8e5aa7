"""Multiplies the columns of contexts and arms, hashing or projecting the products on the way.

A row of a side is a list of slots, each a column of that side and a number; column 0 is the constant 1, and slots that
are not needed hold the number 0. A table has one line per column of its side:

    GROUP  which of the user's columns it belongs to; 0 is the constant
    PLACE  where it stands among the columns of its group
    KEY    its hash
    WIDTH  how many columns its group has

`starts[g, h]` says what becomes of the products of group g of the context and group h of the arm: they have columns
of their own from there on, are hashed (HASHED), or are left out (ABSENT). Everything is int64 and never overflows, so
that the same lines run as Python.

A target says where the product of two columns goes: twice the column of the answer, plus 1 if its sign is turned, or
ABSENT if it is left out.
"""

from __future__ import annotations

from typing import Any

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import jit

GROUP, PLACE, KEY, WIDTH = range(4)
ABSENT, HASHED = -1, -2

_BITS = 31
_LOW = (1 << _BITS) - 1
_MIX = 0x45D9F3B  # odd, 27 bits: times 31 bits it still fits


def pair_hash(first: Any, second: Any) -> Any:
    """Mix two keys of 31 bits, or two arrays of them, into 58 bits."""
    mixed = (first | 1) * (second | 1)
    mixed = mixed ^ (mixed >> _BITS)
    mixed = (mixed & _LOW) * _MIX
    return mixed ^ (mixed >> 27)


def slot_of(mixed: Any, size: int) -> Any:
    """The column, from 0 to size - 1, for what `pair_hash` returned."""
    return ((mixed & _LOW) * size) >> _BITS


def sign_of(mixed: Any) -> Any:
    """The sign, 1 or -1, for what `pair_hash` returned; its bit has no part in `slot_of`."""
    return 1 - 2 * ((mixed >> 33) & 1)


_pair_hash, _slot_of, _sign_of = jit(pair_hash), jit(slot_of), jit(sign_of)


@jit
def _target(starts: Ints, hashed_from: int, size: int, left: Ints, right: Ints) -> Any:
    """Where the product of two columns goes, given their lines in the tables."""
    column = starts[left[GROUP], right[GROUP]]
    if column >= 0:
        return 2 * (column + left[PLACE] * right[WIDTH] + right[PLACE])
    if column == HASHED:
        mixed = _pair_hash(left[KEY], right[KEY])
        return 2 * (hashed_from + _slot_of(mixed, size)) + (_sign_of(mixed) < 0)
    return ABSENT


@jit
def target_table(starts: Ints, hashed_from: int, size: int, context_table: Ints, arm_table: Ints, out: Ints) -> None:
    """Write the targets of all pairs of columns, one line of `out` per column of the context."""
    for i in range(len(context_table)):
        for j in range(len(arm_table)):
            out[i, j] = _target(starts, hashed_from, size, context_table[i], arm_table[j])


@jit
def cross(
    starts: Ints,
    hashed_from: int,
    targets: Ints,
    context_table: Ints,
    context_index: Ints,
    context_value: Floats,
    owners: Ints,
    arm_table: Ints,
    arm_index: Ints,
    arm_value: Floats,
    members: Ints,
    components: Floats,
    out: Floats,
) -> None:
    """Add the products of context row owners[r] and arm row members[r] to row r of `out`.

    Columns from `hashed_from` on take what is hashed. `targets` is what `target_table` wrote, or empty if that would be
    too large to keep. With `components`, shape (columns, dim), a product is not added to its column but to all of
    `out`'s, in the proportions of that column's line.
    """
    project, tabled = len(components) > 0, len(targets) > 0
    width = len(components) if project else out.shape[1]
    size = width - hashed_from
    for r in range(len(members)):
        owner, member = owners[r], members[r]
        for s in range(context_index.shape[1]):
            left = context_value[owner, s]
            if left == 0.0:
                continue
            i = context_index[owner, s]
            for t in range(arm_index.shape[1]):
                product = left * arm_value[member, t]
                if product == 0.0:
                    continue
                j = arm_index[member, t]
                target = targets[i, j] if tabled else _target(starts, hashed_from, size, context_table[i], arm_table[j])
                if target == ABSENT:
                    continue
                product *= 1 - 2 * (target & 1)
                column = target >> 1
                if project:
                    for d in range(out.shape[1]):
                        out[r, d] += product * components[column, d]
                else:
                    out[r, column] += product
