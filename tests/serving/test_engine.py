from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from scipy import stats

from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.forgetting.sw_linucb import SWLinUCB
from driftbandit.policies.registry import REGISTRY
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Arm, CatalogueRequest, DecisionRequest, RewardRequest
from driftbandit.serving.log.export import Wanted, ndjson, parquet, probabilities
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.loop.config import SERVED, LoopConfig, Plan, builder
from driftbandit.serving.loop.events import Refused, decode
from driftbandit.serving.loop.scopes import pack
from driftbandit.serving.stores.base import StoreError
from driftbandit.serving.stores.sqlite import SQLiteStore

START = 1_700_000_000_000


class World:
    """An engine on a file, with a clock that tests turn."""

    def __init__(self, path: Path, *, vfs: str | None = None, **options: Any) -> None:
        self.now = START
        self.path, self.vfs, self.options = path, vfs, options
        self.open()

    def open(self) -> None:
        self.store = SQLiteStore(self.path, vfs=self.vfs)
        self.engine = Engine(self.store, lambda: self.now, **self.options)
        self.engine.commit()

    def restart(self) -> None:
        """As after a crash: nothing is saved on the way out."""
        self.store.close()
        self.open()

    def loop(self, name: str = "x", version: int | None = None, **config: Any) -> None:
        self.engine.configure(name, LoopConfig(**config), version)
        self.engine.commit()

    def arms(self, features: np.ndarray, name: str = "x") -> list[str]:
        arms = [Arm(f"a{i}", row.tolist()) for i, row in enumerate(features)]
        self.engine.put_arms(name, CatalogueRequest(arms))
        self.engine.commit()
        return [arm.id for arm in arms]

    def decide(
        self, ident: str | None, arms: list[Any] | None = None, scope: str | None = None, name: str = "x"
    ) -> Any:
        if ident is not None:
            self.engine.look_up(name, [ident])
        found = self.engine.decide(name, DecisionRequest(ident, scope, arms))
        self.engine.commit()
        return found

    def reward(self, ident: str, value: float, name: str = "x") -> str:
        self.engine.look_up(name, [ident])
        try:
            return "accepted" if self.engine.reward(name, ident, RewardRequest(value)) else "duplicate"
        except Refused as refusal:
            return str(refusal.status)
        finally:
            self.engine.commit()

    def counts(self, name: str = "x") -> Any:
        return self.engine.parts(name)[0].counts

    def check(self, name: str = "x") -> str:
        live = self.engine.digest(name)
        assert live == self.engine.digest(name, whole_log=True)
        return live


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "a.db")


def run(world: World, rounds: int, arms: list[str], seed: int = 0, scopes: int = 5) -> None:
    rng = np.random.default_rng(seed)
    for number in range(rounds):
        world.now += int(rng.integers(0, 2_000))
        pool = [arms[i] for i in rng.permutation(len(arms))[:6]]
        _, answer = world.decide(f"{seed}/{number}", pool, f"user {rng.integers(scopes)}")
        if rng.random() < 0.7:
            world.reward(answer.decision_id, float(rng.random() < 0.5))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"scoped": True, "learn": "arrival"},
        {"policy": "linucb", "shadow": Plan()},
        {"policy": "dlinucb"},
        {"policy": "dlinucb", "scoped": True},
        {"policy": "lints", "scoped": True, "learn": "arrival"},
        {"policy": "adts", "settings": {"per_arm": False}},
        {"policy": "ucb1", "dim": None},
        {"policy": "meta-bandit", "scoped": True, "dim": None},
        {"policy": "random"},
        {"policy": "linucb", "settings": {"explore": 0.3}, "shadow": Plan("lints"), "default_reward": None},
        {"policy": "linucb", "shadow": Plan("ucb1"), "floor": 0.5, "scoped": True},
    ],
    ids=lambda config: "-".join(str(value) for value in config.values() if isinstance(value, str | Plan | bool)),
)
def test_recovery_is_byte_equal_to_a_replay_of_the_whole_log(tmp_path: Path, config: dict[str, Any]) -> None:
    world = World(tmp_path / "a.db", snapshot_every=40)
    config = {"dim": 4, "window": 10.0} | config
    world.loop(**config)
    arms = [f"a{i}" for i in range(10)]
    if config["dim"] is not None:
        arms = world.arms(np.random.default_rng(1).standard_normal((10, 4)) / 2)
    for seed in range(3):
        run(world, 60, arms, seed)
        before = world.check()
        world.restart()
        assert world.check() == before
    assert world.counts().decisions == 180
    assert world.counts().learned > 50
    for kind, write in (("ndjson", ndjson), ("parquet", parquet)):
        exported = tmp_path / f"log.{kind}"
        wanted = Wanted("x", world.engine.number("x"))
        exported.write_bytes(b"".join(write(world.store.reader, wanted)))
        replayed = rerun_log(read_export(exported))
        assert (replayed.decisions, replayed.identical, replayed.differing) == (180, 180, [])
        assert replayed.digest == world.check()


