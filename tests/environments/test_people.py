"""A world of users: who comes, and how alike their tastes are."""

import math
from dataclasses import replace

import numpy as np
import pytest

from driftbandit.environments import PRESETS, People, synthetic


def tastes_of(rounds):
    """Theta of every user, recovered from the means of the arms shown."""
    found = []
    for user in range(rounds.scopes.max() + 1):
        mine = rounds.scopes == user
        x = rounds.catalogue[rounds.pools[mine]].reshape(-1, rounds.dim)
        weights, *_ = np.linalg.lstsq(x, rounds.means[mine].ravel(), rcond=None)
        assert np.abs(x @ weights - rounds.means[mine].ravel()).max() < 1e-10
        found.append(weights)
    return np.array(found)


def test_every_user_comes_equally_often_and_in_random_order():
    rounds = PRESETS["people-half-v1"].rounds(0)
    assert len(rounds) == PRESETS["people-half-v1"].horizon == 50_000
    np.testing.assert_array_equal(np.bincount(rounds.scopes), np.full(1000, 50))
    # Two neighbours are the same user in one of 1,000 pairs; 5 standard errors.
    assert np.mean(rounds.scopes[1:] == rounds.scopes[:-1]) < 0.002
    assert len(np.unique(rounds.scopes[:1000])) < 700, "not in turn: 632 of 1,000 on average"
    assert len(rounds.shifts) == 0


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_tastes_have_the_correlation_that_is_shared(shared):
    cosines = []
    for seed in range(8):
        tastes = tastes_of(People(users=60, visits=5, shared=shared).rounds(seed))
        np.testing.assert_allclose(np.linalg.norm(tastes, axis=1), 1.0)
        cosines.append((tastes @ tastes.T)[np.triu_indices(60, 1)].mean())
    assert np.mean(cosines) == pytest.approx(shared, abs=0.06)


def test_groups_have_one_taste_each():
    tastes = tastes_of(PRESETS["people-groups-v1"].rounds(0))
    kinds, sizes = np.unique(tastes.round(6), axis=0, return_counts=True)
    assert len(kinds) == 5
    np.testing.assert_array_equal(sizes, 200)
    assert np.abs((kinds @ kinds.T)[np.triu_indices(5, 1)]).mean() < 0.5, "and nothing in common"


def test_noise_and_range():
    rounds = PRESETS["people-half-noisy-v1"].rounds(0)
    noise = (rounds.rewards - rounds.means)[:, 0]
    assert noise.std() == pytest.approx(0.5, rel=0.02)
    assert rounds.noise == 0.5
    low, high = rounds.reward_range
    assert np.mean((rounds.rewards < low) | (rounds.rewards > high)) < 1e-3
    calm = PRESETS["people-half-v1"].rounds(0)
    np.testing.assert_array_equal(calm.means, rounds.means)


def test_the_same_seed_gives_the_same_rounds():
    one, again, other = (synthetic("people-half", seed, users=10) for seed in (3, 3, 4))
    for array in ("catalogue", "pools", "means", "rewards", "scopes"):
        np.testing.assert_array_equal(getattr(one, array), getattr(again, array))
        assert not np.array_equal(getattr(one, array), getattr(other, array))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("users", 0),
        ("users", 1.5),
        ("visits", 0),
        ("visits", "many"),
        ("shared", -0.1),
        ("shared", 1.1),
        ("shared", math.nan),
        ("groups", -1),
        ("groups", 1001),
        ("dim", 0),
        ("arms", None),
        ("pool", 0),
        ("pool", 1001),
        ("noise", -1.0),
        ("noise", math.inf),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: expected .*, got "):
        People(**{name: value})


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None])
def test_bad_seeds_are_named(seed):
    with pytest.raises(ValueError, match=r"^seed: expected a whole number"):
        replace(PRESETS["people-half-v1"], users=2).rounds(seed)


def test_unknown_settings_list_those_of_people():
    with pytest.raises(ValueError, match=r"^settings: unknown 'horizon'; expected one of users, visits"):
        synthetic("people-half", 0, horizon=10)
