"""Random draws, their probabilities, and numbers for arms: the same on every machine and whenever a log is rerun."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from driftbandit.core import Ints

BLOCK = 1024
"""Number of decisions whose random numbers are drawn together."""


class Draws:
    """The random numbers of a loop's decisions, one block of decisions at a time.

    Decision `number` uses ``drawn[2 * (number % BLOCK)]`` and the number after it, once `turn_to` has drawn its block.

    >>> draws = Draws("news", 0, 7)
    >>> draws.turn_to(3)
    >>> draws.block, len(draws.drawn) == 2 * BLOCK
    (3, True)
    """

    __slots__ = ("_key", "block", "drawn")

    def __init__(self, loop: str, shard: int, seed: int) -> None:
        key = blake2b(f"{loop}/{shard}/{seed}".encode(), digest_size=16).digest()
        self._key = int.from_bytes(key, "little")
        self.block = -1
        self.drawn: list[float] = []

    def turn_to(self, block: int) -> None:
        """Draw the numbers of another block."""
        self.block, self.drawn = block, draws(self._key, block)


def draws(key: int, block: int) -> list[float]:
    """Two uniform numbers for each decision of a block, one pair after the other.

    They depend only on the key and the block. They are bits of a counter-based generator, whose stream NumPy promises
    never to change.

    >>> draws(1, 0)[:2] == draws(1, 0)[:2] != draws(1, 1)[:2]
    True
    """
    bits = np.random.Philox(key=key, counter=block << 128).random_raw(2 * BLOCK)
    uniform: list[float] = ((bits >> np.uint64(11)) * 2.0**-53).tolist()
    return uniform


def chance(votes: Sequence[int], floor: float, size: int, index: int) -> float:
    """Probability that an arm of the pool is drawn: uniformly with probability `floor`, else one of the votes.

    >>> [round(chance([2, 2, 0, 2], 0.2, 4, index), 3) for index in range(4)]
    [0.25, 0.05, 0.65, 0.05]
    """
    if not votes:
        return 1.0 / size
    return floor / size + (1.0 - floor) * (votes.count(index) / len(votes))


def arm_number(name: str) -> int:
    """The number of an arm, for policies that know arms by number; it depends on the arm's id alone."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 1


def arm_numbers(arms: Sequence[str], number: Callable[[str], int] = arm_number) -> Ints:
    """The numbers of many arms."""
    return np.array([number(arm) for arm in arms], dtype=np.int64)