def test_a_replay_notices_a_log_that_was_tampered_with(world: World, tmp_path: Path) -> None:
    world.loop(dim=4, policy="linucb", window=1.0)
    run(world, 30, world.arms(np.random.default_rng(1).standard_normal((10, 4))))
    text = b"".join(ndjson(world.store.reader, Wanted("x", world.engine.number("x"))))
    other = tmp_path / "other.ndjson"
    other.write_bytes(text.replace(b'"value":1.0', b'"value":0.0'))
    found = rerun_log(read_export(other))
    assert found.identical < found.decisions == 30
    other.write_bytes(b"\n".join(text.split(b"\n")[2:]))
    with pytest.raises(ValueError, match="does not start at its beginning"):
        rerun_log(read_export(other))
    other.write_bytes(b'{"kind": 3}')
    with pytest.raises(ValueError, match="row 1 is no event of a log"):
        rerun_log(read_export(other))


def test_a_missing_reward_is_the_default_when_the_window_closes(world: World) -> None:
    world.loop(dim=1, policy="linucb", window=10.0, default_reward=0.25)
    world.arms(np.ones((1, 1)))
    world.decide("kept")
    world.decide("missing")
    assert world.reward("kept", 1.0) == "accepted"
    assert world.counts().learned == 0
    world.now += 9_999
    world.engine.tick()
    assert world.counts().learned == 0
    world.now += 1
    world.engine.tick()
    world.engine.commit()
    counts = world.counts()
    assert (counts.learned, counts.missing, counts.reward_sum) == (2, 1, 1.25)
    # Two rewards of x = 1 at ridge 0.1: theta = 1.25 / 2.1.
    policy: Any = world.engine.parts("x")[0].models.peek("")
    assert policy.leading_row[1] == pytest.approx(1.25 / 2.1)


def test_rewards_repeated_conflicting_late_unknown(world: World) -> None:
    world.loop(dim=1, policy="linucb", window=10.0)
    world.arms(np.ones((2, 1)))
    for ident in ("d", "e"):
        world.decide(ident)
    assert [world.reward("d", value) for value in (1.0, 1.0, 0.5)] == ["accepted", "duplicate", "409"]
    assert world.reward("nobody", 1.0) == "404"
    world.now += 10_000
    for _ in range(2):  # from memory, then from the store
        assert [world.reward("d", value) for value in (1.0, 0.5)] == ["duplicate", "409"]
        assert world.reward("e", 1.0) == "410"
        world.engine.snapshot()
        world.restart()
    assert world.counts().learned == 2
    assert world.counts().late == 2
    world.check()


def test_on_arrival_a_reward_is_learned_at_once_and_only_once(world: World) -> None:
    world.loop(dim=1, policy="linucb", window=10.0, learn="arrival")
    world.arms(np.ones((2, 1)))
    world.decide("d")
    world.decide("missing")
    world.reward("d", 1.0)
    assert world.counts().learned == 1
    world.restart()
    world.now += 10_000
    world.engine.tick()
    world.engine.commit()
    assert (world.counts().learned, world.counts().missing) == (2, 1)
    world.check()


