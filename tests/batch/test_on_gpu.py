"""`ManyScopes` on a GPU, here one that the CPU plays: the same arms, changes and states as on the CPU."""

import numpy as np
import pytest

from batch.emulation import COMPILER, Emulated
from driftbandit import DLinUCB, DriftUCB, LinTS, LinUCB
from driftbandit.batch import ManyScopes, NotLearned, on_gpu
from driftbandit.kernels import many
from driftbandit.kernels.driftucb import drift
from driftbandit.kernels.driftucb.ladder import young

DIM, ARMS, SCOPES = 4, 5, 8
KINDS = {
    "LinUCB": lambda: LinUCB(DIM),
    "LinTS": lambda: LinTS(DIM, seed=3),
    "DLinUCB": lambda: DLinUCB.preset("table1", DIM, noise=0.1),
    "DriftUCB": lambda: DriftUCB(DIM),
}


def gpu_here():
    """Whether there is a real GPU."""
    try:
        return on_gpu.cuda.cupy() is not None
    except (ImportError, RuntimeError):
        return False


@pytest.fixture(params=["emulated", "real"])
def gpu(request, built, monkeypatch):
    """Stores on a GPU, played by the CPU or real."""
    if request.param == "real":
        if not gpu_here():
            pytest.skip("needs CuPy and an NVIDIA GPU")
    elif COMPILER is None:
        pytest.skip("needs a C++ compiler to run CUDA source on the CPU")
    else:
        played = Emulated(built, lanes=1)
        real = on_gpu._back_end
        monkeypatch.setattr(on_gpu, "_back_end", lambda desk, dtype, device: real(desk, dtype, played))
    return lambda policy, size, **more: ManyScopes(policy, size, device="cuda", **more)


def on_cpu(array):
    return array.get() if hasattr(array, "get") else np.asarray(array)


def settled(state):
    """A state in which no reward waits for DriftUCB's young models, as on a GPU."""
    if "memo" in state:
        policy = DriftUCB(state["seen"].shape[1] - 1).restore(state)
        many.settle_all(policy._rules, policy._memo[np.newaxis], policy._bank[np.newaxis])
        state = policy.state()
        state["bank"][drift.models_of(4) :] = 0.0
    return state


def same_state(one, other):
    assert one.keys() == other.keys()
    one, other = settled(one), settled(other)
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:a member was retired")
def test_same_arms_changes_and_states_as_on_the_cpu(gpu, kind):
    rng = np.random.default_rng(0)
    here, there = ManyScopes(KINDS[kind](), SCOPES), gpu(KINDS[kind](), SCOPES)
    tastes = rng.standard_normal((SCOPES, DIM))
    tastes /= np.linalg.norm(tastes, axis=1, keepdims=True)
    everyone, found = np.arange(SCOPES), 0
    played, rewards = rng.uniform(-1.0, 1.0, (SCOPES, DIM)), rng.standard_normal(SCOPES)
    for t in range(1000):
        if t == 600:
            tastes = -tastes
        pools = rng.uniform(-1.0, 1.0, (SCOPES, ARMS, DIM))
        changes, arms = here.step_many(everyone, played, rewards, pools)
        theirs, chosen = there.step_many(everyone if t % 2 else None, played, rewards, pools)
        assert on_cpu(chosen).tolist() == arms.tolist(), t
        assert [(item, change.kind, change.round) for item, change in theirs] == [
            (item, change.kind, change.round) for item, change in changes
        ], t
        found += len(changes)
        played = pools[everyone, arms]
        rewards = (played * tastes).sum(axis=1) + 0.1 * rng.standard_normal(SCOPES)
    assert (found > 0) == (kind in ("DLinUCB", "DriftUCB"))
    assert there.rounds.tolist() == here.rounds.tolist()
    for scope in range(SCOPES):
        same_state(here.policy_of(scope).state(), there.policy_of(scope).state())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:a member was retired")
def test_scopes_may_repeat_and_pools_differ_in_size(gpu, kind):
    rng = np.random.default_rng(1)
    here, there = ManyScopes(KINDS[kind](), SCOPES), gpu(KINDS[kind](), SCOPES)
    for _ in range(40):
        who = rng.integers(0, SCOPES, 20)
        counts = rng.integers(1, ARMS + 1, 20)
        pools = rng.uniform(-1.0, 1.0, (counts.sum(), DIM))
        arms = here.choose_many(who, pools, counts)
        assert on_cpu(there.choose_many(who, pools, counts)).tolist() == arms.tolist()
        played, rewards = pools[np.cumsum(counts) - counts + arms], rng.standard_normal(20)
        assert len(here.learn_many(who, played, rewards)) == len(there.learn_many(who, played, rewards))
    for scope in range(SCOPES):
        same_state(here.policy_of(scope).state(), there.policy_of(scope).state())


