"""Hashes that are the same on every machine, in every process and in every version."""

from __future__ import annotations

from hashlib import blake2b


def key_of(text: str) -> int:
    """A number of 31 bits for a text.

    >>> key_of("genre=jazz"), key_of("genre=rock")
    (2121813410, 860458606)
    """
    return wide_key_of(text) & 0x7FFFFFFF


def wide_key_of(text: str) -> int:
    """A number of 62 bits for a text, so many that two texts hardly ever share one.

    >>> wide_key_of("item-7")
    3872814891032177343
    """
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 2
