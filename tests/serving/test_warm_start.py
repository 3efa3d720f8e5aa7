"""Loops that begin with a policy's file: the same state after restarts, snapshots and running the log again."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from driftbandit import UCB1, DriftUCB, Encoder, LinTS, LinUCB, LogisticUCB, PerScope, Recommender
from driftbandit.cli import app
from driftbandit.serving.engine.clock import wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.log.export import Wanted, ndjson, parquet
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.loop.config import Plan
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.model import loop_of
from driftbandit.serving.server import begin_loop, open_store

from .live import problem
from .world import World, run

TASTE = np.array([0.8, -0.6, 0.3])


def learned(policy: Any, rounds: int = 200) -> Any:
    """The policy after some rewards of a world in which the first feature is good and the second is bad."""
    rng = np.random.default_rng(5)
    for x in rng.standard_normal((rounds, 3)):
        policy.learn(x, float(x @ TASTE + 0.1 * rng.standard_normal()))
    return policy


def file_of(policy: Any, folder: Path) -> bytes:
    path = folder / "a.policy"
    policy.save(path)
    return path.read_bytes()


def state_of(world: World, scope: str = "") -> dict[str, bytes]:
    policy: Any = world.engine.parts("x")[0].models.peek(scope)
    return {name: array.tobytes() for name, array in policy.state().items()}


def as_bytes(policy: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in policy.state().items()}


def warm(world: World, file: bytes, **config: Any) -> list[str]:
    world.loop(**{"dim": 3, "window": 4.0, **config})
    arms = world.arms(np.random.default_rng(1).standard_normal((8, 3)) / 2)
    world.engine.put_model("x", file)
    world.engine.commit()
    return arms


# ---- what a loop does with a model ----------------------------------------------------------------------------------


def test_a_loop_goes_on_where_the_policy_stopped(world: World, tmp_path: Path) -> None:
    policy = learned(LinUCB(3))
    arms = warm(world, file_of(policy, tmp_path), policy="linucb", floor=0.0, learn="arrival")
    assert state_of(world) == as_bytes(policy)
    features = np.random.default_rng(1).standard_normal((8, 3)) / 2
    for number in range(30):
        expected = policy.choose(features)
        _, answer = world.decide(str(number), arms)
        assert answer.index == expected
        reward = number / 30
        world.reward(str(number), reward)
        policy.learn(features[expected], reward)
    assert state_of(world) == as_bytes(policy)


@pytest.mark.parametrize(
    "config", [{}, {"scoped": True}, {"scoped": True, "learn": "arrival"}, {"shadow": Plan("linucb")}]
)
@pytest.mark.parametrize("policy", ["driftucb", "linucb"])
def test_recovery_and_a_rerun_of_the_log_begin_with_the_model_too(
    tmp_path: Path, config: dict[str, Any], policy: str
) -> None:
    file = file_of(learned({"driftucb": DriftUCB, "linucb": LinUCB}[policy](3)), tmp_path)
    world = World(tmp_path / "a.db", snapshot_every=40, memory=100_000)
    arms = warm(world, file, policy=policy, **config)
    for seed in range(2):
        run(world, 50, arms, seed)
        before = world.check()
        world.restart()
        assert world.check() == before
    for kind, write in (("ndjson", ndjson), ("parquet", parquet)):
        exported = tmp_path / f"log.{kind}"
        exported.write_bytes(b"".join(write(world.store.reader, Wanted("x", world.engine.number("x")))))
        again = rerun_log(read_export(exported))
        assert (again.decisions, again.identical) == (100, 100)
        assert again.digest == world.check()
    # Without the model, the same log does not come out the same.
    rows = [json.loads(line) for line in (tmp_path / "log.ndjson").read_text().splitlines()]
    assert any("model" in row for row in rows)
    for row in rows:
        row.pop("model", None)
    (tmp_path / "cold.ndjson").write_text("\n".join(map(json.dumps, rows)))
    assert rerun_log(read_export(tmp_path / "cold.ndjson")).digest != world.check()


def test_every_new_scope_begins_with_a_copy(world: World, tmp_path: Path) -> None:
    policy = learned(LinUCB(3))
    arms = warm(world, file_of(policy, tmp_path), policy="linucb", scoped=True, learn="arrival")
    world.decide("1", arms, "ann")
    world.reward("1", 1.0)
    world.decide("2", arms, "bob")
    assert state_of(world, "bob") == as_bytes(policy) != state_of(world, "ann")
    assert world.engine.parts("x")[0].models.peek("eve") is None
    world.restart()
    assert state_of(world, "ann") != as_bytes(policy)


def test_the_model_is_in_the_store_and_the_file_may_vanish(tmp_path: Path) -> None:
    policy = learned(DriftUCB(3))
    path = tmp_path / "a.policy"
    policy.save(path)
    world = World(tmp_path / "a.db")
    warm(world, path.read_bytes())
    path.unlink()
    world.engine.snapshot()
    world.restart()
    assert world.engine.configuration("x").has_model
    assert state_of(world) == as_bytes(policy)


def test_settings_that_keep_the_models_keep_the_model_and_others_drop_it(world: World, tmp_path: Path) -> None:
    file = file_of(learned(LinUCB(3)), tmp_path)
    arms = warm(world, file, policy="linucb")
    run(world, 20, arms)
    before = state_of(world)
    world.loop(version=2, policy="linucb", dim=3, window=9.0)  # a model's rewards may come later, it is the same model
    assert world.engine.configuration("x").has_model
    assert state_of(world) == before
    world.loop(version=3, policy="linucb", dim=3, window=9.0, seed=1)
    assert not world.engine.configuration("x").has_model
    assert world.engine.parts("x")[0].models.peek("") is None
    world.check()


def test_the_same_model_again_changes_nothing_and_another_starts_afresh(world: World, tmp_path: Path) -> None:
    policy = learned(LinUCB(3))
    arms = warm(world, file_of(policy, tmp_path), policy="linucb", learn="arrival")
    world.decide("1", arms)
    world.reward("1", 1.0)
    grown = state_of(world)
    assert world.engine.put_model("x", file_of(policy, tmp_path)).version == 2
    assert state_of(world) == grown
    other = learned(LinUCB(3), 300)
    assert world.engine.put_model("x", file_of(other, tmp_path)).version == 3
    assert state_of(world) == as_bytes(other)
    world.engine.commit()
    world.check()


# ---- files that cannot be used --------------------------------------------------------------------------------------


def test_bad_files_are_refused_and_change_nothing(world: World, tmp_path: Path) -> None:
    policy = learned(LinUCB(3))
    good = file_of(policy, tmp_path)
    warm(world, good, policy="linucb")
    bad = {
        b"": "not a saved policy",
        b"hello": "not a saved policy",
        good[: len(good) // 2]: "not a saved policy",
        good[:-1]: "not a saved policy",
        file_of(LinUCB(4), tmp_path): "expected dim=3, got dim=4",
        file_of(DriftUCB(3), tmp_path): "expected a LinUCB, the loop's policy, got a DriftUCB",
        file_of(LinUCB(3, ridge=0.5), tmp_path): r"got ridge=0.5 \(the loop: 0.1\)",
        file_of(UCB1(), tmp_path): "expected a LinUCB, the loop's policy, got a UCB1",
        file_of(PerScope(LinUCB(3)), tmp_path): "expected a LinUCB, the loop's policy, got a PerScope",
    }
    for file, message in bad.items():
        with pytest.raises(Refused, match=message) as refused:
            world.engine.put_model("x", file)
        assert refused.value.status == 422
        assert str(refused.value).startswith("model: ")
    assert world.engine.configuration("x").version == 2
    assert state_of(world) == as_bytes(policy)
    with pytest.raises(Refused, match="no loop"):
        world.engine.put_model("y", good)


@pytest.mark.parametrize("place", range(0, 2000, 61))
def test_a_damaged_file_is_refused_or_holds_the_same_policy(tmp_path: Path, place: int) -> None:
    whole = loop_of(file_of(learned(LinUCB(3)), tmp_path))
    damaged = bytearray(file_of(learned(LinUCB(3)), tmp_path))
    damaged[place % len(damaged)] ^= 0x55
    found = None
    with contextlib.suppress(ValueError):  # and nothing else
        found = loop_of(bytes(damaged))
    assert found is None or found == whole


def test_a_huge_dim_is_refused_before_memory_is_set_aside(tmp_path: Path, world: World) -> None:
    good = file_of(learned(LinUCB(3)), tmp_path)
    world.loop(policy="linucb", dim=3)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            body = old.read(name)
            new.writestr(name, body.replace(b'"dim": 3', b'"dim": 900000000') if name == "header.json" else body)
    with pytest.raises(Refused, match="expected dim=3, got dim=900000000"):
        world.engine.put_model("x", made.getvalue())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("header.json", " " * 10_000_000)
    with pytest.raises(Refused, match="compressed"):
        world.engine.put_model("x", packed.getvalue())


def test_context_free_policies_go_on_where_the_recommender_stopped(world: World, tmp_path: Path) -> None:
    made = Recommender(None, UCB1(reward_range=(0.0, 1.0)), items={arm: {} for arm in ("tea", "cup", "pot")})
    pays = {"tea": 0.2, "cup": 0.9, "pot": 0.5}
    for _ in range(30):
        decision = made.choose({})
        made.learn(decision, pays[str(decision.arm)])
    world.loop(policy="ucb1", floor=0.0, learn="arrival", draws=1)
    world.engine.put_model("x", file_of(made, tmp_path))
    for number in range(30):
        expected = made.choose({})
        _, answer = world.decide(str(number), None)  # the file's items are the catalogue
        assert answer.arm == expected.arm
        world.reward(str(number), pays[answer.arm])
        made.learn(expected, pays[answer.arm])
    assert state_of(world) == as_bytes(made.policy)
    before = world.check()
    world.restart()
    assert world.check() == before
    world.engine.snapshot()
    world.restart()
    assert world.check() == before
    world.decide("by id", ["cup", "tea"])
    world.check()


def test_a_shadow_that_knows_arms_by_number_starts_afresh_when_the_numbers_change(world: World, tmp_path: Path) -> None:
    made = Recommender(None, UCB1(reward_range=(0.0, 1.0)), items={arm: {} for arm in ("tea", "cup")})
    world.loop(policy="ucb1", shadow=Plan("ucb1"), learn="arrival")
    for number in range(4):
        world.decide(str(number), ["tea", "cup"])
        world.reward(str(number), 1.0)
    shadow = world.engine.parts("x")[0].learner.shadow
    assert shadow is not None
    assert shadow.get("").rounds == 4
    world.engine.put_model("x", file_of(made, tmp_path))
    world.engine.commit()
    shadow = world.engine.parts("x")[0].learner.shadow
    assert shadow is not None
    assert shadow.get("").rounds == 0
    world.decide("next", ["tea", "cup"])
    world.check()


def test_context_free_policies_are_refused_if_the_file_does_not_say_which_arm_is_which(
    world: World, tmp_path: Path
) -> None:
    world.loop(policy="ucb1", dim=None)
    with pytest.raises(Refused, match="this file does not say which"):
        world.engine.put_model("x", file_of(UCB1(), tmp_path))
    with pytest.raises(Refused, match="expected arms with texts as ids, as the service has, got 7"):
        world.engine.put_model("x", file_of(Recommender(None, UCB1(), items={7: {}}), tmp_path))
    assert world.engine.configuration("x").version == 1


def test_a_log_with_a_broken_model_is_refused_by_rerun(world: World, tmp_path: Path) -> None:
    warm(world, file_of(learned(LinUCB(3)), tmp_path), policy="linucb")
    rows = [json.loads(line) for line in b"".join(ndjson(world.store.reader, Wanted("x", 1))).splitlines()]
    for broken, message in (("no base64!", "row 3"), ("AAAA", "event 3: model"), (7, "row 3")):
        changed = [row | {"model": broken} if "model" in row else row for row in rows]
        (tmp_path / "log.ndjson").write_text("\n".join(map(json.dumps, changed)))
        with pytest.raises(ValueError, match=message):
            rerun_log(read_export(tmp_path / "log.ndjson"))


# ---- a loop from a file alone ---------------------------------------------------------------------------------------


def shop(folder: Path) -> Path:
    songs = {"so-what": {"genre": "jazz"}, "one": {"genre": "metal"}}
    encoder = Encoder().fit([({"device": "phone"}, songs), ({"device": "laptop"}, songs)])
    made = Recommender(encoder, DriftUCB(encoder.dim, delta=0.01), items=songs)
    for _ in range(20):
        made.learn(made.choose({"device": "phone"}), 1.0)
    made.save(folder / "shop.policy")
    return folder / "shop.policy"


def test_a_loop_takes_policy_settings_and_names_from_the_file(tmp_path: Path) -> None:
    file = shop(tmp_path)
    made = Recommender.load(file)
    store = open_store(f"sqlite:{tmp_path / 'a.db'}")
    assert begin_loop(store, "x", file)
    assert not begin_loop(store, "x", file)  # the same command again
    engine = Engine(store, wall)
    config = engine.configuration("x").config
    assert (config.policy, config.settings, config.dim) == ("driftucb", {"delta": 0.01}, made.encoder.dim)
    assert Encoder.from_json(config.encoder) == made.encoder
    assert config.shown_names == made.encoder.names
    assert engine.configuration("x").arms_version == 1  # its items
    other = tmp_path / "other.policy"
    LinUCB(3).save(other)
    with pytest.raises(ValueError, match="loop 'x' exists and did not begin with"):
        begin_loop(store, "x", other)
    with pytest.raises(ValueError, match="loop: expected 1 to 200 printable"):
        begin_loop(store, "", other)
    store.close()


def test_a_policy_with_a_large_seed_can_be_served(tmp_path: Path) -> None:
    # `driftbandit audit --model` writes such files: every policy gets a seed of 31 bits there.
    config, _, _ = loop_of(file_of(learned(LinTS(3, seed=1_588_365_138)), tmp_path))
    assert config.settings["seed"] == 1_588_365_138
    with pytest.raises(ValueError, match="settings: seed: expected at most"):
        loop_of(file_of(LinTS(3, seed=1 << 62), tmp_path))


def test_a_file_that_cannot_be_served_makes_no_loop(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path / 'a.db'}")
    path = tmp_path / "a.policy"
    PerScope(LinUCB(3)).save(path)
    with pytest.raises(ValueError, match="not one that the service can make"):
        begin_loop(store, "x", path)
    LogisticUCB(3, reward_range=(0.0, 5.0)).save(path)
    with pytest.raises(ValueError, match="reward_range cannot be written"):
        begin_loop(store, "x", path)
    LinUCB(2_001).save(path)
    with pytest.raises(ValueError, match="<= 2000"):
        begin_loop(store, "x", path)
    assert store.loops() == []
    store.close()


def test_serve_says_what_is_wrong_before_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk").write_bytes(b"junk")
    for options, message in {
        ("--loop", "x"): "expected both or neither",
        ("--model", "junk"): "expected both or neither",
        ("--loop", "x", "--model", "junk"): "model: not a saved policy",
        ("--loop", "x", "--model", "nowhere"): "nowhere",
    }.items():
        result = CliRunner().invoke(app, ["serve", "--insecure-local", *options])
        assert result.exit_code == 2, result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: ")
        assert message in line


# ---- real processes -------------------------------------------------------------------------------------------------


def test_a_killed_service_comes_back_with_the_model(tmp_path: Path, make_server: Callable[..., Any]) -> None:
    file = shop(tmp_path)
    server = make_server(f"sqlite:{tmp_path / 'a.db'}", loop="news", model=file)
    server.start()
    asked = {"decision_id": "a", "context": {"device": "phone"}}
    path = f"{server.url}/v1/loops/news"
    with httpx.Client(timeout=60) as http:
        first = http.get(f"{path}/scopes").json()["shared"]
        assert first["rounds"] == 20
        answer = http.post(f"{path}/decisions", json=asked).json()
        http.post(f"{path}/decisions/a/reward", json={"value": 1.0})
        server.kill()
        file.unlink()  # the log has all that is needed
        server.options = {}
        server.start()
        assert http.get(f"{path}/scopes").json()["shared"] == first
        assert http.get(path).json()["has_model"] is True
        assert http.post(f"{path}/decisions", json=asked).json() == answer


def test_over_http(http: httpx.Client, tmp_path: Path) -> None:
    path = "/v1/loops/warm"
    assert http.put(path, json={"dim": 3, "policy": "linucb"}).json()["has_model"] is False
    file = file_of(learned(LinUCB(3)), tmp_path)
    answer = http.put(f"{path}/model", content=file)
    assert answer.status_code == 200
    assert (answer.json()["version"], answer.json()["has_model"]) == (2, True)
    assert http.get(f"{path}/scopes").json()["shared"]["rounds"] == 200
    assert "not a saved policy" in problem(http.put(f"{path}/model", content=file[:-5]), 422)
    assert "no loop" in problem(http.put("/v1/loops/nowhere/model", content=file), 404)
