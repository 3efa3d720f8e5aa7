"""The kernels of a policy object, which has rules, memo and bank in one array.

A kernel takes a moment for every array that it is handed, with few features as long as for a good part of its work. So
the three stand one behind the other, each where a cache line begins, behind the numbers of experts and of features.
"""

from __future__ import annotations

from driftbandit.core import Floats
from driftbandit.kernels.compile import borrow, fill_in, jit, jit_into, lines_of, plain
from driftbandit.kernels.driftucb import acting, drift
from driftbandit.kernels.driftucb.ahead import NOTHING
from driftbandit.kernels.vector_units.vectors import aligned_zeros, padded

_EXPERTS, _DIM, _RULES = range(3)


def with_rules(rules: Floats, dim: int) -> Floats:
    """An array for a policy with these rules, whose memo and bank are 0."""
    experts = len(rules) - drift.RULES
    count, width = drift.bank_shape(dim, experts)
    own = aligned_zeros((_memo_at(experts) + int(padded(drift.memo_size(dim, experts))) + count * width,))
    own[_EXPERTS], own[_DIM] = experts, dim
    own[_RULES : _RULES + len(rules)] = rules
    return own


@jit
def _memo_at(experts: int) -> int:
    at: int = padded(_RULES + drift.RULES + experts)
    return at


def parts(own: Floats) -> tuple[Floats, Floats, Floats]:
    """Rules, memo and bank as parts of the array."""
    own = borrow(own)
    experts, dim = int(own[_EXPERTS]), int(own[_DIM])
    memo, size = _memo_at(experts), drift.memo_size(dim, experts)
    bank = lines_of(own, memo + padded(size), *drift.bank_shape(dim, experts))
    return own[_RULES : _RULES + drift.RULES + experts], own[memo : memo + size], bank


_parts = jit_into(fill_in(parts, "parts_inside"))
_choose = jit_into(fill_in(plain(acting.choose), "choose_inside"))
_learn = jit_into(fill_in(plain(drift.learn), "learn_inside"))


@jit
def choose(own: Floats, pool: Floats, pending: int) -> int:
    """Index of the arm with the highest score, or NOT_USABLE."""
    rules, memo, bank = _parts(own)
    arm: int = _choose(rules, memo, bank, pool, pending, NOTHING)
    return arm


@jit
def learn(own: Floats, x: Floats, reward: float) -> int:
    """Learn one reward; see `drift.learn`."""
    rules, memo, bank = _parts(own)
    fired: int = _learn(rules, memo, bank, x, reward, NOTHING)
    return fired
