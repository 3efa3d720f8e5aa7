"""LinUCB and LinTS in CUDA against the kernels that they must agree with."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from batch.conftest import fast, many_rounds
from batch.emulation import on_host
from driftbandit import LinTS as LinTSPolicy
from driftbandit import Radius
from driftbandit.batch import ManyScopes, cuda
from driftbandit.batch.cuda import LinTS, LinUCB
from driftbandit.batch.cuda.device import source
from driftbandit.core import TIE
from driftbandit.kernels import pcg64, ridge
from driftbandit.models.ridge import RidgeModel

TABLES = pcg64._KI, pcg64._WI, pcg64._FI


def pair(device, dim, scopes, *, explore=0.6, plan=None):
    model = RidgeModel(dim, ridge=0.1, explore=explore)
    rows = np.empty((scopes, model.size))
    for row in rows:
        model.reset(row)
    gpu = LinUCB(dim, model._act, model._test, device=device, plan={"CHUNK": 4} if plan is None else plan)
    gpu.load({"rows": rows})
    return model, rows, gpu


def pools_of(rng, count, most, dim):
    """Pools of 1 to `most` arms, and the same one below the other with their offsets."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, most + 1, count))])
    features = rng.standard_normal((offsets[-1], dim))
    return [features[a:b] for a, b in pairwise(offsets)], features, offsets


def play(device, dim, most, plan, *, scopes, rounds):
    """Some scopes learn and choose on the device and on the CPU."""
    rng = np.random.default_rng(dim)
    explore = 0.6 if dim != 6 else Radius(0.3, 2.0, 0.5, 0.1)
    model, rows, gpu = pair(device, dim, scopes, explore=explore, plan=plan)
    tastes = rng.standard_normal((scopes, dim))
    ids = np.arange(scopes)
    played, rewards = rng.standard_normal((scopes, dim)), rng.standard_normal(scopes)
    for t in range(rounds):
        for scope, x, reward in zip(ids, played, rewards, strict=True):
            assert model.update(rows[scope], x, reward)
        same = t % 3 > 0
        following = ids if same else rng.permutation(scopes)[: rng.integers(1, scopes + 1)]
        pools, features, offsets = pools_of(rng, len(following), most, dim)
        if same:
            status, arms = gpu.step(ids, played, rewards, features, offsets)
        else:
            status, arms = gpu.learn(ids, played, rewards), gpu.choose(following, features, offsets)
        assert not on_host(status).any()
        ids, arms = following, on_host(arms)
        wanted = [ridge.optimistic_arm(model._act, rows, scope, pool) for scope, pool in zip(ids, pools, strict=True)]
        assert arms.tolist() == wanted
        played = np.array([pool[arm] for pool, arm in zip(pools, arms, strict=True)])
        rewards = np.sum(tastes[ids] * played, axis=1) + 0.1 * rng.standard_normal(len(ids))
    np.testing.assert_allclose(on_host(gpu.save()["rows"]), rows, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("dim", "most", "plan"),
    [
        (25, 10, {"CHUNK": 10}),
        (6, 10, {"CHUNK": 16, "STAGES": 2, "WARPS": 1, "LEAST_BLOCKS": 1}),
        (12, 10, {"CHUNK": 4, "GROUP": 10}),
        (3, 70, {"CHUNK": 16}),
        (33, 4, {"CHUNK": 4}),
    ],
)
def test_learns_and_chooses_like_the_cpu(device, dim, most, plan):
    play(device, dim, most, plan, scopes=14, rounds=30)


@fast
@pytest.mark.parametrize("dim", [6, 25])
def test_state_after_many_rounds(device, dim):
    play(device, dim, 10, {"CHUNK": 10}, scopes=3, rounds=many_rounds(device))