def test_a_repeated_decision_gets_the_same_answer(world: World) -> None:
    world.loop(dim=2, policy="linucb", window=10.0, floor=0.9)
    pool = [Arm("a", [1.0, 0.0]), Arm("b", [0.0, 1.0]), Arm("c", [0.5, 0.5])]
    created, answer = world.decide("d", pool, "ann")
    assert created
    for step in range(3):
        assert world.decide("d", pool, "ann") == (False, answer)
        for changed in (([*pool[:2], Arm("c", [0.5, 0.4])], "ann"), (pool, "bob"), (pool[::-1], "ann")):
            with pytest.raises(Refused) as refusal:
                world.decide("d", *changed)
            assert refusal.value.status == 409
        if step == 0:
            world.restart()
        else:
            world.now += 10_000
            world.engine.tick()
            world.engine.commit()
            world.engine.snapshot()
            world.restart()
    assert world.counts().decisions == 1


def test_versions_of_a_loop(world: World) -> None:
    world.loop(dim=2, policy="linucb")
    world.loop(dim=2, policy="linucb")  # the same again is fine
    for version in (None, 0, 2):
        with pytest.raises(Refused) as refusal:
            world.loop(dim=2, policy="linucb", floor=0.1, version=version)
        assert refusal.value.status == 409
    world.loop(dim=2, policy="linucb", floor=0.1, version=1)
    assert world.engine.configuration("x").version == 2
    assert world.engine.parts("x")[0].config.floor == 0.1


def test_new_settings_keep_models_unless_they_describe_others(world: World) -> None:
    world.loop(dim=2, policy="linucb", window=10.0)
    arms = world.arms(np.eye(2))
    world.decide("old", arms)
    world.reward("old", 1.0)
    world.loop(dim=2, policy="linucb", window=10.0, floor=0.5, version=1)
    run(world, 20, arms)
    assert world.engine.parts("x")[0].models.peek("").rounds > 0
    world.decide("open", arms)
    world.loop(dim=2, policy="lints", window=10.0, version=2)
    assert world.engine.parts("x")[0].models.peek("") is None
    world.now += 10_000
    world.engine.tick()  # a reward for the old models teaches nothing to the new ones
    world.engine.commit()
    assert world.engine.parts("x")[0].models.peek("") is None
    world.loop(dim=3, policy="lints", version=3)
    with pytest.raises(Refused, match="catalogue has 2 features"):
        world.decide("d", arms)
    world.check()
    world.restart()
    world.check()


def test_open_decisions_keep_the_features_they_were_made_with(world: World) -> None:
    world.loop(dim=1, policy="linucb", window=10.0)
    world.arms(np.full((1, 1), 2.0))
    world.decide("d")
    world.arms(np.full((3, 1), 7.0))
    world.reward("d", 1.0)
    world.now += 10_000
    world.restart()
    policy: Any = world.engine.parts("x")[0].models.peek("")
    assert policy is None
    world.engine.tick()
    world.engine.commit()
    policy = world.engine.parts("x")[0].models.peek("")
    assert policy.leading_row[1] == pytest.approx(2.0 / 4.1)  # x = 2, not 7, at ridge 0.1
    world.check()


@pytest.mark.parametrize("policy", ["driftucb", "dlinucb"])
def test_scopes_spill_and_come_back_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    digests = []
    for limit, hot in ((3, 2), (1000, 2), (1000, 1000)):
        monkeypatch.setattr("driftbandit.serving.loop.scopes.Models.__init__.__defaults__", (hot,))
        world = World(tmp_path / f"{limit}-{hot}.db", scopes_in_memory=limit)
        world.loop(dim=4, policy=policy, scoped=True, window=1.0)
        run(world, 150, world.arms(np.random.default_rng(1).standard_normal((10, 4))), scopes=20)
        models = world.engine.parts("x")[0].models
        assert models is not None
        assert len(models) <= (4 if limit == 3 else 20)
        digests.append(world.check())
        world.restart()
        assert world.check() == digests[-1]
    assert len(set(digests)) == 1


@pytest.mark.parametrize(
    "config",
    [{"policy": "linucb", "floor": 0.2}, {"policy": "lints", "settings": {"explore": 1.0}}, {"policy": "random"}],
    ids=lambda config: config["policy"],
)
def test_arms_are_drawn_with_the_logged_probabilities(world: World, config: dict[str, Any]) -> None:
    """Chi-square over 100,000 draws (20,000 where the policy is asked 20 times a draw); p above 0.001, seed fixed."""
    draws = 20_000 if config["policy"] == "lints" else 100_000
    world.loop(dim=3, window=3600.0, **config)
    rng = np.random.default_rng(0)
    arms = world.arms(rng.standard_normal((5, 3)))
    loop = world.engine.parts("x")[0]
    expected = np.zeros(5)
    seen = np.zeros(5)
    for number in range(draws):
        event = loop.decide(world.now, f"d{number}", None, loop.pools.of(arms))
        chances = probabilities(event, loop.config, 5)
        assert event.propensity == chances[event.index]
        expected += chances
        seen[event.index] += 1
        if loop.waiting > 1000:
            world.now += 3_600_000
            loop.tick(world.now)
    assert expected.sum() == pytest.approx(draws)
    assert stats.chisquare(seen, expected).pvalue > 0.001


