"""Decisions that are made together, for which policies choose ahead on threads, are those made one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandit.batch import objects
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Arm, CatalogueRequest, DecisionRequest, RewardRequest
from driftbandit.serving.loop import learner
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.sqlite import SQLiteStore

START = 1_700_000_000_000
ARMS = np.random.default_rng(5).standard_normal((8, 3))
IDS = tuple(f"a{row}" for row in range(len(ARMS)))


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many choices were made together, each time; every thread takes a single one."""
    sizes: list[int] = []

    def counting(policies: list[Any], *rest: Any) -> Any:
        sizes.append(len(policies))
        return objects.choose_each(policies, *rest, threads=3)

    monkeypatch.setattr(learner, "choose_each", counting)
    monkeypatch.setattr("driftbandit.batch.threads._PART", 1)
    monkeypatch.setattr(objects, "_CHOICES", 0)
    monkeypatch.setattr(objects, "_CHOICE", 0)
    return sizes


def batches(scoped: bool) -> list[list[DecisionRequest]]:
    """Some arms by id, some with features of their own; repeated, wrong and unusable requests among them."""
    rng = np.random.default_rng(2)
    found = []
    for turn in range(12):
        batch = []
        for number in range(50):
            ident, scope = f"{turn}/{number}", f"user {rng.integers(6)}" if scoped else None
            arms: Any = tuple(rng.permutation(IDS)[:5].tolist())
            if number % 3 == 0:
                arms = tuple(Arm(name, rng.standard_normal(3).tolist()) for name in arms)
            if number % 17 == 5:
                arms = (*arms, "nobody") if number % 3 else (Arm("wild", [1e200, 0.0, 0.0]), *arms)
            if number % 11 == 4:
                ident = f"{turn}/{number - 2}"  # known by then, mostly with another body
            batch.append(DecisionRequest(ident, None if number == 30 else scope, arms))
        batch[20] = batch[19]
        found.append(batch)
    return found


def play(store: Store, *, together: bool, memory: int = 1 << 62, **config: Any) -> tuple[list[Any], str]:
    """What came of every request, and a digest of the loop in the end."""
    now = START
    engine = Engine(store, lambda: now, memory=memory)
    engine.configure("x", LoopConfig(dim=3, window=4.0, floor=0.1, **config), None)
    engine.put_arms("x", CatalogueRequest(tuple(Arm(i, row.tolist()) for i, row in zip(IDS, ARMS, strict=True))))
    engine.commit()
    engine.refresh()
    results: list[Any] = []
    for batch in batches(bool(config.get("scoped"))):
        engine.look_up("x", [request.decision_id or "" for request in batch])
        commands = engine.at_once("x")
        if together:
            made: list[Any] = commands.decide_all(batch)
        else:
            made = [one(commands, request) for request in batch]
        engine.commit()
        results += [(each.status, str(each)) if isinstance(each, Refused) else each for each in made]
        for each in made:
            if isinstance(each, tuple) and each[0]:
                decision = each[1]
                engine.reward("x", decision.decision_id, RewardRequest(float(decision.index == 0)))
        engine.commit()
        now += 3_000
        engine.tick()
        engine.commit()
    digest = engine.digest("x")
    assert digest == engine.digest("x", whole_log=True)
    store.close()
    return results, digest


def one(commands: Any, request: DecisionRequest) -> Any:
    try:
        return commands.decide(request)
    except Refused as refusal:
        return refusal


@pytest.mark.parametrize("memory", [1 << 62, 500_000])
@pytest.mark.parametrize("scoped", [True, False])
@pytest.mark.parametrize("policy", ["driftucb", "linucb", "lints"])
def test_as_one_after_the_other(
    tmp_path: Path, ahead: list[int], monkeypatch: pytest.MonkeyPatch, policy: str, scoped: bool, memory: int
) -> None:
    config = {"policy": policy, "scoped": scoped, "memory": memory}
    together = play(SQLiteStore(tmp_path / "a.db"), together=True, **config)
    assert (sum(ahead) > 300) == (policy != "lints"), "random choices are not made ahead"
    ahead.clear()
    assert play(SQLiteStore(tmp_path / "b.db"), together=False, **config) == together
    assert not ahead
    results, _ = together
    statuses = {each[0] for each in results}
    assert statuses == {True, False, 409, 422}


def test_a_choice_that_was_made_ahead_is_not_made_again(
    tmp_path: Path, ahead: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    engine = Engine(store, lambda: START)
    engine.configure("x", LoopConfig(dim=3, scoped=True), None)
    engine.commit()
    pool = tuple(Arm(name, row.tolist()) for name, row in zip(IDS, ARMS, strict=True))
    requests = [DecisionRequest(str(number), f"user {number % 4}", pool) for number in range(12)]
    monkeypatch.setattr("driftbandit.DriftUCB.choose", None)
    made: list[Any] = engine.at_once("x").decide_all(requests)
    assert ([each[0] for each in made], ahead) == ([True] * 12, [12])
    loop = engine.parts("x")[0]
    assert not loop.learner._ahead, "answers are forgotten, since rewards may come"
    store.close()


def test_shards(database: str, ahead: list[int]) -> None:
    from driftbandit.serving.stores.postgresql import PostgreSQLStore

    config = {"policy": "driftucb", "scoped": True}
    together = play(PostgreSQLStore(database, shards=3), together=True, **config)
    assert len(ahead) > 20, "shard by shard"
    results, _ = together
    assert {each[0] for each in results} == {True, False, 409, 422}