@pytest.mark.parametrize("kind", KINDS)
def test_policies_go_in_and_come_out(gpu, kind):
    rng = np.random.default_rng(2)
    policy = KINDS[kind]()
    for _ in range(60):
        policy.learn(rng.uniform(-1.0, 1.0, DIM), 0.3)
    store = gpu(policy, 3)
    same_state(store.policy_of(2).state(), policy.state())
    for _ in range(240):
        policy.learn(rng.uniform(-1.0, 1.0, DIM), 0.3)
    store.put(1, policy)
    same_state(store.policy_of(1).state(), policy.state())
    assert store.rounds.tolist() == [60, 300, 60]
    assert store.nbytes > 0


@pytest.mark.parametrize("kind", ["LinUCB", "DLinUCB"])
@pytest.mark.filterwarnings("ignore:a member was retired")
def test_single_precision_loses_few_digits(gpu, kind):
    rng = np.random.default_rng(3)
    here, there = ManyScopes(KINDS[kind](), SCOPES), gpu(KINDS[kind](), SCOPES, dtype="float32")
    everyone, taste = np.arange(SCOPES), np.array([0.5, -0.5, 0.5, 0.5])
    for _ in range(100):
        played = rng.uniform(-1.0, 1.0, (SCOPES, DIM))
        rewards = played @ taste + 0.05 * rng.standard_normal(SCOPES)
        here.learn_many(everyone, played, rewards)
        there.learn_many(everyone, played, rewards)
    assert there.refresh() == 0
    for scope in range(SCOPES):
        ours, theirs = here.policy_of(scope).feature_weights, there.policy_of(scope).feature_weights
        np.testing.assert_allclose(theirs, ours, atol=1e-4)
        assert (ours != theirs).any()


def test_single_precision_is_refused_where_it_would_not_do(gpu):
    with pytest.raises(ValueError, match="dtype: expected 'float64' for DriftUCB"):
        gpu(DriftUCB(DIM), 2, dtype="float32")
    with pytest.raises(ValueError, match="dtype: expected 'float64', or 'float32' with"):
        ManyScopes(LinUCB(DIM), 2, dtype="float32")


def test_young_models_of_many_features_are_understood(gpu):
    dim = 64
    rng = np.random.default_rng(4)
    policy = DriftUCB(dim)
    taste = rng.standard_normal(dim) / 8.0
    for _ in range(300):
        x = rng.standard_normal(dim) / 8.0
        policy.learn(x, float(x @ taste + 0.1 * rng.standard_normal()))
    here, there = ManyScopes(policy, 2), gpu(policy, 2)
    for _ in range(12):
        pools = rng.standard_normal((2, 3, dim)) / 8.0
        arms = here.choose_many(None, pools)
        assert on_cpu(there.choose_many(None, pools)).tolist() == arms.tolist()
        played = pools[[0, 1], arms]
        rewards = played @ taste + 0.1 * rng.standard_normal(2)
        here.learn_many(None, played, rewards)
        there.learn_many(None, played, rewards)
    for scope in range(2):
        ours = here.policy_of(scope)
        assert (drift.rungs_of(ours._bank, 4)[:, young.SCALE] > 0.0).any()
        same_state(ours.state(), there.policy_of(scope).state())


def test_bad_calls_say_what_is_wrong_and_change_nothing(gpu):
    store = gpu(DriftUCB(DIM), 2)
    good = np.ones((1, DIM))
    for call, message in (
        (lambda: store.choose_many([2], good[np.newaxis]), "scopes"),
        (lambda: store.choose_many([0.5], good[np.newaxis]), "scopes"),
        (lambda: store.choose_many([0], good), "features"),
        (lambda: store.choose_many([0], good, [2]), "features"),
        (lambda: store.choose_many([0], good, [0]), "counts"),
        (lambda: store.choose_many([0], good * np.nan, [1]), "decision 0, of scope 0"),
        (lambda: store.choose_many([0], good, [1], pending=5), "pending"),
        (lambda: store.learn_many([0], good, [np.nan]), "rewards"),
        (lambda: store.learn_many([0], good * np.inf, [0.0]), "reward 0, of scope 0: expected finite"),
        (lambda: store.learn_many([0], good[:, 1:], [0.0]), "features, rewards"),
        (store.state, "state: expected device='cpu'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert store.rounds.tolist() == [0, 0]


def test_what_a_scope_cannot_use_is_named_and_the_rest_learned(gpu):
    rng = np.random.default_rng(0)
    policy = DriftUCB(DIM)
    for _ in range(300):
        policy.learn(rng.uniform(-1.0, 1.0, DIM), float(rng.standard_normal()))
    store = gpu(policy, 2)
    with pytest.raises(NotLearned, match=r"reward 1, of scope 1: .* 1 of 2") as caught:
        store.learn_many([0, 1], [[1.0] * DIM, [1e12] * DIM], [1.0, 1.0])
    assert caught.value.left == [1]
    assert store.rounds.tolist() == [301, 300]


def test_without_a_gpu_it_says_what_is_missing():
    if gpu_here():
        pytest.skip("there is a GPU")
    with pytest.raises((ImportError, RuntimeError), match="device='cuda'"):
        ManyScopes(LinUCB(2), 3, device="cuda")
    with pytest.raises(ValueError, match="device: expected 'cpu' or 'cuda'"):
        ManyScopes(LinUCB(2), 3, device="tpu")