def test_the_default_policy_is_asked_once_a_decision(world: World) -> None:
    """DriftUCB learns from being asked, so the service asks it as often as a library's user would: once."""
    world.loop(dim=3, window=1.0, floor=0.0)
    rng = np.random.default_rng(0)
    policy = DriftUCB(3)
    for number in range(60):
        pool = rng.standard_normal((4, 3))
        _, answer = world.decide(f"d{number}", [Arm(f"a{i}", row.tolist()) for i, row in enumerate(pool)])
        assert answer.index == policy.choose(pool)
        assert answer.propensity == 1.0
        value = float(pool[answer.index, 0])
        world.reward(f"d{number}", value)
        policy.learn(pool[answer.index], value)
        world.now += 1_001
        world.engine.tick()
        world.engine.commit()
    served = world.engine.parts("x")[0].models.peek("")
    assert pack(served.state()) == pack(policy.state())
    world.check()


def test_inverse_propensity_recovers_the_mean_reward(world: World) -> None:
    """IPS of the logging policy is its own mean; IPS of 'always arm 0' is arm 0's mean, within 4 standard errors."""
    world.loop(dim=2, policy="linucb", floor=0.4, window=5.0)
    means = np.array([0.2, 0.6, 0.4])
    arms = world.arms(np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]))
    rng = np.random.default_rng(3)
    loop = world.engine.parts("x")[0]
    index, chance, reward = [], [], []
    for number in range(20_000):
        world.now += 10
        loop.tick(world.now)
        event = loop.decide(world.now, f"d{number}", None, loop.pools.of(arms))
        value = float(rng.random() < means[event.index])
        loop.reward(world.now, event.id, value, None)
        index.append(event.index)
        chance.append(probabilities(event, loop.config, 3))
        reward.append(value)
    played, p, r = np.array(index), np.array(chance), np.array(reward)
    mine = p[np.arange(len(p)), played]
    on_policy = (p[np.arange(len(p)), played] / mine) * r
    assert on_policy.mean() == r.mean()
    for arm in range(3):
        estimate = (played == arm) / mine * r
        assert abs(estimate.mean() - means[arm]) < 4 * estimate.std() / np.sqrt(len(r))


def test_the_shadow_is_compared(world: World) -> None:
    world.loop(dim=4, policy="linucb", window=5.0, floor=0.3, shadow=Plan("linucb"))
    run(world, 300, world.arms(np.random.default_rng(1).standard_normal((10, 4))))
    world.now += 5_000
    world.engine.tick()
    counts = world.counts()
    # The same policy as its own shadow agrees wherever the policy's choice was played.
    assert counts.shadow_decisions == 300
    assert 0.6 < counts.shadow_agreed / 300 < 0.85  # 1 - 0.3 + 0.3 / 6 = 0.75
    assert counts.shadow_weight == pytest.approx(counts.shadow_agreed / 0.75)


def test_bad_requests_leave_no_trace(world: World) -> None:
    world.loop(dim=2, policy="linucb", scoped=True)
    world.arms(np.eye(2))
    world.decide("d", ["a0", "a1"], "ann")
    before = world.check()
    bad: list[tuple[list[Any] | None, str | None, str]] = [
        (["a0"], None, "must name one"),
        (["nope"], "ann", "not in the catalogue"),
        (["a1", "a0", "a0"], "ann", "different ids, got 'a0' more than once"),
        ([Arm("z", [1.0])], "ann", "expected 2 features"),
        ([Arm("z", [1.0, 1e300])], "ann", "too large"),
        ([Arm("z", [1.0, 2.0]), Arm("y", [1.0])], "ann", "same number of features"),
        ([Arm("z", [1.0, 2.0]), "a0"], "ann", "ids only"),
        (["a0"], "tab\t", "printable"),
    ]
    for number, (arms, scope, message) in enumerate(bad):
        with pytest.raises(Refused, match=message) as refusal:
            world.decide(f"bad{number}", arms, scope)
        assert refusal.value.status == 422
    assert world.reward("d", 1e200) == "422"
    assert world.check() == before
    assert world.counts().decisions == 1


