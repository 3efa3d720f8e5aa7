"""Groups of users by k-means."""

import re
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `data`")

from driftbandit import LinUCB, PerScope
from driftbandit.environments.groups import group_users, nearest
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.evaluation.replay import replay
from driftbandit.extras import pip_install


def log_of(users):
    users = np.asarray(users, dtype=float)
    count = len(users)
    return Log(
        articles=[7, 8],
        features=[[1.0], [2.0]],
        pool_offsets=[0, 2],
        pool_members=[0, 1],
        times=np.arange(count),
        pools=np.zeros(count, dtype=int),
        shown=np.arange(count) % 2,
        rewards=np.zeros(count),
        users=users.reshape(count, -1),
    )


def test_groups_are_those_that_the_users_were_drawn_from(tmp_path):
    """The generator draws users close to the centre of their group, so k-means must find the same partition."""
    plan = write_synthetic(tmp_path, 20_000, seed=3, groups=4)
    log, _ = read_yahoo(tmp_path)
    found = group_users(log, 4, fit=0.2, seed=1)
    assert found.fitted == 4000
    assert len(found.log) == len(found.groups) == 16_000
    np.testing.assert_array_equal(found.log.times, log.times[4000:])
    truth = plan.groups[4000:]
    table = np.zeros((4, 4), dtype=int)
    np.add.at(table, (truth, found.groups), 1)
    assert table.max(axis=1).sum() > 0.99 * 16_000  # every true group has a group of its own ...
    assert len(set(table.argmax(axis=1).tolist())) == 4
    order = [plan.centres[truth_of] for truth_of in table.argmax(axis=0)]
    np.testing.assert_allclose(found.centres, order, atol=0.02)  # ... whose centre is where the users came from
    result = replay(PerScope(LinUCB(6)), found.log, scopes=found.groups)
    assert result.matched.max() < 16_000


def test_what_comes_after_the_fit_does_not_move_the_groups():
    rng = np.random.default_rng(0)
    users = rng.random((500, 3))
    other = users.copy()
    other[200:] = 5.0 * rng.random((300, 3))
    one, two = group_users(log_of(users), 5, fit=0.4), group_users(log_of(other), 5, fit=0.4)
    np.testing.assert_array_equal(one.centres, two.centres)


def test_the_same_seed_gives_the_same_groups():
    users = np.random.default_rng(0).random((400, 3))
    one, two = (group_users(log_of(users), 6, seed=2**40 + 1) for _ in range(2))
    np.testing.assert_array_equal(one.groups, two.groups)
    np.testing.assert_array_equal(one.centres, two.centres)


def test_the_nearest_centre_and_ties():
    centres = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    assert nearest(np.array([[0.2, 0.0], [0.5, 3.0], [0.9, -1.0]]), centres).tolist() == [0, 0, 1]
    rng = np.random.default_rng(0)
    users, many = rng.random((100_000, 2)), rng.random((9, 2))
    slow = np.argmin(((users[:, None] - many) ** 2).sum(axis=2), axis=1)
    np.testing.assert_array_equal(nearest(users, many), slow)


def test_all_users_alike_are_one_group():
    found = group_users(log_of(np.ones((50, 2))), 1, fit=0.2)
    assert set(found.groups.tolist()) == {0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": 0}, "groups: expected a whole number of at least 1"),
        ({"groups": 2.0}, "groups: expected a whole number"),
        ({"groups": 3}, "groups: expected at most 2, the different users to fit on, got 3"),
        ({"fit": 0.0}, "fit: expected a number in"),
        ({"fit": 1.5}, "fit: expected a number in"),
        ({"fit": float("nan")}, "fit: expected a number in"),
        ({"fit": 1.0}, "fit: 1 of 50 events leaves nothing"),
        ({"fit": 0.001}, "fit: 0.001 of 50 events leaves nothing"),
        ({"seed": -1, "groups": 2}, "seed: expected a whole number of at least 0"),
    ],
)
def test_bad_settings(settings, message):
    users = np.arange(50)[:, None] % 2
    with pytest.raises(ValueError, match=message):
        group_users(log_of(users), **settings)


def test_an_empty_log_has_no_groups():
    with pytest.raises(ValueError, match=r"fit: 0\.1 of 0 events"):
        group_users(log_of(np.ones((5, 1))).slice(0, 0))


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(ImportError, match=re.escape(pip_install("data"))):
        group_users(log_of(np.ones((50, 1))), 1)
