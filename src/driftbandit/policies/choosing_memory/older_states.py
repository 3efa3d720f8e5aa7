"""States of DriftUCB that earlier versions stored, in the form of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats
from driftbandit.kernels import ridge
from driftbandit.kernels.driftucb import compact, drift, frames, scales

_RUNGS = 10  # of all earlier versions
_SUMS = 7  # numbers behind a model's row before rewards waited
_FOLDED = 64  # features from which on young models were then kept as vectors


def of_today(state: Mapping[str, ArrayLike], policy: Any) -> Mapping[str, ArrayLike]:
    """A state as this policy takes it; unchanged if no earlier version wrote it."""
    try:
        memo, bank = np.asarray(state["memo"]), np.asarray(state["bank"])
    except (KeyError, IndexError, TypeError, ValueError):
        return state
    dim, experts = policy.dim, len(policy.memory)
    models = drift.EXPERTS + experts
    shape = models + _RUNGS, ridge.row_size(dim + 1) + _SUMS
    if "seen" in state and bank.shape == shape and memo.shape == (drift.memo_size(dim, experts),):
        fresh = np.zeros(compact.compact_shape(dim, experts))
        if memo[scales.COLUMNS] not in (dim, dim + 1):
            return state
        return {**state, "bank": _with_backlog(bank, fresh, models, int(memo[scales.COLUMNS]))}
    old = scales.FRAME + 1 + experts
    shape = models + _RUNGS, ridge.row_size(dim) + _SUMS
    if "seen" in state or bank.shape != shape or memo.shape != (old + dim,):
        return state
    return {**state, **_with_frame(memo, bank, type(policy)(**policy.settings()).state(), experts)}


def _with_backlog(bank: Floats, fresh: Floats, models: int, d: int) -> Floats:
    """Fill zeros with a bank from before rewards waited, and before a number behind a triangle said what it is."""
    size = ridge.row_size(d)
    fresh[: models + _RUNGS, :size] = bank[:, :size]
    fresh[: models + _RUNGS, size + 1 : size + 1 + _SUMS] = bank[:, size : size + _SUMS]
    first = ridge.THETA + d
    for row in fresh[models : models + _RUNGS]:
        if d >= _FOLDED and row[first] < 0.0:  # then the scale, negated, stood before the vectors
            row[size] = -row[first]
            row[first : size - 1] = row[first + 1 : size].copy()
    return fresh


def _with_frame(memo: Floats, bank: Floats, fresh: Mapping[str, Floats], experts: int) -> dict[str, Floats]:
    """A state from before frames were tried: its frame is raw, its young models start afresh."""
    parts = {name: fresh[name].copy() for name in ("memo", "bank", "seen")}
    old = scales.FRAME + 1 + experts
    parts["memo"][: scales.FRAME] = memo[: scales.FRAME]
    parts["memo"][scales.TRIED] = frames.TRIAL
    parts["memo"][scales.MEMO : scales.MEMO + 1 + experts] = memo[scales.FRAME : old]
    drift.before_alarm(parts["memo"], experts)[:] = memo[old:]
    models, size = drift.EXPERTS + experts, ridge.row_size(len(memo) - old)
    parts["bank"][:models, :size] = bank[:models, :size]
    return parts