@pytest.mark.parametrize(
    "config",
    [
        {"policy": "nope"},
        {"policy": "oracle"},
        {"policy": "linucb"},
        {"policy": "linucb", "dim": 2, "settings": {"nope": 1}},
        {"policy": "dlinucb", "dim": 2, "settings": {"noise": "loud"}},
        {"policy": "dlinucb", "dim": 2, "settings": {"window": 10**12}},
        {"policy": "sw-linucb", "dim": 2, "settings": {"noise": "auto"}},
        {"policy": "linucb", "dim": 2, "settings": {"dim": 3}},
        {"policy": "club", "dim": 2},
        {"policy": "ucb1", "reward_range": (1.0, 0.0)},
        {"policy": "linucb", "dim": 2, "feature_names": ["sports"]},
        {"policy": "ucb1", "feature_names": ["sports"]},
        {"dim": 2, "settings": {"noise": 0.1}},
        {"policy": "dlinucb", "dim": 2, "settings": {"model": "logistic"}, "default_reward": -3.0},
        {"policy": "linucb", "dim": 2, "shadow": Plan("nope")},
    ],
)
def test_bad_settings_are_refused(world: World, config: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refusal:
        world.loop(**config)
    assert refusal.value.status == 422
    assert world.engine.names() == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"window": 100}, SWLinUCB(2, 0.5, window=100, ridge=0.1, explore=0.5)),
        ({"window": 100, "noise": 0.2}, SWLinUCB(2, 0.2, window=100, ridge=0.1, explore=0.2)),
        ({"explore": 0.3}, SWLinUCB(2, 0.5, ridge=0.1, explore=0.3)),
    ],
)
def test_settings_go_over_the_registrys(settings: dict[str, Any], expected: SWLinUCB) -> None:
    policy: Any = builder(LoopConfig(dim=2), Plan("sw-linucb", settings))()
    rng = np.random.default_rng(0)
    for _ in range(300):
        pool = rng.standard_normal((5, 2))
        index = policy.choose(pool)
        assert index == expected.choose(pool)
        reward = float(pool[index] @ [0.5, -0.5] + 0.3 * rng.standard_normal())
        assert policy.learn(pool[index], reward) == expected.learn(pool[index], reward)
    assert all(policy.state()[name].tobytes() == array.tobytes() for name, array in expected.state().items())


def test_presets_of_dlinucb_keep_their_settings_and_estimate_a_noise_that_nobody_told() -> None:
    config = LoopConfig(dim=2)
    for name in ("dlinucb", "dlinucb-paper", "dlinucb-released", "dlinucb-auto"):
        assert builder(config, Plan(name, {"window": 50}))().noise == "auto"  # type: ignore[attr-defined]
        assert builder(config, Plan(name, {"noise": 0.2}))().noise == 0.2  # type: ignore[attr-defined]


@pytest.mark.parametrize(("policy", "asked"), [("denband", 1), ("lints", 20)])
def test_only_a_policy_that_draws_is_asked_more_than_once(
    world: World, monkeypatch: pytest.MonkeyPatch, policy: str, asked: int
) -> None:
    kind = REGISTRY[policy].policy
    calls = []
    choose = kind.choose
    world.loop(policy=policy, dim=2, floor=0.0)
    arms = world.arms(np.eye(2))
    monkeypatch.setattr(kind, "choose", lambda *given: calls.append(given) or choose(*given))
    world.decide("d", arms)
    assert len(calls) == asked


