"""DriftUCB's frames, what it is told before the first reward, and how it acts while answers are outstanding."""

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from driftbandit import DriftUCB, World, load, simulate
from driftbandit.kernels.driftucb import frames, scales

DIM = 4
TASTE = np.array([0.5, -0.4, 0.3, 0.6])


def contents(policy):
    return {name: array.tobytes() for name, array in policy.state().items()}


def play(policy, rounds, *, columns=1.0, rewards=1.0, offset=0.0, noise=0.1, seed=0):
    """Choices; features are scaled by `columns`, which may be one number per column, and rewards by `rewards`."""
    rng = np.random.default_rng(seed)
    choices = []
    for t in range(rounds):
        pool = rng.standard_normal((6, DIM))
        arm = policy.choose(pool * columns)
        sign = 1.0 if t < rounds // 2 else -1.0
        reward = rewards * (sign * pool[arm] @ TASTE + offset + noise * rng.standard_normal())
        policy.learn((pool * columns)[arm], float(reward))
        choices.append(arm)
    return choices


UNLIKE = np.array([1.0, 2.0**13, 1.0, 2.0**-13])


@pytest.mark.parametrize("power", [-20, -1, 7, 20])
@pytest.mark.parametrize("column", range(DIM))
def test_a_columns_unit_changes_no_choice_once_columns_are_standardised(column, power):
    """The first arms are fixed, because before there is a frame the largest arm is played."""
    first, second = DriftUCB(DIM), DriftUCB(DIM)
    scaled = UNLIKE.copy()
    scaled[column] *= 2.0**power
    rng = np.random.default_rng(1)
    for x in rng.standard_normal((16, DIM)):
        reward = float(x @ TASTE + 0.1 * rng.standard_normal())
        first.learn(x * UNLIKE, reward)
        second.learn(x * scaled, reward)
    assert play(first, 600, columns=UNLIKE) == play(second, 600, columns=scaled)
    assert [c.round for c in first.changes] == [c.round for c in second.changes]
    assert first.changes


