"""Features far beyond the scale of the ridge, such as a raw timestamp, are refused before they ruin a model."""

import numpy as np
import pytest

from driftbandit import (
    BOB,
    DAL,
    MASTER,
    AdTS,
    DiagonalLinUCB,
    DiscountedLinUCB,
    DLinUCB,
    DriftUCB,
    ExpDiscounts,
    LinTS,
    LinUCB,
    OracleLinUCB,
    PSLinUCB,
    RestartLinUCB,
    SWLinUCB,
)
from driftbandit.policies.registry import REGISTRY, Brief

BUILDERS = {
    "LinUCB": lambda: LinUCB(2),
    "LinTS": lambda: LinTS(2),
    "DiagonalLinUCB": lambda: DiagonalLinUCB(2, ridge=0.1),
    "AdTS": lambda: AdTS(2),
    "OracleLinUCB": lambda: OracleLinUCB(2),
    "DiscountedLinUCB": lambda: DiscountedLinUCB(2, 0.5, ridge=0.1),
    "SWLinUCB": lambda: SWLinUCB(2, 0.5, window=50, ridge=0.1),
    "RestartLinUCB": lambda: RestartLinUCB(2, 0.5, ridge=0.1),
    "PSLinUCB": lambda: PSLinUCB(2, 0.5, window=50, ridge=0.1),
    "ExpDiscounts": lambda: ExpDiscounts(2, 0.5, ridge=0.1),
    "BOB": lambda: BOB(2, 0.5, block=300, ridge=0.1),
    "DAL": lambda: DAL(2, 0.5, ridge=0.1),
    "MASTER": lambda: MASTER(2, 0.5, ridge=0.1),
    "DLinUCB": lambda: DLinUCB(2, 0.5),
    "DLinUCB, logistic": lambda: DLinUCB(2, 0.5, model="logistic"),
    "DLinUCB, thompson": lambda: DLinUCB(2, 0.5, model="thompson"),
}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("size", [1e8, 1.7e9, 1e50, 1e140])
def test_a_raw_timestamp_is_refused_and_nothing_changes(name, size):
    policy = BUILDERS[name]()
    policy.learn([0.5, 0.5], 0.5)
    before = policy.state()
    with pytest.raises(ValueError, match="scale the features down"):
        policy.learn([size, 0.3], 0.5)
    with pytest.raises(ValueError, match="scale the features down"):
        policy.choose([[0.1, 0.2], [size, 0.3]])
    assert all(np.array_equal(before[key], array) for key, array in policy.state().items())


@pytest.mark.parametrize("name", BUILDERS)
def test_the_largest_features_that_are_taken_do_no_harm(name):
    """|x|^2 just below 1e14 times the ridge, in one direction and then in nearly the same one, many times."""
    rng = np.random.default_rng(0)
    policy = BUILDERS[name]()
    for _ in range(2000):
        policy.learn([2e6 + rng.random(), rng.random()], 0.5)
        assert policy.choose(rng.random((3, 2))) in {0, 1, 2}
    assert all(np.isfinite(array).all() for array in policy.state().values())


@pytest.mark.parametrize("unit", [1e-6, 1.0, 2.0**40])
def test_driftucb_ties_do_not_depend_on_the_unit_of_rewards(unit):
    """LinUCB's scores tie within 1e-12, DriftUCB's within 1e-12 of the highest: as docs/contract.md has it."""
    apart = np.array([[1.0, 0.0], [1.0 + 1e-10, 0.0]])
    twins = np.array([[1.0, 0.0], [1.0 + 1e-14, 0.0]])
    policy = DriftUCB(2)
    for reward in (3.0, 4.0):
        policy.learn([1.0, 0.0], unit * reward)
    assert (policy.choose(twins), policy.choose(apart)) == (0, 1)


TINY = [1e-100, 1e-150, 1e-154, 1e-158, 1e-162, 1e-200, 1e-300, 5e-324, 0.0]
AUTO = {
    f"dlinucb-auto, {model}": lambda brief, model=model: DLinUCB(brief.dim, "auto", model=model)
    for model in ("ridge", "logistic", "thompson")
}


@pytest.mark.parametrize("name", [*(name for name, entry in REGISTRY.items() if not entry.scoped), *AUTO])
@pytest.mark.parametrize("size", TINY)
@pytest.mark.filterwarnings("ignore")
def test_features_whose_squares_vanish_do_no_harm(name, size):
    """Below 1e-162 they are 0, and from 1e-154 on what is divided by them may be beyond all floats."""
    build = AUTO[name] if name in AUTO else REGISTRY[name].build
    for kind in ("gaussian", "clicks"):
        rng = np.random.default_rng(0)
        policy = build(Brief(dim=3, noise=0.5))
        for _ in range(80):
            pool = size * rng.standard_normal((4, 3))
            index = policy.choose(pool, np.arange(4))
            reward = 0.5 + 0.1 * rng.random() if kind == "gaussian" else float(rng.random() < 0.4)
            policy.learn(pool[index], reward, index)
        policy.choose(pool, np.arange(4))
        for part in policy.state().values():
            assert np.isfinite(part).all()
