"""Replay on logs whose truth is known."""

import numpy as np
import pytest

from driftbandit import DLinUCB, LinUCB, PerArm, PerScope, RandomChoice
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.evaluation.replay import replay


class Always:
    """Plays the article with the lowest id, and counts what it is shown."""

    def __init__(self):
        self.learned = []

    def choose(self, features, arms=None):
        return int(np.argmin(arms))

    def learn(self, features, reward, arm=None):
        self.learned.append((arm, reward))
        return ()


@pytest.fixture(scope="module")
def yahoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("r6a")
    plan = write_synthetic(folder, 60_000, seed=3, clicks=(0.05, 0.5))
    log, _ = read_yahoo(folder)
    return plan, log


def made_log(count=4000, sizes=(3, 6), seed=0):
    """A log of two candidate sets of different size, with clicks that depend on the article alone."""
    rng = np.random.default_rng(seed)
    articles = np.arange(100, 100 + max(sizes))
    rates = np.linspace(0.1, 0.9, max(sizes))
    pools = rng.integers(2, size=count)
    shown = (rng.random(count) * np.array(sizes)[pools]).astype(np.int32)
    members = np.concatenate([np.arange(size) for size in sizes]).astype(np.int32)
    log = Log(
        articles=articles,
        features=np.eye(max(sizes)),
        pool_offsets=np.append(0, np.cumsum(sizes)),
        pool_members=members,
        times=np.arange(count),
        pools=pools.astype(np.int32),
        shown=shown,
        rewards=(rng.random(count) < rates[shown]).astype(float),
        users=np.ones((count, 1)),
    )
    return log, rates


def test_a_fixed_policys_rate_is_exactly_that_of_the_events_it_agrees_with():
    log, _ = made_log()
    policy = Always()
    result = replay(policy, log, equal_pools=False)
    agreed = np.flatnonzero(log.shown == 0)
    np.testing.assert_array_equal(result.matched, agreed)
    assert result.rate == log.rewards[agreed].mean()
    assert policy.learned == [(100, reward) for reward in log.rewards[agreed]]


def test_the_estimate_of_a_fixed_policy_agrees_with_the_truth(yahoo):
    """The truth: the mean click probability of the lowest id over all events, from the generator's plan."""
    plan, log = yahoo
    groups = plan.groups[: len(log)]
    segment = plan.segment(log.times)
    order = {int(article): row for row, article in enumerate(plan.articles)}
    truth = np.mean(
        [
            plan.rates[order[int(log.articles[log.candidates(i)].min())], groups[i], segment[i]]
            for i in range(0, len(log), 7)
        ]
    )
    result = replay(Always(), log)
    interval = result.interval(level=0.99)
    assert interval.low <= truth <= interval.high
    assert interval.high - interval.low < truth


def test_a_random_policy_gets_the_loggers_rate(yahoo):
    """3 standard errors of the rate over about 3,000 matched events."""
    _, log = yahoo
    result = replay(RandomChoice(seed=1), log)
    error = np.sqrt(result.rate * (1 - result.rate) / len(result.matched))
    assert abs(result.rate - log.rewards.mean()) < 3 * error
    assert result.normalised == pytest.approx(result.rate / log.rewards.mean())


def test_small_candidate_sets_do_not_count_more_than_large_ones():
    """With two sets of 3 and 6 in equal numbers, half of the matches must come from each: 333 of 667, sd 13."""
    log, _ = made_log()
    tilted = replay(Always(), log, equal_pools=False)
    fair = replay(Always(), log)
    share = np.mean(log.pools[fair.matched] == 0)
    assert np.mean(log.pools[tilted.matched] == 0) > 0.6
    assert abs(share - 0.5) < 5 * np.sqrt(0.25 / len(fair.matched))


def test_learning_helps():
    """Random displays click at .4 in the mean; the best articles of the two sets click at .42 and .9."""
    log, _ = made_log(count=20_000)
    learned = replay(LinUCB(log.dim, explore=0.3), log)
    assert learned.normalised > 1.3
    ends, curve = learned.curve(10)
    assert ends[-1] == len(log)
    assert curve[-1] == pytest.approx(learned.normalised)


def test_scopes_and_the_article_side(yahoo):
    plan, log = yahoo
    short = log.slice(0, 6000)
    groups = plan.groups[:6000]
    grouped = replay(PerScope(LinUCB(log.dim)), short, scopes=groups)
    alone = replay(LinUCB(log.dim), short)
    assert len(grouped.matched) > 100
    assert grouped.matched.tolist() != alone.matched.tolist()
    articles = replay(PerArm(LinUCB(log.user_dim)), short, user_features=True)
    assert len(articles.matched) > 100


def test_changes_carry_the_event_and_the_matched_round():
    rng = np.random.default_rng(0)
    log, _ = made_log(count=12_000)
    flipped = np.where(np.arange(12_000) < 6000, 0.9, -0.9) + 0.05 * rng.standard_normal(12_000)
    shifted = Log(**{**{name: getattr(log, name) for name in vars(log)}, "rewards": flipped})
    result = replay(DLinUCB(log.dim, 0.05, window=30), shifted)
    event, change = result.changes[0]
    assert event > 6000
    assert change.round == np.searchsorted(result.matched, event) + 1


def test_bad_scopes_and_empty_logs():
    log, _ = made_log(count=50)
    with pytest.raises(ValueError, match="scopes: expected shape"):
        replay(PerScope(LinUCB(log.dim)), log, scopes=[1, 2])
    empty = replay(LinUCB(log.dim), log.slice(0, 0))
    assert np.isnan(empty.rate)
