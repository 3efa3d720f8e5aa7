"""Small questions to dLinUCB with answers by hand: defaults, limits, what a review does, what many rewards do."""

import math

import numpy as np
import pytest

from driftbandit import DLinUCB
from driftbandit.core import LARGEST
from driftbandit.kernels import windows
from driftbandit.models import TunedRidge
from driftbandit.policies.choosing_memory.dlinucb import ENTRIES

ONE = np.array([1.0])


def bytes_of(policy):
    return {name: array.tobytes() for name, array in policy.state().items()}


def test_defaults_are_those_of_the_documentation():
    policy = DLinUCB(2, 0.1)
    assert (policy.ridge, policy.explore, policy.delta, policy.spawn_delta) == (0.1, None, 0.01, 0.002)
    assert (policy.window_delta, policy.window, policy.max_members) == (0.1, 200, 50)
    assert (policy.radius, policy.counting) == ("paper", "paper")
    pools = np.random.default_rng(0).standard_normal((30, 5, 2))
    default, same, other = (
        [policy.choose(pool) for pool in pools]
        for policy in (
            DLinUCB(2, 0.1, model="thompson", explore=1.0, **seed) for seed in ({}, {"seed": 0}, {"seed": 1})
        )
    )
    assert default == same != other


@pytest.mark.parametrize(
    "settings",
    [
        {"ridge": 0.0},
        {"ridge": -0.5},
        {"explore": -0.5},
        {"spawn_delta": -0.001},
        {"spawn_delta": 0.011},
        {"noise": -0.01},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": 1.5},
        {"window_delta": 1.0},
        {"window_delta": 1.5},
        {"radius": "printed"},
        {"counting": "printed"},
    ],
    ids=str,
)
def test_settings_outside_their_limits_are_refused(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        DLinUCB(2, **({"noise": 0.1} | settings))


def test_a_noise_may_be_unknown_instead():
    with pytest.raises(ValueError, match=r"^noise: expected .* \(or 'auto'\)"):
        DLinUCB(2, -0.5)

    def build(dim, *, ridge, explore, delta):
        return TunedRidge(dim, ridge=ridge, explore=explore, delta=delta)

    policy = DLinUCB(1, "auto", model=build)
    policy.learn(ONE, 1.0)
    assert policy.judges_clicks, "0 or 1, so far"


def test_what_the_arena_tries():
    (variants,) = ENTRIES[0].variants
    explored = [f"{preset} {explore}" for preset in ("table1", "released") for explore in (0.1, 0.3, 0.6)]
    assert list(variants.builders(ENTRIES[0])) == explored
    tried = variants.settings(None, preset="released", explore=0.3)
    assert tried == {"explore": 0.3, "counting": "released", "radius": "released"}


def test_settings_on_their_limits_are_taken():
    policy = DLinUCB(1, 0.0, explore=0.0, delta=0.5, spawn_delta=0.0, window=1, max_members=1)
    assert (policy.explore, policy.spawn_delta) == (0.0, 0.0)
    assert DLinUCB(1, 0.1, spawn_delta=0.01).spawn_delta == 0.01


@pytest.mark.parametrize("noise", [0.1, "auto"])
@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, 10 * LARGEST, -10 * LARGEST, "x", None])
def test_what_is_no_reward_is_refused_and_changes_nothing(noise, reward):
    policy = DLinUCB(1, noise)
    policy.learn(ONE, 0.5)
    before = bytes_of(policy)
    with pytest.raises(ValueError, match="reward: expected"):
        policy.learn(ONE, reward)
    assert bytes_of(policy) == before
    assert policy.rounds == 1


@pytest.mark.parametrize("reward", [1, True, np.float32(1.0), np.int64(1)])
def test_any_number_is_a_reward(reward):
    one, other = DLinUCB(1, 0.5), DLinUCB(1, 0.5)
    one.learn(ONE, reward)
    other.learn(ONE, 1.0)
    assert bytes_of(one) == bytes_of(other)


def test_features_that_are_no_numbers_change_nothing():
    policy = DLinUCB(1, 0.1)
    before = bytes_of(policy)
    for x in (np.array([np.nan]), np.array([1e9])):
        with pytest.raises(ValueError, match=r"^features: "):
            policy.learn(x, 0.5)
    assert bytes_of(policy) == before


def epsilon_and_rules(**settings):
    rules = DLinUCB(3, 0.2, delta=0.05, spawn_delta=0.03, window_delta=0.2, window=50, **settings)._rules
    return rules.tolist()