@pytest.mark.parametrize("offset", [0.0, 20.0])
@pytest.mark.parametrize("columns", [1.0, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize(("features", "rewards"), [(2.0**20, 2.0**-33), (2.0**-17, 2.0**40)])
def test_one_unit_for_all_features_and_one_for_rewards_change_no_choice(features, rewards, columns, offset):
    plain = play(DriftUCB(DIM), 400, columns=columns, offset=offset)
    assert play(DriftUCB(DIM), 400, columns=features * columns, rewards=rewards, offset=offset) == plain


def test_rewards_that_are_all_what_the_anchor_expects_have_no_unit():
    """Clicks that came every time: the anchor is a click, and nothing is left to tell the size of the noise from."""
    pool = np.random.default_rng(0).standard_normal((20, 2))
    pool[:, 1] = 1.0
    choices = []
    for unit in (1.0, 2.0**40):
        policy = DriftUCB(2)
        for x in pool[:4]:
            policy.learn(x, unit)
        assert policy._memo[scales.ANCHORED]
        choices.append(policy.choose(pool))
    assert choices[0] == choices[1]


@pytest.mark.parametrize("offset", [20.0, -3.0])
def test_an_offset_costs_little(offset):
    """As well as without the offset, but for the first rounds; it is as bad as random without an intercept."""
    lost = {}
    for extra in (0.0, offset):
        policy, rng = DriftUCB(DIM), np.random.default_rng(2)
        lost[extra] = 0.0
        for t in range(600):
            pool = rng.standard_normal((6, DIM))
            arm = policy.choose(pool)
            means = pool @ TASTE
            policy.learn(pool[arm], float(means[arm] + extra + 0.1 * rng.standard_normal()))
            lost[extra] += (means.max() - means[arm]) * (t >= 50)
        assert not policy.changes
    assert lost[offset] < 2.0 * lost[0.0] + 1.0, lost


def test_no_alarm_without_noise():
    for seed in range(5):
        rounds = World(path="still", noise=0.0, horizon=1500).rounds(seed)
        assert not simulate(DriftUCB(rounds.dim), rounds).changes


# Answers outstanding.


def learned(rounds=30, seed=0):
    policy = DriftUCB(DIM)
    play(policy, rounds, seed=seed)
    return policy


def test_below_five_outstanding_answers_choose_as_with_none():
    policy, pool = learned(), np.random.default_rng(9).standard_normal((40, 6, DIM))
    for arms in pool:
        assert {policy.choose(arms, pending=n) for n in range(5)} == {policy.choose(arms)}


def test_a_batch_is_not_one_arm_throughout():
    policy, rng = DriftUCB(DIM), np.random.default_rng(9)
    pool = rng.standard_normal((6, DIM))
    for x in pool[:3]:
        policy.learn(x, float(rng.standard_normal()))
    before = contents(policy)
    batch = [policy.choose(pool, pending=n) for n in range(100)]
    assert len(set(batch[5:])) > 1
    assert batch == [policy.choose(pool, pending=n) for n in range(100)], "the same call, the same answer"
    assert contents(policy) == before


def test_the_clear_best_is_played_in_batches_too():
    policy = learned(200)
    pool = np.vstack([np.zeros(DIM), -3.0 * TASTE, 0.1 * TASTE])  # the taste has turned round
    assert {policy.choose(pool, pending=n) for n in range(200)} == {1}


def test_a_batch_before_any_reward_plays_the_arm_it_could_learn_most_from():
    pool = np.array([[1.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0]])
    assert {DriftUCB(DIM).choose(pool, pending=n) for n in range(20)} == {1}


@pytest.mark.parametrize("pending", [-1, 0.5, 7.0, float("nan"), True, "5", None])
def test_refuses_a_pending_that_is_no_count(pending):
    with pytest.raises(ValueError, match="pending: expected a whole number of at least 0"):
        DriftUCB(DIM).choose(np.eye(DIM), pending=pending)


# The trial of frames.


@pytest.mark.parametrize("rounds", [1, 2, 7, 100, 255, 256, 257, 300])
@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_a_copy_goes_on_as_the_original_during_the_trial_and_after(rounds, offset, tmp_path):
    policy = DriftUCB(DIM)
    play(policy, rounds, columns=UNLIKE, offset=offset)
    assert len(policy.state()["seen"]) >= rounds or rounds >= frames.TRIAL
    assert len(policy.state()["seen"]) == 0 or rounds < frames.TRIAL
    policy.save(tmp_path / "policy.npz")
    twins = {
        "state": DriftUCB(DIM).restore(policy.state()),
        "pickle": pickle.loads(pickle.dumps(policy)),
        "deepcopy": copy.deepcopy(policy),
        "file": load(tmp_path / "policy.npz"),
    }
    before = contents(policy)
    expected = play(policy, 300, columns=UNLIKE, offset=offset, seed=1)
    after = contents(policy)
    for name, twin in twins.items():
        assert contents(twin) == before, name
        assert play(twin, 300, columns=UNLIKE, offset=offset, seed=1) == expected, name
        assert contents(twin) == after, name


def test_restore_refuses_a_trial_that_cannot_be():
    policy = learned(10)
    for at, spoil, message in (
        (scales.COLUMNS, DIM + 2, "one column per feature"),
        (scales.TRIED, frames.TRIAL + 1, "at most 256"),
        (scales.TRIED, 100, "a line for every reward"),
    ):
        state = policy.state()
        state["memo"][at] = spoil
        with pytest.raises(ValueError, match=message):
            DriftUCB(DIM).restore(state)


# Told before the first reward.

MEAN, SPREAD = np.array([0.4, -0.3, 0.2, 0.5]), np.diag([0.1, 0.2, 0.3, 0.1])


def examples(count, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, DIM))
    return [(row, float(row @ TASTE + 0.1 * rng.standard_normal())) for row in x]


def told(count, *beliefs, first=None):
    policy = DriftUCB(DIM)
    if first is not None:
        policy.believe(*first)
    for x, reward in examples(count):
        policy.learn(x, reward)
    for belief in beliefs:
        policy.believe(*belief)
    return policy


def test_it_acts_on_what_it_was_told():
    policy = DriftUCB(DIM, explore=0.0, explore_most=0.0)
    policy.believe(MEAN, SPREAD, 0.01)
    pool = np.random.default_rng(0).standard_normal((30, DIM))
    assert policy.choose(pool) == np.argmax(pool @ MEAN)
    unsure = DriftUCB(DIM, explore=100.0)
    unsure.believe(MEAN, SPREAD, 0.01)
    assert unsure.choose(pool) == np.argmax(np.einsum("ki,ij,kj->k", pool, SPREAD, pool))


def test_what_was_told_is_the_prior_of_a_bayesian_regression():
    policy = DriftUCB(DIM, detect=False, memory=(), explore=0.0, explore_most=0.0)
    policy.believe(MEAN, SPREAD, 0.04)
    precision, b = np.linalg.inv(SPREAD), np.linalg.inv(SPREAD) @ MEAN
    for x, reward in examples(5):
        policy.learn(x, reward)
        precision, b = precision + np.outer(x, x) / 0.04, b + x * reward / 0.04
    mean = np.linalg.solve(precision, b)
    pool = np.random.default_rng(0).standard_normal((50, DIM))
    assert policy.theta == pytest.approx(mean)
    assert policy.choose(pool) == np.argmax(pool @ mean)


OTHER = (-MEAN, 4.0 * SPREAD, 0.5)
THIS = (MEAN, SPREAD, 0.01)


@pytest.mark.parametrize("count", [0, 1, 5, 64])
def test_only_the_latest_belief_counts(count):
    """Whatever was believed in between, and before the rewards: nothing of it is left, bit for bit."""
    alone = told(count, THIS)
    assert contents(told(count, OTHER, THIS)) == contents(alone)
    assert contents(told(count, THIS, THIS)) == contents(alone)
    before = told(count, THIS, first=OTHER)
    assert before.choose(np.eye(DIM)) == alone.choose(np.eye(DIM))
    assert np.array_equal(before.theta, alone.theta)
    assert play(before, 300) == play(alone, 300)


def test_a_far_larger_arm_does_not_undo_a_belief():
    """It is too large beside the first arm; what was told about the weights holds all the same."""
    policy = DriftUCB(2, explore=0.0, explore_most=0.0)
    policy.believe([3.0, 1.0], np.eye(2), 0.01)
    policy.learn([1e-3, 0.0], 0.003)
    policy.learn([1e5, 0.0], 3e5)
    assert (policy.rounds, policy.explain().age) == (2, 2)
    assert policy.choose([[0.0, 5.0], [1.0, 0.0], [2.0, 0.0]]) == 2
    assert policy.choose([[0.0, 7.0], [1.0, 0.0], [2.0, 0.0]]) == 0


@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_belief_beside_features_whose_square_is_infinite(count):
    policy = told(count, THIS)
    before = contents(policy)
    with pytest.raises(ValueError, match="too large beside the first ones"):
        policy.learn([1e160, 0.0, 0.0, 0.0], 1.0)
    assert contents(policy) == before


def test_after_64_rewards_nothing_changes():
    policy = told(65)
    before = contents(policy)
    policy.believe(*THIS)
    assert contents(policy) == before
    assert contents(told(64, THIS)) != contents(told(64))


@pytest.mark.parametrize(
    "belief",
    [
        (MEAN[:3], SPREAD, 0.01),
        (MEAN * np.nan, SPREAD, 0.01),
        (MEAN, SPREAD[:3], 0.01),
        (MEAN, SPREAD * np.nan, 0.01),
        (MEAN, -SPREAD, 0.01),
        (MEAN, 0.0 * SPREAD, 0.01),
        (MEAN, SPREAD, 0.0),
        (MEAN, SPREAD, -1.0),
        (MEAN, SPREAD, np.nan),
        ("many", SPREAD, 0.01),
    ],
)
def test_a_belief_that_is_none_changes_nothing(belief):
    policy = told(10, OTHER)
    before = contents(policy)
    with pytest.raises(ValueError, match=r"mean|spread|noise"):
        policy.believe(*belief)
    assert contents(policy) == before


def test_refused_rewards_change_nothing():
    for policy in (told(10), told(10, THIS), told(300), DriftUCB(DIM)):
        before = contents(policy)
        for x, reward in (
            (np.full(DIM, np.nan), 1.0),
            (np.full(DIM, np.inf), 1.0),
            (np.ones(DIM), np.nan),
            (np.ones(DIM), np.inf),
            (np.ones(DIM - 1), 1.0),
            (np.ones(DIM), "much"),
        ):
            with pytest.raises(ValueError, match=r"features|reward"):
                policy.learn(x, reward)
            assert contents(policy) == before
        with pytest.raises(ValueError, match="features"):
            policy.choose(np.full((3, DIM), np.nan))
        assert contents(policy) == before


@pytest.mark.parametrize(("wild", "at"), [(1e6, 0), (-1e100, 1), (1e100, 2), (-1e12, 5), (1e100, 100)])
def test_a_wild_reward_during_the_trial_is_got_over(wild, at):
    policy, rng = DriftUCB(DIM), np.random.default_rng(4)
    for t in range(1000):
        pool = rng.standard_normal((6, DIM))
        arm = policy.choose(pool)
        reward = float(pool[arm] @ TASTE + 0.1 * rng.standard_normal())
        policy.learn(pool[arm], wild if t == at else reward)
    pool = rng.standard_normal((200, 6, DIM))
    right = sum(policy.choose(arms) == np.argmax(arms @ TASTE) for arms in pool)
    assert right > 150, right


# Older states.


def test_a_file_from_before_frames_goes_on_where_it_was():
    """Saved after 300 rewards, with an alarm at 203; the figures are those of the version that saved it."""
    policy = load(Path(__file__).parents[1] / "saved" / "driftucb-without-frames.npz")
    assert (policy.rounds, [change.round for change in policy.changes]) == (300, [203])
    assert policy.theta == pytest.approx([-0.500926, 0.40716825, -0.29296779, -0.60795782])
    assert policy.noise == pytest.approx(0.12234264830717191)
    assert policy.explain().age == 100
    assert policy.explain().moved[0] == pytest.approx((3, 0.6115032, -0.6079578))
    choices = [policy.choose(pool) for pool in np.random.default_rng(9).standard_normal((20, 6, DIM))]
    assert choices == [3, 4, 1, 3, 2, 5, 0, 0, 3, 3, 3, 4, 5, 4, 5, 3, 3, 4, 1, 4]
    twin = DriftUCB(DIM).restore(policy.state())
    assert play(twin, 200) == play(policy, 200)
    assert len(policy.changes) > 1, "young models start afresh and still find shifts"


# Without the compiler.


def batches():
    """Choices with frames of every kind and in batches, and what a belief makes of them."""
    made = []
    for offset, columns, belief in ((20.0, UNLIKE, None), (0.0, UNLIKE, None), (0.0, 1.0, THIS)):
        policy = DriftUCB(DIM)
        if belief is not None:
            policy.believe(*belief)
        made.append(play(policy, 100, columns=columns, offset=offset))
        pool = np.random.default_rng(5).standard_normal((30, 6, DIM)) * columns
        made.append([policy.choose(arms, pending=n) for n, arms in enumerate(pool)])
        made.append([float(policy._memo[scales.COLUMNS]), float(policy._memo[scales.ANCHORED])])
    return made


def test_the_same_lines_without_the_compiler_make_the_same_choices():
    result = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    here = batches()
    assert json.loads(result.stdout) == here
    assert [here[2], here[8]] == [[DIM + 1, 1.0], [DIM, 1.0]], "an intercept, and a belief"


if __name__ == "__main__":
    print(json.dumps([[float(value) for value in line] for line in batches()]))