def draw(device, dim, most, *, scopes, rounds):
    """Some scopes of LinTS learn and choose on the device and on the CPU."""
    rng = np.random.default_rng(dim)
    cpu = ManyScopes(LinTSPolicy(dim, seed=5), scopes, threads=1)
    shelf = cpu._shelf
    gpu = LinTS(dim, shelf._act, shelf._test, TABLES, device=device, plan={"CHUNK": 4})
    for scope, words in enumerate(shelf._words):
        words[0] += 1_000_003 * scope  # a generator of its own for everyone
    gpu.load(shelf.arrays())
    tastes = rng.standard_normal((scopes, dim))
    everyone = np.arange(scopes)
    played, rewards = rng.standard_normal((scopes, dim)), rng.standard_normal(scopes)
    for t in range(rounds):
        pools, features, offsets = pools_of(rng, scopes, most, dim)
        cpu.learn_many(everyone, played, rewards)
        wanted = cpu.choose_many(everyone, features, np.diff(offsets))
        if t % 2:
            status, arms = gpu.step(everyone, played, rewards, features, offsets)
        else:
            status, arms = gpu.learn(everyone, played, rewards), gpu.choose(everyone, features, offsets)
        assert not on_host(status).any()
        assert on_host(arms).tolist() == wanted.tolist()
        played = np.array([pool[arm] for pool, arm in zip(pools, wanted, strict=True)])
        rewards = np.sum(tastes * played, axis=1) + 0.3 * rng.standard_normal(scopes)
    saved = {name: on_host(array) for name, array in gpu.save().items()}
    np.testing.assert_array_equal(saved["words"], shelf._words)
    np.testing.assert_allclose(saved["rows"], shelf._rows, rtol=1e-9, atol=1e-9)
    bad = np.full((2, dim), np.nan)
    assert on_host(gpu.choose([1], bad, [0, 2])).tolist() == [-1]
    np.testing.assert_array_equal(on_host(gpu.save()["words"]), shelf._words)  # a refused pool costs no draw


@pytest.mark.parametrize(("dim", "most"), [(6, 10), (20, 5)])
def test_draws_like_numpy(device, dim, most):
    draw(device, dim, most, scopes=10, rounds=20)


@fast
def test_many_draws_like_numpy(device):
    draw(device, 6, 10, scopes=3, rounds=many_rounds(device))


def test_ties_go_to_the_lowest_index_and_bad_input_changes_nothing(device):
    _, rows, gpu = pair(device, 3, 2)
    same = np.ones((5, 3))
    assert on_host(gpu.choose([1], same, [0, 5])).tolist() == [0]
    nearly = same * (1.0 + 1e-14 * np.arange(5))[:, np.newaxis]
    assert on_host(gpu.choose([1, 0], np.concatenate([nearly, same]), [0, 5, 10])).tolist() == [0, 0]
    bad = same.copy()
    bad[3, 1] = np.nan
    large = same.copy()
    large[4, 0] = 1e8
    arms = gpu.choose([0, 1, 0], np.concatenate([bad, large, same]), [0, 5, 10, 15])
    assert on_host(arms).tolist() == [-1, -1, 0]
    lost = gpu.learn([0, 1], [[np.inf, 0.0, 0.0], [1e8, 0.0, 0.0]], [1.0, 1.0])
    assert on_host(lost).tolist() == [-1, -1]
    assert on_host(gpu.learn([0], [[1.0, 0.0, 0.0]], [np.nan])).tolist() == [-1]
    np.testing.assert_array_equal(on_host(gpu.save()["rows"]), rows)
    played, pools = [[1.0, 0.0, np.nan], [1.0, 0.0, 0.0]], np.eye(3)[[0, 1, 0, 1]]
    status, arms = gpu.step([0, 1], played, [1.0, 1.0], pools, [0, 2, 4])
    assert on_host(status).tolist() == [-1, 0]
    assert on_host(arms).tolist() == [0, 1]


def test_some_scopes_can_be_taken_and_put_back(device):
    _, rows, gpu = pair(device, 3, 5)
    gpu.learn([1, 3], np.eye(3)[:2], [1.0, 2.0])
    taken = {name: on_host(array) for name, array in gpu.take([3, 1]).items()}
    np.testing.assert_array_equal(taken["rows"], on_host(gpu.save()["rows"])[[3, 1]])
    gpu.put([3, 1], {"rows": rows[[3, 1]]})
    np.testing.assert_array_equal(on_host(gpu.save()["rows"]), rows)
    with pytest.raises(ValueError, match="rows: expected the state of 1 scopes, got 2"):
        gpu.put([3], {"rows": rows[:2]})


