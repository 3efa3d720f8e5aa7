"""Lines of the Yahoo! Today Module log (R6A), parsed from bytes.

``1241160900 109513 0 |user 2:0.1 ... 6:0.9 1:1.0 |109498 2:0.3 ... 1:1.0 |109509 ...``: time, displayed article, click,
the user's six features, then the candidates with theirs. The candidates are almost always the same as in the line
before, byte for byte, so their text is remembered and compared; only new candidates are parsed (in `r6a_log`).

A text is an int8 array in which every line ends with a newline. No reader looks past a newline, because no token
contains one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import finite, jit

Text = NDArray[np.int8]

FEATURES = 6
LONGEST = 1 << 16
"""Bytes of the longest line that is read; an ordinary one has about 1,600."""
MOST_CANDIDATES = LONGEST // len("|1 1:1 2:1 3:1 4:1 5:1 6:1")

KINDS = (
    "empty line",
    "Windows line end",
    "invalid bytes",
    "wrong column count",
    "not a number",
    "click not 0 or 1",
    "missing feature block",
    "too few features",
    "feature id not 1 to 6",
    "doubled feature",
    "doubled candidate",
    "displayed article not a candidate",
    "line too long",
    "half a last line",
    "truncated file",
    "changed features",
)
"""What can be wrong with a line. Only the last kind leaves an event that can be used."""
(
    EMPTY,
    WINDOWS,
    BYTES,
    COLUMNS,
    NUMBER,
    CLICK,
    BLOCK,
    FEW,
    FEATURE,
    TWICE,
    AGAIN,
    ABSENT,
    LONG,
    HALF,
    TRUNCATED,
    CHANGED,
) = range(len(KINDS))
GOOD = -1

NEWLINE, _RETURN, _SPACE, _PLUS, _MINUS, _POINT, _ZERO, _ONE, _NINE, _COLON, _BAR = b"\n\r +-.019:|"
_UPPER_E, _LOWER_E = b"Ee"
_FIRST_PRINTABLE, _DELETE = 0x20, 0x7F
_USER = np.frombuffer(b"|user", dtype=np.int8)
_MOST_DIGITS = 18  # digits that surely fit an int64
_LARGEST_POWER = 308
_POWERS = np.array([float(f"1e{k}") for k in range(_LARGEST_POWER + 1)])


@jit
def whole_number(text: Text, at: int) -> tuple[int, int]:
    """Value of the digits at `at`, and the place after them, or -1 unless there are 1 to 18 digits."""
    number = 0
    start = at
    while _ZERO <= text[at] <= _NINE:
        if at - start == _MOST_DIGITS:
            return 0, -1
        number = number * 10 + int(text[at]) - _ZERO
        at += 1
    return (number, at) if at > start else (0, -1)


@jit
def real_number(text: Text, at: int) -> tuple[float, int]:
    """Value of the decimal number at `at`, and the place after it, or -1 if there is no number or it is infinite.

    Up to 15 digits, with up to 22 decimals, are rounded as Python rounds them, because both parts of the only division
    are then exact (Clinger's fast path); others may differ in the last bits.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    mantissa = digits = scale = 0
    fraction = False
    while _ZERO <= text[at] <= _NINE or (text[at] == _POINT and not fraction):
        if text[at] == _POINT:
            fraction = True
        else:
            digits += 1
            fits = mantissa < 10 ** (_MOST_DIGITS - 1)
            if fits:
                mantissa = mantissa * 10 + int(text[at]) - _ZERO
            scale += (not fits) - fraction
        at += 1
    if digits == 0:
        return 0.0, -1
    if text[at] == _LOWER_E or text[at] == _UPPER_E:
        at += 1
        down = text[at] == _MINUS
        if down or text[at] == _PLUS:
            at += 1
        exponent, at = whole_number(text, at)
        if at < 0:
            return 0.0, -1
        scale += -exponent if down else exponent
    value = float(mantissa)
    if scale < 0 and mantissa:
        value /= float(_POWERS[min(-scale, _LARGEST_POWER)])
        if scale < -_LARGEST_POWER:
            value /= float(_POWERS[min(-scale - _LARGEST_POWER, _LARGEST_POWER)])
    elif scale > 0 and mantissa:
        if scale > _LARGEST_POWER:
            return 0.0, -1
        value *= float(_POWERS[scale])
    if not finite(value):
        return 0.0, -1
    return (-value if negative else value), at


@jit
def skip_spaces(text: Text, at: int) -> int:
    """The first place from `at` on that holds no space."""
    while text[at] == _SPACE:
        at += 1
    return at


@jit
def ends_token(byte: int) -> bool:
    """Whether this byte may follow a number."""
    return byte in (_SPACE, _BAR, NEWLINE)


@jit
def block(text: Text, at: int, row: Floats) -> tuple[int, int]:
    """Read ``id:value`` pairs from `at` to the next bar or line end into `row`; returns what is wrong, and the end."""
    seen = 0
    count = 0
    at = skip_spaces(text, at)
    while text[at] != _BAR and text[at] != NEWLINE:
        which, at = whole_number(text, at)
        if at < 0 or text[at] != _COLON:
            return NUMBER, at
        value, at = real_number(text, at + 1)
        if at < 0 or not ends_token(text[at]):
            return NUMBER, at
        if not 1 <= which <= FEATURES:
            return FEATURE, at
        if seen >> which & 1:
            return TWICE, at
        row[which - 1] = value
        seen |= 1 << which
        count += 1
        at = skip_spaces(text, at)
    if count < FEATURES:
        return (FEW if count else BLOCK), at
    return GOOD, at


@jit
def head(text: Text, at: int, user: Floats) -> tuple[int, int, int, int, int]:  # noqa: PLR0911 - one for each blemish
    """Read everything before the candidates: what is wrong, the end, time, displayed article and click."""
    columns = 0
    place = skip_spaces(text, at)
    if text[place] == NEWLINE:
        return EMPTY, at, 0, 0, 0
    while text[place] != _BAR and text[place] != NEWLINE:
        columns += 1
        while not ends_token(text[place]):
            place += 1
        place = skip_spaces(text, place)
    if columns != 3:
        return COLUMNS, at, 0, 0, 0
    time, at = whole_number(text, skip_spaces(text, at))
    if at < 0 or not ends_token(text[at]):
        return NUMBER, at, 0, 0, 0
    displayed, at = whole_number(text, skip_spaces(text, at))
    if at < 0 or not ends_token(text[at]):
        return NUMBER, at, 0, 0, 0
    at = skip_spaces(text, at)
    click = int(text[at]) - _ZERO
    if click not in (0, 1) or not ends_token(text[at + 1]):
        return CLICK, at, 0, 0, 0
    at = place
    for k in range(len(_USER)):
        if text[at] != _USER[k]:
            return BLOCK, at, 0, 0, 0
        at += 1
    if not ends_token(text[at]):
        return BLOCK, at, 0, 0, 0
    kind, at = block(text, at, user)
    return kind, at, time, displayed, click


@jit
def candidates(text: Text, at: int, ids: Ints, values: Floats) -> tuple[int, int, int]:
    """Read the candidates into `ids` and `values`: what is wrong, the end, and how many there are."""
    count = 0
    while text[at] == _BAR:
        if count == len(ids):
            return LONG, at, count
        ids[count], at = whole_number(text, at + 1)
        if at < 0 or not ends_token(text[at]):
            return NUMBER, at, count
        kind, at = block(text, at, values[count])
        if kind != GOOD:
            return kind, at, count
        for k in range(count):
            if ids[k] == ids[count]:
                return AGAIN, at, count
        count += 1
    return (GOOD if count else BLOCK), at, count


@jit
def repeats(text: Text, at: int, same: Text, length: int) -> bool:
    """Whether the text at `at` starts with the first `length` bytes of `same`."""
    done = 0
    while done + 64 <= length:  # without an early exit, a block of 64 bytes compiles to a few vector instructions
        difference = 0
        for k in range(done, done + 64):
            difference |= text[at + k] ^ same[k]
        if difference != 0:
            return False
        done += 64
    for k in range(done, length):  # noqa: SIM110 - compiled
        if text[at + k] != same[k]:
            return False
    return True


@jit
def blame(text: Text, start: int, end: int, kind: int) -> int:
    """What is wrong with a bad line: the cause rather than its symptoms."""
    if end - start > LONGEST:
        return LONG
    if end > start and text[end - 1] == _RETURN:
        return WINDOWS
    for k in range(start, end):
        if text[k] < _FIRST_PRINTABLE or text[k] == _DELETE:  # bytes from 128 on are negative
            return BYTES
    return kind
