"""Pools: from the arms of a request to what policies need to know of them."""

from __future__ import annotations

import numpy as np
import pytest

from driftbandit.serving.loop import arms as module
from driftbandit.serving.loop.arms import Catalogue, Pools
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.randomness import arm_number

FEATURES = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
CATALOGUE = Catalogue(["a", "b", "c"], FEATURES.tobytes())
NAMES_ONLY = Catalogue(["a", "b", "c"], None)


def test_arms_by_id_take_their_features_from_the_catalogue() -> None:
    pool = Pools(CATALOGUE, 2, numbered=True).of(["c", "a"])
    assert (pool.ids, pool.names, pool.own) == (("c", "a"), ("c", "a"), None)
    assert pool.features is not None
    assert pool.features.tolist() == FEATURES[[2, 0]].tolist()
    assert pool.numbers is not None
    assert pool.numbers.tolist() == [arm_number("c"), arm_number("a")]
    assert Pools(CATALOGUE, 2, numbered=False).of(["c", "a"]).numbers is None


def test_no_arms_are_the_whole_catalogue() -> None:
    pool = Pools(CATALOGUE, 2, numbered=False).of(None)
    assert (pool.ids, list(pool.names)) == (None, ["a", "b", "c"])
    assert pool.features is CATALOGUE.features


def test_features_of_the_request_are_kept_for_the_log() -> None:
    own = np.array([[3.0, 4.0]])
    pools = Pools(CATALOGUE, 2, numbered=False)
    pool = pools.of(["new"], own)
    assert pool.own == own.tobytes()
    assert pools.known == {}


def test_arms_without_features_need_no_catalogue() -> None:
    pool = Pools(None, None, numbered=True).of(["x"])
    assert pool.features is None
    assert pool.numbers is not None
    assert pool.numbers.tolist() == [arm_number("x")]


def test_pools_are_made_once_and_forgotten_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    pools = Pools(CATALOGUE, 2, numbered=False)
    first = pools.of(["a"])
    assert pools.of(("a",)) is first
    pools.of(["b"])
    assert set(pools.known) == {("a",), ("b",)}
    pools.of(None)
    assert set(pools.known) == {None}
    assert pools.of(["a"]) is not first


@pytest.mark.parametrize(
    ("catalogue", "dim", "ids", "features", "message"),
    [
        (CATALOGUE, 2, [], None, "expected 1 to 10,000 ids, got 0"),
        (CATALOGUE, 2, ["a"] * 10_001, None, "expected 1 to 10,000 ids, got 10001"),
        (CATALOGUE, 2, ["a", "b", "b", "a"], None, "expected different ids, got 'b' more than once"),
        (CATALOGUE, 2, ["z", "z"], np.eye(2), "expected different ids, got 'z' more than once"),
        (CATALOGUE, 2, ["a", "z"], None, "'z' is not in the catalogue"),
        (CATALOGUE, 3, ["a"], None, "the catalogue has 2 features per arm, the loop 3"),
        (CATALOGUE, 3, None, None, "the catalogue has 2 features per arm, the loop 3"),
        (NAMES_ONLY, 2, ["a"], None, "the catalogue has None features per arm, the loop 2"),
        (CATALOGUE, 2, ["z"], np.ones((1, 3)), "expected 2 features per arm, got 3"),
        (None, 2, ["a"], None, "ids need a catalogue with features"),
        (None, None, None, None, "this loop has no catalogue"),
        (None, None, ["a"], np.ones((1, 1)), "this loop has no features"),
    ],
)
def test_arms_that_cannot_be_used_are_refused(
    catalogue: Catalogue | None, dim: int | None, ids: list[str] | None, features: np.ndarray | None, message: str
) -> None:
    pools = Pools(catalogue, dim, numbered=False)
    with pytest.raises(Refused, match=message) as refusal:
        pools.of(ids, features)
    assert refusal.value.status == 422
    assert pools.known == {}
