"""Replay on logs whose truth is known."""

import copy
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from pyarrow import parquet

from driftbandit import (
    CLUB,
    DAL,
    AdTS,
    DenBand,
    DLinUCB,
    DriftUCB,
    DyClu,
    ExpDiscounts,
    LinTS,
    LinUCB,
    PerArm,
    PerScope,
    RandomChoice,
    RidgeModel,
    SWLinUCB,
)
from driftbandit.core import takes_scope
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.evaluation import agreement
from driftbandit.evaluation.intervals import ratio_interval
from driftbandit.evaluation.replay import Replay, rate_ratio, replay
from driftbandit.evaluation.replays import Entrant, Stream, replay_all


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
        uniform=True,
    )
    return log, rates


def test_a_log_that_is_not_known_to_be_uniform_is_refused():
    log, _ = made_log()
    parts = {name: getattr(log, name) for name in vars(log) if name != "uniform"}
    with pytest.raises(
        ValueError, match="does not say so; if it was, make it with uniform=True; for any other log, use"
    ):
        replay(Always(), Log(**parts))
    even = 1.0 / np.diff(log.pool_offsets)[log.pools]
    said = replay(Always(), Log(**parts | {"propensities": even}))
    np.testing.assert_array_equal(said.matched, replay(Always(), log).matched)
    tilted = np.where(np.arange(len(log)) == 7, 0.9, even)
    with pytest.raises(ValueError, match="equally likely, and this one was not; for any other log"):
        replay(Always(), Log(**parts | {"propensities": tilted}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([0.5], "propensities: expected one for each of 20 times, got 1"),
        ([0.0] * 20, "propensities: expected numbers above 0"),
        ([1.5] * 20, "propensities: expected numbers above 0"),
        ([float("nan")] * 20, "propensities: expected finite"),
        ([0.9] * 20, "uniform: expected propensities of 1 / size"),
    ],
)
def test_propensities_that_cannot_be(wrong, message):
    log, _ = made_log(20)
    parts = {name: getattr(log, name) for name in vars(log)}
    with pytest.raises(ValueError, match=message):
        Log(**parts | {"propensities": wrong})


def test_whether_a_log_is_uniform_survives_slices_filters_and_files(tmp_path):
    log, _ = made_log(20)
    even = 1.0 / np.diff(log.pool_offsets)[log.pools]
    parts = {name: getattr(log, name) for name in vars(log)}
    unsaid = Log(**parts | {"uniform": False})
    given = Log(**parts | {"uniform": False, "propensities": even})
    keep = np.ones(len(log.articles), dtype=bool)
    keep[0] = False
    for made, expected in ((log, True), (unsaid, False), (given, True)):
        made.save(tmp_path / "log.arrow")
        for other in (made.slice(3, 9), made.only(keep), Log.load(tmp_path / "log.arrow")):
            assert other.is_uniform is expected
    given.save(tmp_path / "log.arrow")
    np.testing.assert_array_equal(Log.load(tmp_path / "log.arrow").propensities, even)
    np.testing.assert_array_equal(given.slice(3, 9).propensities, even[3:9])


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


def test_without_scopes_everyone_is_one():
    log, _ = made_log()
    scoped, plain = replay(PerScope(LinUCB(log.dim)), log), replay(LinUCB(log.dim), log)
    np.testing.assert_array_equal(scoped.matched, plain.matched)
    assert replay(CLUB(log.dim), log).matched.size > 100


def test_scopes_are_refused_by_a_policy_that_takes_none():
    log, _ = made_log(count=50)
    with pytest.raises(ValueError, match=r"scopes: LinUCB takes no scope; .* such as PerScope\(LinUCB"):
        replay(LinUCB(log.dim), log, scopes=np.zeros(50, dtype=int))


class Doubtful(RidgeModel):
    """A model of one's own."""

    def predict(self, row, x):
        mean, width = super().predict(row, x)
        return mean, 1.5 * width


