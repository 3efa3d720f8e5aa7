"""Statistics per arm id."""

import copy

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftbandit.kernels import arms
from driftbandit.policies.context_free.arms import ArmTable

IDS = st.one_of(st.integers(-20, 20), st.integers(-(2**63), 2**63 - 1))


def test_published_indices():
    assert arms.ucb1(0.5, 10.0, np.log(100)) == pytest.approx(1.45970518, abs=5e-9)
    assert arms.ucb_tuned(0.5, 10.0, 0.25 * 10, np.log(100)) == pytest.approx(0.83930702, abs=5e-9)
    assert arms.ucb_tuned(0.9, 1000.0, 0.0, np.log(2000)) == pytest.approx(0.93061303, abs=5e-9)


@pytest.mark.parametrize(
    ("mean", "level", "expected"),
    [
        (0.1, 0.2, 0.37839155),
        (0.5, 0.2, 0.78708882),
        (0.9, 0.2, 0.99448949),
        (0.1, 0.4, 0.519475),
        (0.1, 0.9, 0.734714),
        (0.5, 0.4, 0.871035),
        (0.5, 0.9, 0.956809),
    ],
)
def test_published_kl_ucb_indices(mean, level, expected):
    """To all digits given, or those of SMPyBandits, which bisects to 1e-6."""
    assert arms.kl_ucb(mean, level) == pytest.approx(expected, abs=5e-9 if level == 0.2 else 2e-6)


@given(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), st.floats(0, 20))
@example(0.75, 5.0)
@example(0.0, 5e-324)
def test_the_kl_ucb_index_is_the_largest_mean_within_reach(mean, level):
    def kl(q):
        total = mean * np.log(mean / q) if mean > 0.0 else 0.0
        return total + ((1.0 - mean) * np.log((1.0 - mean) / (1.0 - q)) if mean < 1.0 else 0.0)

    low, high = mean, 1.0 - 1e-12
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if kl(middle) <= level else (low, middle)
    assert arms.kl_ucb(mean, level) == pytest.approx(low, abs=1e-7 if level < 1e-9 else 1e-10)


def test_the_arm_with_the_least_is_found_whatever_the_order():
    table = ArmTable(max_arms=100, extra_columns=1)
    for arm, value in ((4, 2.0), (7, 1.0), (9, 1.0), (2, 3.0)):
        table.row(arm)[arms.COLUMNS] = value
    rng = np.random.default_rng(0)
    for ids, expected in (([4, 7, 9, 2], 7), ([4, 2], 4), ([9, 4, 5, 11], 5)):
        for _ in range(5):
            pool = rng.permutation(ids)
            assert pool[table.least(pool, arms.COLUMNS)] == expected


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1), st.sampled_from("aaaaaaaafzc")), max_size=400))
def test_a_ranked_table_knows_the_best_mean(plays):
    """After adding, forgetting half, shrinking to a half or to nothing, clearing, and copying."""
    table = ArmTable(max_arms=100, ranked=True)
    for now, (arm, reward, what) in enumerate(plays):
        table.add(arm, reward, now)
        if what == "f":
            table.shrink(0.5)
        elif what == "z":
            table.shrink(0.0)
        elif what == "c":
            table.clear()
        stats = table.stats[: len(table)]
        known = stats[stats[:, arms.COUNT] > 0.0, arms.MEAN]
        assert table.best_mean() == max(known, default=-np.inf)
    twin = ArmTable(max_arms=100, ranked=True).restore(table.state())
    assert twin.best_mean() == copy.deepcopy(table).best_mean() == table.best_mean()


@settings(max_examples=60)
@given(st.lists(st.tuples(IDS, st.floats(0, 1)), max_size=300))
def test_the_table_agrees_with_a_dictionary(plays):
    table = ArmTable(max_arms=10_000)
    model = {}
    for now, (arm, reward) in enumerate(plays):
        table.add(arm, reward, now)
        model.setdefault(arm, []).append(reward)
    assert len(table) == len(model)
    for arm, rewards in model.items():
        count, mean, squares, _ = table.row(arm)[:4]
        assert count == len(rewards)
        assert mean == pytest.approx(np.mean(rewards))
        assert squares == pytest.approx(np.var(rewards) * len(rewards), abs=1e-9)
    assert len(table) == len(model)


def test_a_new_arms_row_is_part_of_the_table_also_when_it_grows():
    table = ArmTable(max_arms=1000)
    for arm in range(500):
        table.row(arm)[arms.MEAN] = arm
    assert table.stats[:500, arms.MEAN].tolist() == list(range(500))


def test_ids_that_collide_are_told_apart():
    table = ArmTable(max_arms=1000)
    ids = [0, 2**31, -(2**63), 2**62, *range(0, 2**40, 2**31)][:500]
    for arm in set(ids):
        table.add(arm, 1.0, 0)
    assert len(table) == len(set(ids))
    assert table.mean_of(12345) == -np.inf


def test_at_its_limit_the_table_forgets_the_half_played_longest_ago():
    table = ArmTable(max_arms=100)
    for now in range(100):
        table.add(now, 0.5, now)
    table.add(3, 0.5, 100)  # arm 3 is recent again
    table.add(999, 1.0, 101)
    assert len(table) == 51
    assert table.mean_of(3) == 0.5
    assert table.mean_of(99) == 0.5
    assert table.mean_of(4) == -np.inf
    assert table.mean_of(999) == 1.0


def test_memory_stays_bounded_on_an_endless_stream_of_new_arms():
    table = ArmTable(max_arms=64)
    for arm in range(5000):
        table.add(arm, 0.0, arm)
    assert len(table) <= 64
    assert len(table.stats) == 64


def test_unseen_arms_are_played_first_and_at_random():
    table = ArmTable(max_arms=100)
    table.add(1, 1.0, 0)
    pool = np.array([1, 7, 8, 9])
    rng = np.random.default_rng(0)
    picks = [table.best(pool, table.rule("ucb1"), rng) for _ in range(300)]
    counts = np.bincount(picks, minlength=4)
    assert counts[0] == 0
    assert counts[1:].min() > 70  # 100 expected each, standard deviation 8


def test_an_imaginary_play_replaces_unconditional_exploration():
    table = ArmTable(max_arms=100)
    for now in range(50):
        table.add(1, 1.0, now)
    pool = np.array([1, 7])
    rng = np.random.default_rng(0)
    assert table.best(pool, table.rule("ucb1"), rng) == 1
    assert table.best(pool, table.rule("ucb1", prior_mean=0.0, prior_count=100.0), rng) == 0


def test_a_million_arms():
    table = ArmTable(max_arms=10)
    assert 0 <= table.best(np.arange(1_000_000), table.rule("ucb_tuned"), np.random.default_rng(0)) < 1_000_000
