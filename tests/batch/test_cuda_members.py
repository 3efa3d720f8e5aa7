"""dLinUCB in CUDA against the kernels that it must agree with."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from batch.conftest import fast, many_rounds
from batch.emulation import on_host
from driftbandit import DLinUCB as Policy
from driftbandit.batch import ManyScopes
from driftbandit.batch.cuda import DLinUCB
from driftbandit.batch.dlinucb import DLinUCBShelf

NAMES = ("banks", "ledgers", "count", "leader")


class Coordinator:
    """Learns on the device, and reviews scopes on the CPU where that is due."""

    def __init__(self, policy, scopes, device):
        self.mirror = DLinUCBShelf(policy, scopes)
        self.gpu = DLinUCB(policy.dim, self.mirror._act, self.mirror._test, self.mirror._rules, device=device)
        self.gpu.load({name: self.mirror.arrays()[name] for name in NAMES})
        self.reviews = 0

    def review(self, scopes, status):
        status = on_host(status)
        self.mirror.rounds[scopes[status >= 0]] += 1
        due = scopes[status == 1]
        if not len(due):
            return
        self.reviews += len(due)
        mirror = self.mirror
        for name, array in self.gpu.take(due).items():
            mirror.arrays()[name][due] = on_host(array)
        for scope in due.tolist():
            mirror.review(scope)
        self.gpu.widen(mirror._banks.shape[1])
        self.gpu.put(due, {name: mirror.arrays()[name][due] for name in NAMES})


@pytest.mark.parametrize(("preset", "dim", "most"), [("table1", 5, 8), ("released", 5, 20)])
def test_same_members_and_arms(device, preset, dim, most):
    play(device, preset, dim, most, scopes=9, rounds=50)


@fast
def test_same_members_after_many_rounds(device):
    play(device, "table1", 5, 8, scopes=3, rounds=many_rounds(device))


def play(device, preset, dim, most, *, scopes, rounds):
    """Some scopes learn and choose on the device and on the CPU."""
    rng = np.random.default_rng(0)
    policy = Policy.preset(preset, dim, noise=0.1)
    everyone = np.arange(scopes)
    cpu, gpu = ManyScopes(policy, scopes, threads=1), Coordinator(policy, scopes, device)
    tastes = rng.standard_normal((scopes, dim))
    tastes /= np.linalg.norm(tastes, axis=1, keepdims=True)
    played, rewards = rng.uniform(-0.5, 0.5, (scopes, dim)), np.zeros(scopes)
    for t in range(rounds):
        if t % 300 == 25:
            tastes = -tastes
        pools = rng.uniform(-1.0, 1.0, (scopes, most, dim))
        features, offsets = pools.reshape(-1, dim), most * np.arange(scopes + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cpu.learn_many(everyone, played, rewards)
            wanted = cpu.choose_many(everyone, pools)
            if t % 2:
                status, arms = gpu.gpu.step(everyone, played, rewards, features, offsets)
                arms, again = on_host(arms).copy(), on_host(status) == 1
                assert (arms[again] == -1).all()
                gpu.review(everyone, status)
                arms[again] = on_host(gpu.gpu.choose(everyone, features, offsets))[again]
            else:
                gpu.review(everyone, gpu.gpu.learn(everyone, played, rewards))
                arms = on_host(gpu.gpu.choose(everyone, features, offsets))
        assert arms.tolist() == wanted.tolist()
        played = pools[everyone, wanted]
        rewards = np.sum(tastes * played, axis=1) + 0.1 * rng.standard_normal(scopes)
    assert gpu.reviews > 0
    for name, array in gpu.gpu.save().items():
        wanted = cpu._shelf.arrays()[name]
        np.testing.assert_allclose(on_host(array), wanted, rtol=1e-9, atol=1e-9, err_msg=name)


def test_bad_input_changes_nothing(device):
    policy = Policy.preset("table1", 3, noise=0.1)
    gpu = Coordinator(policy, 4, device).gpu
    before = {name: on_host(array) for name, array in gpu.save().items()}
    x = np.array([[np.nan, 0.0, 0.0], [1e9, 0.0, 0.0], [1.0, 0.0, 0.0], [0.1, 0.2, 0.3]])
    status, arms = gpu.step(np.arange(4), x, [1.0, 1.0, np.inf, 0.1], np.eye(3)[[0, 1, 2, 0]], np.arange(5))
    assert on_host(status).tolist() == [-1, -1, -1, 0]
    assert on_host(arms).tolist() == [0, 0, 0, 0]
    for name, array in gpu.save().items():
        np.testing.assert_array_equal(on_host(array)[:3], before[name][:3])
    assert on_host(gpu.save()["ledgers"])[3, 0, 2] == 1  # its age
