"""The loops of `many` for policy objects, whose arrays lie anywhere in memory: tables say at which address.

Whoever builds a table must keep the arrays alive and in place until the loop has ended, and they must be contiguous.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
from numba.core import types
from numba.extending import intrinsic, overload

from driftbandit.core import Floats, Ints
from driftbandit.kernels import many, ridge
from driftbandit.kernels.compile import fill_in, jit, jit_into
from driftbandit.kernels.driftucb import acting
from driftbandit.kernels.driftucb.ahead import NOTHING
from driftbandit.kernels.many import ask


def _pointer(address: int) -> Any:
    return ctypes.cast(int(address), ctypes.POINTER(ctypes.c_double))


@intrinsic
def _as_pointer(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(address), generate  # type: ignore[no-untyped-call]


@overload(_pointer)
def _compiled_pointer(address: int) -> Any:
    def pointer(address: int) -> Any:
        return _as_pointer(address)  # type: ignore[call-arg]

    return pointer


@jit
def floats_at(address: int, rows: int, columns: int) -> Floats:
    """The contiguous array that begins at an address."""
    found: Floats = numba.carray(_pointer(address), (rows, columns))  # type: ignore[attr-defined]
    return found


def choose_in_turn(
    state: Any, scopes: Ints, pools: Ints, dim: int, pending: Ints, arms: Ints, start: int, stop: int
) -> None:
    """Write into ``arms[i]`` what policy ``scopes[i]`` plays in a pool; `pools` has its address and number of arms.

    A template, like those in `many`.
    """
    for i in range(start, stop):
        arms[i] = ask(state, scopes[i], scopes[i], floats_at(pools[i, 0], pools[i, 1], dim), pending[i])


# LinUCB and LinTS: (settings for choices, settings for updates, columns, addresses of rows, rounds) ------------------


@jit_into
def _ask_linucb(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    act, _, columns, table, _ = state
    return ridge.optimistic_arm(act, floats_at(table[scope], 1, columns), 0, pool)


@jit_into
def _tell_ridge(state: Any, scope: int, following: int, x: Floats, reward: float) -> int:
    _, test, columns, table, rounds = state
    if not ridge.update(test, floats_at(table[scope], 1, columns)[0], x, reward):
        return many.NOT_USABLE
    rounds[scope] += 1
    return many.LEARNED


# DriftUCB: (rules, numbers of a memo, rows and columns of a bank, table, rounds) -------------------------------------

MEMO, BANK, SEEN, ROOM = range(4)
"""Columns of DriftUCB's table: addresses of memo, bank and first rewards, and for how many rewards there is room."""


@jit_into
def _ask_driftucb(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    rules, numbers, rows, columns, table, _ = state
    memo, bank = floats_at(table[scope, MEMO], 1, numbers)[0], floats_at(table[scope, BANK], rows, columns)
    arm: int = acting.choose(rules, memo, bank, pool, pending, NOTHING)
    return arm


@jit_into
def _tell_driftucb(state: Any, scope: int, following: int, x: Floats, reward: float) -> int:
    rules, numbers, rows, columns, table, rounds = state
    memo, bank = floats_at(table[scope, MEMO], 1, numbers)[0], floats_at(table[scope, BANK], rows, columns)
    seen = floats_at(table[scope, SEEN], table[scope, ROOM], len(x) + 1)
    told: int = many.tell_driftucb(rules, memo, bank, seen, x, reward, NOTHING)
    if told in (many.LEARNED, many.CHANGED):
        rounds[scope] += 1
    return told


choose_linucb = jit(fill_in(choose_in_turn, "choose_scattered_linucb", ask=_ask_linucb))
choose_driftucb = jit(fill_in(choose_in_turn, "choose_scattered_driftucb", ask=_ask_driftucb))
learn_ridge = jit(fill_in(many.learn_in_turn, "learn_scattered_ridge", tell=_tell_ridge))
learn_driftucb = jit(fill_in(many.learn_in_turn, "learn_scattered_driftucb", tell=_tell_driftucb))
