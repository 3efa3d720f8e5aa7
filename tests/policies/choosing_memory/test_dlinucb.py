"""dLinUCB against a plain reading of Algorithm 1, and its bookkeeping."""

import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest

from driftbandit import DLinUCB, RewardModel, RidgeModel, simulate, synthetic
from driftbandit.core import TIE
from driftbandit.evaluation.detection import Detection, alarm_rounds
from driftbandit.kernels import windows


class AlgorithmOne:
    """Algorithm 1 of the paper, line by line, with matrices inverted from scratch.

    The released code's deviations are switched on by name, as NOTES on the paper describe them.
    """

    def __init__(self, dim, noise, preset, *, ridge=0.1, delta=0.01, spawn=0.002, delta2=0.1, tau=200):
        self.dim, self.noise, self.ridge, self.delta, self.spawn = dim, noise, ridge, delta, spawn
        self.delta2, self.tau, self.preset = delta2, tau, preset
        self.born = 0
        self.members = []
        self.events = []
        self.rounds = 0
        self.create()
        # sqrt(2) erfinv(1 - .01) = 2.5758293, from tables
        self.epsilon = 2.5758293035489 * (noise**2 if preset == "released" else noise)

    def create(self):
        width = 0.0 if self.preset == "paper" else 0.5
        self.members.append(
            {
                "id": self.born,
                "xs": [],
                "rs": [],
                "bits": [],
                "rate": 0.0,
                "width": width,
                "A": self.ridge * np.eye(self.dim),
            }
        )
        self.members[-1]["b"] = np.zeros(self.dim)
        self.born += 1

    def radius(self, m):
        n = len(m["rs"])
        if self.preset == "released":
            return self.noise * math.sqrt(
                self.dim * math.log((self.ridge + n) / (self.delta * self.ridge))
            ) + math.sqrt(self.ridge)
        return self.noise**2 * math.sqrt(self.dim * math.log(1 + n / (self.ridge * self.delta))) + math.sqrt(self.ridge)

    def choose(self, pool, arms=None):
        bounds = [m["rate"] - math.sqrt(math.log(self.tau)) * m["width"] for m in self.members]  # line 4
        m = self.members[int(np.argmin(bounds))]
        inverse = np.linalg.inv(m["A"])
        alpha = self.radius(m) if self.preset == "paper" else 0.6
        scores = [x @ inverse @ m["b"] + alpha * math.sqrt(x @ inverse @ x) for x in pool]  # line 6
        return int(np.argmax(np.array(scores) >= max(scores) - TIE))

    def learn(self, x, reward, arm=None):
        self.rounds += 1
        create_new = True  # line 8
        kept = []
        for m in self.members:  # line 9
            inverse = np.linalg.inv(m["A"])
            bound = self.radius(m) * math.sqrt(x @ inverse @ x)
            miss = int(abs(x @ inverse @ m["b"] - reward) > bound + self.epsilon)  # line 10
            if not miss:  # lines 11 to 13
                m["A"] = m["A"] + np.outer(x, x)
                m["b"] = m["b"] + reward * x
                m["rs"].append(reward)
            m["bits"].append(miss)
            n = min(len(m["bits"]), self.tau)  # line 14
            m["rate"] = sum(m["bits"][-n:]) / (n if self.preset == "paper" else n + 1)  # line 15
            m["width"] = math.sqrt(math.log(1 / self.delta2) / (2 * n))
            if self.preset == "paper":
                fine = m["rate"] < self.spawn + m["width"]  # line 16
                lost = m["rate"] >= self.delta + m["width"]  # line 18
            else:
                fine = m["rate"] <= self.spawn + m["width"]
                lost = m["rate"] > self.delta + m["width"]
            if fine:
                create_new = False
            elif lost:  # line 19
                self.events.append((self.rounds, "retired", m["id"]))
                continue
            kept.append(m)
        self.members = kept
        if create_new or not self.members:  # line 22
            self.events.append((self.rounds, "spawned", self.born))
            self.create()
        return ()