@pytest.mark.parametrize(
    ("config", "kind", "facts"),
    [
        ({"policy": "dlinucb", "settings": {"noise": 0.1}}, "spawned", ("miss_rate", "bound")),
        ({}, "restarted", ("log_evidence", "threshold")),
    ],
    ids=["dlinucb", "default"],
)
def test_changes_are_stored_once_with_the_weights_before(
    tmp_path: Path, config: dict[str, Any], kind: str, facts: tuple[str, str]
) -> None:
    world = World(tmp_path / "a.db", snapshot_every=100)
    world.loop(dim=3, window=1.0, **config)
    rng = np.random.default_rng(0)
    taste = np.array([0.6, 0.3, -0.4])
    for number in range(600):
        world.now += 1_500
        pool = rng.standard_normal((5, 3)) / 2
        _, answer = world.decide(f"d{number}", [Arm(f"a{i}", row.tolist()) for i, row in enumerate(pool)])
        world.reward(f"d{number}", float(pool[answer.index] @ (taste if number < 300 else -taste)))
        if number in (250, 350, 450):
            world.restart()
    number = world.engine.number("x")
    rows = world.store.changes(number, 0, 0, 100)
    assert [row.number for row in rows] == list(range(1, world.counts().changes + 1))
    assert rows
    import json

    first = json.loads(rows[0].body)
    assert first["kind"] == kind
    assert first["evidence"][facts[0]] > first["evidence"][facts[1]]
    # The model in charge had learned the taste that then flipped.
    assert np.corrcoef(first["weights_before"], taste)[0, 1] > 0.99
    world.check()


@pytest.mark.parametrize(
    "config",
    [{}, {"policy": "dlinucb"}, {"policy": "dlinucb", "settings": {"model": "logistic"}}],
    ids=["default", "dlinucb", "logistic"],
)
def test_a_change_of_clicks_is_detected_without_being_told_a_noise(world: World, config: dict[str, Any]) -> None:
    world.loop(dim=2, window=1.0, **config)
    arms = world.arms(np.eye(2))
    rng = np.random.default_rng(0)
    for number in range(1200):
        world.now += 1_500
        _, answer = world.decide(str(number), arms)
        rate = 0.9 if (answer.index == 0) == (number < 600) else 0.1
        world.reward(str(number), float(rng.random() < rate))
    found = [row.seq for row in world.store.changes(world.engine.number("x"), 0, 0, 100)]
    events = world.store.events(world.engine.number("x"), 0, 0, 10_000)
    halfway = next(seq for seq, body in events if getattr(decode(body), "id", "") == "600")
    assert found
    assert min(found) > halfway


class FailingVFS(apsw.VFS):
    """A disk that can be told to fail."""

    def __init__(self) -> None:
        self.broken: str | None = None
        super().__init__("failing", "")

    def xOpen(self, name: Any, flags: Any) -> Any:
        return FailingFile(self, name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, vfs: FailingVFS, name: Any, flags: Any) -> None:
        self.vfs = vfs
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.vfs.broken == "full":
            raise apsw.FullError("no space left")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if self.vfs.broken == "sync":
            raise apsw.IOError("fsync failed")
        super().xSync(flags)


@pytest.fixture(scope="module")
def disk() -> Iterator[FailingVFS]:
    vfs = FailingVFS()
    yield vfs
    vfs.unregister()


@pytest.mark.parametrize("kind", ["full", "sync"])
def test_nothing_acknowledged_is_lost_when_the_disk_fails(tmp_path: Path, disk: FailingVFS, kind: str) -> None:
    world = World(tmp_path / "a.db", vfs="failing", snapshot_every=30)
    world.loop(dim=2, policy="linucb", window=5.0)
    arms = world.arms(np.eye(2))
    run(world, 40, arms)
    _, kept = world.decide("kept", arms)
    before = world.check()
    disk.broken = kind
    with contextlib.suppress(StoreError), pytest.raises(StoreError):
        world.decide("lost", arms)
    with pytest.raises(StoreError):
        world.engine.commit()
    disk.broken = None
    world.engine.recover()
    world.engine.commit()
    # What failed may or may not have reached the disk; what was acknowledged has.
    assert world.decide("kept", arms) == (False, kept)
    if world.counts().decisions == 41:
        assert world.check() == before
    _, answer = world.decide("lost", arms)  # the client tries again
    assert answer.decision_id == "lost"
    assert world.counts().decisions == 42
    world.check()
    world.store.close()


@pytest.mark.parametrize("policy", SERVED)
def test_every_policy_can_be_served(world: World, policy: str) -> None:
    world.loop(policy=policy, dim=3, window=2.0)
    arms = world.arms(np.random.default_rng(1).standard_normal((6, 3)) / 3)
    run(world, 25, arms)
    world.check()
    world.restart()
    assert world.counts().learned > 10
    world.check()


