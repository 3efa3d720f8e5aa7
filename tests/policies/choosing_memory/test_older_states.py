"""States of DriftUCB that earlier versions stored go on where they were."""

from pathlib import Path

import numpy as np
import pytest

from driftbandit import DriftUCB, load
from driftbandit.kernels import ridge
from driftbandit.kernels.driftucb import drift, scales
from driftbandit.kernels.driftucb.ladder import young
from driftbandit.kernels.driftucb.rows import COUNT

SAVED = Path(__file__).parents[1] / "saved"
TASTES = np.array([[0.5, -0.4, 0.3, 0.6], [0.5, 0.4, 0.3, -0.6]])


def test_a_file_from_before_rewards_waited_goes_on_where_it_was():
    """Saved after 331 rewards around 20, so with an intercept; the figures are those of the version that saved it."""
    policy = load(SAVED / "driftucb-without-backlog.npz")
    assert (policy.rounds, [change.round for change in policy.changes]) == (331, [240])
    assert policy._memo[scales.COLUMNS] == 5.0
    counts = drift.rungs_of(policy._bank, 4)[:, COUNT].tolist()
    assert counts == [-1.0, -1.0, -1.0, -1.0, 27.0, 43.0, 11.0, -1.0, 75.0, -1.0]
    rng = np.random.default_rng(12)
    for _ in range(600):
        taste, pool = TASTES[policy.rounds // 230 % 2], rng.standard_normal((6, 4))
        x = pool[policy.choose(pool)]
        policy.learn(x, float(20 + x @ taste + 0.2 * rng.standard_normal()))
    assert [change.round for change in policy.changes] == [240, 467, 695, 922]
    assert policy.theta == pytest.approx([0.42373882278433417, -0.40236479858011637, 0.24557305623, 0.48054125602])
    assert (policy.noise, policy.explain().age) == (pytest.approx(0.27571585656992786), 11)
    assert policy.changes[-1].evidence["log_evidence"] == pytest.approx(11.5692460871759)


def earlier(policy):
    """The state of a policy as the version before wrote it, young models of many features as vectors."""
    drift.settle(policy._rules, policy._memo, policy._bank)
    state, d = policy.state(), policy.dim
    size, first = ridge.row_size(d), ridge.THETA + d
    bank = state["bank"]
    old = np.zeros((16, ridge.row_size(d + 1) + 7))
    old[:, :size] = bank[:16, :size]
    old[:, size : size + 7] = bank[:16, size + 1 : size + 8]
    folded = 0
    for row, now in zip(old[6:], bank[6:16], strict=True):
        if now[size] > 0.0:  # 1 / ridge
            row[first], row[first + 1 : size] = -now[size], now[first : size - 1]
            folded += 1
    return {**state, "bank": old}, folded


def test_vectors_of_young_models_are_understood():
    rng, dim = np.random.default_rng(4), 64
    policy = DriftUCB(dim)
    xs = rng.standard_normal((300, dim))
    rewards = xs @ rng.standard_normal(dim) + 0.1 * rng.standard_normal(300)
    for x, reward in zip(xs[:200], rewards[:200].tolist(), strict=True):
        policy.learn(x, reward)
    state, folded = earlier(policy)
    assert folded > 0
    other = DriftUCB(dim).restore(state)
    for x, reward in zip(xs[200:], rewards[200:].tolist(), strict=True):
        assert other.learn(x, reward) == policy.learn(x, reward)
    drift.settle(policy._rules, policy._memo, policy._bank)
    drift.settle(other._rules, other._memo, other._bank)
    for each in (policy, other):
        for row in drift.rungs_of(each._bank, 4):
            if row[COUNT] >= 0.0:
                young.unfold(row, np.ones(dim))
    mine, theirs = policy.state()["bank"], other.state()["bank"]
    np.testing.assert_allclose(theirs[:16], mine[:16], rtol=1e-8, atol=1e-8)


def test_an_earlier_state_of_another_size_is_refused():
    state, _ = earlier(DriftUCB(5))
    with pytest.raises(ValueError, match="expected float64 of shape"):
        DriftUCB(6).restore(state)
    with pytest.raises(ValueError, match="expected float64 of shape"):
        DriftUCB(5, memory=(10.0,)).restore(state)