@pytest.mark.parametrize("preset", ["paper", "table1", "released"])
@pytest.mark.parametrize("noise", [0.1, 0.01])
def test_choices_and_changes_follow_algorithm_one(preset, noise):
    rounds = synthetic("table1", seed=7, dim=5, noise=noise, period=300, shift=0.7, horizon=1500)
    policy, reference = DLinUCB.preset(preset, 5, noise), AlgorithmOne(5, noise, preset)
    ours, theirs = simulate(policy, rounds), simulate(reference, rounds)
    np.testing.assert_array_equal(ours.choices, theirs.choices)
    assert sorted((c.round, c.kind, c.member) for c in policy.changes) == sorted(reference.events)
    assert len(reference.events) >= 8  # four shifts, each with a spawn and a retirement
    for member, m in zip(policy.members, reference.members, strict=True):
        assert (member.id, member.updates, member.age) == (m["id"], len(m["rs"]), len(m["bits"]))
        assert member.miss_rate == pytest.approx(m["rate"])


def test_equal_deltas_keep_a_single_member():
    rounds = synthetic("table1", seed=3, noise=0.05, horizon=3000)
    policy = DLinUCB(10, 0.05, spawn_delta=0.01)
    for t in range(len(rounds)):
        pool = rounds.catalogue[rounds.pools[t]]
        index = policy.choose(pool)
        policy.learn(pool[index], rounds.rewards[t, index])
        assert len(policy.members) == 1
    kinds = [change.kind for change in policy.changes]
    assert kinds == ["spawned", "retired"] * 3


def test_members_and_changes_can_be_read_at_any_time():
    policy = DLinUCB(2, 0.1, window=50)
    assert [(m.id, m.age, m.updates, m.miss_rate) for m in policy.members] == [(0, 0, 0, 0.0)]
    for _ in range(60):
        policy.learn([1.0, 0.0], 0.5)
    (member,) = policy.members
    assert (member.age, member.updates, member.miss_rate) == (60, 60, 0.0)
    assert member.width == pytest.approx(math.sqrt(math.log(10) / 100))
    assert member.retire_bound == pytest.approx(0.01 + member.width)
    assert member.spawn_bound == pytest.approx(0.002 + member.width)
    changes = []
    while not changes:
        changes = policy.learn([1.0, 0.0], 9.0)
    (change,) = changes
    assert (change.kind, change.member, change.round) == ("spawned", 1, policy.rounds)
    assert change.evidence["miss_rate"] >= change.evidence["bound"]
    assert [m.id for m in policy.members] == [0, 1]
    assert policy.leader in {0, 1}
    assert policy.changes == (change,)


def test_the_new_member_takes_over_and_the_old_one_is_retired():
    rounds = synthetic("table1", seed=1, noise=0.05, horizon=1000)
    policy = DLinUCB.preset("table1", 10, 0.05)
    simulate(policy, rounds)
    spawned, retired = policy.changes
    assert (spawned.kind, spawned.member) == ("spawned", 1)
    assert (retired.kind, retired.member) == ("retired", 0)
    assert 800 < spawned.round < retired.round < 900
    assert retired.evidence["miss_rate"] > retired.evidence["bound"]
    assert policy.leader == 1
    assert policy.members[0].spawned_at == spawned.round


def test_memory_stays_bounded_on_an_endless_stream():
    """Noise far above what the policy was told: it spawns and retires for ever."""
    rng = np.random.default_rng(0)
    policy = DLinUCB(3, 0.001, window=20, max_members=6)

    def be_surprised():
        for _ in range(50):
            policy.learn(rng.standard_normal(3), 5.0 * rng.standard_normal())

    with pytest.warns(RuntimeWarning, match="without having accepted a single reward"):
        be_surprised()
    for _ in range(20_000):  # and not warned again
        policy.learn(rng.standard_normal(3), 5.0 * rng.standard_normal())
        assert 1 <= len(policy.members) <= 6
    assert policy._log.total > 1000
    assert len(policy.changes) == 1000
    assert len(policy._bank) <= 8


