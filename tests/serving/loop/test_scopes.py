"""Models by scope, and the slab that holds their packed states."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit import DriftUCB
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


def test_a_young_policy_is_packed_without_the_models_that_do_not_live_yet() -> None:
    rng = np.random.default_rng(0)
    policy = DriftUCB(25)
    sizes = []
    for _ in range(300):
        state = policy.state()
        data = pack(state)
        back = unpack(data)
        assert {name: (array.tobytes(), array.dtype, array.shape) for name, array in back.items()} == {
            name: (array.tobytes(), array.dtype, array.shape) for name, array in state.items()
        }
        sizes.append(len(data))
        x = rng.standard_normal(25)
        policy.learn(x, float(rng.random() < 0.1))
    whole = sum(array.nbytes for array in policy.state().values())
    assert sizes[1] < 8_000, "elder and incumbent"
    assert sizes[10] < 12_000 < whole / 4, "ten rewards as well"


def test_a_young_scope_is_packed_as_its_rewards() -> None:
    """And comes back from memory and from the store as it was; with 100 rewards it is packed in full."""
    rng = np.random.default_rng(0)
    store = dict[str, bytes]()
    models = Models(lambda: DriftUCB(25), store.get, 0)
    twin, sizes = DriftUCB(25), []
    for _ in range(101):
        x, reward = rng.standard_normal(25), float(rng.random() < 0.2)
        twin.learn(x, reward)
        models.get("a")
        models.mark("a")
        models.get("a").learn(x, reward)
        models.get("b")  # packs the other
        sizes.append(len(models.packed("a") or b""))
        if len(sizes) % 10 == 0:
            models.freeze()
            store.update(models.take(1 << 30))
            models.forget("a")
        assert models.get("a").state().keys() == twin.state().keys()
        for name, array in twin.state().items():
            assert models.get("a").state()[name].tobytes() == array.tobytes()
    assert sizes[0] < 400
    assert sizes[9] < 2_400
    assert sizes[49] < 12_000
    assert sizes[98] < 22_000 < sizes[99] / 2
    assert models.nbytes > len(pack(twin.state())), "the object itself is larger"


def test_a_scope_that_began_with_a_young_model_and_learned_nothing_is_packed_as_it_began() -> None:
    begin = DriftUCB(3)
    for k in range(5):
        begin.learn([1.0, float(k), 0.5], 1.0)
    models = Models(lambda: DriftUCB(3), {}.get, 1 << 20, begin=pack(begin.state()))
    models.get("a")
    assert models.packed("a") == models.fresh


@pytest.mark.parametrize("dim", [3, 25])
def test_the_memory_of_young_policy_objects_is_counted_about_right(dim: int) -> None:
    """Their features fit into single precision, so that their short states are half as large."""
    models = Models(lambda: DriftUCB(dim), {}.get, 1 << 30)
    policy = models.get("a")
    for k in range(99):
        policy.learn(np.arange(dim) % (k + 2.0) + 1.0, k % 7.0)
    models.packed("a")
    size = policy._own.nbytes + policy._seen.nbytes
    assert 0.9 * size < models.nbytes - 6_200 < 1.1 * size


@pytest.mark.parametrize("name", ["-0.0", "nan", "0.0", "1.0"])
def test_what_ends_a_long_line_comes_back_bit_for_bit(name: str) -> None:
    table = np.zeros((3, 70))
    table[1, 40] = table[2, 69] = float(name)
    back = unpack(pack({"table": table, "whole": np.ones((2, 64)), "counts": np.zeros((2, 99), dtype=np.int64)}))
    assert back["table"].tobytes() == table.tobytes()
    assert back["whole"].shape == (2, 64)
    assert back["whole"].all()
    assert back["counts"].dtype == np.int64
    assert not back["counts"].any()


def test_states_that_were_packed_with_their_zeros_are_read() -> None:
    table = np.zeros((2, 70))
    header = json.dumps([["table", "<f8", [2, 70]], ["n", "<i8", []]]).encode()
    data = len(header).to_bytes(4, "little") + header + table.tobytes() + (7).to_bytes(8, "little")
    back = unpack(data)
    assert back["table"].tobytes() == table.tobytes()
    assert back["n"] == 7


def test_memory_of_a_kind_that_nobody_has_any_more_is_given_back() -> None:
    slab = Slab()
    small, large = (pack({"a": np.ones(count)}) for count in (10_000, 20_000))
    tracemalloc.start()
    try:
        for data in (small, large):
            for scope in range(200):
                slab.put(str(scope), data)
        assert tracemalloc.get_traced_memory()[0] < 1.1 * 200 * len(large)
    finally:
        tracemalloc.stop()
    assert slab.size("0") == 160_000 == slab.nbytes // 200
    assert slab.size("nobody") == 0


def test_policy_objects_count_with_all_their_rows() -> None:
    def drift() -> SavedPolicy:
        return builder(LoopConfig(policy="driftucb", dim=25), Plan("driftucb"))()

    models = Models(drift, {}.get, 1 << 20)
    for scope in "abc":
        models.get(scope)
    assert models.nbytes > 3 * sum(array.nbytes for array in drift().state().values()) > 100_000


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
