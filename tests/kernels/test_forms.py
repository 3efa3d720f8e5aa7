"""Quadratic forms of many arms, and choices at many features, against NumPy's dense matrices."""

import os
import subprocess
import sys

import numpy as np
import pytest
from tiled import tiled

from driftbandit import LinUCB
from driftbandit.benchmarks.numpy_linucb import NumpyLinUCB
from driftbandit.kernels.forms import form, forms, forms_with_tiles


def world(dim, arms, seed=0):
    """A positive definite matrix, and arms."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((dim, dim)) / dim**0.5
    return root @ root.T, rng.standard_normal((arms, dim))


def between(numbers):
    """A matrix that begins at the third place, between numbers that are not its own."""
    return np.concatenate([[np.nan] * 3, numbers, [np.nan] * 3])


@pytest.mark.parametrize("dim", [1, 3, 4, 7, 8, 9, 25, 64, 101, 256, 512])
@pytest.mark.parametrize("arms", [1, 2, 5, 8, 17])
def test_forms_agree_with_a_dense_product(dim, arms):
    whole, features = world(dim, arms)
    triangle, picks = whole[np.tril_indices(dim)], np.arange(arms)
    expected = np.einsum("kd,de,ke->k", features, whole, features)
    np.testing.assert_allclose(forms(between(triangle), 3, features, picks), expected, rtol=1e-11)
    np.testing.assert_allclose(forms_with_tiles(between(tiled(whole)), 3, features, picks), expected, rtol=1e-11)
    np.testing.assert_allclose([form(triangle, x) for x in features], expected, rtol=1e-11)


def test_only_the_arms_asked_for_are_computed_in_their_order():
    whole, features = world(30, 9)
    features[1] = np.nan
    triangle = whole[np.tril_indices(30)]
    picks = np.array([8, 0, 8, 5, 3])
    expected = [form(triangle, features[pick]) for pick in picks]
    np.testing.assert_allclose(forms(triangle, 0, features, picks), expected, rtol=1e-12)
    np.testing.assert_allclose(forms_with_tiles(tiled(whole), 0, features, picks), expected, rtol=1e-12)


def test_what_is_negative_by_rounding_is_zero():
    triangle = np.array([1.0, 1.0, 1.0 - 1e-9])
    x = np.array([[1.0, -1.0]])
    assert form(triangle, x[0]) == 0.0
    assert forms(triangle, 0, x, np.array([0])).tolist() == [0.0]
    in_tiles = tiled(np.array([[1.0, 1.0], [1.0, 1.0 - 1e-9]]))
    assert forms_with_tiles(in_tiles, 0, x, np.array([0])).tolist() == [0.0]


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17, 25])
@pytest.mark.parametrize("in_tiles", [False, True])
def test_forms_of_arms_side_by_side(dim, count, in_tiles):
    """Groups of eight, two at a time, and a last one that is not full; equal arms are equal wherever they stand."""
    matrix, arms = world(dim, 9)
    picks = np.arange(count) % 9
    if in_tiles:
        found = forms_with_tiles(tiled(matrix), 0, arms, picks)
    else:
        found = forms(matrix[np.tril_indices(dim)], 0, arms, picks)
    np.testing.assert_allclose(found, np.einsum("ki,ij,kj->k", arms[picks], matrix, arms[picks]), atol=1e-12)
    for k in range(9, count):
        assert found[k] == found[k - 9]


def play(dim, arms, rounds):
    """Choices of LinUCB, and by how much NumPy scores them below its own."""
    rng = np.random.default_rng(dim)
    ours, theirs, choices, worst = LinUCB(dim), NumpyLinUCB(dim), [], 0.0
    taste = rng.standard_normal(dim) / dim**0.5
    for _ in range(rounds):
        pool = rng.standard_normal((arms, dim)) / dim**0.5
        arm = ours.choose(pool)
        scores = theirs.scores(pool)
        worst = max(worst, scores.max() - scores[arm])
        choices.append(arm)
        reward = float(pool[arm] @ taste)
        ours.learn(pool[arm], reward)
        theirs.learn(pool[arm], reward)
    return choices, worst, float(np.abs(ours.feature_weights - theirs.theta).max())


@pytest.mark.parametrize(("dim", "arms", "rounds"), [(64, 20, 200), (256, 50, 40), (512, 20, 20), (1024, 3, 5)])
def test_linucb_with_many_features_chooses_and_learns_as_numpy_does(dim, arms, rounds):
    choices, worst, difference = play(dim, arms, rounds)
    assert len(set(choices)) > 1
    assert worst < 1e-9
    assert difference < 1e-9


def test_the_same_lines_without_the_compiler():
    """Sixty-four features, on which all arms of a pool go together."""
    code = "import test_forms; print(test_forms.play(64, 8, 6)[0])"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(play(64, 8, 6)[0])