def test_at_the_limit_the_member_with_the_highest_miss_rate_makes_room():
    policy = DLinUCB(1, 0.1, delta=0.5, spawn_delta=0.0, window=100, window_delta=0.9, max_members=2)
    for _ in range(100):
        policy.learn([1.0], 0.5)
    spawned = []
    for t in range(400):
        # Too many misses to be beyond doubt, too few to be lost: every member stays suspect.
        spawned += [c for c in policy.learn([1.0], 50.0 if t % 4 == 0 else 0.5) if c.kind == "spawned"]
        assert len(policy.members) <= 2
    assert len(spawned) >= 2
    retired = [c for c in policy.changes if c.kind == "retired"]
    assert retired
    assert all(c.evidence["miss_rate"] < 0.5 for c in retired)


def test_no_false_alarm_in_stationary_worlds():
    """20 runs of 5,000 rounds at each of three noise levels, as measured for the paper's settings."""
    for noise in (0.1, 0.05, 0.01):
        for seed in range(20):
            rounds = synthetic("stationary", seed=40_000 + seed, noise=noise, horizon=5000)
            policy = DLinUCB.preset("table1", 10, noise)
            simulate(policy, rounds)
            assert policy.changes == ()


def test_a_shorter_window_detects_sooner_without_false_alarms():
    quality = {window: Detection() for window in (20, 200)}
    for seed in range(10):
        rounds = synthetic("table1", seed=41_000 + seed)
        for window, counted in quality.items():
            policy = DLinUCB(10, 0.05, window=window)
            simulate(policy, rounds)
            counted.add(alarm_rounds(policy.changes), rounds.shifts, len(rounds))
    assert 6 <= quality[20].median_delay <= 11
    assert quality[20].missed == quality[20].false_alarms == 0
    assert quality[200].median_delay > 2 * quality[20].median_delay


