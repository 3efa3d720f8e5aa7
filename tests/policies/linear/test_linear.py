"""LinUCB, LinTS, OracleLinUCB and adTS."""

import numpy as np
import pytest

from driftbandit import AdTS, LinTS, LinUCB, OracleLinUCB, simulate, synthetic
from driftbandit.policies.restarting.adts import _distance


def test_linucb_follows_its_definition():
    rng = np.random.default_rng(0)
    policy = LinUCB(4, ridge=0.5, explore=0.3)
    gram, moment = 0.5 * np.eye(4), np.zeros(4)
    for _ in range(200):
        pool = rng.standard_normal((6, 4))
        inverse = np.linalg.inv(gram)
        scores = pool @ inverse @ moment + 0.3 * np.sqrt(np.einsum("kd,de,ke->k", pool, inverse, pool))
        index = policy.choose(pool)
        assert index == int(np.argmax(scores))
        reward = float(pool[index].sum() + rng.standard_normal())
        policy.learn(pool[index], reward)
        gram += np.outer(pool[index], pool[index])
        moment += reward * pool[index]


def test_a_dominated_arm_never_changes_the_choice():
    rng = np.random.default_rng(1)
    policy = LinUCB(3)
    for x in rng.standard_normal((50, 3)):
        policy.learn(x, float(x.sum()))
    for _ in range(50):
        pool = rng.standard_normal((5, 3))
        best = policy.choose(pool)
        dominated = 0.01 * pool[best]  # lower mean where the best one's is positive, and lower width
        if pool[best].sum() > 0:
            assert policy.choose(np.vstack([pool, dominated])) == best


def test_the_oracle_equals_linucb_where_nothing_shifts_and_a_fresh_one_after_a_shift():
    rounds = synthetic("table1", seed=2, horizon=1000)
    never = simulate(OracleLinUCB(10), rounds)
    np.testing.assert_array_equal(never.choices, simulate(LinUCB(10), rounds).choices)
    told = OracleLinUCB(10, shifts=rounds.shifts.tolist())
    trace = simulate(told, rounds)
    assert trace.changes == ()
    fresh = LinUCB(10)
    for t in range(800, 1000):
        pool = rounds.catalogue[rounds.pools[t]]
        index = fresh.choose(pool)
        assert index == trace.choices[t]
        fresh.learn(pool[index], rounds.rewards[t, index])


def test_the_oracle_refuses_shifts_that_are_no_rounds():
    for shifts in ([-1], [0.5], ["a"]):
        with pytest.raises(ValueError, match="shifts"):
            OracleLinUCB(3, shifts=shifts)


def test_greedy_lints_is_ridge_regression():
    rng = np.random.default_rng(2)
    greedy, linucb = LinTS(3, ridge=0.1, explore=0.0), LinUCB(3, ridge=0.1, explore=0.0)
    for _ in range(100):
        pool = rng.standard_normal((5, 3))
        assert greedy.choose(pool) == linucb.choose(pool)
        reward = float(pool[0].sum())
        greedy.learn(pool[0], reward)
        linucb.learn(pool[0], reward)


def test_lints_explores_by_its_seed():
    pool = np.eye(3)
    first, again, other = (
        [policy.choose(pool) for _ in range(50)] for policy in (LinTS(3, seed=1), LinTS(3, seed=1), LinTS(3, seed=2))
    )
    assert first == again
    assert first != other
    assert set(first) == {0, 1, 2}


def test_adts_distance_by_hand():
    older = np.array([[1.0, 1.0], [1.0, 1.0]])  # one feature, two rewards of 1: mu = 2 / 3, B = 3
    newer = np.array([[1.0, 0.0], [1.0, 0.0]])  # mu = 0, B = 3
    assert _distance(older, newer, 1.0) == pytest.approx((2 / 3) ** 2 * 3)


def test_adts_needs_two_windows_and_five_distances_before_it_can_fire():
    rng = np.random.default_rng(3)
    policy = AdTS(2, window=50, check_every=10)
    for t in range(1, 400):
        x = rng.standard_normal(2)
        changes = policy.learn(x, float(x.sum()) * (1.0 if t < 60 else -1.0))
        if changes:
            break
    assert t >= 2 * 50 + 4 * 10
    assert changes[0].kind == "restarted"
    assert changes[0].evidence["confidence"] > 0.95
    assert policy._since == 0


def test_adts_compares_the_older_half_of_its_memory_with_the_newer(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "driftbandit.policies.restarting.adts._distance", lambda older, newer, _: seen.append((older, newer)) or 0.0
    )
    policy = AdTS(1, window=3, check_every=1, least_checks=100, most_checks=100)
    for t in range(8):
        policy.learn([1.0], float(t))
    assert [older[:, 1].tolist() for older, _ in seen] == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    assert [newer[:, 1].tolist() for _, newer in seen] == [[3.0, 4.0, 5.0], [4.0, 5.0, 6.0], [5.0, 6.0, 7.0]]


def test_adts_memory_is_bounded():
    rng = np.random.default_rng(4)
    policy = AdTS(2, window=5, check_every=1, most_checks=20, level=1.0, resamples=2)
    for _ in range(500):
        policy.learn(rng.standard_normal(2), 0.0)
    assert policy._distances.shape == (20,)
    assert policy._recent.shape == (10, 3)


def test_adts_looks_at_the_latest_distances_in_order(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "driftbandit.policies.restarting.adts.change_confidence", lambda series, *_: seen.append(series.copy()) or 0.0
    )
    rng = np.random.default_rng(5)
    policy = AdTS(1, window=2, check_every=1, least_checks=2, most_checks=4)
    distances = []
    monkeypatch.setattr(
        "driftbandit.policies.restarting.adts._distance",
        lambda *_: distances.append(float(len(distances))) or distances[-1],
    )
    for _ in range(12):
        policy.learn(rng.standard_normal(1), 0.0)
    assert [s.tolist() for s in seen[:2]] == [[0.0, 1.0], [0.0, 1.0, 2.0]]
    assert seen[-1].tolist() == distances[-4:]


@pytest.mark.parametrize(
    "settings",
    [{"window": 0}, {"check_every": 0}, {"least_checks": 1}, {"level": 2.0}, {"explore": -1.0}, {"most_checks": 3}],
)
def test_adts_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        AdTS(3, **settings)
