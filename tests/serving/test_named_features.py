"""Loops with an encoder in their settings: names in, the same numbers as in the library, and a log that repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from driftbandit import DriftUCB, Encoder, LinUCB, Recommender, read_log
from driftbandit.cli import app
from driftbandit.features import Category, Cycle, Flag, Number, Tags, Vector
from driftbandit.serving.engine.messages import Arm, CatalogueRequest, DecisionRequest
from driftbandit.serving.log.export import FORMATS, Wanted
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.config import LoopConfig, Plan, completed
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.server import begin_loop, open_store

from .live import problem
from .world import World

ENCODER = Encoder(
    [Category("device", ["phone", "laptop"]), Cycle("hour", 24), Flag("member")],
    [Category("genre", ["jazz", "metal"]), Number("price", 0, 20), Tags("moods"), Vector("sound", 2)],
    dim=24,
)
ITEMS: dict[str, dict[str, Any]] = {
    "so-what": {"genre": "jazz", "price": 5, "moods": ["calm"], "sound": [0.5, -1.0]},
    "one": {"genre": "metal", "price": 12.5, "moods": ["loud", "live"], "sound": [1.0, 0.25]},
    "blue": {"genre": "jazz", "moods": []},
}


def named(world: World, **config: Any) -> None:
    world.loop(**{"encoder": ENCODER.to_json(), "window": 4.0, **config})
    world.engine.put_arms("x", CatalogueRequest(tuple(Arm(arm, record) for arm, record in ITEMS.items())))
    world.engine.commit()


def ask(world: World, ident: str, context: dict[str, Any] | None, arms: Any = None, scope: str | None = None) -> Any:
    world.engine.look_up("x", [ident])
    found = world.engine.decide("x", DecisionRequest(ident, scope, arms, context))
    world.engine.commit()
    return found


def contexts(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Contexts with unknown and missing values among them."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for _ in range(count):
        device = ["phone", "laptop", "watch", None][rng.integers(4)]
        context: dict[str, Any] = {"device": device, "hour": rng.random() * 24}
        if rng.random() < 0.5:
            context["member"] = bool(rng.random() < 0.5)
        found.append(context)
    return found


def pools(number: int) -> tuple[Any, list[str]]:
    """The arms of a request, in one of three forms, and their ids."""
    if number % 3 == 0:
        return None, list(ITEMS)
    if number % 3 == 1:
        return ("one", "blue"), ["one", "blue"]
    return (Arm("new", {"genre": "polka", "price": number}), Arm("one", ITEMS["one"])), ["new", "one"]


def records(number: int) -> list[dict[str, Any]]:
    given, ids = pools(number)
    return [arm.features for arm in given] if number % 3 == 2 else [ITEMS[arm] for arm in ids]


def play(world: World, rounds: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for number, context in enumerate(contexts(rounds, seed)):
        world.now += int(rng.integers(0, 2_000))
        ask(world, f"{seed}/{number}", context, pools(number)[0], f"user {rng.integers(3)}")
        if rng.random() < 0.7:
            world.reward(f"{seed}/{number}", float(rng.random() < 0.5))


def exported(world: World, folder: Path, kind: str) -> Path:
    path = folder / f"log.{kind}"
    path.write_bytes(b"".join(FORMATS[kind](world.store.reader, Wanted("x", world.engine.number("x")))))
    return path


# ---- the same numbers as in the library -----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [LinUCB, DriftUCB])
def test_the_policy_learns_what_the_recommender_learns(world: World, make: Any) -> None:
    shop = Recommender(ENCODER, make(ENCODER.dim), items=ITEMS)
    named(world, policy=make.__name__.lower(), learn="arrival", floor=0.0)
    assert world.engine.configuration("x").config.dim == ENCODER.dim
    for number, context in enumerate(contexts(40)):
        given, ids = pools(number)
        expected = shop.choose(context, dict(zip(ids, records(number), strict=True)))
        _, answer = ask(world, str(number), context, given)
        assert (answer.arm, answer.propensity) == (expected.arm, 1.0)
        reward = float((context["device"] == "phone") == (answer.arm == "one"))
        world.reward(str(number), reward)
        shop.learn(expected, reward)
    policy: Any = world.engine.parts("x")[0].models.get("")
    ours, theirs = policy.state(), shop.policy.state()
    assert {name: array.tobytes() for name, array in ours.items()} == {
        name: array.tobytes() for name, array in theirs.items()
    }
    world.check()


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"scoped": True, "learn": "arrival"},
        {"policy": "lints"},
        {"policy": "linucb", "shadow": Plan("ucb1")},
        {"policy": "ucb1"},
    ],
)
def test_recovery_snapshots_and_reruns_give_the_same_state(tmp_path: Path, config: dict[str, Any]) -> None:
    world = World(tmp_path / "a.db", snapshot_every=40, memory=100_000)
    named(world, **config)
    for seed in range(2):
        play(world, 50, seed)
        before = world.check()
        world.restart()
        assert world.check() == before
    for kind in ("ndjson", "parquet"):
        again = rerun_log(read_export(exported(world, tmp_path, kind)))
        assert (again.decisions, again.identical, again.digest) == (100, 100, before)


def test_open_decisions_keep_what_the_policy_saw(world: World) -> None:
    named(world, policy="linucb")
    context = {"device": "phone", "hour": 7}
    _, answer = ask(world, "a", context)
    row = ENCODER.encode(context, list(ITEMS.values()))[answer.index]
    world.engine.put_arms("x", CatalogueRequest((Arm("other", {"genre": "metal"}),)))
    world.engine.commit()
    world.engine.snapshot()
    world.restart()
    world.now += 4_000
    world.engine.tick()
    world.engine.commit()
    policy: Any = world.engine.parts("x")[0].models.get("")
    expected = LinUCB(ENCODER.dim)
    expected.learn(row, 0.0)
    assert {k: v.tobytes() for k, v in policy.state().items()} == {k: v.tobytes() for k, v in expected.state().items()}
    world.check()


def test_another_encoder_starts_fresh_models_and_equal_settings_change_nothing(world: World) -> None:
    named(world, learn="arrival")
    play(world, 5)
    text = json.loads(json.dumps(ENCODER.to_json()))
    world.loop(encoder=text, window=4.0, learn="arrival")  # no version: allowed because nothing differs
    assert world.engine.configuration("x").version == 1
    world.loop(version=1, encoder=text, window=9.0, learn="arrival")
    assert world.engine.parts("x")[0].models.peek("") is not None
    other = Encoder([Category("device")], [Category("genre")], dim=24)
    world.loop(version=2, encoder=other.to_json(), window=9.0, learn="arrival")
    assert world.engine.parts("x")[0].models.peek("") is None
    with pytest.raises(Refused, match="arms: 'so-what': unknown column 'price'; the encoder knows: genre"):
        ask(world, "next", {"device": "phone"})
    world.engine.put_arms("x", CatalogueRequest((Arm("a", {"genre": "jazz"}),)))
    assert ask(world, "next", {"device": "phone"})[1].arm == "a"
    world.check()


def test_an_encoder_that_needs_ids_only_needs_no_catalogue(world: World) -> None:
    encoder = Encoder([Flag("member")], [Category("id", ["tea", "cup"])])
    world.loop(encoder=encoder.to_json(), policy="linucb", learn="arrival", floor=0.0)
    shop = Recommender(encoder, LinUCB(encoder.dim))
    for number in range(20):
        context = {"member": number % 2 == 0}
        expected = shop.choose(context, [{"id": "tea"}, {"id": "cup"}])
        _, answer = ask(world, str(number), context, ("tea", "cup"))
        assert answer.arm == expected.arm
        reward = float(context["member"] == (answer.arm == "cup"))
        world.reward(str(number), reward)
        shop.learn(expected, reward)
    with pytest.raises(Refused, match="expected its own id"):
        ask(world, "x", {}, (Arm("tea", {"id": "cup"}),))
    world.engine.put_arms("x", CatalogueRequest(("tea", "cup")))
    assert ask(world, "whole", {"member": True})[1].arm == "cup"
    world.check()


# ---- what is on disk ------------------------------------------------------------------------------------------------


def test_events_are_small_and_those_of_other_loops_have_not_changed(world: World) -> None:
    named(world)
    ask(world, "a", {"device": "phone", "hour": 7})
    body = world.store.event(world.engine.number("x"), 0, 3)
    assert body is not None
    assert len(body) < 150 < 8 * ENCODER.dim * len(ITEMS)
    assert b"encoder" not in msgspec.json.encode(LoopConfig(dim=2))
    plain = log.Decided(1, "a", None, ("b",), None, 0, "b", 1.0, (0,), -1, 1, 0, 2)
    assert log.encode(plain)[:2] == bytes([0x9E, 0xA8])  # 14 fields, the first a tag of 8 letters
    assert log.encode(log.Catalogued(1, 1, ["a"], None)) == b"\x95\xa4arms\x01\x01\x91\xa1a\xc0"


@pytest.mark.parametrize("kind", ["ndjson", "parquet", "dsjson"])
def test_exports_are_logs_with_names(world: World, tmp_path: Path, kind: str) -> None:
    named(world, default_reward=None)
    given = contexts(9)
    for number, context in enumerate(given):
        ask(world, str(number), context, pools(number)[0])
        world.reward(str(number), number / 10)
    world.now += 4_000
    world.engine.tick()
    world.engine.commit()
    read = read_log(exported(world, tmp_path, kind))
    found = list(read.records(9))
    assert read.report.events == 9
    assert [batch.rewards.tolist() for batch in read] == [[number / 10 for number in range(9)]]
    for number, (context, arms) in enumerate(found):
        assert {name: value for name, value in context.items() if value is not None} == {
            name: value for name, value in given[number].items() if value is not None
        }
        assert [arm["genre"] for arm in arms] == [
            "polka" if name == "new" else ITEMS[name]["genre"] for name in pools(number)[1]
        ]
    # A policy can learn it, in names.
    encoder = Encoder(dim=16).fit(found)
    assert next(iter(read.events(encoder))).features.shape[1] == 16


# ---- beginning with a file ------------------------------------------------------------------------------------------


def csv_log(folder: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(3)
    lines = ["time,device,hour,arms,arm,reward"]
    for time in range(300):
        device, hour = ("phone", "laptop")[rng.integers(2)], rng.integers(24)
        arm = list(ITEMS)[rng.integers(3)]
        reward = int((device == "phone") == (arm == "one"))
        lines.append(f"{time},{device},{hour},so-what|one|blue,{arm},{reward}")
    (folder / "log.csv").write_text("\n".join(lines))
    (folder / "items.csv").write_text("id,genre,price\nso-what,jazz,5\none,metal,12.5\nblue,jazz,\n")
    return folder / "log.csv", folder / "items.csv"


def learned(folder: Path, policy: str) -> Path:
    log_file, items = csv_log(folder)
    model = folder / "shop.policy"
    command = ["learn", str(log_file), "--items", str(items), "--policy", policy, "--logged", "uniform"]
    result = CliRunner().invoke(app, [*command, "--model", str(model)])
    assert result.exit_code == 0, result.output
    assert f"driftbandit serve --insecure-local --loop NAME --model {model}" in result.output
    return model


@pytest.mark.parametrize("policy", ["driftucb", "ucb1"])
def test_learn_serve_decide_and_reward_as_the_recommender_does(tmp_path: Path, policy: str) -> None:
    model = learned(tmp_path, policy)
    shop = Recommender.load(model)
    store = open_store(f"sqlite:{tmp_path / 'a.db'}")
    assert begin_loop(store, "x", model)
    assert not begin_loop(store, "x", model)
    store.close()
    world = World(tmp_path / "a.db")
    config = world.engine.configuration("x").config
    world.engine.configure("x", msgspec.structs.replace(config, floor=0.0, learn="arrival", draws=1), 1)
    for number, person in enumerate(contexts(30)):
        context = {"device": person["device"], "hour": person["hour"]}
        expected = shop.choose(context)
        _, answer = ask(world, str(number), context if shop.encoder else None)
        assert answer.arm == expected.arm
        reward = float((context["device"] == "phone") == (answer.arm == "one"))
        world.reward(str(number), reward)
        shop.learn(expected, reward)
    policy_here: Any = world.engine.parts("x")[0].models.get("")
    assert policy_here.rounds == 330
    assert {k: v.tobytes() for k, v in policy_here.state().items()} == {
        k: v.tobytes() for k, v in shop.policy.state().items()
    }
    before = world.check()
    world.restart()
    assert world.check() == before
    assert rerun_log(read_export(exported(world, tmp_path, "ndjson"))).digest == before


def test_a_loop_takes_the_encoder_and_the_items_of_a_file_that_is_put(world: World, tmp_path: Path) -> None:
    path = tmp_path / "a.policy"
    Recommender(ENCODER, LinUCB(ENCODER.dim), items={**ITEMS, "one": {**ITEMS["one"], "title": "One"}}).save(path)
    world.loop(policy="linucb", dim=ENCODER.dim)
    world.engine.put_arms("x", CatalogueRequest((Arm("old", [0.0] * ENCODER.dim),)))
    world.decide("before", None)
    world.engine.put_model("x", path.read_bytes())
    found = world.engine.configuration("x")
    assert (found.version, found.arms_version, found.has_model) == (2, 2, True)
    assert Encoder.from_json(found.config.encoder or {}) == ENCODER
    assert ask(world, "after", {"device": "phone"})[1].arm in ITEMS
    world.engine.put_model("x", path.read_bytes())  # again
    assert world.engine.configuration("x") == found
    other = Encoder([Flag("member")], [Category("genre")], dim=24)
    Recommender(other, LinUCB(24)).save(path)
    with pytest.raises(Refused, match="model: expected the loop's encoder, got another"):
        world.engine.put_model("x", path.read_bytes())
    LinUCB(ENCODER.dim).save(path)  # a policy alone says nothing about the encoder
    assert world.engine.put_model("x", path.read_bytes()).config.encoder == found.config.encoder
    world.engine.commit()
    world.check()


def test_a_loop_with_arms_of_its_own_keeps_them(world: World, tmp_path: Path) -> None:
    path = tmp_path / "a.policy"
    Recommender(ENCODER, LinUCB(ENCODER.dim), items=ITEMS).save(path)
    world.loop(policy="linucb", encoder=ENCODER.to_json())
    world.engine.put_arms("x", CatalogueRequest((Arm("mine", {"genre": "jazz"}),)))
    world.engine.put_model("x", path.read_bytes())
    assert ask(world, "a", {})[1].arm == "mine"


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"a\n": {}}, "items: expected ids of 1 to 200 printable characters"),
        ({"7": {}, 7: {}}, "expected different ids, got '7' more than once"),
        ({"a": {"price": "cheap"}}, "price: expected a number, got 'cheap'"),
        ({"a": {"price": 1 << 70}}, "model: "),
    ],
)
def test_items_that_cannot_be_served_are_refused(
    world: World, tmp_path: Path, items: dict[Any, Any], message: str
) -> None:
    path = tmp_path / "a.policy"
    Recommender(ENCODER, LinUCB(ENCODER.dim), items=items).save(path)
    world.loop(policy="linucb", dim=ENCODER.dim)
    with pytest.raises(Refused, match=message) as refused:
        world.engine.put_model("x", path.read_bytes())
    assert str(refused.value).startswith("model: ")
    assert world.engine.configuration("x").version == 1


# ---- over HTTP ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loop(http: httpx.Client) -> str:
    path = "/v1/loops/named"
    made = http.put(path, json={"policy": "linucb", "encoder": ENCODER.to_json()})
    assert made.status_code == 201, made.text
    assert made.json()["config"]["dim"] == ENCODER.dim
    arms = [{"id": arm, "features": record} for arm, record in ITEMS.items()]
    assert http.put(f"{path}/arms", json={"arms": arms}).status_code == 200
    http.put("/v1/loops/plain", json={"policy": "linucb", "dim": 2})
    return path


def test_decisions_by_name_over_http(http: httpx.Client, loop: str) -> None:
    body = {"decision_id": "1", "context": {"device": "phone", "hour": 8, "member": None}}
    first = http.post(f"{loop}/decisions", json=body)
    assert first.status_code == 201
    again = http.post(f"{loop}/decisions", json=body)
    assert (again.status_code, again.json()) == (200, first.json())
    assert "another body" in problem(http.post(f"{loop}/decisions", json=body | {"context": {"device": "laptop"}}), 409)
    jazz = {"id": "a", "features": {"genre": "jazz", "moods": ["calm"]}}
    inline = {"decision_id": "2", "context": {}, "arms": [jazz]}
    assert [http.post(f"{loop}/decisions", json=inline).status_code for _ in range(2)] == [201, 200]
    problem(http.post(f"{loop}/decisions", json=inline | {"arms": [{"id": "a", "features": {"genre": "metal"}}]}), 409)
    batch = [{"decision_id": f"b{i}", "context": {"hour": i}, "arms": ["one", "blue"]} for i in range(3)]
    for status in (201, 200):
        results = http.post(f"{loop}/decisions:batch", json={"decisions": batch}).json()["results"]
        assert [result["status"] for result in results] == [status] * 3
    assert http.post(f"{loop}/decisions/1/reward", json={"value": 1.0}).json() == {"status": "accepted"}


BAD = {
    "no context": ({}, "context: expected an object of columns"),
    "unknown column": ({"context": {"devise": "phone"}}, "context: unknown column 'devise'; the encoder knows: device"),
    "wrong type": ({"context": {"hour": "noon"}}, "context: hour: expected a number, got 'noon'"),
    "a list": ({"context": {"device": ["phone"]}}, "device: expected a text or a number"),
    "nested": ({"context": {"device": {"kind": "phone"}}}, "$.context[...]"),
    "not an object": ({"context": ["phone"]}, "$.context"),
    "a huge number": ({"context": {"hour": 10**30}}, "9223372036854775807"),
    "a long text": ({"context": {"device": "x" * 2001}}, "length <= 2000"),
    "numbers": ({"context": {}, "arms": [{"id": "a", "features": [1.0, 2.0]}]}, "arms: expected features by name"),
    "numbers alone": ({"arms": [{"id": "a", "features": [1.0, 2.0]}]}, "context: expected an object"),
    "both": (
        {"context": {}, "arms": [{"id": "a", "features": {}}, {"id": "b", "features": [1.0]}]},
        "expected features as lists of numbers for every arm, or by name for every arm",
    ),
    "unknown arm": ({"context": {}, "arms": ["nobody"]}, "'nobody' is not in the catalogue"),
    "unknown column of an arm": (
        {"context": {}, "arms": [{"id": "a", "features": {"genera": "jazz"}}]},
        "arms: 'a': unknown column 'genera'; the encoder knows: genre, moods, price, sound",
    ),
    "wrong type of an arm": (
        {"context": {}, "arms": [{"id": "a", "features": {"sound": [1.0]}}]},
        "sound: expected 2 finite numbers",
    ),
    "an arm twice": ({"context": {}, "arms": ["one", "one"]}, "expected different ids"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_decisions_are_refused_and_change_nothing(http: httpx.Client, loop: str, case: str) -> None:
    body, message = BAD[case]
    before = http.get(f"{loop}/stats").json()["totals"]
    assert message in problem(http.post(f"{loop}/decisions", json=body), 422)
    (result,) = http.post(f"{loop}/decisions:batch", json={"decisions": [body]}).json()["results"]
    assert message in result["problem"]["detail"]
    assert http.get(f"{loop}/stats").json()["totals"] == before


def test_names_are_refused_by_a_loop_without_an_encoder(http: httpx.Client, loop: str) -> None:
    path, arm = "/v1/loops/plain", {"id": "a", "features": {"genre": "jazz"}}
    assert http.put(f"{path}/arms", json={"arms": [{"id": "a", "features": [1, 0]}]}).status_code == 200
    assert http.post(f"{path}/decisions", json={"arms": ["a"]}).status_code == 201  # the pool is known from now on
    for body, message in (
        ({"context": {"device": "phone"}, "arms": ["a"]}, "context: this loop has no encoder"),
        ({"context": {}}, "context: this loop has no encoder"),
        ({"arms": [arm]}, "arms: this loop has no encoder"),
    ):
        assert message in problem(http.post(f"{path}/decisions", json=body), 422)
    assert "no encoder" in problem(http.put(f"{path}/arms", json={"arms": [arm]}), 422)
    assert http.get(path).json()["arms_version"] == 1
    assert "encoder" not in http.get(path).json()["config"]


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ([{"id": "a", "features": [1.0]}], "expected features by name"),
        (["a"], "arms: expected features by name for every arm: genre, moods, price, sound"),
        ([{"id": "a", "features": {"year": 7}}], "unknown column 'year'"),
        ([{"id": "a", "features": {"price": "cheap"}}], "price: expected a number"),
        ([{"id": "a", "features": {}}, {"id": "a", "features": {}}], "expected different ids"),
        ([{"id": "a", "features": {}}, "b"], "expected ids only, or arms with features only"),
        ([{"id": "a", "features": {"price": True, "moods": {"a": 1}}}], "$.arms[0].features"),
    ],
)
def test_bad_arms_are_refused_and_change_nothing(http: httpx.Client, loop: str, arms: Any, message: str) -> None:
    assert message in problem(http.put(f"{loop}/arms", json={"arms": arms}), 422)
    assert http.get(loop).json()["arms_version"] == 1


def bad_encoders() -> dict[str, tuple[Any, str]]:
    good = ENCODER.to_json()
    column = {"kind": "vector", "name": "v", "size": 10**9}
    words = [{"kind": "category", "name": "w", "values": None, "buckets": 9_999, "most": 100}]
    return {
        "not an object": (["a"], "$.encoder"),
        "empty": ({}, "encoder: expected what Encoder.to_json returned"),
        "another format": (good | {"format": 99}, "it has format 99"),
        "an unknown kind": (good | {"arms": [{"kind": "colour", "name": "a"}]}, "expected a kind among"),
        "a missing key": ({key: value for key, value in good.items() if key != "fitted"}, "KeyError: 'fitted'"),
        "not fitted": (Encoder().to_json(), "encoder: expected one that is fitted"),
        "a number as side": (good | {"context": 7}, "encoder: expected what"),
        "crosses": (good | {"crosses": [["device", "nothing"]]}, "crosses: expected pairs"),
        "components": (good | {"reduce": "project", "fitted": True, "components": [[1.0], [2.0, 3.0]]}, "encoder: "),
        "huge": (good | {"arms": [column]}, "encoder: arms: size: expected at most 10,000"),
        "a huge product": (good | {"context": words, "arms": words}, "products of columns"),
        "a huge dim": (good | {"dim": 1 << 62}, "encoder: "),
        "too many features": (Encoder([], [Vector("v", 3_000)], dim=3_000).to_json(), "at most 2,000 features"),
    }


@pytest.mark.parametrize("case", bad_encoders())
def test_bad_encoders_are_refused_and_make_no_loop(http: httpx.Client, case: str) -> None:
    encoder, message = bad_encoders()[case]
    path = "/v1/loops/bad"
    assert message in problem(http.put(path, json={"policy": "linucb", "encoder": encoder}), 422)
    assert http.get(path).status_code == 404


def test_dim_must_be_the_encoders(http: httpx.Client, loop: str) -> None:
    body = {"policy": "linucb", "encoder": ENCODER.to_json(), "dim": 3}
    assert "dim: expected 24, the encoder's, or nothing, got 3" in problem(http.put("/v1/loops/bad", json=body), 422)
    assert http.put(loop, json=body | {"dim": 24}).status_code == 200
    assert completed(LoopConfig(dim=3, encoder=None)) == LoopConfig(dim=3)


def test_a_null_encoder_is_none(http: httpx.Client) -> None:
    made = http.put("/v1/loops/null", json={"policy": "linucb", "dim": 2, "encoder": None})
    assert made.status_code == 201
    assert "encoder" not in made.json()["config"]


def test_what_changed_speaks_in_the_encoders_names(http: httpx.Client, loop: str) -> None:
    encoder = Encoder([Category("device", ["phone", "laptop"])], [Category("genre", ["jazz", "metal"])])
    path = "/v1/loops/told"
    http.put(path, json={"encoder": encoder.to_json(), "learn": "arrival"})
    arms = [{"id": genre, "features": {"genre": genre}} for genre in ("jazz", "metal")]
    http.put(f"{path}/arms", json={"arms": arms})
    for start in range(0, 1200, 100):
        rounds = [(f"{start + i}", ("phone", "laptop")[i % 2]) for i in range(100)]
        asked = [{"decision_id": ident, "context": {"device": device}} for ident, device in rounds]
        results = http.post(f"{path}/decisions:batch", json={"decisions": asked}).json()["results"]
        rewards = [
            {
                "decision_id": ident,
                "value": float(((result["decision"]["arm"] == "metal") == (device == "phone")) == (start < 600)),
            }
            for (ident, device), result in zip(rounds, results, strict=True)
        ]
        http.post(f"{path}/rewards:batch", json={"rewards": rewards})
    found = http.get(f"{path}/changes").json()
    assert found["changes"]
    assert found["feature_names"] == list(encoder.names)
    assert len(found["changes"][-1]["weights_before"]) == encoder.dim
    assert http.get(f"{path}/scopes").json()["feature_names"] == list(encoder.names)
    page = http.get("/?loop=told").text
    assert "device=phone × genre=metal" in page
    assert "feature_names" not in http.get("/v1/loops/plain/changes").json()


def test_the_document_knows_context_encoder_and_names(http: httpx.Client) -> None:
    schemas = http.get("/openapi.json").json()["components"]["schemas"]
    assert "encoder" in schemas["LoopRequest"]["properties"]
    assert "encoder" in schemas["LoopConfig"]["properties"]
    assert "context" in schemas["DecisionRequest"]["properties"]
    forms = {form["type"] for form in schemas["Arm"]["properties"]["features"]["anyOf"]}
    assert forms == {"array", "object"}


def test_a_loop_begins_with_a_recommenders_file_over_http(http: httpx.Client, tmp_path: Path) -> None:
    shop = Recommender(ENCODER, LinUCB(ENCODER.dim), items=ITEMS)
    shop.save(tmp_path / "shop.policy")
    path = "/v1/loops/shop"
    http.put(path, json={"policy": "linucb", "dim": ENCODER.dim})
    answer = http.put(f"{path}/model", content=(tmp_path / "shop.policy").read_bytes())
    assert answer.status_code == 200
    assert answer.json()["config"]["encoder"]["context"][0]["name"] == "device"
    assert answer.json()["arms_version"] == 1
    assert http.post(f"{path}/decisions", json={"context": {"device": "phone"}}).json()["arm"] in ITEMS
