"""DriftUCB in CUDA against the kernels that it must agree with."""

from __future__ import annotations

import re

import numpy as np
import pytest

from batch.conftest import fast, many_rounds
from batch.emulation import on_host
from driftbandit import DriftUCB as Policy
from driftbandit.batch.cuda import DriftUCB
from driftbandit.batch.cuda.device import source
from driftbandit.kernels import many
from driftbandit.kernels.driftucb import acting, compact, drift, experts, frames, mixture, scales
from driftbandit.kernels.driftucb.ahead import NOTHING
from driftbandit.kernels.driftucb.ladder import births, evidence, young


class Twins:
    """The same scopes on the CPU and on the emulated GPU."""

    def __init__(self, device, policies):
        self.rules = policies[0]._rules
        self.memos = np.array([policy._memo for policy in policies])
        self.banks = np.array([policy._bank for policy in policies])
        self.dim = policies[0].dim
        self.gpu = DriftUCB(self.dim, self.rules, device=device)
        self.gpu.load({"memos": self.memos, "banks": self.settled()})
        self.everyone = np.arange(len(policies))

    def settled(self):
        """The banks as the GPU takes them, on which young models learn at once."""
        banks, experts = self.banks.copy(), len(self.rules) - drift.RULES
        many.settle_all(self.rules, self.memos, banks)
        stored = np.empty((len(banks), *compact.compact_shape(self.dim, experts)))
        many.pack_all(self.memos, banks, stored, experts)
        return stored[:, : drift.models_of(experts)]

    def learn(self, played, rewards):
        found = [
            drift.learn(self.rules, *each, NOTHING)
            for each in zip(self.memos, self.banks, played, rewards, strict=True)
        ]
        return np.array(found)

    def choose(self, pools):
        found = [
            acting.choose(self.rules, *each, 0, NOTHING) for each in zip(self.memos, self.banks, pools, strict=True)
        ]
        return np.array(found)

    def step(self, played, rewards, pools):
        fired = self.learn(played, rewards)
        arms = self.choose(pools)
        count, most, dim = pools.shape
        status, chosen = self.gpu.step(
            self.everyone, played, rewards, pools.reshape(-1, dim), most * np.arange(count + 1)
        )
        assert on_host(status).tolist() == fired.tolist()
        assert on_host(chosen).tolist() == arms.tolist()
        return fired, arms

    def assert_same(self):
        saved = {name: on_host(array) for name, array in self.gpu.save().items()}
        np.testing.assert_allclose(saved["memos"], self.memos, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(saved["banks"], self.settled(), rtol=1e-9, atol=1e-9)


def framed(dim, rng, *, price=1.0, level=0.0, **settings):
    """A policy that has found its frame."""
    policy = Policy(dim, **settings)
    scale = np.ones(dim)
    scale[0] = price
    taste = rng.standard_normal(dim) / scale
    for _ in range(256):
        x = rng.standard_normal(dim) * scale
        policy.learn(x, float(x @ taste + level + 0.1 * rng.standard_normal()))
    return policy, scale, taste, level


@pytest.mark.parametrize("most", [8, 70])
def test_same_alarms_arms_and_state_in_every_frame(device, most):
    play(device, most, 40)


@fast
def test_same_alarms_arms_and_state_after_many_rounds(device):
    play(device, 8, 2 * many_rounds(device))


def play(device, most, rounds):
    """Four scopes, each with another frame, learn and choose on the device and on the CPU."""
    rng = np.random.default_rng(0)
    dim = 5
    made = [
        framed(dim, rng),
        framed(dim, rng, price=100.0),
        framed(dim, rng, level=20.0),
        framed(dim, rng, price=100.0, level=20.0),
    ]
    policies, scales_, tastes, levels = zip(*made, strict=True)
    assert {int(policy._memo[scales.COLUMNS]) for policy in policies} == {5, 6}
    twins = Twins(device, policies)
    tastes, levels, sizes = np.array(tastes), np.array(levels), np.array(scales_)
    alarms = 0
    played = rng.standard_normal((4, dim)) * sizes
    for t in range(rounds):
        if t % 500 == 20:
            tastes = -tastes
        rewards = np.sum(played * tastes, axis=1) + levels + 0.1 * rng.standard_normal(4)
        pools = rng.standard_normal((4, most, dim)) * sizes[:, np.newaxis]
        fired, arms = twins.step(played, rewards, pools)
        alarms += fired.sum()
        played = pools[range(4), arms]
    assert alarms >= 4
    twins.assert_same()


def test_clicks_from_the_first_round(device):
    play_clicks(device, 60)


@fast
def test_clicks_for_many_rounds(device):
    assert play_clicks(device, 1700) > 0


def play_clicks(device, rounds):
    """Three scopes whose rewards are clicks; how many alarms there were."""
    rng = np.random.default_rng(1)
    dim, count = 4, 3
    twins = Twins(device, [Policy(dim) for _ in range(count)])
    tastes = rng.standard_normal((count, dim))
    played = rng.standard_normal((count, dim))
    alarms = 0
    for t in range(rounds):
        if t == 1000:
            tastes = -tastes
        chance = 1.0 / (1.0 + np.exp(-2.0 * np.sum(played * tastes, axis=1)))
        rewards = (rng.random(count) < chance).astype(float)
        if t == 1500:
            rewards[0] = 0.3
        pools = rng.standard_normal((count, 6, dim))
        fired, arms = twins.step(played, rewards, pools)
        alarms += fired.sum()
        played = pools[range(count), arms]
    twins.assert_same()
    return alarms


@fast
@pytest.mark.parametrize(
    "settings", [{"memory": ()}, {"detect": False}, {"mix": False}, {"explore": 0.1, "memory": (20.0,)}]
)
def test_parts_switched_off(device, settings):
    rng = np.random.default_rng(2)
    dim, count = 3, 2
    twins = Twins(device, [Policy(dim, **settings) for _ in range(count)])
    tastes = rng.standard_normal((count, dim))
    played = rng.standard_normal((count, dim))
    for t in range(500):
        if t == 300:
            tastes = -tastes
        rewards = np.sum(played * tastes, axis=1) + 0.2 * rng.standard_normal(count)
        pools = rng.standard_normal((count, 5, dim))
        _, arms = twins.step(played, rewards, pools)
        played = pools[range(count), arms]
    twins.assert_same()


def test_odd_input(device):
    dim = 3
    told = Policy(dim)
    told.believe(np.ones(dim), np.eye(dim), 0.01)
    twins = Twins(device, [Policy(dim), told])
    nothing, bad = np.zeros((2, dim)), np.full((2, dim), np.nan)
    huge, tiny = np.full((2, dim), 1e9), np.full((2, dim), 1e-9)
    plain = np.array([[1.0, 0.5, -0.3], [0.2, 0.1, 1.0]])
    large = np.array([huge[0], plain[1]])  # a policy that was told a belief takes anything, to its own harm
    for x, reward in (
        (nothing, 1.0),
        (bad, 1.0),
        (plain, 0.0),
        (plain[::-1], 1.0),
        (large, 1.0),
        (tiny, 1e9),
        (plain, -3.0),
        (np.array([1e160 * plain[0], plain[0]]), 1.0),
    ):
        for pool in (plain, nothing, bad, huge, tiny, 1e160 * plain, np.repeat(plain, 20, axis=0)):
            twins.step(x, np.full(2, reward), np.array([pool, pool]))
        twins.assert_same()


def test_a_number_can_be_added_to_some_memos(device):
    twins = Twins(device, [Policy(2) for _ in range(3)])
    twins.gpu.add_to_memos([2, 0], scales.TRIED, 1.0)
    assert on_host(twins.gpu.save()["memos"])[:, scales.TRIED].tolist() == [1.0, 0.0, 1.0]


def test_constants_and_slots_are_those_of_the_cpu():
    text = source("drift_world.cuh")
    found = {name: float(value) for name, value in re.findall(r"(\w+) = (-?\d[\d.e-]*)", text) if name.isupper()}
    checked = 0
    for name, value in found.items():
        for module in (acting, births, drift, evidence, experts, frames, mixture, scales):
            wanted = getattr(module, f"_{name}", getattr(module, name, None))
            if wanted is not None:
                assert value == wanted, name
                checked += 1
    assert checked > 35
    enums = [[word.strip() for word in group.split(",")] for group in re.findall(r"enum \{([^}]*)\}", text)]
    memo, rules, sums = enums
    assert [getattr(scales, name) for name in memo] == list(range(len(memo)))
    assert [getattr(drift, name) for name in rules[:-1]] == list(range(drift.RULES))
    slots = [young.SCALE, *(getattr(evidence, name) for name in sums[1:-1])]
    assert (sums[0], sums[-1]) == ("SCALE", "SUMS")
    assert [slot - young.SCALE for slot in slots] == list(range(len(slots)))
