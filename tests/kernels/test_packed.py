"""Packed triangles agree with NumPy's dense matrices."""

import itertools

import numpy as np
import pytest

from driftbandit.kernels.packed import add_outer, factor, invert, packed_size, product, solve


def matrix(dim, seed=0):
    root = np.random.default_rng(seed).standard_normal((dim, dim + 2))
    return root @ root.T


def packed(whole):
    return whole[np.tril_indices(len(whole))]


@pytest.mark.parametrize("dim", [1, 2, 5, 30])
def test_solve_invert_and_multiply(dim):
    whole, x = matrix(dim), np.linspace(-1.0, 2.0, dim)
    triangle = packed(whole)
    assert len(triangle) == packed_size(dim)
    out = np.full(len(triangle), np.nan)
    assert factor(triangle, 0.5, dim, out)
    solution = x.copy()
    solve(out, solution)
    np.testing.assert_allclose(solution, np.linalg.solve(whole + 0.5 * np.eye(dim), x), rtol=1e-8)
    assert invert(triangle, dim, out)
    np.testing.assert_allclose(out, packed(np.linalg.inv(whole)), rtol=1e-6, atol=1e-10)
    result = np.full(dim, np.nan)
    product(triangle, x, result)
    np.testing.assert_allclose(result, whole @ x, rtol=1e-10, atol=1e-12)
    add_outer(triangle, x)
    np.testing.assert_allclose(triangle, packed(whole + np.outer(x, x)))


@pytest.mark.parametrize("whole", [np.zeros((2, 2)), np.diag([1.0, -1.0]), np.array([[1.0, 2.0], [2.0, 1.0]])])
def test_what_is_not_positive_definite_is_refused(whole):
    assert not invert(packed(whole), 2, np.empty(3))


def test_nan_is_refused():
    assert not invert(np.array([1.0, np.nan, 1.0]), 2, np.empty(3))


def test_results_do_not_depend_on_where_arrays_lie():
    """Arrays side by side in one buffer, in every order: a loop that sums and stores fails this."""
    dim = 25
    triangle, x = packed(matrix(dim)), np.linspace(-1.0, 2.0, dim)
    results = set()
    for order in itertools.permutations((triangle, x, np.zeros(dim))):
        buffer = np.concatenate(order)
        ends = np.cumsum([len(part) for part in order])
        parts = {id(part): buffer[end - len(part) : end] for part, end in zip(order, ends, strict=True)}
        out = next(parts[id(part)] for part in order if part is not triangle and part is not x)
        product(parts[id(triangle)], parts[id(x)], out)
        results.add(out.tobytes())
    assert len(results) == 1
