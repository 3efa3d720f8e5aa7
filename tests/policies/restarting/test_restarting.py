"""PSLinUCB, DAL and MASTER: LinUCBs that restart when a test says so."""

import math

import numpy as np
import pytest

from driftbandit import DAL, MASTER, LinUCB, PerArm, PSLinUCB, Radius, simulate, synthetic
from driftbandit.kernels import glr
from driftbandit.kernels import ridge as kernel
from driftbandit.policies.restarting import dal


def inverse_of(row, dim):
    whole = np.zeros((dim, dim))
    whole[np.tril_indices(dim)] = row[1 + dim : kernel.row_size(dim)]
    return whole + np.tril(whole, -1).T


@pytest.mark.parametrize("explore", [0.3, Radius.abbasi_yadkori(10, noise=0.1, ridge=0.1, delta=0.01)])
@pytest.mark.parametrize(
    "quiet",
    [
        lambda explore: PSLinUCB(10, 0.1, threshold=1e9, ridge=0.1, explore=explore),
        lambda explore: DAL(10, 0.1, forcing=0.0, ridge=0.1, explore=explore),
    ],
    ids=["PSLinUCB", "DAL"],
)
def test_without_an_alarm_they_are_linucb(quiet, explore):
    rounds = synthetic("table1", seed=6, horizon=1500)
    trace = simulate(quiet(explore), rounds)
    np.testing.assert_array_equal(trace.choices, simulate(LinUCB(10, ridge=0.1, explore=explore), rounds).choices)
    assert trace.changes == ()


