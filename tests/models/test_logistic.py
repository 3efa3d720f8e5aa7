"""The logistic model against its definition."""

import numpy as np
import pytest
from scipy.optimize import minimize

from driftbandit import DLinUCB, LogisticModel


def sigmoid(value):
    return 1.0 / (1.0 + np.exp(-value))


def parts(row, dim):
    inverse = np.zeros((dim, dim))
    inverse[np.tril_indices(dim)] = row[1 + dim :]
    return row[1 : 1 + dim].copy(), inverse + np.tril(inverse, -1).T


def test_an_update_minimises_the_loss_plus_the_distance_from_the_last_estimate():
    rng = np.random.default_rng(0)
    model = LogisticModel(3, ridge=0.5)
    row = np.empty(model.size)
    model.reset(row)
    for _ in range(30):
        x, reward = 2.0 * rng.standard_normal(3), float(rng.random() < 0.4)
        theta, inverse = parts(row, 3)
        metric = np.linalg.inv(inverse)

        def objective(u, x=x, reward=reward, theta=theta, metric=metric):
            loss = np.logaddexp(0.0, x @ u) - reward * (x @ u)
            return loss + 0.5 * (u - theta) @ metric @ (u - theta)

        model.update(row, x, reward)
        updated, updated_inverse = parts(row, 3)
        best = minimize(objective, theta, tol=1e-12)
        assert objective(updated) <= best.fun + 1e-9
        slope = sigmoid(x @ updated) * (1.0 - sigmoid(x @ updated))
        np.testing.assert_allclose(np.linalg.inv(updated_inverse), metric + slope * np.outer(x, x), atol=1e-6)


def test_predictions_are_calibrated():
    """Click rates are recovered within five standard errors after 20,000 clicks."""
    rng = np.random.default_rng(1)
    model = LogisticModel(3, ridge=1.0)
    row = np.empty(model.size)
    model.reset(row)
    truth = np.array([-1.5, 1.0, -0.5])
    for _ in range(20_000):
        x = np.append(1.0, rng.standard_normal(2))
        model.update(row, x, float(rng.random() < sigmoid(x @ truth)))
    np.testing.assert_allclose(row[1:4], truth, atol=0.15)
    probe = np.array([1.0, 0.5, 0.5])
    mean, width = model.predict(row, probe)
    assert abs(mean - sigmoid(probe @ truth)) < 5 * width
    assert 0.0 < width < 0.03


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3, 1e6])
def test_extreme_features_keep_probabilities_and_estimates_finite(size):
    model = LogisticModel(2)
    row = np.empty(model.size)
    model.reset(row)
    for reward in (1.0, 0.0, 1.0, 0.3):
        assert model.update(row, np.array([size, -size]), reward)
    mean, width = model.predict(row, np.array([size, size]))
    assert np.isfinite(row).all()
    assert 0.0 <= mean <= 1.0
    assert 0.0 <= width <= 1.0


def test_as_a_member_it_refuses_rewards_that_are_no_probabilities():
    policy = DLinUCB(2, 0.5, model="logistic")
    before = policy.state()
    for reward in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match=r"reward: expected a number in \[0, 1\]"):
            policy.learn(np.ones(2), reward)
    assert all(np.array_equal(before[name], array) for name, array in policy.state().items())


def test_clicks_are_learned():
    rng = np.random.default_rng(2)
    policy = DLinUCB(3, "auto", model="logistic", explore=0.5)
    truth = np.array([2.0, -2.0, 1.0])
    good = 0
    for t in range(2000):
        pool = rng.standard_normal((10, 3))
        index = policy.choose(pool)
        good += t >= 1000 and index == int(np.argmax(pool @ truth))
        policy.learn(pool[index], float(rng.random() < sigmoid(pool[index] @ truth - 1.0)))
    assert good > 600  # of 1,000; chance would give 100
