"""Draws, probabilities and numbers of arms, from their definitions."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.serving.loop.randomness import BLOCK, Draws, arm_number, arm_numbers, chance, draws


@pytest.mark.parametrize("block", [0, 1, 5])
def test_draws_are_numpys_uniform_numbers_from_the_blocks_own_counter(block: int) -> None:
    """A float has 53 bits: NumPy's generator takes the highest 53 of 64 too."""
    numpys = np.random.Generator(np.random.Philox(key=77, counter=block * 2**128)).random(2 * BLOCK)
    assert draws(77, block) == numpys.tolist()
    assert BLOCK == 1024  # a log that was written with another size would replay otherwise


def test_chances_by_hand() -> None:
    assert [chance([], 0.3, 4, arm) for arm in range(4)] == [0.25] * 4  # no votes: all alike, whatever the floor
    assert [chance([1], 0.0, 3, arm) for arm in range(3)] == [0.0, 1.0, 0.0]
    assert [chance([1], 1.0, 4, arm) for arm in range(4)] == [0.25] * 4
    assert [chance([0, 2, 2, 2], 0.2, 5, arm) for arm in range(5)] == pytest.approx([0.24, 0.04, 0.64, 0.04, 0.04])


@given(st.integers(1, 9), st.lists(st.integers(0, 8), max_size=20), st.floats(0.0, 1.0))
def test_chances_sum_to_one(size: int, votes: list[int], floor: float) -> None:
    votes = [vote % size for vote in votes]
    assert sum(chance(votes, floor, size, arm) for arm in range(size)) == pytest.approx(1.0)


def test_numbers_of_arms_are_the_first_63_bits_of_a_hash() -> None:
    for name in ("", "a", "ü", "sports/1"):
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        assert arm_number(name) == int.from_bytes(digest, "little") // 2 < 2**63
    numbers = arm_numbers(["a", "ü"])
    assert numbers.dtype == np.int64
    assert numbers.tolist() == [arm_number("a"), arm_number("ü")]


def test_a_loops_draws_come_from_its_name_its_shard_and_its_seed() -> None:
    mine = Draws("news", 3, 7)
    assert mine.block < 0, "none is drawn yet"
    mine.turn_to(2)
    key = int.from_bytes(hashlib.blake2b(b"news/3/7", digest_size=16).digest(), "little")
    assert (mine.block, mine.drawn) == (2, draws(key, 2))
