"""The benchmark: the right table of the right players on the same stream. No time is ever checked."""

import math
from importlib.util import find_spec

import numpy as np
import pytest

from driftbandit import LinUCB
from driftbandit.benchmarks import peers, speed
from driftbandit.benchmarks.numpy_linucb import BareNumpyLinUCB, NumpyLinUCB

OURS = ["NumPy LinUCB", "NumPy LinUCB, no checks", "LinUCB", "DLinUCB, 3 members", "DriftUCB"]
SIZES = [(3, 4), (2, 5)]


@pytest.fixture
def short(monkeypatch):
    """Streams of 60 rounds."""
    monkeypatch.setattr(speed, "ROUNDS", 60)


class Peer:
    """A stand-in for another package that counts what it is asked."""

    rounds = 0

    def __init__(self, dim, arms):
        self.shape = (arms, dim)

    def choose(self, features):
        assert features.shape == self.shape
        return len(features) - 1

    def learn(self, features, index, reward):
        assert features.shape == self.shape
        assert index == self.shape[0] - 1
        assert isinstance(reward, float)
        Peer.rounds += 1


def choices_of(player, pools, rewards):
    """Play a stream and return the arms."""
    chosen = []
    for pool, paid in zip(pools, rewards, strict=True):
        index = player.choose(pool)
        player.learn(pool[index], paid[index])
        chosen.append(index)
    return chosen


@pytest.mark.parametrize(("dim", "arms"), [(3, 4), (6, 10), (25, 25), (20, 60)])
def test_numpy_chooses_the_same_arms_as_linucb(short, dim, arms):
    stream = speed.Stream.make(dim, arms, seed=1)
    ours = choices_of(LinUCB(dim), stream.pools, stream.rewards)
    assert choices_of(NumpyLinUCB(dim), stream.pools, stream.rewards) == ours
    assert len(set(ours)) > 1


@pytest.mark.parametrize(("dim", "arms"), [(3, 4), (6, 10), (25, 25)])
def test_bare_numpy_does_too_where_nothing_ties(short, dim, arms):
    stream = speed.Stream.make(dim, arms, seed=1)
    # Unit-length arms all tie at first, and the bare version leaves ties to rounding; other lengths do not tie.
    rng = np.random.default_rng(0)
    pools = [pool * rng.uniform(0.5, 2.0, size=(arms, 1)) for pool in stream.pools]
    ours = choices_of(LinUCB(dim), pools, stream.rewards)
    assert choices_of(BareNumpyLinUCB(dim), pools, stream.rewards) == ours
    assert choices_of(NumpyLinUCB(dim), pools, stream.rewards) == ours


def test_numpy_breaks_ties_to_the_lowest_index():
    assert NumpyLinUCB(2).choose(np.eye(2)) == 0


@pytest.mark.parametrize("bad", [np.full((2, 3), np.nan), np.ones((2, 2)), np.ones(3), np.empty((0, 3))])
def test_numpy_refuses_what_we_refuse(bad):
    with pytest.raises(ValueError, match="features: expected"):
        NumpyLinUCB(3).choose(bad)


@pytest.mark.parametrize(("x", "reward"), [([1.0, np.inf, 0.0], 1.0), ([1.0, 0.0, 0.0], np.nan), ([1.0], 1.0)])
def test_numpy_refuses_to_learn_what_we_refuse(x, reward):
    policy = NumpyLinUCB(3)
    with pytest.raises(ValueError, match=r"features.*expected"):
        policy.learn(np.array(x), reward)
    np.testing.assert_array_equal(policy.total, 0.0)


def test_the_stream_is_a_stationary_linear_world(short):
    stream = speed.Stream.make(4, 50, seed=0)
    assert len(stream.pools) == len(stream.rewards) == 60
    x, y = np.concatenate(stream.pools), np.concatenate(stream.rewards)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, atol=1e-12)
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    # 3,000 rewards with noise 0.1 and unit arms in 4 dimensions: theta is known to 0.1 * sqrt(4 / 3000) = 0.004.
    assert np.linalg.norm(theta) == pytest.approx(1.0, abs=0.02)
    assert (y - x @ theta).std() == pytest.approx(0.1, rel=0.07), "5 standard errors, 1 / sqrt(6000) each"


def test_streams_repeat_with_the_seed(short):
    one, again, other = (speed.Stream.make(3, 4, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.pools, again.pools)
    assert one.rewards == again.rewards
    assert one.rewards != other.rewards


def test_three_members_are_three():
    assert len(speed._three_members(5).members) == 3


def test_measurements_by_name_and_size(short):
    times = speed.measure(SIZES, peers=False, rounds=30)
    assert list(times) == OURS
    for row in times.values():
        assert list(row) == SIZES
        assert all(math.isfinite(value) for value in row.values())


def test_the_table_has_a_row_a_player_and_a_column_a_size():
    times = {
        "NumPy LinUCB": {(3, 4): 20.0, (2, 5): 1000.0},
        "LinUCB": {(3, 4): 2.5, (2, 5): 4000.0},
    }
    table = speed.speed_table(times)
    assert table.headings == ("policy", "d=3, K=4", "d=2, K=5")
    assert table.cells == (
        ("NumPy LinUCB", "20.0  (1×)", "1,000.0  (1×)"),
        ("LinUCB", "2.5  (8×)", "4,000.0  (0.25×)"),
    )


def test_the_table_of_a_real_run(short):
    table = speed.speed_table(speed.measure([(3, 4)], peers=False, rounds=30))
    assert [row[0] for row in table.cells] == OURS
    assert all(row[1].endswith("×)") for row in table.cells)


def test_import_ratio_is_taken_in_fresh_interpreters():
    assert math.isfinite(speed.import_ratio(repeats=1))


def test_peers_are_timed_beside_ours(short, monkeypatch):
    monkeypatch.setattr(speed, "installed", lambda: {"with": (Peer, True), "without": (Peer, False)})
    Peer.rounds = 0
    times = speed.measure([(3, 4)], peers=True, rounds=15)
    assert list(times) == [*OURS, "with", "without (no arm features)"]
    assert Peer.rounds == 30, "every round of both"
    assert list(speed.measure([(3, 4)], peers=False, rounds=15)) == OURS


def test_slow_peers_stop_early_but_not_at_once(short, monkeypatch):
    monkeypatch.setattr(speed, "installed", lambda: {"slow": (Peer, True)})
    monkeypatch.setattr(speed, "_PEER_SECONDS", 0.0)
    Peer.rounds = 0
    speed.measure([(3, 4)], peers=True, rounds=50)
    assert Peer.rounds == speed._PEER_LEAST


def test_only_installed_peers_are_played(monkeypatch):
    monkeypatch.setattr(peers, "PEERS", {"here": ("json", Peer, True), "absent": ("no_such_package", Peer, False)})
    assert peers.installed() == {"here": (Peer, True)}


@pytest.mark.parametrize("name", list(peers.PEERS))
def test_a_real_peer_plays(short, name):
    module, build, _ = peers.PEERS[name]
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed; it comes with the extra 'bench'")
    stream = speed.Stream.make(3, 4, seed=0)
    player = build(3, 4)
    chosen = []
    for pool, paid in zip(stream.pools, stream.rewards, strict=True):
        index = player.choose(pool)
        player.learn(pool, index, paid[index])
        chosen.append(index)
    assert set(chosen) <= set(range(4))
