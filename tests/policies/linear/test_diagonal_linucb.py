"""DiagonalLinUCB: its rule, and sparse features beside dense ones."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from driftbandit import DiagonalLinUCB, LinUCB
from driftbandit.policies.linear import diagonal_linucb

DIM = 12


def snapshot(policy):
    return {name: array.tobytes() for name, array in policy.state().items()}


def drawn(rng, rows, dim=DIM, share=0.3):
    """Dense features, most of them zero."""
    return rng.standard_normal((rows, dim)) * (rng.random((rows, dim)) < share)


def trained(rounds=30):
    rng = np.random.default_rng(7)
    policy = DiagonalLinUCB(DIM)
    for x in drawn(rng, rounds):
        policy.learn(x, float(x.sum()))
    return policy


def test_a_round_by_hand():
    policy = DiagonalLinUCB(3, ridge=2.0, explore=0.5)
    policy.learn([1.0, 2.0, 0.0], reward=7.0)
    # s = 1 / 2 + 4 / 2 = 2.5, e = 7: theta = e x / 2 / 3.5; precisions 2 + 1 / (1 + 2) and 2 + 4 / (1 + 0.5)
    np.testing.assert_allclose(policy.feature_weights, [1.0, 2.0, 0.0], rtol=1e-15)
    width = 0.5 * np.sqrt([1 / (2 + 1 / 3), 1 / (2 + 4 / 1.5), 1 / 2])
    np.testing.assert_allclose(policy.scores(np.eye(3)), np.add([1.0, 2.0, 0.0], width), rtol=1e-15)
    assert policy.rounds == 1


def test_a_reward_moves_every_weight_to_its_exact_posterior():
    rng = np.random.default_rng(0)
    policy = DiagonalLinUCB(DIM, ridge=0.7, explore=1.0)
    theta, variances = np.zeros(DIM), np.full(DIM, 1 / 0.7)
    for x in drawn(rng, 50):
        reward = float(rng.standard_normal())
        covariance = np.linalg.inv(np.diag(1 / variances) + np.outer(x, x))
        theta = covariance @ (theta / variances + reward * x)
        variances = np.diag(covariance)
        policy.learn(x, reward)
        np.testing.assert_allclose(policy.feature_weights, theta, atol=1e-12)
        np.testing.assert_allclose(policy.scores(np.eye(DIM)), theta + np.sqrt(variances), atol=1e-12)


def test_it_is_linucb_where_every_arm_has_one_feature():
    rng = np.random.default_rng(1)
    diagonal, full = DiagonalLinUCB(6, ridge=0.4, explore=0.5), LinUCB(6, ridge=0.4, explore=0.5)
    for _ in range(400):
        pool = np.diag(rng.uniform(0.5, 2.0, 6))[rng.permutation(6)[:4]]
        np.testing.assert_allclose(diagonal.scores(pool), full.scores(pool), rtol=0, atol=1e-12)
        arm = diagonal.choose(pool)
        assert arm == full.choose(pool)
        reward = float(rng.standard_normal())
        diagonal.learn(pool[arm], reward)
        full.learn(pool[arm], reward)


def shuffled(dense):
    """CSR whose columns run backwards."""
    flipped = sparse.csr_array(dense[:, ::-1].copy())
    return sparse.csr_array((flipped.data, DIM - 1 - flipped.indices, flipped.indptr), shape=dense.shape)


def repeated(dense):
    """CSR with every number in two halves."""
    csr = sparse.csr_array(dense)
    parts = (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), csr.indptr * 2)
    return sparse.csr_array(parts, shape=dense.shape)


def roomy(dense):
    """CSR whose arrays are longer than what is used of them."""
    csr = sparse.csr_array(dense)
    csr.data, csr.indices = np.append(csr.data, [np.nan, 5.0]), np.append(csr.indices, [0, 99]).astype(np.int32)
    return csr


def locked(dense):
    """CSR with 64-bit indices, which may not be written to."""
    csr = sparse.csr_array(dense)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    for part in (csr.data, csr.indices, csr.indptr):
        part.setflags(write=False)
    return csr


FORMS = {
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "lil": sparse.lil_matrix,
    "backwards": shuffled,
    "repeated": repeated,
    "roomy": roomy,
    "locked": locked,
}


@pytest.mark.parametrize("form", FORMS)
def test_sparse_features_give_what_dense_ones_give(form):
    rng = np.random.default_rng(2)
    dense, thin = DiagonalLinUCB(DIM), DiagonalLinUCB(DIM)
    for _ in range(40):
        pool = drawn(rng, 5)
        given = FORMS[form](pool)
        before = pickle.dumps(given)
        arm = thin.choose(given)
        assert arm == dense.choose(pool)
        assert thin.rank(given, 3) == dense.rank(pool, 3)
        np.testing.assert_array_equal(thin.scores(given), dense.scores(pool))
        assert pickle.dumps(given) == before
        thin.learn(FORMS[form](pool[[arm]]), 1.0)
        dense.learn(pool[arm], 1.0)
    assert snapshot(thin) == snapshot(dense)


def test_stored_zeros_change_nothing_but_the_last_digits():
    rng = np.random.default_rng(2)
    dense, thin = trained(), trained()
    for x in drawn(rng, 40):
        row = sparse.csr_array((x, np.arange(DIM), [0, DIM]), shape=(1, DIM))
        np.testing.assert_allclose(thin.scores(row), dense.scores([x]), rtol=0, atol=1e-12)
        thin.learn(row, 1.0)
        dense.learn(x, 1.0)


def test_a_row_may_have_one_axis_or_two():
    x = drawn(np.random.default_rng(3), 1)
    policies = [trained() for _ in range(3)]
    for policy, row in zip(policies, (x[0], sparse.csr_array(x), sparse.coo_array(x[0])), strict=True):
        policy.learn(row, 0.5)
    assert snapshot(policies[0]) == snapshot(policies[1]) == snapshot(policies[2])


def broken(**parts):
    csr = sparse.csr_array(np.eye(2, DIM))
    for name, values in parts.items():
        setattr(csr, name, np.array(values, dtype=getattr(csr, name).dtype))
    return csr


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (sparse.csr_array((3, DIM - 1)), r"expected shape \(K, 12\), got \(3, 11\)"),
        (sparse.coo_array(np.ones(DIM)), r"expected shape \(K, 12\), got \(12,\)"),
        (sparse.csr_array((0, DIM)), "expected at least one candidate"),
        (sparse.csr_array(1j * np.eye(2, DIM)), "expected real numbers, got dtype complex128"),
        (sparse.csr_array([[0.0] * DIM, [0.0] * 4 + [np.nan] + [0.0] * 7]), r"finite values, got nan at \(1, 4\)"),
        (sparse.csr_array(1e9 * np.eye(2, DIM)), "scale the features down"),
        (broken(indices=[0, DIM]), "CSR indices from 0 to 11"),
        (broken(indices=[0, -1]), "CSR indices from 0 to 11"),
        (broken(indptr=[0, 2, 1]), "CSR indices from 0 to 11"),
        (broken(indptr=[0, 1, 3]), "CSR indices from 0 to 11"),
        (broken(indptr=[1, 1, 2]), "CSR indices from 0 to 11"),
        (broken(data=[1.0]), "CSR indices from 0 to 11"),
        (broken(indptr=[0, 1]), "CSR indices from 0 to 11"),
        (broken(indptr=[0, 1, 2, 2]), "CSR indices from 0 to 11"),
        (broken(indptr=[]), "CSR indices from 0 to 11"),
        (broken(indices=[5, 3], indptr=[0, 2, 1]), "CSR indices from 0 to 11"),
    ],
)
def test_bad_sparse_pools_are_named_and_change_nothing(pool, message):
    policy = trained()
    before = snapshot(policy)
    for ask in (policy.choose, policy.scores, lambda pool: policy.rank(pool, 2)):
        with pytest.raises(ValueError, match=message):
            ask(pool)
    assert snapshot(policy) == before


def spoiled(form, name, values):
    """A pool in some other format than CSR, with one of its arrays replaced."""
    pool = sparse.csr_array(np.eye(2, DIM)).asformat(form)
    if form == "coo":
        pool.coords = (np.array(values), pool.coords[1]) if name == "row" else (pool.coords[0], np.array(values))
    else:
        setattr(pool, name, np.array(values, dtype=getattr(pool, name).dtype))
    return pool


SPOILED = (
    ("csc", "indices", [0, 10**7]),
    ("csc", "indices", [0, -(10**7)]),
    ("csc", "indptr", [0, 10**6] + [10**6] * 11),
    ("bsr", "indices", [0, 10**7]),
    ("bsr", "indptr", [0, 10**6, 10**7]),
    ("coo", "row", [0, 10**9]),
    ("coo", "row", [0]),
    ("coo", "col", [0, -1]),
)


def test_formats_that_scipy_would_convert_unchecked_are_refused():
    """SciPy's conversion reads and writes where such indices lead, which ends the process: so, in another one."""
    code = (
        "from tests.policies.linear.test_diagonal_linucb import DIM, SPOILED, DiagonalLinUCB, spoiled\n"
        "for case in SPOILED:\n"
        "    try:\n"
        "        print(DiagonalLinUCB(DIM).choose(spoiled(*case)))\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    said = done.stdout.splitlines()
    assert len(said) == len(SPOILED)
    assert all(line.startswith("features: expected a sound ") for line in said), said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("indices", np.zeros((1, 2), dtype=np.int32)),
        ("indices", np.array(3)),
        ("indices", np.array([0.5, 1.0])),
        ("indices", ["a", "b"]),
        ("data", np.ones((1, 2))),
        ("data", None),
        ("indptr", np.array(2)),
        ("indptr", [0, 1, 1.5]),
    ],
)
def test_arrays_of_another_kind_are_refused(name, value):
    pool = sparse.csr_array(np.eye(2, DIM))
    setattr(pool, name, value)
    with pytest.raises(ValueError, match="features: expected"):
        DiagonalLinUCB(DIM).choose(pool)


