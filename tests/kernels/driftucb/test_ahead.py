"""Which rows of the next bank are fetched, and which pieces of them; that nothing else depends on it is for others."""

import numpy as np
import pytest

from driftbandit import DriftUCB, ManyScopes
from driftbandit.kernels.compile import plain
from driftbandit.kernels.driftucb import ahead, mixture
from driftbandit.kernels.vector_units import vectors


@pytest.mark.parametrize(
    ("rows", "fetched"),
    [(0, []), (-1, [0, 1, 2, 3, 4]), (0b01010, [1, 3]), (ahead.first_rows(2), [0, 1])],
)
def test_bits_say_which_rows_are_fetched(rows, fetched):
    assert [m for m in range(5) if ahead.row_ahead((640, rows), m) == 640] == fetched
    assert [m for m in range(5) if ahead.row_ahead((640, rows), m) == 0] == [m for m in range(5) if m not in fetched]
    assert ahead.row_ahead((0, rows), 1) == 0


def test_rows_beyond_the_bits_of_a_number_go_together():
    assert ahead.first_rows(62) == ahead.first_rows(90) == 2**62 - 1
    assert [ahead.row_ahead((8, ~ahead.first_rows(70)), m) for m in (0, 61, 62, 90)] == [0, 0, 8, 8]


def test_models_that_act_are_fetched():
    weights = np.array([0.9, 0.0005, 0.0010, 0.0985])
    assert mixture.acting_rows(weights, 1) == 0b11010
    assert mixture.acting_rows(np.array([0.0, 1.0]), 1) == 0b110, "the incumbent's row holds the unit of the noise"


@pytest.mark.parametrize("width", [40, 464, 512, 5312])
def test_pieces_cover_a_row_as_far_as_it_is_fetched(monkeypatch, width):
    fetched, distance = set(), 100_000
    monkeypatch.setattr(ahead, "padded", plain(vectors.padded))
    monkeypatch.setattr(ahead, "fetch_row", lambda rows, at, far, step: far and fetched.update(range(at, at + step)))
    for piece in range(ahead.PIECES):
        plain(ahead.fetch_pieces)(np.zeros(0), width, 3, (distance, 0b101), piece)
    expected = set(range(min(width, 512))) | set(range(2 * width, 2 * width + min(width, 512)))
    assert expected <= fetched
    assert len(fetched) <= len(expected) + 2 * ahead.PIECES * vectors.padded(1), "no more than rounding"


@pytest.mark.parametrize("memory", [(), (50,), (20, 50, 100, 200, 400)])
def test_whatever_is_fetched_many_scopes_step_as_policy_objects_do(memory):
    rng, scopes, dim = np.random.default_rng(len(memory)), 7, 9
    many, alone = (
        ManyScopes(DriftUCB(dim, memory=memory), scopes),
        [DriftUCB(dim, memory=memory) for _ in range(scopes)],
    )
    taste = rng.standard_normal(dim)
    for _ in range(60):
        played, pools = rng.standard_normal((scopes, dim)), rng.standard_normal((scopes, 5, dim))
        rewards = played @ taste + 0.1 * rng.standard_normal(scopes)
        _, arms = many.step_many(None, played, rewards, pools)
        for scope, policy in enumerate(alone):
            policy.learn(played[scope], float(rewards[scope]))
            assert policy.choose(pools[scope]) == arms[scope]
    for scope, policy in enumerate(alone):
        np.testing.assert_array_equal(many.policy_of(scope).state()["bank"], policy.state()["bank"])
