"""What to learn from a list: nothing about what nobody looked at."""

import numpy as np
import pytest

from driftbandit import UCB1, LinUCB, PerScope
from driftbandit.slates import Lesson, cascade, examination_of, learn_slate, naive, position_weighted

LOOKS = np.array([1.0, 0.6, 0.3])


def pairs(lessons):
    return [(lesson.position, lesson.reward) for lesson in lessons]


def test_naively_every_position_is_learned_as_it_is():
    assert pairs(naive([0, 1, 0])) == [(0, 0.0), (1, 1.0), (2, 0.0)]
    assert pairs(naive(np.array([False, True]))) == [(0, 0.0), (1, 1.0)]


@pytest.mark.parametrize(
    ("clicks", "expected"),
    [
        ([1, 0, 0], [(0, 1.0)]),
        ([0, 0, 1, 0], [(0, 0.0), (1, 0.0), (2, 1.0)]),
        ([0, 1, 0, 1, 0], [(0, 0.0), (1, 1.0), (2, 0.0), (3, 1.0)]),
        ([0, 0, 0], [(0, 0.0), (1, 0.0), (2, 0.0)]),
        ([0, -2.5, 0], [(0, 0.0), (1, -2.5)]),
    ],
    ids=["at the top", "further down", "two clicks", "no click", "a reward that is not a click"],
)
def test_a_cascade_ends_at_the_last_click(clicks, expected):
    assert pairs(cascade(clicks)) == expected


def test_position_weights_by_hand():
    assert position_weighted([0, 1, 0], LOOKS) == [Lesson(0, 0.0, 1.0), Lesson(1, 1.0, 0.6), Lesson(2, 0.0, 0.3)]
    weighted = position_weighted([0, 1, 0], LOOKS, "rewards")
    assert weighted == [Lesson(0, 0.0), Lesson(1, 1.0 / 0.6), Lesson(2, 0.0)]
    assert position_weighted([1], LOOKS) == [Lesson(0, 1.0)], "more probabilities than positions are fine"


def test_thinning_keeps_clicks_and_what_was_probably_seen():
    rng = np.random.default_rng(0)
    kept = np.zeros(3)
    for _ in range(4000):
        lessons = position_weighted([0, 0, 1], [1.0, 0.25, 0.1], "thinning", rng)
        kept[[lesson.position for lesson in lessons]] += 1.0
    assert kept[0] == kept[2] == 4000
    assert kept[1] / 4000 == pytest.approx(0.25, abs=0.03), "four standard deviations"


@pytest.mark.parametrize("method", ["features", "rewards", "thinning"])
def test_every_method_finds_the_rates_that_naive_learning_gets_wrong(method):
    """Two arms of equal rates, one always at the top, one always below where a third look."""
    rng = np.random.default_rng(1)
    rate, looks = 0.2, [1.0, 0.3]
    policy, deceived = LinUCB(2, ridge=1.0), LinUCB(2, ridge=1.0)
    for _ in range(5_000):
        clicks = (rng.random(2) < rate) & (rng.random(2) < looks)
        learn_slate(policy, np.eye(2), position_weighted(clicks, looks, method, rng))
        learn_slate(deceived, np.eye(2), naive(clicks))
    expected = [rate, rate / (1.0 + rate - 0.3 * rate)] if method == "thinning" else [rate, rate]
    np.testing.assert_allclose(policy.feature_weights, expected, atol=0.05)
    np.testing.assert_allclose(deceived.feature_weights, [rate, 0.3 * rate], atol=0.03)


def test_a_list_is_taught_from_top_to_bottom():
    class Notes:
        def __init__(self):
            self.learned = []

        def learn(self, features, reward, arm=None, **asked):
            self.learned.append((features if features is None else features.tolist(), reward, arm, asked))
            return (f"change {len(self.learned)}",)

    policy = Notes()
    changes = learn_slate(policy, [[2.0, 4.0], [6.0, 8.0]], position_weighted([0, 1], [1.0, 0.5]), [5, 6], scope="ann")
    assert changes == ("change 1", "change 2")
    assert policy.learned == [([2.0, 4.0], 0.0, 5, {"scope": "ann"}), ([3.0, 4.0], 1.0, 6, {"scope": "ann"})]
    assert learn_slate(policy, None, naive([1]), [7]) == ("change 3",)
    assert policy.learned[-1] == (None, 1.0, 7, {})
    assert learn_slate(policy, None, []) == ()


def test_policies_of_every_kind_learn_lists():
    scoped = PerScope(LinUCB(2))
    learn_slate(scoped, np.eye(2)[scoped.rank(np.eye(2), 2, scope=1)], cascade([0, 1]), scope=1)
    assert scoped.rounds == 2
    bandit = UCB1()
    shown = np.array([4, 5, 6])[bandit.rank(None, 2, arms=[4, 5, 6])]
    learn_slate(bandit, None, cascade([0, 1]), shown)
    assert bandit.rounds == 2