def test_repeated_small_integers_add_up_as_numbers():
    pool = sparse.csr_array((np.array([100, 100, 50], dtype=np.int8), np.array([1, 1, 1]), [0, 2, 3]), shape=(2, DIM))
    policy = DiagonalLinUCB(DIM, ridge=1e4)
    policy.learn(sparse.csr_array(np.eye(1, DIM, 1)), 1.0)
    assert policy.choose(pool) == 0, "200 is more than 50"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (sparse.csr_array((1, DIM + 1)), r"expected shape \(1, 12\) or \(12,\), got \(1, 13\)"),
        (sparse.csr_array((2, DIM)), r"expected shape \(1, 12\) or \(12,\), got \(2, 12\)"),
        (sparse.csr_array([[0.0] * 11 + [np.inf]]), "finite values, got inf at 11"),
        (sparse.csr_array([[0.0] * 11 + [1e8]]), "scale the features down"),
        (None, "got None"),
        ([0.0] * 11 + [np.nan], "finite values, got nan at 11"),
        ([0.0] * 11, r"expected shape \(12,\), got \(11,\)"),
    ],
)
def test_bad_rows_are_named_and_change_nothing(row, message):
    policy = trained()
    before = snapshot(policy)
    with pytest.raises(ValueError, match=message):
        policy.learn(row, 1.0)
    with pytest.raises(ValueError, match="reward"):
        policy.learn(sparse.csr_array(np.eye(1, DIM)), np.nan)
    assert snapshot(policy) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim: expected a whole number of at least 1"),
        ({"dim": 500_000_001}, "dim: expected at most 500,000,000 features"),
        ({"ridge": 0.0}, "ridge"),
        ({"explore": -1.0}, "explore"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        DiagonalLinUCB(**{"dim": 3, **settings})


def test_a_state_with_negative_information_is_refused():
    policy = trained()
    state = policy.state()
    before = snapshot(policy)
    state["information"][3] = -1.0
    with pytest.raises(ValueError, match="information: expected numbers of at least 0"):
        policy.restore(state)
    assert snapshot(policy) == before


def test_millions_of_features_work_as_few_do():
    """The same features, spread over ten million columns."""
    rng = np.random.default_rng(4)
    wide = 10_000_000
    columns = np.sort(rng.permutation(wide)[:DIM])
    few, many = DiagonalLinUCB(DIM), DiagonalLinUCB(wide)
    for _ in range(50):
        pool = sparse.csr_array(drawn(rng, 6))
        spread = sparse.csr_array((pool.data, columns[pool.indices], pool.indptr), shape=(6, wide))
        arm = few.choose(pool)
        assert many.choose(spread) == arm
        few.learn(pool[[arm]], float(arm))
        many.learn(spread[[arm]], float(arm))
    assert many.feature_weights[columns].tolist() == few.feature_weights.tolist()
    assert np.count_nonzero(many.feature_weights) == np.count_nonzero(few.feature_weights)


def test_the_largest_model_takes_what_is_said():
    assert 16 * diagonal_linucb.LARGEST_DIM == 8_000_000_000
    policy = DiagonalLinUCB(1000)
    assert sum(array.nbytes for array in (policy._theta, policy._information)) == 16 * 1000