class Epsilon(LinUCB):
    """Overrides `choose` of a policy that draws nothing by one that draws."""

    def choose(self, features, arms=None):
        if self._generator.random() < 0.3:
            return int(self._generator.integers(len(features)))
        return super().choose(features, arms)


class Contrary(PerArm):
    """Plays the arm with the lowest id where the models would have it otherwise."""

    def choose(self, features, arms=None):
        super().choose(features, arms)
        return int(np.argmin(arms))


def test_a_choose_that_was_overridden_is_asked_at_every_event(yahoo):
    log = yahoo[1].slice(0, 2000)
    assert_same_replay(Epsilon(6), log)
    result = replay(Contrary(LinUCB(6)), log, user_features=True)
    np.testing.assert_array_equal(result.matched, replay(Always(), log).matched)


def like(policy):
    """The same policy under another type, which is asked event by event."""

    class Slow(type(policy)):
        is_random = True

        def choose(self, *arguments, **named):
            return super().choose(*arguments, **named)

    twin = copy.deepcopy(policy)
    twin.__class__ = Slow
    return twin


@pytest.mark.filterwarnings("ignore::driftbandit.ClickWarning")
@pytest.mark.parametrize("few_scopes", [True, False])
@pytest.mark.parametrize(
    "policy",
    [
        LinUCB(6, explore=0.2),
        DLinUCB(6, 0.3, window=30),
        DLinUCB(6, "auto"),
        DLinUCB(6, 0.3, model="logistic"),
        PerScope(LinUCB(6, explore=0.2)),
        PerScope(DLinUCB(6, 0.3, window=30), max_scopes=6),
        PerScope(DLinUCB(6, "auto")),
        PerScope(DriftUCB(6)),
        PerScope(LinTS(6, seed=1)),
        CLUB(6),
        DyClu(6, 0.3),
        SWLinUCB(6, 0.3, window=50, explore=0.3),
        DenBand(6, 0.3),
        DAL(6, 0.3),
        DLinUCB(6, 0.3, window=30, model=Doubtful),
        ExpDiscounts(6, 0.3, forced=0.2, seed=3),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_the_table_of_answers_gives_the_same_replay(yahoo, policy, few_scopes):
    plan, log = yahoo
    log = log.slice(0, 8000)
    scopes = None
    if takes_scope(policy):
        scopes = plan.groups[:8000] if few_scopes else np.arange(8000) % 50
    assert_same_replay(policy, log, scopes=scopes)


@pytest.mark.filterwarnings("ignore::driftbandit.ClickWarning")
@pytest.mark.parametrize(
    "template",
    [
        LinUCB(6, explore=0.2),
        DLinUCB(6, 0.3, window=30),
        DLinUCB(6, "auto"),
        DLinUCB(6, "auto", model="thompson"),
        DLinUCB(6, 0.3, model="logistic"),
        AdTS(6),
        LinTS(6),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_scoring_articles_in_a_compiled_loop_gives_the_same_replay(yahoo, template, monkeypatch):
    monkeypatch.setattr(agreement, "_CHUNK", 1000)
    assert_same_replay(PerArm(template, seed=3), yahoo[1].slice(0, 4000), user_features=True)


def assert_same_replay(policy, log, **settings):
    policies = [copy.deepcopy(policy), like(policy)]
    fast, slow = (replay(each, log, seed=1, **settings) for each in policies)
    assert len(fast.matched) > 50
    np.testing.assert_array_equal(fast.matched, slow.matched)
    assert fast.changes == slow.changes
    ours, theirs = (each.state() for each in policies)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def test_features_too_large_for_a_model_are_refused_in_the_compiled_loop_too():
    log, _ = made_log(count=20)
    large = Log(**{**{name: getattr(log, name) for name in vars(log)}, "users": np.full((20, 1), 1e9)})
    with pytest.raises(ValueError, match="too large beside the ridge"):
        replay(PerArm(LinUCB(1)), large, user_features=True)


def test_a_user_of_another_width_is_refused():
    log, _ = made_log(count=20)
    with pytest.raises(ValueError, match=r"features: expected shape \(K, 3\)"):
        replay(PerArm(LinUCB(3)), log, user_features=True)


def test_the_trailing_rate_is_that_of_the_latest_events():
    log, _ = made_log(count=1000)
    result = replay(Always(), log)
    ends, rates = result.trailing(share=0.2, points=5)
    assert ends.tolist() == [200, 400, 600, 800, 1000]
    late = result.matched >= 800
    assert rates[-1] == pytest.approx(result.rewards[late].mean() / log.rewards[800:].mean())
    assert replay(Always(), log.slice(0, 0)).trailing()[0].tolist() == []


def test_the_ratio_of_rates_is_that_of_the_sums_and_its_interval_covers_the_truth():
    """Two fixed policies on two logs: the lowest id clicks at .1, a random article at the logger's rate."""
    logs = [made_log(count=6000, seed=seed)[0] for seed in (1, 2)]
    ours, theirs = ([replay(policy, log) for log in logs] for policy in (Always(), RandomChoice(seed=4)))
    found = rate_ratio(ours, theirs)
    rates = [np.concatenate([run.rewards for run in runs]).mean() for runs in (ours, theirs)]
    assert found.estimate == pytest.approx(rates[0] / rates[1])
    truth = 0.1 / np.mean([log.rewards.mean() for log in logs])
    assert found.low < truth < found.high
    beside = rate_ratio(ours)
    assert beside.estimate == pytest.approx(rates[0] / np.concatenate([log.rewards for log in logs]).mean())
    assert beside.low < truth < beside.high
    assert beside.high - beside.low < 0.2


def test_ratios_need_replays_of_the_same_logs():
    log, _ = made_log(count=100)
    run = replay(Always(), log)
    for pair in (([run], [run, run]), ([], []), ([run], [replay(Always(), log.slice(0, 50))])):
        with pytest.raises(ValueError, match="ours, theirs: expected replays of the same logs"):
            rate_ratio(*pair)
    assert np.isnan(rate_ratio([replay(Always(), log.slice(0, 0))]).estimate)


def test_a_replay_survives_being_written(tmp_path):
    rng = np.random.default_rng(0)
    log, _ = made_log(count=12_000)
    flipped = np.where(np.arange(12_000) < 6000, 0.9, -0.9) + 0.05 * rng.standard_normal(12_000)
    shifted = Log(**{**{name: getattr(log, name) for name in vars(log)}, "rewards": flipped})
    result = replay(DLinUCB(log.dim, 0.05, window=30), shifted)
    result.save(tmp_path / "a" / "replay.parquet")
    again = Replay.load(tmp_path / "a" / "replay.parquet", shifted.rewards)
    np.testing.assert_array_equal(again.matched, result.matched)
    np.testing.assert_array_equal(again.rewards, result.rewards)
    assert again.changes == result.changes
    assert len(again.changes) > 0
    assert (again.seconds, again.key) == (result.seconds, "")


def test_what_is_no_replay_of_the_log_is_refused(tmp_path):
    log, _ = made_log(count=100)
    path = tmp_path / "replay.parquet"
    with pytest.raises(FileNotFoundError):
        Replay.load(path, log.rewards)
    replay(Always(), log).save(path)
    with pytest.raises(ValueError, match="not a driftbandit replay"):
        Replay.load(path, log.rewards[:50])
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not a driftbandit replay"):
            Replay.load(path, log.rewards)


def test_many_replays_name_a_builder_that_cannot_travel(tmp_path):
    log, _ = made_log(count=100)
    log.save(tmp_path / "log.arrow")
    stream = Stream("one", str(tmp_path / "log.arrow"), key="1")
    field = {stream: {"mine": Entrant(lambda seed: Always())}}
    with pytest.raises(ValueError, match=r"^streams: the builder of 'mine' cannot be sent"):
        replay_all(field, processes=2)
    assert len(replay_all(field, processes=1)["one", "mine"].matched) > 0


def by_hand(**changed):
    """Eight events, of which the logger won four; three count, and two of them won."""
    facts = {
        "matched": np.array([1, 3, 4]),
        "rewards": np.array([1.0, 0.0, 1.0]),
        "logged": np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]),
        "changes": (),
        "seconds": 2.5,
    }
    return Replay(**(facts | changed))


def test_rates_by_hand():
    run = by_hand()
    assert run.rate == pytest.approx(2 / 3)
    assert run.normalised == pytest.approx(4 / 3)
    assert run.interval() == ratio_interval(run.rewards, np.ones(3), level=0.95, seed=0)
    assert run.interval(level=0.5, seed=3) == ratio_interval(run.rewards, np.ones(3), level=0.5, seed=3)
    assert run.interval(level=1.0).estimate == pytest.approx(2 / 3)
    many = by_hand(rewards=np.random.default_rng(0).random(50))
    assert many.interval() == many.interval(seed=0) != many.interval(seed=1)


def test_the_curve_by_hand():
    ends, rates = by_hand().curve(4)
    assert ends.tolist() == [2, 4, 6, 8]
    np.testing.assert_allclose(rates, [2.0, 1.0, 4 / 3, 4 / 3])  # 1, 1/2, 2/3, 2/3 beside 1/2
    every, rates = by_hand().curve(8)
    assert every.tolist() == list(range(1, 9))
    np.testing.assert_allclose(rates[:4], [np.nan, 2.0, 1.5, 1.0])  # nothing counts yet; 1 / (1/2), 1 / (2/3), ...
    late = by_hand(matched=np.array([6]), rewards=np.array([0.0])).curve(8)[1]
    np.testing.assert_array_equal(late, [np.nan] * 6 + [0.0, 0.0])  # beside a logger that has won: nothing, then 0
    assert by_hand().curve(3)[0].tolist() == [2, 5, 8]
    losses = by_hand(logged=np.full(8, -0.5)).curve(2)[1]
    assert np.isnan(losses).all()  # a rate over a negative one means nothing, nor over 0
    assert np.isnan(by_hand(logged=np.array([1.0, -1.0] * 4)).curve(4)[1]).all()
    many = by_hand(logged=np.ones(1000)).curve()[0]
    assert (len(many), many[0], many[-1]) == (100, 10, 1000)


def test_trailing_rates_by_hand():
    ends, rates = by_hand().trailing(share=0.5, points=3)
    assert ends.tolist() == [4, 6, 8]
    np.testing.assert_allclose(rates, [1.0, 1.0, 2.0])  # of 1, 3; of 3, 4; of 4: 1/2, 1/2, 1 beside 1/2
    ends, rates = by_hand().trailing(share=0.0, points=8)  # a window is one event at least
    assert ends.tolist() == list(range(1, 9))
    np.testing.assert_array_equal(rates, [np.nan, 1.0, np.nan, np.nan, 1.0, np.nan, np.nan, np.nan])
    ends, rates = by_hand().trailing(share=2.0, points=5)  # and all of them at most
    assert ends.tolist() == [8]
    np.testing.assert_allclose(rates, [4 / 3])
    many = by_hand(logged=np.ones(1000)).trailing()[0]
    assert (len(many), many[0], many[-1]) == (200, 100, 1000)


def test_block_sums_by_hand():
    """401 events make 134 blocks of three, the last of them with two."""
    run = by_hand(
        matched=np.array([0, 2, 3, 400]),
        rewards=np.array([1.0, 0.0, 2.0, 4.0]),
        logged=np.arange(401) % 2 * 1.0,
    )
    sums = run.block_sums()
    assert sums.shape == (4, 134)
    assert sums[:, 0].tolist() == [1.0, 2.0, 1.0, 3.0]
    assert sums[:, 1].tolist() == [2.0, 1.0, 2.0, 3.0]
    assert sums[:, -1].tolist() == [4.0, 1.0, 1.0, 2.0]
    assert sums.sum(axis=1).tolist() == [7.0, 4.0, 200.0, 401.0]
    nothing = by_hand(matched=np.empty(0, dtype=int), rewards=np.empty(0), logged=np.empty(0))
    assert nothing.block_sums().tolist() == [[0.0]] * 4


def test_ratios_by_hand():
    other = by_hand(matched=np.array([0, 2, 5, 6]), rewards=np.array([0.0, 1.0, 0.0, 0.0]))
    assert rate_ratio([by_hand()]).estimate == pytest.approx(4 / 3)
    assert rate_ratio([by_hand()], [other]).estimate == pytest.approx((2 / 3) / (1 / 4))
    assert rate_ratio([by_hand(), other], [other, other]).estimate == pytest.approx((3 / 7) / (2 / 8))
    runs, others = [by_hand()] * 9, [other] * 9
    assert rate_ratio(runs, others) == rate_ratio(runs, others, level=0.95, seed=0)
    assert rate_ratio(runs, others) != rate_ratio(runs, others, seed=1)
    narrow, wide = (rate_ratio(runs, others, level=level) for level in (0.5, 0.99))
    assert narrow.high - narrow.low < wide.high - wide.low


def test_a_pool_of_one_always_counts_and_the_seed_decides_about_the_others():
    alone, _ = made_log(count=50, sizes=(1, 1))
    assert replay(Always(), alone).matched.tolist() == list(range(50))
    log, _ = made_log(count=400)
    first, again, other = (replay(Always(), log, **seed).matched.tolist() for seed in ({}, {"seed": 0}, {"seed": 1}))
    assert first == again != other


def test_every_scope_has_a_model_of_its_own():
    log, _ = made_log(count=200)
    policy = PerScope(LinUCB(log.dim))
    found = replay(policy, log, scopes=np.arange(200) % 3)
    assert sorted(policy.scopes) == sorted({event % 3 for event in found.matched.tolist()}) == [0, 1, 2]


def test_a_replay_says_how_long_it_took(monkeypatch):
    ticks = iter([10.0, 12.5])
    monkeypatch.setattr("driftbandit.evaluation.replay.time.perf_counter", lambda: next(ticks))
    assert replay(Always(), made_log(count=5)[0]).seconds == 2.5


def test_a_file_that_lost_rows_or_a_bit_is_refused(tmp_path):
    path = tmp_path / "replay.parquet"
    events = np.arange(4000)
    run = by_hand(matched=events, rewards=np.random.default_rng(0).random(4000), logged=np.zeros(4000))
    run.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:20_000] + bytes([whole[20_000] ^ 1]) + whole[20_001:])
    with pytest.raises(ValueError, match="not a driftbandit replay"):
        Replay.load(path, run.logged)
    path.write_bytes(whole)
    table = parquet.read_table(path)
    parquet.write_table(table.slice(1), path)
    with pytest.raises(ValueError, match="4000 matches in a log of 4000 events"):
        Replay.load(path, run.logged)


def test_a_replay_cannot_change():
    with pytest.raises(FrozenInstanceError):
        by_hand().seconds = 0.0
    assert by_hand() != by_hand()  # by identity: arrays have no truth value
    assert by_hand().key == ""


def test_a_policy_of_ones_own_may_take_scopes():
    """It says nothing about scopes, so it is asked with them."""

    class ByScope(Always):
        def choose(self, features, arms=None, *, scope):
            return scope % len(arms)

        def learn(self, features, reward, arm=None, *, scope):
            return super().learn(features, reward, (scope, arm))

    log, _ = made_log(count=60, sizes=(3, 3))
    policy = ByScope()
    found = replay(policy, log, scopes=np.arange(60))
    assert found.matched.tolist() == np.flatnonzero(log.shown == np.arange(60) % 3).tolist()
    assert [scope for (scope, _), _ in policy.learned] == found.matched.tolist()
    with pytest.raises(ValueError, match=r"scopes: LinUCB takes no scope"):
        replay(LinUCB(log.dim), log, scopes=np.arange(60))
