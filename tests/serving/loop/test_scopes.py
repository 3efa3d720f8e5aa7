"""Models by scope, and the slab that holds their packed states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.serving.loop.config import LoopConfig, Plan, builder
from driftbandit.serving.loop.scopes import Models
from driftbandit.serving.loop.slab import Slab, pack, unpack

SCOPES = st.sampled_from("abcdef")


def build() -> SavedPolicy:
    return builder(LoopConfig(policy="ucb1"), Plan("ucb1"))()


def teach(models: Models, scope: str, times: int) -> None:
    for _ in range(times):
        policy = models.get(scope)
        models.mark(scope)
        policy.learn(None, 1.0, 7)


def taught(times: int) -> bytes:
    policy = build()
    for _ in range(times):
        policy.learn(None, 1.0, 7)
    return pack(policy.state())


@given(st.lists(st.tuples(st.sampled_from(["put", "drop"]), SCOPES, st.binary(min_size=3, max_size=4))))
def test_a_slab_is_a_dictionary(steps: list[tuple[str, str, bytes]]) -> None:
    slab, expected = Slab(), dict[str, bytes]()
    for action, scope, body in steps:
        expected.pop(scope, None)
        if action == "put":
            data = (2).to_bytes(4, "little") + b"h" + bytes([len(body)]) + body  # rows of two lengths
            slab.put(scope, data)
            expected[scope] = data
        else:
            slab.drop(scope)
        assert list(slab) == list(expected)
        assert {scope: slab.get(scope) for scope in slab} == expected
    assert slab.get("nobody") is None


def test_models_move_between_memory_and_the_store_unchanged() -> None:
    stored: dict[str, bytes] = {}
    models = Models(build, stored.get, 15_000)  # two policy objects
    for number, scope in enumerate("abcdef", 1):
        teach(models, scope, number)
    assert len(models) == 6
    before = models.nbytes
    models.trim(before)  # nothing is saved yet, so nothing may be forgotten
    assert (len(models), models.nbytes, models.unsaved) == (6, before, True)
    changed = models.spill(1 << 20)
    assert [scope for scope, _ in changed] == list("abcdef")
    stored.update(changed)
    assert models.spill(1 << 20) == []
    assert not models.unsaved
    models.trim(1 + len(models.fresh))
    assert len(models) == 4
    assert set(models.scopes()) == set("cdef")  # those used longest ago have gone
    assert models.nbytes < before
    for number, scope in enumerate("abcdef", 1):
        policy = build()
        for _ in range(number):
            policy.learn(None, 1.0, 7)
        assert models.packed(scope) == pack(policy.state())
        peeked = models.peek(scope)
        assert peeked is not None
        assert pack(peeked.state()) == models.packed(scope)
    assert models.peek("nobody") is None
    assert models.packed("nobody") is None


def test_a_scope_that_was_never_met_starts_fresh() -> None:
    models = Models(build, lambda scope: None, 1 << 20)
    assert pack(models.get("new").state()) == models.fresh == pack(build().state())
    teach(models, "new", 1)
    assert models.packed("new") != models.fresh
    assert pack(models.example.state()) == models.fresh
    assert unpack(models.fresh).keys() == build().state().keys()


def test_what_is_frozen_is_handed_out_as_it_was() -> None:
    models = Models(build, lambda scope: None, 15_000)
    for number, scope in enumerate("abcd", 1):
        teach(models, scope, number)
    models.freeze()
    teach(models, "a", 5)
    first = models.take(1)  # one at a time; the copy that had to be made first
    teach(models, "c", 5)
    teach(models, "new", 1)
    rest = models.take(1 << 20)
    assert dict([*first, *rest]) == {scope: taught(number) for number, scope in enumerate("abcd", 1)}
    assert models.take(1 << 20) == []
    assert models.unsaved, "three have changed since"
    assert dict(models.spill(1 << 20)) == {"a": taught(6), "c": taught(8), "new": taught(1)}


def test_nothing_is_lost_when_a_snapshot_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    models = Models(build, lambda scope: None, 1 << 20)
    for number, scope in enumerate("abc", 1):
        teach(models, scope, number)
    models.freeze()
    teach(models, "a", 5)

    def fails(scope: str) -> bytes:
        raise RuntimeError(scope)

    with monkeypatch.context() as patch:
        patch.setattr(models, "_pack", fails)
        with pytest.raises(RuntimeError):
            models.take(1 << 20)
    models.freeze()  # the next attempt is of another moment
    assert dict(models.take(1 << 20)) == {"a": taught(6), "b": taught(2), "c": taught(3)}
    assert not models.unsaved