def test_the_past_and_the_window_of_ps_linucb_make_up_what_it_knows():
    """A_cum - I = (A_pre - I) + (A_cur - I), until there is a change."""
    rng = np.random.default_rng(0)
    policy = PSLinUCB(3, 0.1, window=7, threshold=1e9, ridge=1.0)
    for t in range(40):
        x = rng.standard_normal(3)
        policy.learn(x, float(x.sum()))
        held, oldest = policy._ring.tolist()
        assert held == min(t + 1, 6)
        current = policy._recent[(oldest + np.arange(held)) % 7]
        whole = np.linalg.inv(inverse_of(policy.leading_row, 3))
        before = np.linalg.inv(inverse_of(policy._before, 3))
        np.testing.assert_allclose(whole, before + current[:, :3].T @ current[:, :3], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(policy._totals, current.sum(axis=0), atol=1e-12)


def test_ps_linucb_tests_the_mean_residual_of_its_window():
    """Rewards of 1, then of 0: the k-th zero makes the window's mean residual about k / window."""
    policy = PSLinUCB(1, 0.1, window=20, threshold=0.275, ridge=1e-6)
    for _ in range(60):
        assert policy.learn([1.0], 1.0) == ()
    zeros = 0
    changes = ()
    while not changes:
        zeros += 1
        changes = policy.learn([1.0], 0.0)
    assert zeros == math.ceil(20 * 0.275)
    (change,) = changes
    assert (change.kind, change.member, change.round) == ("restarted", 0, 60 + zeros)
    assert change.evidence["gap"] == pytest.approx(zeros / 20, abs=1e-6)
    assert change.evidence["threshold"] == 0.275


def test_ps_linucb_starts_again_from_its_window():
    rng = np.random.default_rng(1)
    policy = PSLinUCB(2, 0.1, window=15, ridge=0.1)
    seen = []
    for t in range(200):
        x = rng.random(2)
        reward = float(x.sum()) * (1.0 if t < 100 else -1.0)
        seen.append((x, reward))
        if policy.learn(x, reward):
            break
    fresh = LinUCB(2, ridge=0.1)
    for x, reward in seen[-15:]:
        fresh.learn(x, reward)
    np.testing.assert_allclose(policy.leading_row, fresh.leading_row, rtol=1e-12)
    np.testing.assert_array_equal(policy._before, policy.leading_row)
    assert policy._ring.tolist() == [0, 0]
    assert not policy._totals.any()


def test_ps_linucb_waits_for_a_past_before_it_tests():
    """The reference code compares its first window with a model that knows nothing, and alarms."""
    policy = PSLinUCB(1, 0.01, window=10, ridge=1e-3)
    for _ in range(100):
        assert policy.learn([1.0], 1.0) == ()


def test_ps_linucb_seldom_alarms_where_nothing_changes():
    alarms = [
        len(simulate(PSLinUCB(10, 0.1, window=50, ridge=0.1, explore=0.1), rounds).changes)
        for rounds in (synthetic("stationary", seed=seed, horizon=2000) for seed in range(5))
    ]
    # 1,900 tests a run at 1e-4 each, most of them on almost the same window: 0.2 a run is a generous bound.
    assert sum(alarms) <= 2


def test_ps_linucb_finds_every_shift():
    rounds = synthetic("table1", seed=3)
    trace = simulate(PSLinUCB(10, 0.05, window=50, ridge=0.1, explore=0.05), rounds)
    found = np.array([change.round for change in trace.changes])
    assert all(((found > shift) & (found <= shift + 50)).any() for shift in rounds.shifts)


def test_per_arm_ps_linucb_is_the_disjoint_one():
    news = PerArm(PSLinUCB(1, 0.1, window=10, ridge=0.1))
    for t in range(80):
        for article in (1, 2):  # the first one's popularity shifts
            news.learn([1.0], 0.0 if article == 1 and t >= 40 else 0.5, arm=article)
    first = news.changes_of(1)[0]
    assert (first.kind, first.round) == ("restarted", 43)  # the arm's own rounds: three zeros are 0.15 off
    assert news.changes_of(2) == ()


def test_dal_forces_the_published_share():
    policy = DAL(10, 0.1, horizon=20_000)
    assert policy.share == pytest.approx(math.sqrt(10 * math.log(20_000) / 20_000))
    forced = []
    for _ in range(5000):
        forced.append(policy.forced)
        policy.learn(np.eye(10)[0], 0.0)
    assert np.mean([direction is not None for direction in forced]) == pytest.approx(policy.share, rel=0.03)
    assert [direction for direction in forced if direction is not None][:12] == [*range(10), 0, 1]
    policy._episode = 4
    assert policy.share == pytest.approx(2 * math.sqrt(10 * math.log(20_000) / 20_000))


def test_the_forced_arms_of_a_pool_span_it():
    rng = np.random.default_rng(2)
    for _ in range(20):
        pool = rng.standard_normal((12, 5))
        picked = [dal._covering_arm(pool, direction) for direction in range(5)]
        assert len(set(picked)) == 5
        assert np.linalg.matrix_rank(pool[picked]) == 5
        assert picked[0] == np.argmax(np.abs(pool[:, 0]))
    flat = np.outer([1.0, 2.0], [1.0, 1.0, 0.0])  # one direction only
    assert [dal._covering_arm(flat, direction) for direction in range(3)] == [1, -1, -1]


def statistic_of(values):
    """Gaussian GLR by its definition, for noise of size 1."""
    values = np.asarray(values)
    mean = values.mean()
    return max(
        (s * (values[:s].mean() - mean) ** 2 + (len(values) - s) * (values[s:].mean() - mean) ** 2) / 2
        for s in range(1, len(values))
    )


def test_the_statistic_of_dal_follows_its_definition():
    rng = np.random.default_rng(3)
    values = rng.standard_normal(200) + np.repeat([0.0, 1.0], 100)
    stream = np.zeros(glr.row_size(dal._MOST_SPLITS))
    for n, value in enumerate(values, 1):
        glr.add(stream, value, n)
        if n > 1:
            assert glr.gaussian_evidence(stream) == pytest.approx(statistic_of(values[:n]))


def test_a_long_stream_of_dal_keeps_fewer_splits_and_nearly_the_same_statistic():
    rng = np.random.default_rng(4)
    values = rng.standard_normal(3000) + np.repeat([0.0, 0.3], 1500)
    stream = np.zeros(glr.row_size(dal._MOST_SPLITS))
    for n, value in enumerate(values, 1):
        glr.add(stream, value, n)
    assert stream[glr.SPLITS] <= dal._MOST_SPLITS
    exact = statistic_of(values)
    assert 0.95 * exact <= glr.gaussian_evidence(stream) <= exact * (1 + 1e-9)


def test_dal_alarms_within_a_few_forced_plays_of_a_jump():
    policy = DAL(2, 0.1, horizon=2000, burn_in=0)
    pool = np.eye(2)
    for t in range(2000):
        arm = policy.choose(pool)
        direction = policy.forced
        if direction is not None:
            assert arm == direction
        if policy.learn(pool[arm], float(arm == (t >= 1000))):
            break
    period = math.ceil(2 / math.sqrt(2 * math.log(2000) / 2000))
    assert 1000 < policy.rounds <= 1000 + 2 * period
    (change,) = policy.changes
    assert change.evidence["statistic"] > change.evidence["threshold"]
    assert change.evidence["threshold"] == pytest.approx(
        math.log(2 * change.evidence["samples"] ** 1.5 * math.sqrt(2000))
    )
    assert policy.share == pytest.approx(math.sqrt(2 * 2 * math.log(2000) / 2000))
    assert policy._streams[:, glr.SAMPLES].tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(policy.leading_row, DAL(2, 0.1).leading_row)


def test_dal_finds_the_shifts_in_pools_that_change():
    rounds = synthetic("table1", seed=4)
    trace = simulate(DAL(10, 0.05, ridge=0.1, explore=0.05), rounds)
    found = np.array([change.round for change in trace.changes])
    assert len(found) <= 8
    assert all(((found > shift) & (found <= shift + 150)).any() for shift in rounds.shifts)


def test_dal_is_quiet_where_nothing_changes():
    alarms = [
        len(simulate(DAL(10, 0.1, ridge=0.1, explore=0.1), rounds).changes)
        for rounds in (synthetic("stationary", seed=seed, horizon=2000) for seed in range(20))
    ]
    assert sum(alarms) <= 1  # 95 % of the runs, at delta_F = 0.01


def test_dal_can_keep_forced_rewards_from_its_learner():
    rng = np.random.default_rng(5)
    fed, apart = DAL(3, 0.1, horizon=100), DAL(3, 0.1, horizon=100, feed=False)
    forced = 0
    for _ in range(50):
        x = rng.standard_normal(3)
        forced += apart.forced is not None
        fed.learn(x, 0.1)
        apart.learn(x, 0.1)
    assert forced > 0
    assert fed.leading_row[0] == 50
    assert apart.leading_row[0] == 50 - forced


def test_the_published_constants_of_master_are_vacuous():
    policy = MASTER(5, 0.1, horizon=100_000)
    assert policy.scale == pytest.approx(2432.86, abs=0.005)
    needed = (9 * policy.scale) ** 2  # a mean of rewards in [0, 1] cannot exceed a promise by more than 1
    assert needed == pytest.approx(4.79e8, rel=1e-3)
    assert (3 * policy.scale) ** 2 == pytest.approx(5.3e7, rel=0.01)


def quiet_master(dim=3, **settings):
    return MASTER(dim, 0.1, horizon=1024, scale=1e9, **settings)


def test_the_schedule_of_master():
    counts = np.zeros(6)
    blocks = 0
    for seed in range(40):
        policy = quiet_master(seed=seed)
        for _ in range(2**6 - 1 + 2**5):
            order, spent = policy._order, policy._spent
            live = np.flatnonzero(policy._live)
            assert policy._live[order] == 1  # the one that spans the block
            assert policy._leader == live[0]
            assert policy.instances[0] == 1 << policy._leader
            if order == 5:
                blocks += spent == 0
                counts += [policy._live[m] and spent % 2**m == 0 for m in range(6)]
            policy.learn([0.1, 0.2, 0.3], 0.0)
    assert blocks == 40
    # 2^((n - m) / 2) of order m in a block of order n; standard errors are below 8 %.
    np.testing.assert_allclose(counts / blocks, [2 ** ((5 - m) / 2) for m in range(6)], rtol=0.25)


def test_a_new_instance_of_master_knows_nothing_and_a_paused_one_keeps_what_it_knows():
    policy = quiet_master(seed=1)
    rng = np.random.default_rng(6)
    fresh = LinUCB(3, ridge=1.0).leading_row
    for _ in range(300):
        before = policy._bank.copy()
        active = policy._leader
        policy.learn(rng.standard_normal(3), 1.0)
        started = [m for m in range(policy._order + 1) if policy._live[m] and policy._spent % 2**m == 0]
        for m in range(policy._order + 1):
            if m in started:
                np.testing.assert_array_equal(policy._bank[m], fresh)
            elif m != active:
                np.testing.assert_array_equal(policy._bank[m], before[m])


def test_master_alone_in_a_block_is_a_fresh_linucb():
    policy = quiet_master(10, explore=0.3, reward_range=(-1.0, 1.0))
    # No shorter instance ever starts: uniforms of 0.99 exceed every probability but 1.
    policy._generator = type("Never", (), {"random": staticmethod(lambda: 0.99)})()
    policy._start_block(0)
    rounds = synthetic("table1", seed=7, horizon=255)
    trace = simulate(policy, rounds)
    for start, stop in ((2**n - 1, 2 ** (n + 1) - 1) for n in range(8)):
        fresh = LinUCB(10, ridge=1.0, explore=0.3)
        for t in range(start, stop):
            pool = rounds.catalogue[rounds.pools[t]]
            assert fresh.choose(pool) == trace.choices[t]
            fresh.learn(pool[trace.choices[t]], rounds.rewards[t, trace.choices[t]])


def test_the_second_test_of_master_by_hand():
    policy = MASTER(1, 0.1, rate=0.5, scale=2.0, first=None, second=0.3, explore=0.0, ridge=1.0)
    policy._generator = type("Never", (), {"random": staticmethod(lambda: 0.99)})()  # no shorter instances
    policy._start_block(0)
    for _ in range(7):  # blocks of 1, 2 and 4: rewards of 0 break no promise of 0
        assert policy.learn([1.0], 0.0) == ()
    assert (policy._order, policy._spent) == (3, 0)
    # After two rewards of 1, theta is 2 / n before the n-th reward, which is 0: -1 - 1 / 2 + 2 / 3 + ... + 2 / 8.
    found = [policy.learn([1.0], reward) for reward in (1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)]
    excess = (-1.5 + sum(2 / n for n in range(3, 9))) / 8
    bound = 0.3 / math.sqrt(8)
    assert excess > bound
    assert (-1.5 + sum(2 / n for n in range(3, 8))) / 7 < 0.3 / math.sqrt(7)  # not yet
    assert found[:-1] == [()] * 7
    (change,) = found[-1]
    assert (change.kind, change.round) == ("restarted", 15)
    assert change.evidence == pytest.approx({"test": 2.0, "statistic": excess, "bound": bound, "rounds": 8.0})
    assert (policy._order, policy._spent) == (0, 0)


def test_the_first_test_of_master_by_hand():
    policy = MASTER(1, 0.1, rate=1.0, scale=0.1, first=1.0, second=1e9, explore=0.0)
    (change,) = policy.learn([1.0], 1.0)  # promised 0, earned 1: more than 0 + 0.1
    assert change.evidence == {"test": 1.0, "statistic": 1.0, "bound": 0.1, "rounds": 1.0}
    assert (policy._order, policy._spent, policy.instances) == (0, 0, (1,))
    without = MASTER(1, 0.1, rate=1.0, scale=0.1, first=None, second=1e9, explore=0.0)
    assert without.learn([1.0], 1.0) == ()


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (PSLinUCB, {"window": 0}),
        (PSLinUCB, {"threshold": -1.0}),
        (PSLinUCB, {"delta": 0.0}),
        (PSLinUCB, {"noise": -1.0}),
        (DAL, {"noise": 0.0}),
        (DAL, {"horizon": 1}),
        (DAL, {"forcing": -1.0}),
        (DAL, {"false_alarm": 0.0}),
        (DAL, {"burn_in": -1}),
        (MASTER, {"horizon": 0}),
        (MASTER, {"rate": -1.0}),
        (MASTER, {"second": -1.0}),
        (MASTER, {"reward_range": (1.0, 1.0)}),
    ],
)
def test_bad_settings(policy, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        policy(**{"dim": 3, "noise": 0.1} | settings)