@fast
def test_float32_loses_little_and_can_be_repaired(device):
    rng = np.random.default_rng(0)
    dim, scopes = 8, 4
    model = RidgeModel(dim, ridge=0.1, explore=0.6)
    rows = np.empty((scopes, model.size))
    for row in rows:
        model.reset(row)
    gpu = LinUCB(dim, model._act, model._test, dtype="float32", device=device, plan={"CHUNK": 10})
    gpu.load({"rows": rows})
    assert gpu.nbytes == scopes * 4 * 48
    everyone, tastes = np.arange(scopes), rng.standard_normal((scopes, dim))
    pools = rng.standard_normal((many_rounds(device), scopes, 10, dim))
    same = 0
    for pool in pools:
        arms = on_host(gpu.choose(everyone, pool.reshape(-1, dim), 10 * np.arange(scopes + 1)))
        same += sum(arms[s] == ridge.optimistic_arm(model._act, rows, s, pool[s]) for s in range(scopes))
        x = pool[everyone, arms]
        rewards = np.sum(x * tastes, axis=1) + 0.1 * rng.standard_normal(scopes)
        gpu.learn(everyone, x, rewards)
        for scope in range(scopes):
            model.update(rows[scope], x[scope], rewards[scope])
    found = on_host(gpu.save()["rows"])
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found[:, 0], rows[:, 0])
    # 2e-6 and 1e-9 were found after 1,000 rounds, 4e-6 and 2e-10 after 100,000
    assert np.abs(found - rows)[:, 1 : 1 + dim].max() < 1e-5
    assert np.abs(found - rows)[:, 1 + dim :].max() < 1e-7
    assert same > 0.999 * len(pools) * scopes
    assert gpu.refresh() == 0
    np.testing.assert_array_equal(on_host(gpu.save()["rows"]), found)
    spoilt = found.copy()
    spoilt[1, 1 + dim] = -1e-3  # the first entry of A^-1
    spoilt[2, -1] = 20.0  # the last one
    gpu.load({"rows": spoilt})
    assert gpu.refresh() == 2
    assert gpu.refresh() == 0
    np.testing.assert_array_equal(on_host(gpu.save()["rows"])[[0, 3]], found[[0, 3]])


def test_one_state_for_everybody(device):
    _, rows, gpu = pair(device, 3, 1)
    gpu.fill({"rows": rows + 0.5}, 4)
    np.testing.assert_array_equal(on_host(gpu.save()["rows"]), np.repeat(rows + 0.5, 4, axis=0))
    assert (len(gpu), gpu.nbytes) == (4, 4 * 10 * 8)


def test_wrong_arguments_are_named(device):
    _, rows, gpu = pair(device, 3, 2)
    with pytest.raises(ValueError, match=r"features: expected shape \(n, 3\), got \(2, 4\)"):
        gpu.choose([0], np.ones((2, 4)), [0, 2])
    with pytest.raises(ValueError, match=r"offsets: expected shape \(2,\), got \(3,\)"):
        gpu.choose([0], np.ones((2, 3)), [0, 1, 2])
    with pytest.raises(ValueError, match=r"rewards: expected shape \(2,\), got \(1,\)"):
        gpu.learn([0, 1], np.ones((2, 3)), [1.0])
    with pytest.raises(ValueError, match="scopes: expected whole numbers"):
        gpu.learn([0.5, 1.0], np.ones((2, 3)), [1.0, 1.0])
    with pytest.raises(ValueError, match="arrays: expected rows; rows missing"):
        gpu.load({"row": rows})
    with pytest.raises(ValueError, match="dim: one model of so many features needs"):
        LinUCB(300, np.zeros(5), np.zeros(5), device=device).choose([0], np.ones((1, 300)), [0, 1])
    with pytest.raises(ValueError, match="dtype: expected 'float64' or 'float32', got 'float16'"):
        LinUCB(3, np.zeros(5), np.zeros(5), dtype="float16", device=device)
    assert on_host(gpu.choose(np.arange(0), np.ones((0, 3)), [0])).tolist() == []


def test_constants_are_those_of_the_cpu():
    text = source("lanes.cuh", "sampling.cuh")
    found = {name: float(value) for name, value in re.findall(r"(\w+) = (-?\d[\d.e-]*)", text) if name.isupper()}
    assert found["TIE"] == TIE
    assert found["LARGEST_SQUARE"] == ridge.LARGEST_SQUARE
    assert (found["TAIL"], found["INVERSE_TAIL"]) == (pcg64._TAIL, pcg64._INVERSE_TAIL)


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(ImportError, match=r"pip install 'driftbandit\[gpu\]'"):
        cuda.Gpu()