def test_a_repeated_decision_is_answered_alike_before_and_after_its_commit(world: World) -> None:
    """Within a commit its event may be encoded already, or not yet; after it, it is in the store."""
    world.loop(dim=2, policy="linucb", window=5.0)
    arms = tuple(world.arms(np.eye(2)))
    requests = [DecisionRequest(f"d{number}", None, arms) for number in range(300)]
    answers = [world.engine.decide("x", request) for request in requests]
    assert all(created for created, _ in answers)
    again = [(False, answer) for _, answer in answers]
    assert [world.engine.decide("x", request) for request in requests] == again
    assert world.engine.commit() == 300
    assert [world.engine.decide("x", request) for request in requests] == again
    with pytest.raises(Refused, match="another body"):
        world.engine.decide("x", DecisionRequest("d0", None, arms[:1]))
    world.check()


def test_rewards_that_close_together_are_learned_one_after_the_other(world: World) -> None:
    """As a library's user would, with the changes that they reveal and the weights from before."""
    config = LoopConfig(dim=2, policy="dlinucb", settings={"noise": 0.1, "window": 20}, window=5.0, floor=1.0)
    world.engine.configure("x", config, None)
    arms = world.arms(np.eye(2))
    mine: Any = builder(config, Plan("dlinucb", config.settings))()
    expected = []
    for number in range(160):
        _, answer = world.decide(f"d{number}", arms)
        reward = 0.8 if number < 80 else -0.8
        world.reward(f"d{number}", reward)
        before = mine.leading_row[1:3].tolist()
        expected += [(change.kind, before) for change in mine.learn(np.eye(2)[answer.index], reward)]
    assert world.counts().learned == 0
    world.now += 5_000
    world.engine.tick()
    world.engine.commit()
    assert world.counts().learned == 160
    policy = world.engine.parts("x")[0].models.get("")
    assert all(policy.state()[name].tobytes() == array.tobytes() for name, array in mine.state().items())
    bodies = [json.loads(row.body) for row in world.store.changes(1, 0, 0, 99)]
    assert [(body["kind"], body["weights_before"]) for body in bodies] == expected
    assert expected
    world.check()
    world.restart()
    world.check()


@pytest.mark.parametrize("policy", ["dlinucb", "linucb", "lints", "driftucb"])
def test_closed_decisions_are_indexed_between_snapshots(
    world: World, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """A crash after that brings them back into memory as well, which must make no difference."""
    monkeypatch.setattr("driftbandit.serving.engine.storage.INDEXED", 4)
    world.loop(dim=3, policy=policy, window=4.0)
    arms = world.arms(np.random.default_rng(1).standard_normal((10, 3)) / 2)
    _, answer = world.decide("first", arms)
    run(world, 60, arms)
    loop = world.engine.parts("x")[0]
    assert loop.saved_at == 0
    assert "first" not in loop.recent
    assert [row.reward for row in world.store.closed(1, ["first"])] == [None]
    for _ in range(2):
        assert world.decide("first", arms) == (False, answer)
        assert world.reward("first", 0.5) == "410"
        before = world.check()
        world.restart()
        assert world.check() == before
    assert "first" in world.engine.parts("x")[0].recent
    run(world, 20, arms, seed=1)
    world.check()


def test_what_was_learned_counts_in_the_next_decision(world: World) -> None:
    """A policy is asked again about a pool that it met before as soon as it has learned something."""
    world.loop(dim=2, policy="linucb", window=1.0, floor=0.0, learn="arrival", settings={"explore": 0.1})
    arms = tuple(world.arms(np.eye(2)))
    mine: Any = builder(LoopConfig(policy="linucb", dim=2), Plan("linucb", {"explore": 0.1}))()
    seen = set()
    for number in range(40):
        _, answer = world.decide(f"d{number}", arms)
        assert answer.index == mine.choose(np.eye(2))
        seen.add(answer.index)
        reward = 0.1 if answer.index == 0 else 0.9
        world.reward(f"d{number}", reward)
        mine.learn(np.eye(2)[answer.index], reward)
        assert world.decide(f"again {number}", arms)[1].index == mine.choose(np.eye(2))
    assert seen == {0, 1}
