"""LinUCB's CUDA source, built for the CPU, against the kernels that it must agree with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from emulation import COMPILER, Emulated

from driftbandit import Radius
from driftbandit.batch.cuda import LinUCB
from driftbandit.kernels import ridge
from driftbandit.models.ridge import RidgeModel

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler to run CUDA source on the CPU")


def pair(tmp_path, dim, scopes, *, lanes=32, explore=0.6, plan=None):
    model = RidgeModel(dim, ridge=0.1, explore=explore)
    rows = np.empty((scopes, model.size))
    for row in rows:
        model.reset(row)
    gpu = LinUCB(dim, model._act, model._test, device=Emulated(tmp_path, lanes), plan=plan)
    gpu.load({"rows": rows})
    return model, rows, gpu


@pytest.mark.parametrize(
    ("dim", "most", "lanes", "plan"),
    [
        (25, 10, 32, {}),
        (6, 10, 32, {}),
        (6, 10, 32, {"STAGES": 2, "WARPS": 1, "LEAST_BLOCKS": 1}),
        (25, 10, 32, {"GROUP": 10, "CHUNK": 10}),
        (3, 70, 32, {}),
        (33, 4, 32, {}),
        (1, 1, 32, {}),
        (25, 10, 1, {}),
    ],
)
def test_learns_and_chooses_like_the_cpu(tmp_path, dim, most, lanes, plan):
    rng = np.random.default_rng(dim)
    scopes = 14
    explore = 0.6 if dim != 6 else Radius(0.3, 2.0, 0.5, 0.1)
    model, rows, gpu = pair(tmp_path, dim, scopes, lanes=lanes, explore=explore, plan=plan)
    tastes = rng.standard_normal((scopes, dim))
    played = rewards = ids = None
    for t in range(60 if lanes == 32 else 1000):
        if played is not None:
            for scope, x, reward in zip(ids, played, rewards, strict=True):
                assert model.update(rows[scope], x, reward)
        counts = rng.integers(1, most + 1, scopes)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        features = rng.standard_normal((offsets[-1], dim))
        order = rng.permutation(scopes)[: rng.integers(1, scopes + 1)] if t % 3 == 0 else ids
        if order is not ids:  # other scopes: learn and choose apart
            if played is not None:
                assert (gpu.learn(ids, played, rewards) == 0).all()
            ids = order
            offsets = offsets[: len(ids) + 1]
            features = features[: offsets[-1]]
            arms = gpu.choose(ids, features, offsets)
        else:
            offsets = offsets[: len(ids) + 1]
            features = features[: offsets[-1]]
            status, arms = gpu.step(ids, played, rewards, features, offsets)
            assert (status == 0).all()
        pools = [features[a:b] for a, b in pairwise(offsets)]
        wanted = [ridge.optimistic_arm(model._act, rows, scope, pool) for scope, pool in zip(ids, pools, strict=True)]
        assert arms.tolist() == wanted
        played = np.array([pool[arm] for pool, arm in zip(pools, arms, strict=True)])
        rewards = np.sum(tastes[ids] * played, axis=1) + 0.1 * rng.standard_normal(len(ids))
    saved = gpu.save()["rows"]
    for scope, x, reward in zip(ids, played, rewards, strict=True):
        model.update(rows[scope], x, reward)
    gpu.learn(ids, played, rewards)
    np.testing.assert_allclose(gpu.save()["rows"], rows, rtol=1e-9, atol=1e-9)
    assert saved.shape == rows.shape


def test_ties_go_to_the_lowest_index_and_bad_input_changes_nothing(tmp_path):
    _, rows, gpu = pair(tmp_path, 3, 2)
    same = np.ones((5, 3))
    assert gpu.choose([1], same, [0, 5]).tolist() == [0]
    nearly = same * (1.0 + 1e-14 * np.arange(5))[:, np.newaxis]
    assert gpu.choose([1, 0], np.concatenate([nearly, same]), [0, 5, 10]).tolist() == [0, 0]
    bad = same.copy()
    bad[3, 1] = np.nan
    large = same.copy()
    large[4, 0] = 1e8
    arms = gpu.choose([0, 1, 0], np.concatenate([bad, large, same]), [0, 5, 10, 15])
    assert arms.tolist() == [-1, -1, 0]
    assert gpu.learn([0, 1], [[np.inf, 0.0, 0.0], [1e8, 0.0, 0.0]], [1.0, 1.0]).tolist() == [-1, -1]
    assert gpu.learn([0], [[1.0, 0.0, 0.0]], [np.nan]).tolist() == [-1]
    np.testing.assert_array_equal(gpu.save()["rows"], rows)
    status, arms = gpu.step(
        [0, 1], [[1.0, 0.0, np.nan], [1.0, 0.0, 0.0]], [1.0, 1.0], np.eye(3)[[0, 1, 0, 1]], [0, 2, 4]
    )
    assert status.tolist() == [-1, 0]
    assert arms.tolist() == [0, 1]


def test_wrong_shapes_are_named(tmp_path):
    _, _, gpu = pair(tmp_path, 3, 2)
    with pytest.raises(ValueError, match=r"features: expected shape \(n, 3\), got \(2, 4\)"):
        gpu.choose([0], np.ones((2, 4)), [0, 2])
    with pytest.raises(ValueError, match=r"offsets: expected shape \(2,\), got \(3,\)"):
        gpu.choose([0], np.ones((2, 3)), [0, 1, 2])
    with pytest.raises(ValueError, match=r"rewards: expected shape \(2,\), got \(1,\)"):
        gpu.learn([0, 1], np.ones((2, 3)), [1.0])
    with pytest.raises(ValueError, match="scopes: expected whole numbers"):
        gpu.learn([0.5, 1.0], np.ones((2, 3)), [1.0, 1.0])
