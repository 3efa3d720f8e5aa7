"""Classes as arms: one block of features each, and labels that move."""

import math
from dataclasses import replace

import numpy as np
import pytest

from driftbandit.environments import PRESETS, Blocks, synthetic


def test_an_arm_is_the_context_in_a_block_of_its_own():
    rounds = PRESETS["blocks-v1"].rounds(0)
    assert (rounds.dim, rounds.pools.shape) == (25, (10_000, 5))
    shown = rounds.catalogue[rounds.pools[:200]].reshape(200, 5, 5, 5)
    for arm in range(5):
        np.testing.assert_array_equal(shown[:, arm, arm], shown[:, 0, 0])
        assert np.count_nonzero(np.delete(shown[:, arm], arm, axis=1)) == 0
    context = shown[:, 0, 0]
    np.testing.assert_array_equal(context[:, -1], 1.0)
    np.testing.assert_allclose(np.linalg.norm(context[:, :-1], axis=1), 1.0)
    np.testing.assert_array_equal(rounds.arms, np.tile(np.arange(5), (10_000, 1)))


def test_one_class_is_right_and_a_tenth_of_the_labels_is_noise():
    rounds = PRESETS["blocks-v1"].rounds(1)
    assert set(np.unique(rounds.means).round(9)) == {0.02, 0.92}
    np.testing.assert_allclose(rounds.means.sum(axis=1), 1.0)
    np.testing.assert_array_equal(rounds.rewards.sum(axis=1), 1.0)
    right = np.take_along_axis(rounds.rewards, rounds.means.argmax(axis=1)[:, None], axis=1)
    assert right.mean() == pytest.approx(0.92, abs=0.015)  # 5 standard errors of 10,000 labels
    assert replace(PRESETS["blocks-v1"], mislabelled=0.0).rounds(1).means.max() == 1.0


@pytest.mark.parametrize("name", ["blocks", "blocks-gaussian"])
def test_every_class_moves_at_a_shift(name):
    rounds = PRESETS[f"{name}-v1"].rounds(2)
    assert rounds.shifts.tolist() == [2000, 4000, 6000, 8000]
    context = rounds.pools[:, 0] // 5
    for shift in rounds.shifts:
        before = {row: rounds.means[t] for t, row in enumerate(context[shift - 2000 : shift], shift - 2000)}
        pairs = [
            (before[row], rounds.means[t])
            for t, row in enumerate(context[shift : shift + 2000], shift)
            if row in before
        ]
        old, new = map(np.array, zip(*pairs, strict=True))
        np.testing.assert_array_equal(np.sort(old, axis=1), np.sort(new, axis=1))
        for arm in range(5):
            assert not np.array_equal(old[:, arm], new[:, arm])
    assert len(PRESETS[f"{name}-still-v1"].rounds(2).shifts) == 0


def test_gaussian_rewards_are_linear_in_the_blocks():
    rounds = PRESETS["blocks-gaussian-v1"].rounds(0)
    x = rounds.catalogue[rounds.pools[:500]].reshape(-1, 25)
    weights, *_ = np.linalg.lstsq(x, rounds.means[:500].ravel(), rcond=None)
    np.testing.assert_allclose(x @ weights, rounds.means[:500].ravel(), atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(weights.reshape(5, 5), axis=1), 1.0)
    assert (rounds.rewards - rounds.means)[:, 0].std() == pytest.approx(0.1, rel=0.03)
    low, high = rounds.reward_range
    assert low < rounds.means.min()
    assert rounds.means.max() < high


def test_the_same_seed_gives_the_same_rounds():
    one, again, other = (synthetic("blocks", seed, horizon=300) for seed in (3, 3, 4))
    for array in ("catalogue", "pools", "means", "rewards"):
        np.testing.assert_array_equal(getattr(one, array), getattr(again, array))
        assert not np.array_equal(getattr(one, array), getattr(other, array))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("classes", 1),
        ("classes", 2.5),
        ("context", 1),
        ("context", "z"),
        ("contexts", 0),
        ("reward", "click"),
        ("mislabelled", -0.1),
        ("mislabelled", 1.5),
        ("noise", math.nan),
        ("period", 0),
        ("horizon", 0),
        ("horizon", None),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: expected .*, got "):
        Blocks(**{name: value})


def test_bad_seeds_are_named():
    with pytest.raises(ValueError, match=r"^seed: expected a whole number"):
        Blocks(horizon=10).rounds(-1)
