"""Policies run through logs whose truth is known."""

import copy

import numpy as np
import pytest
from pyarrow import parquet

from driftbandit import UCB1, DLinUCB, LinTS, LinUCB, PerScope, RandomChoice, simulate, synthetic
from driftbandit.core import Change
from driftbandit.environments.log import Log
from driftbandit.evaluation.logged import Valuation, compare_values, make_log, replayed_values, shadow_values
from driftbandit.evaluation.logged.progressive import RewardModel
from driftbandit.evaluation.replay import replay
from driftbandit.evaluation.samples import ESTIMATORS
from driftbandit.evaluation.value_intervals import bootstrap_interval
from driftbandit.logs import Events


def made_events(count=3000, *, arms=4, dim=3, seed=0, tilt=0.0, shift=None):
    """Clicks that follow a taste over random features, which turns at `shift`; the logger prefers the first arms."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((count, arms, dim))
    tastes = np.tile(rng.standard_normal(dim), (count, 1))
    if shift is not None:
        tastes[shift:] *= -1.0
    chance = 1 / (1 + np.exp(-np.einsum("nkd,nd->nk", features, tastes)))
    shares = np.exp(-tilt * np.arange(arms))
    shares /= shares.sum()
    shown = rng.choice(arms, size=count, p=shares)
    rewards = (rng.random(count) < chance[np.arange(count), shown]).astype(float)
    events = Events(
        features=features.reshape(-1, dim),
        arms=np.tile(np.arange(arms), count),
        offsets=np.arange(0, count * arms + 1, arms),
        shown=shown,
        propensities=shares[shown],
        rewards=rewards,
        scopes=rng.integers(3, size=count),
        times=np.arange(count) * 60.0,
        rows=np.arange(count) + 7,
    )
    return events, chance


def cut(events, *ends):
    """The same log in batches."""
    batches = []
    for first, last in zip((0, *ends), (*ends, len(events)), strict=True):
        rows = slice(events.offsets[first], events.offsets[last])
        part = {
            name: getattr(events, name)[first:last]
            for name in ("shown", "propensities", "rewards", "scopes", "times", "rows")
        }
        offsets = events.offsets[first : last + 1] - events.offsets[first]
        batches.append(Events(features=events.features[rows], arms=events.arms[rows], offsets=offsets, **part))
    return batches


class Slow:
    """The same policy without its compiled way through logs, and a note of what it was told."""

    def __init__(self, policy):
        self.policy = policy
        self.learned = []

    def choose(self, features, arms=None):
        return self.policy.choose(features, arms)

    def learn(self, features, reward, arm=None):
        self.learned.append((arm, reward))
        return self.policy.learn(features, reward, arm)


POLICIES = {
    "linucb": lambda: LinUCB(3),
    "dlinucb": lambda: DLinUCB(3, "auto"),
    "lints": lambda: LinTS(3, seed=1),
    "ucb1": lambda: UCB1(seed=1),
    "scoped": lambda: PerScope(LinUCB(3)),
    "random": lambda: RandomChoice(seed=1),
}


def fresh():
    return {name: build() for name, build in POLICIES.items()}


@pytest.mark.parametrize("run", [shadow_values, replayed_values])
def test_compiled_and_plain_runs_are_the_same(run):
    events, _ = made_events(1500, tilt=0.5)
    fast, slow = LinUCB(3), Slow(LinUCB(3))
    assert fast.watches_many
    values = run({"fast": fast, "slow": slow}, [events])
    for name in ("weights", "expected"):
        assert (getattr(values["fast"].sample, name) == getattr(values["slow"].sample, name)).all()
    assert (values["fast"].accepted == values["slow"].accepted).all()
    assert fast.rounds == slow.policy.rounds == values["fast"].accepted.sum()
    assert all((a == b).all() for a, b in zip(fast.state().values(), slow.policy.state().values(), strict=True))


@pytest.mark.parametrize("run", [shadow_values, lambda *a: replayed_values(*a, c=0.1)])
def test_batches_make_no_difference(run):
    events, _ = made_events(1200, tilt=0.5, shift=600)
    whole, parts = run(fresh(), [events]), run(fresh(), iter(cut(events, 1, 1, 400, 1199)))
    for name, value in whole.items():
        again = parts[name]
        assert (value.sample.weights == again.sample.weights).all()
        assert (value.sample.expected == again.sample.expected).all()
        assert (value.accepted == again.accepted).all()
        assert value.changes == again.changes
        assert (value.rows == again.rows).all()


def test_a_shadow_learns_every_reward_and_chooses_before_it_does():
    events, _ = made_events(200)
    watcher = Slow(LinUCB(3))
    value = shadow_values({"watcher": watcher}, [events])["watcher"]
    displayed = events.shown_places()
    assert watcher.learned == list(zip(events.arms[displayed].tolist(), events.rewards.tolist(), strict=True))
    assert value.share_accepted == 1.0
    policy = LinUCB(3)
    for event in range(200):
        pool = events.pool(event)
        weight = (policy.choose(pool) == events.shown[event]) / events.propensities[event]
        assert value.sample.weights[event] == weight
        policy.learn(pool[events.shown[event]], float(events.rewards[event]))


def test_the_reward_model_never_saw_what_it_predicts():
    """Predictions up to an event stay the same whatever its reward and all later ones are."""
    events, _ = made_events(300)
    choices = np.zeros((1, 300), dtype=np.int64)
    before = RewardModel(3).follow(events, choices)
    other = copy.deepcopy(events)
    other.rewards[150:] = 1 - other.rewards[150:]
    after = RewardModel(3).follow(other, choices)
    assert (before[0][:151] == after[0][:151]).all()
    assert (before[1][:, :151] == after[1][:, :151]).all()
    assert (before[0][151:] != after[0][151:]).all()


def test_the_reward_model_is_the_ridge_regression_of_the_past():
    events, _ = made_events(80)
    predicted, expected = RewardModel(3, ridge=2.0).follow(events, np.full((1, 80), -1))
    design = np.column_stack([events.features[events.shown_places()], np.full(80, 10.0)])
    for event in (0, 1, 40, 79):
        past = design[:event]
        theta = np.linalg.solve(2.0 * np.eye(4) + past.T @ past, past.T @ events.rewards[:event])
        assert predicted[event] == pytest.approx(design[event] @ theta, abs=1e-9)
        pool = np.column_stack([events.pool(event), np.full(4, 10.0)])
        assert expected[0, event] == pytest.approx((pool @ theta).mean(), abs=1e-9)


def test_without_features_the_model_is_the_mean_reward_so_far():
    events, _ = made_events(50)
    bare = Events(
        **{name: getattr(events, name) for name in Events.__slots__ if name != "features"},
        features=np.empty((len(events.arms), 0)),
    )
    values = shadow_values({"ucb1": UCB1(seed=0)}, [bare])
    assert values["ucb1"].sample.predicted[49] == pytest.approx(events.rewards[:49].mean(), rel=0.01)


def test_the_logger_earns_the_mean_reward_by_every_estimator():
    events, _ = made_events(500, tilt=1.0)
    logger = shadow_values({}, [events])["logger"]
    for estimator in ESTIMATORS:
        assert logger.terms(estimator, limit=2.0).value == events.rewards.sum() / 500


def test_uniform_policies_have_their_exact_probabilities():
    events, _ = made_events(500, tilt=1.0)
    values = shadow_values({"random": RandomChoice(seed=9)}, [events])
    assert values["random"].sample.weights == pytest.approx(0.25 / events.propensities)
    assert (values["uniform"].sample.weights == values["random"].sample.weights).all()


def test_the_best_arm_follows_the_log():
    events, _ = made_events(2000, tilt=0.5)
    first = Events(
        **{name: getattr(events, name) for name in Events.__slots__ if name != "rewards"},
        rewards=(events.shown == 2).astype(float),
    )
    values = shadow_values({}, cut(first, 900))
    assert values["best arm"].terms("snips").value == pytest.approx(1.0, abs=0.01)
    assert (values["best arm"].sample.weights[100:] > 0).tolist() == (events.shown[100:] == 2).tolist()


def as_log(events, arms):
    """A uniform log as `replay` reads it: every event has an article set of its own."""
    count = len(events)
    return Log(
        articles=np.arange(len(events.arms)),
        features=events.features,
        pool_offsets=events.offsets,
        pool_members=np.arange(len(events.arms)),
        times=np.arange(count),
        pools=np.arange(count),
        shown=events.shown,
        rewards=events.rewards,
        users=np.zeros((count, 1)),
        uniform=True,
    )


@pytest.mark.parametrize("build", [lambda: LinUCB(3), lambda: DLinUCB(3, "auto"), lambda: LinTS(3, seed=4)])
def test_rejection_on_a_uniform_log_is_replay(build):
    events, _ = made_events(2000, shift=1000)
    theirs = replay(build(), as_log(events, 4))
    ours = replayed_values({"p": build()}, cut(events, 777), c=0.25)["p"]
    assert np.flatnonzero(ours.accepted).tolist() == theirs.matched.tolist()
    assert ours.terms("snips").value == pytest.approx(theirs.rate, abs=1e-15)
    assert ours.changes == theirs.changes
    assert ours.share_accepted == len(theirs.matched) / 2000


def test_rejection_accepts_by_chance_and_learns_nothing_else():
    events, _ = made_events(4000, tilt=0.7)
    watcher = Slow(LinUCB(3))
    least = events.propensities.min()
    value = replayed_values({"p": watcher}, [events], c=float(least))["p"]
    assert len(watcher.learned) == value.accepted.sum()
    assert value.share_accepted == pytest.approx(least, abs=4 * np.sqrt(least / 4000))
    # Accepted events show each arm about as often as the policy chose it, not as often as the logger did.
    assert value.accepted[events.propensities > 0.4].mean() < 0.2
    assert (replayed_values({"p": LinUCB(3)}, [events])["p"].accepted == value.accepted).all()  # the default c
    assert (replayed_values({"p": LinUCB(3)}, [events], seed=1)["p"].accepted != value.accepted).any()


def true_shadow_value(events, chance, policy):
    """The mean over events of the chance of a click on what the policy would have shown."""
    total = 0.0
    for event in range(len(events)):
        pool = events.pool(event)
        total += chance[event, policy.choose(pool)]
        policy.learn(pool[events.shown[event]], float(events.rewards[event]))
    return total / len(events)


@pytest.mark.parametrize("tilt", [0.0, 0.7])
def test_estimators_enclose_the_truth_under_drift(tilt):
    events, chance = made_events(8000, tilt=tilt, shift=4000, seed=3)
    values = shadow_values({"linucb": LinUCB(3), "dlinucb": DLinUCB(3, "auto")}, [events])
    for name, policy in (("linucb", LinUCB(3)), ("dlinucb", DLinUCB(3, "auto"))):
        truth = true_shadow_value(events, chance, policy)
        for estimator in ("ips", "snips", "dr", "sndr"):
            found = values[name].interval(estimator, level=0.99)
            assert found.low < truth < found.high, (name, estimator)
    uniform = chance.mean()
    found = values["uniform"].interval(level=0.99)
    assert found.low < uniform < found.high


def test_replay_and_every_unbiased_estimator_agree_on_a_uniform_log():
    """Each difference of a replayed value to replay's rate stays inside the replay's interval."""
    events, _ = made_events(12_000, shift=6000, seed=8)
    theirs = replay(LinUCB(3), as_log(events, 4)).interval(level=0.99)
    ours = replayed_values({"p": LinUCB(3)}, [events], c=0.25)["p"]
    for estimator in ("ips", "snips", "dr", "sndr", "switch_dr", "dros"):
        found = bootstrap_interval(ours.terms(estimator, limit=100.0), level=0.99)
        assert found.low < theirs.high, estimator
        assert theirs.low < found.high, estimator


def test_changes_come_with_their_events():
    events, _ = made_events(6000, shift=3000, seed=2, dim=3)
    calm = Events(
        **{name: getattr(events, name) for name in Events.__slots__ if name != "rewards"},
        rewards=np.where(np.arange(6000) < 3000, 1.0, -1.0) * events.features[events.shown_places()][:, 0],
    )
    value = shadow_values({"dlinucb": DLinUCB(3, 0.05)}, cut(calm, 2000, 4000))["dlinucb"]
    event, change = value.changes[0]
    assert 3000 < event < 3200
    assert change.round == event + 1


def test_results_go_to_a_file_and_back(tmp_path):
    events, _ = made_events(300)
    value = replayed_values({"p": DLinUCB(3, "auto")}, [events])["p"]
    value = Valuation(**vars(value) | {"changes": ((5, Change(6, "spawned", 1, {"miss rate": 0.5})),)})
    path = tmp_path / "p.parquet"
    value.save(path)
    again = Valuation.load(path)
    assert vars(again).keys() == vars(value).keys()
    for name in ("name", "estimand", "changes", "seconds", "smallest_propensity"):
        assert getattr(again, name) == getattr(value, name)
    assert (again.accepted == value.accepted).all()
    assert again.rows[0] == 7
    assert again.times[1] == 60.0
    for estimator in ESTIMATORS:
        assert again.terms(estimator, limit=1.0).value == value.terms(estimator, limit=1.0).value
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"PAR1"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"p\.parquet: not a driftbandit valuation"):
            Valuation.load(path)
    parquet.write_table(parquet.read_table(_written(tmp_path, value)).slice(0, 9), path)
    with pytest.raises(ValueError, match="9 rows for 300 events"):
        Valuation.load(path)
    with pytest.raises(FileNotFoundError):
        Valuation.load(tmp_path / "none.parquet")


def _written(folder, value):
    value.save(folder / "again.parquet")
    return folder / "again.parquet"


def test_memory_does_not_hold_the_features():
    """Batches are let go as soon as they are used."""
    import weakref

    alive = []

    def stream():
        for seed in range(4):
            events, _ = made_events(50, seed=seed)
            alive.append(weakref.ref(events.features))
            yield events
            del events
            assert sum(ref() is not None for ref in alive) <= 1

    assert len(shadow_values({"linucb": LinUCB(3)}, stream())["linucb"]) == 200


@pytest.mark.parametrize("bad", [np.nan, 0.0, -0.5, 1.5])
def test_unknown_propensities_are_refused(bad):
    events, _ = made_events(10)
    events.propensities[3] = bad
    with pytest.raises(ValueError, match=f"log: expected propensities above 0 and at most 1, got {bad} in row 10"):
        shadow_values({}, [events])


def test_bad_requests_are_refused():
    events, _ = made_events(10)
    with pytest.raises(ValueError, match="log: expected at least one event, got none"):
        shadow_values({}, [])
    with pytest.raises(ValueError, match="policies: 'logger' is the name of a baseline"):
        shadow_values({"logger": LinUCB(3)}, [events])
    with pytest.raises(ValueError, match=r"policies: mine: features: expected shape \(K, 5\), got \(40, 3\)"):
        shadow_values({"mine": LinUCB(5)}, [events])
    with pytest.raises(ValueError, match=r"policies: mine: features: expected shape \(K, 5\), got \(4, 3\)"):
        shadow_values({"mine": DLinUCB(5, 0.5)}, [events])
    with pytest.raises(ValueError, match=r"c: expected a number in \(0, 1\], got 0"):
        replayed_values({}, [events], c=0)
    huge = copy.deepcopy(events)
    huge.features[5] = 1e300
    with pytest.raises(ValueError, match=r"policies: mine: features: .* too large"):
        shadow_values({"mine": LinUCB(3)}, [huge])
    wide, _ = made_events(10, dim=2)
    with pytest.raises(ValueError, match="log: expected 3 features in every batch, got 2"):
        shadow_values({}, [events, wide])


def test_the_table_names_the_better_and_the_worse():
    events, _ = made_events(6000, tilt=0.5, seed=1)
    policies = {"linucb": LinUCB(3), "contrary": _Contrary(), "again": RandomChoice(seed=3)}
    values = shadow_values(policies, [events], bounded=True)
    for interval, estimator in (("bootstrap", "dr"), ("normal", "sndr"), ("anytime", "dr"), ("anytime", "ips")):
        rows = {row.name: row for row in compare_values(values, interval=interval, estimator=estimator)}
        assert list(rows) == ["logger", "uniform", "best arm", *policies]
        assert rows["logger"].verdict == "the baseline"
        assert rows["logger"].difference.estimate == 0.0
        assert rows["linucb"].verdict == "better"
        assert rows["contrary"].verdict == "worse"
        assert rows["again"].verdict.startswith("cannot tell; needs about ")
        assert rows["linucb"].difference.estimate == pytest.approx(
            rows["linucb"].value.estimate - rows["logger"].value.estimate
        )
    found = rows["linucb"].as_dict()
    assert set(found) >= {"name", "estimand", "estimator", "value", "low", "high", "difference", "verdict"}
    assert set(found["difference"]) == {"value", "low", "high"}


class _Contrary:
    """Shows what LinUCB likes least."""

    def __init__(self):
        self.policy = LinUCB(3)

    def choose(self, features, arms=None):
        return self.policy.choose(-np.ascontiguousarray(features))

    def learn(self, features, reward, arm=None):
        return self.policy.learn(features, reward, arm)


def test_a_table_needs_a_known_baseline_and_method():
    values = shadow_values({}, [made_events(20)[0]])
    with pytest.raises(ValueError, match="baseline: unknown 'loger'"):
        compare_values(values, baseline="loger")
    with pytest.raises(ValueError, match="interval: unknown 'boot'"):
        compare_values(values, interval="boot")
    with pytest.raises(ValueError, match="estimator: expected 'ips' or 'dr'"):
        compare_values(values, interval="anytime", estimator="snips")
    rows = compare_values(values, baseline="uniform")
    assert [row.verdict for row in rows][1] == "the baseline"


def test_a_shadow_value_ranks_policies_rightly_on_a_log_that_is_not_uniform():
    """The truth is what both policies earn when they play the simulator themselves.

    On the same log the replayed value sees one event in thirty, so that the shifts come thirty times as fast; it must
    say how little it accepted.
    """
    rounds = synthetic("table1", seed=0, horizon=8000, period=2000, noise=0.1)
    likes = (rounds.catalogue @ np.random.default_rng(0).standard_normal(rounds.dim))[rounds.pools]
    chances = np.exp(likes) / np.exp(likes).sum(axis=1, keepdims=True)
    chances = 0.7 * chances + 0.3 / chances.shape[1]

    def policies():
        return {"linucb": LinUCB(rounds.dim), "dlinucb": DLinUCB(rounds.dim, rounds.noise)}

    played = {name: -simulate(policy, rounds).regret.mean() for name, policy in policies().items()}
    assert played["dlinucb"] > played["linucb"] + 0.05
    values = shadow_values(policies(), make_log(rounds, chances))
    gap = bootstrap_interval(values["dlinucb"].terms(), values["linucb"].terms())
    assert gap.low > 0.0
    assert gap.low < played["dlinucb"] - played["linucb"] < gap.high
    replayed = replayed_values(policies(), make_log(rounds, chances))
    assert replayed["dlinucb"].share_accepted < 0.05


def test_made_logs_have_the_chances_they_say():
    rounds = synthetic("table1", seed=0, horizon=3000)
    chances = np.full((3000, rounds.pools.shape[1]), 0.1 / (rounds.pools.shape[1] - 1))
    chances[:, 3] = 0.9
    batches = list(make_log(rounds, chances, batch=700))
    assert [len(batch) for batch in batches] == [700] * 4 + [200]
    shown = np.concatenate([batch.shown for batch in batches])
    assert (shown == 3).mean() == pytest.approx(0.9, abs=0.02)
    assert (batches[0].propensities == np.where(shown[:700] == 3, 0.9, chances[0, 0])).all()
    assert (batches[1].rewards == rounds.rewards[np.arange(700, 1400), shown[700:1400]]).all()
    with pytest.raises(ValueError, match=r"chances: expected shape \(3000, 10\)"):
        next(make_log(rounds, chances[:5]))
    with pytest.raises(ValueError, match="chances: expected probabilities that add up to 1"):
        next(make_log(rounds, 2 * chances))


def test_bounded_predictions_stay_among_the_rewards_so_far_and_are_otherwise_the_same():
    events, _ = made_events(400, seed=4)
    events.rewards[200:] *= 3.0
    free = shadow_values({"mine": LinUCB(3)}, [events])
    held = shadow_values({"mine": LinUCB(3)}, [events], bounded=True)
    for name in ("mine", "uniform", "best arm"):
        for column in ("predicted", "expected"):
            one, other = getattr(free[name].sample, column), getattr(held[name].sample, column)
            assert other[:201].min() >= -1e-12
            assert other[:201].max() <= 1.0 + 1e-12
            assert other.max() <= 3.0 + 1e-12
            if (name, column) != ("uniform", "expected"):  # a mean over arms, of which some may be held
                assert other == pytest.approx(
                    np.clip(one, 0.0, np.maximum.accumulate(np.append(1.0, events.rewards[:-1]))), abs=1e-12
                )
    assert free["mine"].sample.predicted.min() < 0.0
    with pytest.raises(ValueError, match=r"predicted, expected: .*bounded=True"):
        compare_values(free, interval="anytime", estimator="dr", reward_range=(0.0, 3.0))
    truth = held["uniform"].sample
    model = RewardModel(3, bounded=True)
    _, expected = model.follow(events, np.array([[k] * 400 for k in range(4)]))
    assert truth.expected == pytest.approx(expected.mean(axis=0), abs=1e-12)


def test_a_part_of_a_valuation_is_a_valuation_of_its_events():
    events, _ = made_events(600, shift=300)
    value = shadow_values({"mine": _Alarmed()}, [events])["mine"]
    later = value[400:]
    assert len(later) == 200
    assert later.rows.tolist() == value.rows[400:].tolist()
    assert later.times.tolist() == value.times[400:].tolist()
    assert later.accepted.all()
    assert later.terms("dr").value == pytest.approx(value.terms("dr")[400:].value)
    assert [event for event, _ in value.changes] == [0, 250, 500]
    assert [event for event, _ in later.changes] == [100]
    assert [event for event, _ in value[-350:-50].changes] == [0, 250]
    assert later.seconds == pytest.approx(value.seconds / 3)
    assert (later.name, later.estimand, later.smallest_propensity) == ("mine", "shadow", value.smallest_propensity)
    assert len(value[700:]) == 0
    for part in (3, slice(None, None, 2)):
        with pytest.raises(ValueError, match="part: expected a slice of consecutive events"):
            value[part]


class _Alarmed:
    """Shows the first arm, and says at every 250th reward that something changed."""

    def __init__(self):
        self.rounds = 0

    def choose(self, features, arms=None):
        return 0

    def learn(self, features, reward, arm=None):
        self.rounds += 1
        return (Change(self.rounds, "restarted", 0, {}),) if self.rounds % 250 == 1 else ()