def test_lists_that_do_not_fit_teach_nothing():
    policy = LinUCB(2)
    with pytest.raises(ValueError, match=r"features: expected one for each position of the list, got shape \(2, 2\)"):
        learn_slate(policy, np.eye(2), naive([1, 0, 0]))
    with pytest.raises(ValueError, match=r"arms: expected one for each position of the list, got shape \(1,\)"):
        learn_slate(policy, np.eye(2), naive([1, 0]), [3])
    with pytest.raises(ValueError, match="method='features' scales, got None; use method='thinning'"):
        learn_slate(UCB1(), None, position_weighted([1, 0], LOOKS), [1, 2])
    assert policy.rounds == 0


@pytest.mark.parametrize(
    "clicks", [[], [[0, 1]], 1, [0, float("nan")], [0, float("inf")], ["yes"], None, [[1], [1, 2]]]
)
def test_clicks_that_are_none_are_refused(clicks):
    for lesson in (naive, cascade, lambda given: position_weighted(given, LOOKS)):
        with pytest.raises(ValueError, match="clicks: expected"):
            lesson(clicks)


@pytest.mark.parametrize(
    "looks", [[1.0], [1.0, 0.0, 0.5], [1.0, -0.1, 0.5], [1.0, 1.1, 0.5], [1.0, np.nan, 1.0], "abc"]
)
def test_probabilities_that_are_none_are_refused(looks):
    with pytest.raises(ValueError, match="examination: expected"):
        position_weighted([0, 1, 0], looks)


def test_a_method_must_be_known_and_have_what_it_needs():
    with pytest.raises(ValueError, match="method: expected 'features', 'rewards' or 'thinning', got 'weights'"):
        position_weighted([0, 1], LOOKS, "weights")
    with pytest.raises(ValueError, match="generator: 'thinning' needs"):
        position_weighted([0, 1], LOOKS, "thinning")


def log_of(lists, looks, *, shuffled, seed=0):
    """Lists of arms with rates from 5 to 50 %, in random order or mostly best first."""
    rng = np.random.default_rng(seed)
    rates = np.linspace(0.05, 0.5, 10)
    taste = np.zeros(10) if shuffled else 15.0 * rates
    arms = np.argsort(-(taste + rng.gumbel(size=(lists, 10))), axis=1)[:, : len(looks)]
    clicks = (rng.random(arms.shape) < rates[arms]) & (rng.random(arms.shape) < looks)
    return arms, clicks


def test_random_order_shows_how_far_people_look():
    _, clicks = log_of(40_000, LOOKS, shuffled=True)
    np.testing.assert_allclose(examination_of(clicks), LOOKS, atol=0.03)
    sorted_arms, sorted_clicks = log_of(40_000, LOOKS, shuffled=False)
    rough = examination_of(sorted_clicks)
    assert rough[2] < 0.28, "in a list that is best first, low places are clicked less for two reasons"
    np.testing.assert_allclose(examination_of(sorted_clicks, sorted_arms), LOOKS, atol=0.03)


def test_the_fit_maximises_the_likelihood():
    arms, clicks = log_of(300, LOOKS, shuffled=False, seed=3)
    rates = clicks.sum() / (len(clicks) * LOOKS.sum())

    def likelihood(looks):
        """Of the best rates of the arms for these probabilities, by many steps of the fit with them held."""
        liked = np.full(10, rates)
        for _ in range(2000):
            chance = looks * liked[arms]
            part = np.where(clicks, 1.0, liked[arms] * (1.0 - looks) / (1.0 - chance))
            liked = np.bincount(arms.ravel(), part.ravel(), 10) / np.maximum(np.bincount(arms.ravel(), minlength=10), 1)
        chance = np.clip(looks * liked[arms], 1e-12, 1.0 - 1e-12)
        return np.where(clicks, np.log(chance), np.log(1.0 - chance)).sum()

    found = examination_of(clicks, arms)
    best = likelihood(found)
    for step in (-0.05, 0.05):
        for place in (1, 2):
            other = found.copy()
            other[place] = min(max(other[place] + step, 0.01), 1.0)
            if abs(other[place] - found[place]) > 0.01:
                assert likelihood(other) < best


def test_logs_that_tell_nothing_are_refused():
    for clicks in (np.zeros((0, 3)), np.zeros(3), np.full((2, 3), 0.5), np.full((2, 3), np.nan)):
        with pytest.raises(ValueError, match=r"clicks: expected zeros and ones of shape \(lists, n\)"):
            examination_of(clicks)
    with pytest.raises(ValueError, match="clicks: expected at least one click"):
        examination_of(np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"arms: expected shape \(5, 3\), as clicks have, got \(5, 2\)"):
        examination_of(np.ones((5, 3)), np.ones((5, 2)))
    with pytest.raises(ValueError, match="most_steps"):
        examination_of(np.ones((5, 3)), np.ones((5, 3)), most_steps=0)


def test_positions_and_arms_without_clicks_are_fine():
    clicks = np.array([[1, 0], [0, 0], [1, 0]])
    assert examination_of(clicks).tolist() == [1.0, 1e-6]
    looks = examination_of(clicks, [["a", "b"], ["c", "a"], ["b", "c"]])
    assert looks[0] == 1.0
    assert 0.0 < looks[1] < 0.1
    assert examination_of(np.ones((3, 2)), np.ones((3, 2))).tolist() == [1.0, 1.0]