def test_rules_by_hand():
    """The quantile of a two-sided 5 % is 1.959964; ln(1 / .2) / 2; sqrt(ln 50)."""
    half, optimism = math.log(5.0) / 2.0, math.sqrt(math.log(50.0))
    paper = [1.959964 * 0.2, 0.05, 0.03, half, 0.0, 0.0, optimism, 0.0]
    assert epsilon_and_rules() == pytest.approx(paper, abs=1e-6)
    released = [1.959964 * 0.04, 0.05, 0.03, half, 1.0, 0.5, optimism, 1.0]
    assert epsilon_and_rules(counting="released", radius="released") == pytest.approx(released, abs=1e-6)
    assert epsilon_and_rules(counting="released")[0] == pytest.approx(paper[0], abs=1e-6)


def standing(*misses, ages=None, **settings):
    """A policy with a member for each number of misses, in a window of twenty rounds."""
    policy = DLinUCB(1, 0.1, window=20, delta=0.2, spawn_delta=0.05, window_delta=0.9, **settings)
    while policy._count < len(misses):
        policy._add_member()
    for m, missed in enumerate(misses):
        policy._ledger[m, windows.AGE] = 20 if ages is None else ages[m]
        policy._ledger[m, windows.MISSES] = missed
        policy._ledger[m, windows.RING : windows.RING + missed] = 1
        policy._ledger[m, windows.UPDATES] = 20 - missed
        policy._bank[m, 1] = 10.0 + m  # theta, by which a member is known
    policy.rounds = 77
    return policy


WIDTH = math.sqrt(math.log(1 / 0.9) / 2 / 20)  # 0.0513: not fine above 2.03 misses of 20, lost above 5.03


@pytest.mark.parametrize(
    ("misses", "kept", "changes"),
    [
        ((2, 6), [10.0], [("retired", 1, 6)]),
        ((6, 2, 7, 3), [11.0, 13.0], [("retired", 0, 6), ("retired", 2, 7)]),
        ((3, 4), [10.0, 11.0, 0.0], [("spawned", 2, 3)]),
        ((9, 3, 6), [11.0, 0.0], [("spawned", 3, 3), ("retired", 0, 9), ("retired", 2, 6)]),
        ((8,), [0.0], [("spawned", 1, 8), ("retired", 0, 8)]),
        ((8, 7), [0.0], [("spawned", 2, 7), ("retired", 0, 8), ("retired", 1, 7)]),
    ],
)
def test_a_review_by_hand(misses, kept, changes):
    policy = standing(*misses)
    found = policy._review()
    assert [(c.kind, c.member, c.evidence["miss_rate"] * 20) for c in found] == [
        (kind, member, pytest.approx(missed)) for kind, member, missed in changes
    ]
    assert policy.changes == found
    for change in found:
        delta = 0.2 if change.kind == "retired" else 0.05
        assert change.evidence["bound"] == pytest.approx(delta + WIDTH)
        assert (change.round, change.evidence["age"]) == (77, 20.0)
        assert change.evidence["updates"] == 20 - round(20 * change.evidence["miss_rate"])
    assert policy._bank[: policy._count, 1].tolist() == kept
    members = policy.members
    if found[0].kind == "spawned":
        assert (members[-1].id, members[-1].spawned_at, members[-1].age, members[-1].updates) == (len(misses), 77, 0, 0)
        assert policy._spawned == len(misses) + 1
    rates = [member.miss_rate - math.sqrt(math.log(20)) * member.width for member in members]
    assert policy.leader == members[int(np.argmin(rates))].id


def test_who_makes_room_crossed_the_bound_of_doubt():
    policy = standing(3, 5, 4, max_members=3)
    spawned, retired = policy._review()
    assert (spawned.kind, spawned.member, retired.kind, retired.member) == ("spawned", 3, "retired", 1)
    assert retired.evidence["bound"] == pytest.approx(0.05 + WIDTH)
    assert policy._bank[:3, 1].tolist() == [10.0, 12.0, 0.0]
    free = standing(3, 5, 4, max_members=4)
    assert [change.kind for change in free._review()] == ["spawned"]
    for most in (3, 4):
        lost = standing(3, 9, 4, max_members=most)  # who is lost makes room enough
        assert [(change.kind, change.member) for change in lost._review()] == [("spawned", 3), ("retired", 1)]


def test_a_member_retired_without_a_reward_is_worth_a_warning():
    policy = standing(20)
    with pytest.warns(RuntimeWarning, match="without having accepted a single reward"):
        policy._review()
    policy._ledger[0, [windows.AGE, windows.MISSES]] = 20
    policy._ledger[0, windows.RING :] = 1
    policy._review()  # once is enough


def test_memory_doubles_when_it_is_full():
    policy = DLinUCB(1, 0.1)
    sizes = []
    for number in range(5):
        policy._bank[number] = 3.0 + number
        sizes.append(len(policy._bank))
        policy._add_member()
    assert sizes == [1, 2, 4, 4, 8]
    assert [len(policy._ledger), policy._count, policy._spawned] == [8, 6, 6]
    assert policy._bank[:5, 1].tolist() == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert [member.id for member in policy.members] == [0, 1, 2, 3, 4, 5]


