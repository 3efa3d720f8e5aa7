"""Models by scope, and the slab that holds their packed states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.serving.loop.config import LoopConfig, Plan, builder
from driftbandit.serving.loop.scopes import Models, Slab, pack, unpack

SCOPES = st.sampled_from("abcdef")


def build() -> SavedPolicy:
    return builder(LoopConfig(policy="ucb1"), Plan("ucb1"))()


def teach(models: Models, scope: str, times: int) -> None:
    for _ in range(times):
        models.get(scope).learn(None, 1.0, 7)
    models.mark(scope)


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
    models = Models(build, stored.get, limit=4, hot=2)
    for number, scope in enumerate("abcdef", 1):
        teach(models, scope, number)
    assert len(models) == 6
    assert not models.trim()  # nothing is saved yet, so nothing may be forgotten
    changed = models.changed()
    assert [scope for scope, _ in changed] == list("abcdef")
    stored.update(changed)
    models.saved()
    assert models.changed() == []
    assert models.trim()
    assert len(models) == 4
    assert set(models.scopes()) == set("cdef")  # those used longest ago have gone
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
    models = Models(build, lambda scope: None, limit=4)
    assert pack(models.get("new").state()) == models.fresh == pack(build().state())
    teach(models, "new", 1)
    assert models.packed("new") != models.fresh
    assert pack(models.example.state()) == models.fresh
    assert unpack(models.fresh).keys() == build().state().keys()
