"""NumPy's PCG64 generator and its normal numbers, on words in an array: one generator per scope, without objects.

The words are ``[state low, state high, increment low, increment high, ...]``, as `driftbandit.state.generator_words`
packs them. The numbers are those of `numpy.random.Generator.standard_normal`, bit for bit: 128-bit PCG XSL-RR (O'Neill,
2014) and the ziggurat of Marsaglia and Tsang (2000), with the tables that Numba ships.
"""

from __future__ import annotations

import math

import numpy as np
from numba.np.random._constants import fi_double, ki_double, wi_double, ziggurat_nor_inv_r, ziggurat_nor_r

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import jit

STATE_LOW, STATE_HIGH, INC_LOW, INC_HIGH = range(4)

TABLES = ki_double, wi_double, fi_double
"""Tables of the ziggurat."""

_KI = np.array(ki_double, dtype=np.uint64)
_WI = np.array(wi_double, dtype=np.float64)
_FI = np.array(fi_double, dtype=np.float64)
_TAIL = float(ziggurat_nor_r)
_INVERSE_TAIL = float(ziggurat_nor_inv_r)

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_MULTIPLIER_LOW = np.uint64(0x4385DF649FCCF645)
_MULTIPLIER_HIGH = np.uint64(0x2360ED051FC65DA4)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_BYTE = np.uint64(0xFF)
_ONE = np.uint64(1)
_EIGHT = np.uint64(8)
_ELEVEN = np.uint64(11)
_ROTATION = np.uint64(58)
_WORD = np.uint64(64)
_IN_WORD = np.uint64(63)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


@jit
def standard_normals(words: Ints, out: Floats) -> None:
    """Fill `out` with standard normal numbers, and move the generator on."""
    for i in range(len(out)):
        out[i] = _standard_normal(words)


@jit
def _standard_normal(words: Ints) -> float:
    while True:
        draw = _next(words)
        layer = np.int64(draw & _BYTE)
        draw >>= _EIGHT
        size = (draw >> _ONE) & _MANTISSA
        x: float = np.float64(size) * _WI[layer]
        if draw & _ONE:
            x = -x
        if size < _KI[layer]:
            return x
        if layer == 0:
            while True:
                beyond = -_INVERSE_TAIL * math.log1p(-_uniform(words))
                height = -math.log1p(-_uniform(words))
                if height + height > beyond * beyond:
                    return -(_TAIL + beyond) if (size >> _EIGHT) & _ONE else _TAIL + beyond
        elif (_FI[layer - 1] - _FI[layer]) * _uniform(words) + _FI[layer] < math.exp(-0.5 * x * x):
            return x


@jit
def _uniform(words: Ints) -> float:
    uniform: float = np.float64(_next(words) >> _ELEVEN) * _TO_UNIT
    return uniform


@jit
def _next(words: Ints) -> np.uint64:
    """The next 64 random bits: state = state * multiplier + increment, modulo 2^128, then XSL-RR."""
    low, high = np.uint64(words[STATE_LOW]), np.uint64(words[STATE_HIGH])
    carry, product = _multiply(low, _MULTIPLIER_LOW)
    high = high * _MULTIPLIER_LOW + low * _MULTIPLIER_HIGH + carry
    low = product + np.uint64(words[INC_LOW])
    high += np.uint64(words[INC_HIGH])
    if low < product:
        high += _ONE
    words[STATE_LOW], words[STATE_HIGH] = np.int64(low), np.int64(high)
    mixed, turn = high ^ low, high >> _ROTATION
    return (mixed >> turn) | (mixed << ((_WORD - turn) & _IN_WORD))


@jit
def _multiply(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """High and low word of a product."""
    a_low, a_high, b_low, b_high = a & _LOW_HALF, a >> _HALF, b & _LOW_HALF, b >> _HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF), a * b