def test_what_can_be_read():
    policy = standing(1, 3)
    policy._leader = 1
    assert policy.leader == 1
    assert policy.miss_test == pytest.approx((3 / 20, 0.05 + WIDTH, 0.2 + WIDTH))
    assert policy.facts() == {"noise": None, "judges_clicks": False}
    assert not DLinUCB(1, "auto").judges_clicks
    with pytest.raises(AttributeError):
        policy.members[0].age = 3
    assert not hasattr(policy.members[0], "__dict__")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("_leader", 2, "contradict each other"),
        ("_count", 3, "contradict each other"),
        ("_count", 1, None),
        ("_count", 2, None),
    ],
)
def test_states_that_contradict_themselves_are_refused(part, value, message):
    policy = standing(1, 3)
    setattr(policy, part, value)
    if message is None:
        policy._after_restore()
    else:
        with pytest.raises(ValueError, match=message):
            policy._after_restore()


def test_states_beyond_the_limits_are_refused():
    policy = standing(1, 3)
    policy.max_members = 2
    policy._after_restore()
    policy.max_members = 1
    with pytest.raises(ValueError, match="2 members are more than max_members, 1"):
        policy._after_restore()
    policy = standing(1, 3)
    policy._ledger[1, windows.AGE] = -1
    with pytest.raises(ValueError, match="ages must not be negative"):
        policy._after_restore()
    policy._ledger[1, windows.AGE] = 0
    policy._after_restore()


def pair(**settings):
    return (DLinUCB(1, 0.1, window=20, **settings) for _ in range(2))


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_many_rewards_are_learned_as_one_by_one(batch):
    """The sign flips at 30; every call ends with the reward that reveals a change, and says what was known before."""
    rewards = np.repeat([0.9, -0.9, 0.9], 30)
    xs = np.linspace(0.8, 1.0, 90)[:, np.newaxis]
    one, many = pair()
    changes, weights, at = [], [], 0
    for x, reward in zip(xs, rewards, strict=True):
        known = float(one.feature_weights[0])
        found = one.learn(x, reward)
        weights += [known] * bool(found)
        changes += found
    found, before = [], []
    while at < 90:
        learned, revealed, known = many.learn_many(xs[at : at + batch], rewards[at : at + batch])
        assert 1 <= learned <= batch
        at += learned
        found += revealed
        before += [known.tolist()] if revealed else []
    assert found == changes
    assert len(changes) >= 2
    assert before == [[pytest.approx(known)] for known in weights]
    assert one.rounds == many.rounds == 90
    assert bytes_of(one) == bytes_of(many)


def test_of_many_rewards_the_first_that_cannot_be_used_is_named():
    policy, other = pair()
    xs, rewards = np.array([[1.0], [0.5], [1e9], [1.0]]), np.array([0.5, 0.25, 0.5, 0.5])
    assert policy.learn_many(xs, rewards)[:2] == (2, ())
    for x, reward in zip(xs[:2], rewards[:2], strict=True):
        other.learn(x, reward)
    assert bytes_of(policy) == bytes_of(other)
    with pytest.raises(ValueError, match=r"^features: an absolute value of 1e\+09 is too large"):
        policy.learn_many(xs[2:], rewards[2:])
    assert policy.rounds == 2


@pytest.mark.parametrize("rewards", [[0.5], [0.5, np.nan], [0.5, 10 * LARGEST], [-10 * LARGEST, 0.5], [0.5, 0.5, 0.5]])
def test_rewards_that_do_not_fit_are_refused_together(rewards):
    policy, _ = pair()
    with pytest.raises(ValueError, match="rewards: expected 2 finite numbers"):
        policy.learn_many(np.ones((2, 1)), np.array(rewards))
    assert policy.rounds == 0


def test_who_cannot_learn_many_says_so():
    with pytest.raises(ValueError, match="learn_many: only for ridge members and a noise that is given"):
        DLinUCB(1, "auto").learn_many(np.ones((1, 1)), np.ones(1))


@pytest.mark.filterwarnings("error")
def test_many_clicks_are_warned_of_like_single_ones():
    rng = np.random.default_rng(0)
    clicks = (rng.random(400) < 0.3).astype(float)
    xs = rng.random((400, 1))
    one, many = (DLinUCB(1, 0.01) for _ in range(2))

    def single():
        for x, click in zip(xs, clicks, strict=True):
            one.learn(x, click)

    def together():
        at = 0
        while at < 400:
            at += many.learn_many(xs[at:], clicks[at:])[0]

    for learn in (single, together):
        with pytest.raises(Warning, match=r"0 and|click"):
            learn()
