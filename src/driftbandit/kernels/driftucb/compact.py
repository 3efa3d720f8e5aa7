"""A policy's bank as it is stored: without the zeros that fill whole vectors, each entry of a matrix once.

A model is then a `ridge` row ``[n, theta, packed triangle]``, followed by the rest of its head. The triangle of a young
model that is kept as vectors begins with these; the rest is 0. The rows behind the models hold the backlog, its head
and then its records.
"""

from __future__ import annotations

from driftbandit.core import Floats
from driftbandit.kernels import ridge
from driftbandit.kernels.compile import flat, jit
from driftbandit.kernels.driftucb.drift import EXPERTS, backlog_at, derive, models_of
from driftbandit.kernels.driftucb.ladder import backlog, births, evidence, young
from driftbandit.kernels.driftucb.ladder.blocks import LANES
from driftbandit.kernels.driftucb.rows import COUNT, OTHERS, THETA, matrix_at
from driftbandit.kernels.driftucb.scales import COLUMNS
from driftbandit.kernels.vector_units.instructions import WIDTH
from driftbandit.kernels.vector_units.tiles import entry_at
from driftbandit.kernels.vector_units.vectors import padded

_SUMS = evidence.LATE + 1 - OTHERS  # numbers behind a triangle
_HEAD, _RECORD = backlog.LOG_ALLOWANCE + 1, backlog.FREEDOM + 1  # numbers of a backlog's head, and of its records


def compact_shape(dim: int, experts: int) -> tuple[int, int]:
    """Shape of a compact bank."""
    width = ridge.row_size(dim + 1) + _SUMS
    models = EXPERTS + experts + births.RUNGS
    return models - (-(_HEAD + LANES * (dim + 1 + _RECORD)) // width), width


@jit
def is_sound(memo: Floats, stored: Floats, experts: int) -> bool:
    """Whether the counts of ladder and backlog lead to places inside a bank."""
    d = int(memo[COLUMNS])
    numbers, sums = flat(stored), ridge.THETA + d + d * (d + 1) // 2
    sound = backlog.is_count(numbers[models_of(experts) * stored.shape[1] + backlog.WAITING])
    for model in range(EXPERTS + experts, models_of(experts)):
        scale, late = stored[model, sums + young.SCALE - OTHERS], stored[model, sums + evidence.LATE - OTHERS]
        sound = sound and scale >= 0.0 and backlog.is_count(late)
        sound = sound and (scale == 0.0 or 2.0 * stored[model, COUNT] <= d + 1.0)
    return sound


@jit
def pack(memo: Floats, bank: Floats, stored: Floats, experts: int) -> None:
    """Write a bank into `stored`."""
    stored[:] = 0.0
    _copy(memo, bank, stored, experts, True)


@jit
def unpack(memo: Floats, bank: Floats, stored: Floats, experts: int) -> None:
    """Fill a bank with what `pack` wrote into `stored`, which must be sound."""
    bank[:] = 0.0
    _copy(memo, bank, stored, experts, False)
    derive(memo, bank, experts)


@jit
def _copy(memo: Floats, bank: Floats, stored: Floats, experts: int, packing: bool) -> None:
    d, numbers, others = int(memo[COLUMNS]), flat(bank), flat(stored)
    for model in range(models_of(experts)):
        row, place = model * bank.shape[1], model * stored.shape[1]
        triangle, matrix = place + ridge.THETA + d, row + matrix_at(d)
        _move(numbers, row + COUNT, others, place + ridge.COUNT, 1, packing)
        _move(numbers, row + OTHERS, others, triangle + d * (d + 1) // 2, _SUMS, packing)
        _move(numbers, row + THETA, others, place + ridge.THETA, d, packing)
        if model >= EXPERTS + experts and numbers[row + young.SCALE] > 0.0:
            for k in range(int(numbers[row + COUNT])):
                _move(numbers, matrix + k * padded(d), others, triangle + k * d, d, packing)
        else:
            for i in range(d):
                for j in range(0, i + 1, WIDTH):
                    at, count = matrix + entry_at(d, i, j), min(i + 1 - j, WIDTH)
                    _move(numbers, at, others, triangle + i * (i + 1) // 2 + j, count, packing)
            if not packing:
                _mirror(numbers, matrix, d)
    at, place = backlog_at(bank, experts), models_of(experts) * stored.shape[1]
    _move(numbers, at, others, place, _HEAD, packing)
    for p in range(int(numbers[at + backlog.WAITING])):
        numbers_at, others_at = backlog.record(at, p, d), place + _HEAD + p * (d + _RECORD) + d
        _move(numbers, numbers_at - padded(d), others, others_at - d, d, packing)
        _move(numbers, numbers_at, others, others_at, _RECORD, packing)


@jit
def _move(numbers: Floats, at: int, others: Floats, place: int, count: int, packing: bool) -> None:
    """Copy `count` numbers to `others`, or back."""
    for i in range(count):
        if packing:
            others[place + i] = numbers[at + i]
        else:
            numbers[at + i] = others[place + i]


@jit
def _mirror(numbers: Floats, matrix: int, d: int) -> None:
    """Fill in the upper halves of the tiles on the diagonal."""
    for i in range(d):
        for j in range(i + 1, min(padded(i + 1), d)):
            numbers[matrix + entry_at(d, i, j)] = numbers[matrix + entry_at(d, j, i)]
