"""Replay split by scopes: what `replay` finds, bit for bit, in any number of parts."""

import pickle

import numpy as np
import pytest

from driftbandit import DLinUCB, LinTS, LinUCB, PerScope
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.evaluation.replay import replay
from driftbandit.evaluation.scope_replay import replay_by_scope


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days")
    write_synthetic(folder, 6000, seed=2, candidates=4, clicks=(0.05, 0.9), changes=4, reverse=True)
    return read_yahoo(folder)[0]


@pytest.fixture(scope="module")
def scopes(log):
    return np.random.default_rng(0).zipf(1.5, size=len(log)) % 7


def lints_of(scope):
    return LinTS(6, seed=int(scope) + 1)


POLICIES = {
    "linucb": PerScope(LinUCB(6)),
    "changes": PerScope(DLinUCB(6, noise=0.2, window=20)),
    "random": PerScope(lints_of),
}


def assert_same(one, other):
    np.testing.assert_array_equal(one.matched, other.matched, strict=True)
    np.testing.assert_array_equal(one.rewards, other.rewards, strict=True)
    np.testing.assert_array_equal(one.logged, other.logged, strict=True)
    assert one.changes == other.changes


@pytest.mark.filterwarnings("ignore::driftbandit.ClickWarning")
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("processes", [1, 3])
def test_the_same_as_in_one_go(log, scopes, name, processes):
    policy = POLICIES[name]
    found = replay_by_scope(policy, log, scopes, seed=5, processes=processes)
    assert policy.scopes == (), "copies learned"
    expected = replay(PerScope(policy.build), log, scopes=scopes, seed=5)
    assert len(expected.matched) > 500
    assert bool(expected.changes) == (name == "changes")
    assert_same(found, expected)


def test_a_scope_with_one_event_and_an_empty_log(log):
    scopes = (np.arange(len(log)) == 17).astype(int)
    assert_same(
        replay_by_scope(PerScope(LinUCB(6)), log, scopes, processes=2),
        replay(PerScope(LinUCB(6)), log, scopes=scopes),
    )
    nothing = log.slice(0, 0)
    assert_same(
        replay_by_scope(PerScope(LinUCB(6)), nothing, [], processes=2),
        replay(PerScope(LinUCB(6)), nothing, scopes=[]),
    )


def test_policies_whose_scopes_depend_on_each_other_are_refused(log, scopes):
    for policy in (PerScope(LinUCB(6), pool=True), LinUCB(6)):
        with pytest.raises(ValueError, match=r"^policy: expected one whose scopes share nothing .*; use replay"):
            replay_by_scope(policy, log, scopes, processes=1)
    with pytest.raises(ValueError, match=r"^scopes: expected at most 3, .* got 7"):
        replay_by_scope(PerScope(LinUCB(6), max_scopes=3), log, scopes, processes=1)
    with pytest.raises(ValueError, match=r"^scopes: expected shape \(6000,\), got \(2,\)"):
        replay_by_scope(PerScope(LinUCB(6)), log, [1, 2], processes=1)


def test_logs_that_travelled_are_read_only_and_some_events_can_be_taken(log):
    other = pickle.loads(pickle.dumps(log.take(np.array([5, 2]))))
    assert other.times.tolist() == log.times[[5, 2]].tolist()
    assert other.uniform
    for name in Log._TYPES:
        assert not getattr(other, name).flags.writeable, name