@pytest.mark.parametrize("model", ["ridge", "thompson"])
def test_every_linear_member_detects(model):
    rounds = synthetic("table1", seed=5, noise=0.05, horizon=2000)
    policy = DLinUCB(10, 0.05, model=model)
    trace = simulate(policy, rounds)
    assert alarm_rounds(trace.changes)[0] - 800 < 60
    assert trace.regret.sum() < 60


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"noise": -1.0}, "noise"),
        ({"noise": math.nan}, "noise"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 1.5}, "delta"),
        ({"spawn_delta": 0.5}, "spawn_delta"),
        ({"window_delta": 0.0}, "window_delta"),
        ({"window": 0}, "window"),
        ({"max_members": 0}, "max_members"),
        ({"model": "forest"}, "model"),
        ({"radius": "huge"}, "radius"),
        ({"counting": "none"}, "counting"),
        ({"explore": -1.0}, "explore"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_named(settings, name):
    with pytest.raises(ValueError, match=f"{name}: "):
        DLinUCB(3, **{"noise": 0.1, **settings})


def test_presets_take_overrides_and_unknown_ones_are_refused():
    policy = DLinUCB.preset("table1", 4, 0.1, window=50, explore=0.3)
    assert (policy.window, policy.explore) == (50, 0.3)
    assert DLinUCB.preset("paper", 4, 0.1).explore is None
    with pytest.raises(ValueError, match=r"preset: unknown .*; expected one of paper, table1, released"):
        DLinUCB.preset("best", 4, 0.1)
    with pytest.raises(ValueError, match=r"preset: unknown 'tabel1' \(did you mean 'table1'\?\)"):
        DLinUCB.preset("tabel1", 4, 0.1)


def test_epsilon_is_positive_and_as_computed():
    assert DLinUCB(10, 0.05)._rules[windows.EPSILON] == pytest.approx(0.12879147, abs=5e-9)
    assert DLinUCB.preset("released", 10, 0.05)._rules[windows.EPSILON] == pytest.approx(0.12879147 * 0.05, abs=5e-9)


def doubted(misses, **settings):
    """A policy whose members have missed this often in full windows of 200, just before its review."""
    policy = DLinUCB(1, 0.1, **settings)
    policy.rounds = 200
    for _ in misses[1:]:
        policy._add_member()
    for entry, count in zip(policy._ledger, misses, strict=False):
        for bit in [0] * (200 - count) + [1] * count:
            windows.record(entry, bit)
        entry[windows.UPDATES] = 200 - count
    return policy


def test_the_evidence_of_a_spawn_is_that_of_the_calmest_old_member():
    spawned, retired = doubted([40, 16])._review()
    assert (spawned.kind, spawned.member) == ("spawned", 2)
    assert spawned.evidence["miss_rate"] == 16 / 200
    assert (retired.kind, retired.member, retired.evidence["miss_rate"]) == ("retired", 0, 40 / 200)


def test_the_member_that_makes_room_is_the_one_with_the_highest_miss_rate():
    policy = doubted([16, 17, 16], max_members=3)
    spawned, retired = policy._review()
    assert (spawned.kind, retired.kind, retired.member) == ("spawned", "retired", 1)
    assert [member.id for member in policy.members] == [0, 2, 3]
    # It was not lost: what it crossed is the bound of doubt.
    assert retired.evidence["bound"] == pytest.approx(0.002 + 0.07587136)


def test_predictions_of_a_subclass_are_used():
    class Stubborn(RidgeModel):
        def predict(self, row, x):
            return 1e6, 0.0

    policy = DLinUCB(2, 0.1, model=Stubborn)
    policy.learn([1.0, 0.0], 0.5)
    assert policy.members[0].miss_rate == 1.0


def test_a_state_beyond_the_limits_is_refused():
    wide = doubted([0, 0, 0])
    with pytest.raises(ValueError, match="max_members"):
        DLinUCB(1, 0.1, max_members=2).restore(wide.state())


def test_many_rewards_at_once_are_learned_as_one_by_one():
    """The same state to the bit, the same changes, and the weights from before each of them."""
    rng = np.random.default_rng(0)
    xs = rng.standard_normal((3000, 5)) / 2
    thetas = rng.standard_normal((6, 5)) / 2
    rewards = np.array([x @ thetas[at // 500] for at, x in enumerate(xs)]) + rng.normal(0.0, 0.1, 3000)
    one, many = DLinUCB(5, noise=0.1), DLinUCB(5, noise=0.1)
    changes, before = [], []
    for x, reward in zip(xs, rewards, strict=True):
        weights = one.leading_row[1:6].copy()
        if found := one.learn(x, float(reward)):
            changes.append(found)
            before.append(weights)
    at = 0
    while at < len(xs):
        end = at + int(rng.integers(1, 400))
        learned, found, weights = many.learn_many(xs[at:end], rewards[at:end])
        at += learned
        if found:
            assert found == changes.pop(0)
            assert weights.tolist() == before.pop(0).tolist()
    assert changes == []
    assert one.rounds == many.rounds == 3000
    mine, other = one.state(), many.state()
    assert all(mine[name].tobytes() == other[name].tobytes() for name in mine)
    assert len(one.members) > 1 or one.members[0].id > 0


def test_of_many_rewards_those_before_a_bad_one_are_learned():
    policy, other = DLinUCB(2, noise=0.1), DLinUCB(2, noise=0.1)
    xs = np.array([[1.0, 0.0], [0.0, 1.0], [np.nan, 0.0], [1.0, 1.0]])
    rewards = np.array([0.3, 0.2, 0.1, 0.4])
    assert policy.learn_many(xs, rewards)[:2] == (2, ())
    with pytest.raises(ValueError, match="features"):
        policy.learn_many(xs[2:], rewards[2:])
    assert policy.learn_many(xs[3:], rewards[3:])[0] == 1
    for at in (0, 1, 3):
        other.learn(xs[at], float(rewards[at]))
    assert all(policy.state()[name].tobytes() == other.state()[name].tobytes() for name in other.state())


@pytest.mark.parametrize(
    ("features", "rewards", "message"),
    [
        (np.ones((2, 3)), np.ones(2), "features: expected shape"),
        (np.ones((0, 2)), np.ones(0), "at least one"),
        (np.ones((2, 2)), np.ones(3), "rewards: expected 2"),
        (np.ones((2, 2)), [1.0, np.nan], "rewards: expected 2"),
        (np.ones((2, 2)), [1.0, 1e200], "rewards: expected 2"),
        ([[1.0, np.nan]], [1.0], "expected finite values"),
    ],
)
def test_learning_many_refuses_what_it_cannot_use(features, rewards, message):
    policy = DLinUCB(2, 0.1)
    before = {name: array.tobytes() for name, array in policy.state().items()}
    with pytest.raises(ValueError, match=message):
        policy.learn_many(features, rewards)
    assert {name: array.tobytes() for name, array in policy.state().items()} == before
    with pytest.raises(ValueError, match="learn_many"):
        DLinUCB(2, "auto").learn_many(np.ones((1, 2)), np.ones(1))


def test_who_can_learn_many():
    """A given noise, a model that can, and nobody's own `learn`."""

    class Listening(DLinUCB):
        def learn(self, features, reward, arm=None):
            return super().learn(features, reward, arm)

    class Named(DLinUCB):
        pass

    class Stubborn(RidgeModel):
        def predict(self, row, x):
            return 1e6, 0.0

    class Able(RidgeModel):
        """A model of one's own that says it can."""

        judges_many = True

    assert DLinUCB(2, 0.1).learns_many
    assert DLinUCB(2, 0.1, model="thompson").learns_many
    assert Named(2, 0.1).learns_many
    assert DLinUCB(2, 0.1, model=Able).learns_many
    for other in (
        Listening(2, 0.1),
        DLinUCB(2, "auto"),
        DLinUCB(2, 0.1, model="logistic"),
        DLinUCB(2, 0.1, model=Stubborn),
    ):
        assert not other.learns_many
        with pytest.raises(ValueError, match="learn_many"):
            other.learn_many(np.ones((1, 2)), np.ones(1))


def test_models_say_what_they_are_given():
    """By traits, so that a model of one's own is treated like a shipped one."""

    class Own(RewardModel):
        size = 1
        takes_radius = True

        def __init__(self, dim, **settings):
            self.given = settings
            super().__init__(dim, ridge=settings["ridge"])

        def reset(self, row):
            row[:] = 0.0

    class Deaf(Own):
        follows_noise = False

    given = DLinUCB(3, 0.2, model=Own, radius="released").reward_model.given
    assert given["noise"] == 0.2
    assert given["radius"].scale == 0.2
    given = DLinUCB(3, "auto", model=Own).reward_model.given
    assert given.keys() == {"ridge", "explore", "delta", "radius", "squared"}
    assert (given["radius"].scale, given["squared"]) == (1.0, True)
    assert DLinUCB(3, 0.2, model=Deaf).reward_model.given["noise"] == 0.2
    with pytest.raises(ValueError, match="model: Deaf cannot follow noise='auto'"):
        DLinUCB(3, "auto", model=Deaf)


def test_every_line_of_algorithm_one_is_marked_in_order():
    """A reader of the paper finds lines 1 to 27 in the policy's file, one after the other."""
    source = Path(inspect.getsourcefile(DLinUCB)).read_text()
    lines = []
    for first, last in re.findall(r"[Ll]ines? (\d+)(?: (?:to|and) (\d+))?", source):
        lines += [line for line in range(int(first), int(last or first) + 1) if line not in lines]
    assert lines == list(range(1, 28))


def test_noise_of_a_policy_that_is_told_it_is_not_estimated():
    policy = DLinUCB(1, 0.1)
    policy.learn([1.0], 0.3)
    assert policy.facts() == {"noise": None, "judges_clicks": False}
