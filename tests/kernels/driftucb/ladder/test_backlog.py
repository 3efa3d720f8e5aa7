"""Rewards that wait: young models learn them late, and no alarm comes late for it."""

import math

import numpy as np
import pytest
from tiled import weights_of, whole

from driftbandit import DriftUCB
from driftbandit.batch import ManyScopes
from driftbandit.kernels.driftucb import drift, scales
from driftbandit.kernels.driftucb.ladder import backlog, births, evidence, young
from driftbandit.kernels.driftucb.rows import COUNT, OTHERS, row_size

ONE = whole(np.ones(1))


class Eager(DriftUCB):
    """Lets young models learn every reward at once."""

    def learn(self, features, reward, arm=None):
        rows = self._bank.ravel()
        at = drift.backlog_at(self._bank, len(self.memory))
        assert rows[at + backlog.WAITING] == 0.0
        rows[at + backlog.LOG_ALLOWANCE] = -1.0  # any reward exceeds it
        found = super().learn(features, reward, arm)
        if not found:
            drift.settle(self._rules, self._memo, self._bank)
        return found


def waiting(policy):
    return int(policy._bank.ravel()[drift.backlog_at(policy._bank, len(policy.memory)) + backlog.WAITING])


def worlds(kind, dim, rounds, period, noise, seed):
    """Arms and rewards of a world whose taste changes."""
    rng = np.random.default_rng([seed, dim])
    for t in range(rounds):
        if t % period == 0:
            taste = rng.standard_normal(dim) / dim**0.5
        x = rng.standard_normal(dim)
        mean, error, luck = x @ taste, rng.standard_normal(), rng.random()
        if kind == "clicks":
            yield x, float(luck < np.clip(0.15 + 0.15 * mean, 0.01, 1.0))
        elif kind == "wild":
            yield x, float(mean + noise * error * (30.0 if luck < 0.02 else 1.0))
        else:
            yield x, float(mean + noise * error)


WORLDS = [
    ("numbers", 4, 900, 150, 0.1),
    ("numbers", 4, 900, 150, 0.01),
    ("numbers", 3, 600, 200, 0.0),
    ("numbers", 6, 1200, 300, 0.5),
    ("numbers", 30, 900, 300, 0.1),
    ("wild", 5, 1200, 300, 0.1),
    ("clicks", 3, 6000, 1500, 0.0),
]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("settings", [{}, {"delta": 0.9, "memory": ()}])
def test_alarms_are_those_of_models_that_learn_at_once(world, settings):
    late, eager = DriftUCB(world[1], **settings), Eager(world[1], **settings)
    waited = 0
    for x, reward in worlds(*world, seed=1):
        assert late.learn(x, reward) == eager.learn(x, reward) or late.changes[-1].round == eager.changes[-1].round
        waited = max(waited, waiting(late))
    assert waited >= 6, "else nothing was late"
    assert [c.round for c in late.changes] == [c.round for c in eager.changes]
    assert len(late.changes) >= 1
    for mine, theirs in zip(late.changes, eager.changes, strict=True):
        assert mine.evidence == pytest.approx(theirs.evidence, rel=1e-6)
    drift.settle(late._rules, late._memo, late._bank)
    np.testing.assert_allclose(late._memo, eager._memo, rtol=1e-6, atol=1e-9)
    live = drift.rungs_of(late._bank, len(late.memory))[:, COUNT]
    np.testing.assert_array_equal(live, drift.rungs_of(eager._bank, len(eager.memory))[:, COUNT])


def test_in_quiet_times_eight_rewards_wait():
    policy, counts = DriftUCB(5), []
    for x, reward in worlds("numbers", 5, 800, 10_000, 0.2, seed=3):
        policy.learn(x, reward)
        counts.append(waiting(policy))
    assert np.mean(np.array(counts[300:]) == np.resize(np.roll(np.arange(8), -301 % 8), 500)) > 0.9


def test_what_was_learned_is_wiped_out():
    policy = DriftUCB(5)
    at = drift.backlog_at(policy._bank, len(policy.memory))
    for x, reward in worlds("numbers", 5, 400, 10_000, 0.2, seed=3):
        policy.learn(x, reward)
        records = policy._bank.ravel()[at + backlog.HEAD :]
        assert not records[waiting(policy) * (8 + backlog.RECORD) :].any()
        assert np.count_nonzero(records) >= waiting(policy) * 8


def test_a_policy_restored_while_rewards_wait_goes_on_bit_for_bit():
    rounds = list(worlds("numbers", 4, 700, 250, 0.1, seed=5))
    policy = DriftUCB(4)
    for t, (x, reward) in enumerate(rounds):
        if t == 510:
            assert waiting(policy) > 0
            other = DriftUCB(4).restore(policy.state())
        policy.learn(x, reward)
        if t >= 510:
            other.learn(x, reward)
    mine, theirs = policy.state(), other.state()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    assert policy.changes


def broken(stored, name, value):
    """A stored bank for four features and four experts, with one number that leads outside of it."""
    flat, rung = stored.ravel(), 7 * stored.shape[1]
    behind = rung + 1 + 4 + 10 - OTHERS  # count, theta, triangle
    places = {
        "waiting": drift.models_of(4) * stored.shape[1] + backlog.WAITING,
        "late": behind + evidence.LATE,
        "scale": behind + young.SCALE,
    }
    flat[rung] = 3.0
    flat[places[name]] = value
    return flat.reshape(stored.shape)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("waiting", 9.0),
        ("waiting", -1.0),
        ("waiting", 2.5),
        ("late", 9.0),
        ("late", -1.0),
        ("scale", -1.0),
        ("scale", 1.0),
    ],
)
def test_a_state_that_leads_outside_of_its_arrays_is_refused(name, value):
    """A scale above 0 says that three rewards are kept as vectors; with four features there is room for two."""
    policy = DriftUCB(4)
    for x, reward in worlds("numbers", 4, 60, 100, 0.1, seed=1):
        policy.learn(x, reward)
    state, before = policy.state(), policy.state()
    state["bank"] = broken(state["bank"].copy(), name, value)
    with pytest.raises(ValueError, match="counts of rewards that fit"):
        policy.restore(state)
    assert all(np.array_equal(before[part], now) for part, now in policy.state().items())
    many = ManyScopes(policy, 3)
    arrays = many.state()
    arrays["banks"] = arrays["banks"].copy()
    arrays["banks"][1] = broken(arrays["banks"][1], name, value)
    with pytest.raises(ValueError, match="counts of rewards that fit"):
        many.restore(arrays)


def rung_with(theirs, own, log_width, nu, count):
    """A ladder of one, whose sums are these."""
    rungs = np.zeros((1, row_size(1)))
    births.give_birth(rungs[0], np.zeros(1), np.ones(1), 1.0, 1e12, nu, 1.0)
    young.unfold(rungs[0], np.ones(1))
    rungs[0, COUNT] = count
    rungs[0, evidence.THEIRS], rungs[0, evidence.OWN] = theirs, own
    rungs[0, evidence.LOG_WIDTH] = log_width
    return rungs


@pytest.mark.parametrize(("theirs", "own", "log_width"), [(20.0, 20.0, 5.0), (5.0, 9.0, -3.0), (0.0, 0.0, 0.0)])
@pytest.mark.parametrize("limit", [3.5, 12.0])
def test_the_slack_is_what_the_incumbents_errors_may_grow_by(theirs, own, log_width, limit):
    """Eight rewards that the rung explains, at no width of its own, and the incumbent does not: its evidence is the
    limit.
    """
    count, nu, reserve = 16.0, 4.0, 0.5
    rungs = rung_with(theirs, own, log_width, nu, count)
    slack = evidence.slack(rungs[0], 0, reserve, limit)
    ratio = (nu + theirs + slack) / (nu + own)
    assert 0.5 * ((nu + count + 8) * math.log(ratio) - log_width + reserve) == pytest.approx(limit)


@pytest.mark.parametrize(("log_width", "left"), [(-30.0, False), (-24.0, False), (-23.0, True)])
def test_there_is_no_slack_if_the_widths_alone_make_a_case(log_width, left):
    """24 minus a reserve of 0.5 is what widths may amount to, whatever the errors."""
    rungs = rung_with(0.0, 100.0, log_width, 4.0, 16.0)
    slack = evidence.slack(rungs[0], 0, 0.5, 12.0)
    assert slack > 0.0 if left else slack == -1.0


def test_allowances_by_hand():
    rows, x = np.zeros(backlog.backlog_size(2) + 3), whole(np.array([1.0, 2.0]))
    at = 3
    backlog.empty(rows, at, 0.75)
    backlog.allow(rows, at, 9.0)
    backlog.allow(rows, at, 12.0)
    assert not backlog.spend(rows, at, 8.5, 0.5)
    backlog.allow(rows, at, 5.0)  # a newborn, which knows nothing of the 8.5
    assert rows[at + backlog.ALLOWANCE] == 9.0
    backlog.allow(rows, at, 0.25)
    assert rows[at + backlog.ALLOWANCE] == 8.75
    assert not backlog.spend(rows, at, 0.25, 0.25)
    assert backlog.spend(rows, at, 0.01, 0.0)
    backlog.empty(rows, at, 0.75)
    assert not backlog.spend(rows, at, 1e200, 0.75)
    assert backlog.spend(rows, at, 0.0, 0.01)
    places = [backlog.add(rows, at, k * x) for k in (1.0, 2.0)]
    assert places == [backlog.record(at, p, 2) for p in (0, 1)]
    assert rows[at + backlog.WAITING] == 2.0
    arms = np.full(8 * 8, 7.0)
    backlog.side_by_side(rows, at, 2, arms)
    expected = np.zeros((8, 8))
    expected[:, 0], expected[:, 1] = x, 2.0 * x
    np.testing.assert_array_equal(arms.reshape(8, 8), expected)
    assert (rows[:3] == 0.0).all()


@pytest.mark.parametrize(
    ("rounds", "held", "due"), [(0, 1, False), (6, 7, False), (7, 1, True), (15, 3, True), (16, 8, True), (9, 8, True)]
)
def test_young_models_learn_at_every_eighth_reward_and_when_a_block_is_full(rounds, held, due):
    memo = np.zeros(scales.MEMO)
    memo[scales.ROUNDS] = rounds
    assert evidence.is_time(memo, float(held)) == due


def test_a_record_by_hand():
    rows, x = np.zeros(backlog.backlog_size(2)), whole(np.array([3.0, 4.0]))
    backlog.empty(rows, 0, 2.0)
    backlog.allow(rows, 0, 7.0)
    assert not evidence.show(rows, 0, x, 0.5, 9.0, 1.0, 4.0, -3.0, 5.0, 6.0), "capped at 6"
    expected = [3.0, 4.0, *[0.0] * 6, 0.5, 6.0, math.log(2.0), -3.0 + math.log(2.0), 4.0, 6.0, 5.0, 0.0]
    np.testing.assert_allclose(rows[backlog.HEAD : backlog.HEAD + 16], expected)
    np.testing.assert_allclose(rows[: backlog.HEAD], [1.0, 6.0, math.log(2.0), 7.0, 2.0, 0.0, 0.0, 0.0])
    assert evidence.show(rows, 0, x, 0.5, 1.5, 1.0, 4.0, -3.0, 5.0, 6.0), "7.5 is more than 7"
    assert evidence.show(rows, 0, x, 0.5, 0.0, 10.0, 4.0, -3.0, 5.0, 6.0), "of the logarithms, too"


def test_a_record_of_a_click_by_hand():
    rows, x, memo = np.zeros(backlog.backlog_size(2)), whole(np.array([3.0, 4.0])), np.zeros(scales.MEMO)
    memo[scales.HITS], memo[scales.ROUNDS], memo[scales.HIT_VALUE] = 9.0, 98.0, 2.0  # a rate of 0.1
    backlog.empty(rows, 0, 2.0)
    backlog.allow(rows, 0, 3.0)
    assert not evidence.show_click(rows, 0, memo, x, 2.0, 0.25, -2.5, -1.0)
    expected = [3.0, 4.0, *[0.0] * 6, 1.75, -2.5, 0.0, -1.0, 0.25, 0.02, 1.0, 0.0]
    np.testing.assert_allclose(rows[backlog.HEAD : backlog.HEAD + 16], expected)
    assert evidence.show_click(rows, 0, memo, x, 0.0, 0.25, -0.75, -1.0)
    assert rows[backlog.record(0, 1, 2) + backlog.HIT] == 0.0
    assert (rows[backlog.SPENT], rows[backlog.LOG_SPENT]) == (3.25, 0.0)


def settled(rungs, limit, numbers, memo=None):
    """Let rungs learn rewards of one arm with a feature of 1: (target, the incumbent's error) each."""
    rows = np.zeros(backlog.backlog_size(1))
    for target, theirs in numbers:
        evidence.show(rows, 0, ONE, target, theirs, 0.5, 1.0, 0.0, 4.0, 200.0)
    found = evidence.settle(np.zeros(scales.MEMO) if memo is None else memo, rungs, rows, 0, np.ones(1), limit)
    return found, rows


def test_the_allowance_is_that_of_the_strongest_case():
    """Three rungs that have learned different rewards; the slack of each is known."""
    log_width, reserve = math.log(1.5), 0.5 + 12.0 * math.log(1.5)
    slacks = []
    for theirs in (3.0, 40.0, 9.0):
        rungs = rung_with(theirs, 5.0, 20.0, 4.0, 16.0)
        (_, _), rows = settled(rungs, 12.0, [(0.0, 2.0), (0.0, 1.0)])
        slacks.append(rows[backlog.ALLOWANCE])
        assert rungs[0, evidence.THEIRS] == theirs + 3.0
        assert rungs[0, evidence.LOG_WIDTH] == pytest.approx(20.0 - 2.0 * log_width)
        assert slacks[-1] == pytest.approx(evidence.slack(rungs[0], 0, reserve, 12.0))
        assert rows[backlog.LOG_ALLOWANCE] == pytest.approx(reserve)
    assert slacks[1] < slacks[2] < slacks[0]
    ladder = np.concatenate([rung_with(theirs, 5.0, 20.0, 4.0, 16.0) for theirs in (3.0, 40.0, 9.0)])
    _, rows = settled(ladder, 12.0, [(0.0, 2.0), (0.0, 1.0)])
    assert rows[backlog.ALLOWANCE] == pytest.approx(slacks[1])
    assert (rows[backlog.WAITING], rows[backlog.SPENT], rows[backlog.LOG_SPENT]) == (0.0, 0.0, 0.0)


def test_a_newborn_learns_only_what_came_after_it():
    for count in (3, 8):
        late, alone = (rung_with(0.0, 0.0, 0.0, 4.0, 0.0) for _ in range(2))
        rewards = [(0.3 * k, 1.0 + k) for k in range(count)]
        late[0, evidence.LATE] = 2.0
        settled(late, 12.0, rewards)
        settled(alone, 12.0, rewards[2:])
        np.testing.assert_allclose(late, alone, rtol=1e-12)
        assert late[0, COUNT] == count - 2
        assert late[0, evidence.LATE] == 0.0


@pytest.mark.parametrize("later", [5.0, 6.0])
def test_logarithms_of_large_products_do_not_overflow(later):
    """Eight errors of 1e60 noises each, with and without a change of the degrees of freedom."""
    rows = np.zeros(backlog.backlog_size(1))
    rungs = rung_with(0.0, 0.0, 0.0, 4.0, 0.0)
    for k in range(8):
        evidence.show(rows, 0, ONE, 1e60, 1.0, 0.0, 1.0, 0.0, 5.0 if k < 4 else later, 200.0)
    evidence.settle(np.zeros(scales.MEMO), rungs, rows, 0, np.ones(1), 12.0)
    expected = -0.5 * sum((nu + 1.0) * math.log(1e120 / nu) for nu in (5.0, later) for _ in range(4))
    assert evidence.lead(rungs[0]) == pytest.approx(expected)
    assert rungs[0, evidence.OWN] == 8 * 200.0


@pytest.mark.parametrize("count", [1, 5, 8])
def test_sums_begin_with_the_first_reward_that_a_rung_learns(count):
    """The incumbent's errors are 1, 2, 4 and so on, so that every sum says of which rewards it is."""
    for late in range(count):
        rungs, rows = np.zeros((1, row_size(1))), np.zeros(backlog.backlog_size(1))
        births.give_birth(rungs[0], np.array([0.5]), np.ones(1), 1.0, 1.0, 4.0, 0.25)
        rungs[0, evidence.LATE] = late
        for k in range(count):
            evidence.show(rows, 0, ONE, 0.5, 2.0**k, 2.0**k, 1.0, 10.0**k, 5.0, 1e9)
        evidence.settle(np.zeros(scales.MEMO), rungs, rows, 0, np.ones(1), 12.0)
        learned = range(late, count)
        own = sum(math.log(1.0 + 1.0 / (1.0 + k - late)) for k in learned)
        assert rungs[0, COUNT] == count - late
        assert rungs[0, evidence.THEIRS] == sum(2.0**k for k in learned)
        theirs = sum(math.log(1.0 + 2.0**k) for k in learned)
        assert rungs[0, evidence.LOG_WIDTH] == pytest.approx(own - theirs)
        assert rungs[0, evidence.LEAD] == pytest.approx(-sum(10.0**k for k in learned) - 0.5 * own)
        assert rungs[0, evidence.LARGEST_GAIN] == 2.0 ** (count - 1)


def test_a_block_sums_up_what_its_rewards_would():
    """A rung of prior variance 1, whose widths are 2, 3/2, 4/3 and so on; degrees of freedom change in the middle."""
    rungs, rows = np.zeros((1, row_size(1))), np.zeros(backlog.backlog_size(1))
    births.give_birth(rungs[0], np.array([0.5]), np.ones(1), 1.0, 1.0, 4.0, 0.25)
    mean, lead, log_widths, own = 0.5, 0.0, 0.0, 0.0
    for k in range(8):
        target, nu, noise = 0.3 * k, 5.0 if k < 3 else 6.0, 0.25 + 0.01 * k
        evidence.show(rows, 0, ONE, target, 1.0, 0.5, noise, -1.0, nu, 6.0)
        width = 1.0 + 1.0 / (1.0 + k)
        error, variance = target - mean, noise * width
        mean += error / (k + 2.0)
        own += min(error**2 / variance, 6.0)
        log_widths += math.log(width / 1.5)
        lead += 1.0 - 0.5 * (math.log(variance) + (nu + 1.0) * math.log(1.0 + error**2 / (nu * variance)))
    evidence.settle(np.zeros(scales.MEMO), rungs, rows, 0, np.ones(1), 12.0)
    found = [rungs[0, slot] for slot in (evidence.THEIRS, evidence.OWN, evidence.LOG_WIDTH, evidence.LEAD)]
    assert found == pytest.approx([8.0, own, log_widths, lead])
    assert weights_of(rungs[0], 1) == pytest.approx([mean])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_clicks_are_expected_as_the_rung_does_whatever_its_width(count):
    """A rung that expects 0.5 of 2 beyond a base of 0.3, and is not sure of it; the allowance is what is left."""
    memo = np.zeros(scales.MEMO)
    memo[scales.HITS], memo[scales.ROUNDS], memo[scales.HIT_VALUE] = 39.0, 98.0, 2.0
    rungs, rows = np.zeros((1, row_size(1))), np.zeros(backlog.backlog_size(1))
    births.give_birth(rungs[0], np.array([0.5]), np.ones(1), 1.0, 4.0, 4.0, 1.0)
    mean, expected = 0.5, 0.0
    for k in range(count):
        evidence.show_click(rows, 0, memo, ONE, 2.0, 0.3, -3.0, -1.0)
        expected += math.log((0.3 + mean) / 2.0)
        mean += (1.7 - mean) / (5.0 + k)
    evidence.settle(memo, rungs, rows, 0, np.ones(1), 30.0)
    assert rungs[0, evidence.OWN] == pytest.approx(-expected)
    assert rows[backlog.ALLOWANCE] == pytest.approx(30.0 - (3.0 * count + expected))


def test_the_reserve_is_that_of_the_latest_width():
    for widths in ((), (1.5,), (1.5, 3.0), (3.0, 1.5)):
        rows = np.zeros(backlog.backlog_size(1))
        for width in widths:
            evidence.show(rows, 0, ONE, 0.0, 1.0, width - 1.0, 1.0, 0.0, 4.0, 200.0)
        evidence.settle(np.zeros(scales.MEMO), np.full((1, row_size(1)), -1.0), rows, 0, np.ones(1), 12.0)
        latest = math.log(widths[-1]) if widths else 0.0
        assert rows[backlog.LOG_ALLOWANCE] == pytest.approx(0.5 + 12.0 * latest)
        assert rows[backlog.ALLOWANCE] == backlog.UNLIMITED, "no rung lives"


@pytest.mark.parametrize("clicks", [False, True])
def test_a_birth_takes_from_the_allowance(clicks):
    memo = np.zeros(scales.MEMO)
    for name, value in {"ROUNDS": 8.0, "NOISE": 0.25, "PRIOR": 1.0, "FIRST_SQUARE": 1.0, "RECENT_COUNT": 3.0}.items():
        memo[getattr(scales, name)] = value
    memo[scales.HITS] = 4.0 * clicks
    rungs, rows = np.full((births.RUNGS, row_size(1)), 7.0), np.zeros(20)
    rows[2 + backlog.WAITING], rows[2 + backlog.SPENT] = 5.0, 1.5
    rows[2 + backlog.ALLOWANCE], rows[2 + backlog.LOG_ALLOWANCE] = 1e9, 0.75
    births.renew(memo, rungs, np.zeros(1), np.ones(1), rows, 2, 98.0, 0.02)
    limit = evidence.threshold(memo, 98.0, 0.02)
    slack = limit if clicks else 3.0 * (math.exp((2.0 * limit - 0.75) / (3.0 + 8.0)) - 1.0)
    assert rows[2 + backlog.ALLOWANCE] == pytest.approx(1.5 + slack)
    assert rungs[3, evidence.LATE] == 5.0


def test_a_newborn_that_could_not_tell_anything_any_more_is_cleared():
    memo = np.zeros(scales.MEMO)
    for name, value in {"ROUNDS": 8.0, "NOISE": 9.0, "PRIOR": 1.0, "FIRST_SQUARE": 1.0}.items():
        memo[getattr(scales, name)] = value
    rungs = np.zeros((births.RUNGS, row_size(1)))
    births.renew(memo, rungs, np.zeros(1), np.ones(1), np.zeros(20), 0, 98.0, 0.02)
    assert rungs[:, COUNT].tolist() == [0.0] * 3 + [-1.0] + [0.0] * 6


@pytest.mark.parametrize("d", [2, 8, 11])
@pytest.mark.parametrize("count", [1, 5, 8])
def test_records_stand_side_by_side_and_are_wiped_out(d, count):
    rng, at = np.random.default_rng(d), 3
    rows = np.zeros(at + backlog.backlog_size(d) + 2)
    rows[:at] = rows[-2:] = 7.0
    xs = rng.standard_normal((count, d))
    for x in xs:
        rows[backlog.add(rows, at, whole(x))] = 9.0
    lines = -(-d // 8) * 8
    arms = np.full(lines * 8, 7.0)
    backlog.side_by_side(rows, at, d, arms)
    expected = np.zeros((lines, 8))
    expected[:d, :count] = xs.T
    np.testing.assert_array_equal(arms.reshape(lines, 8), expected)
    rows[at + backlog.HEAD - 1] = 5.0
    before = rows.copy()
    backlog.wipe(rows, at, d, count - 1)
    kept = at + backlog.HEAD + (count - 1) * (lines + backlog.RECORD)
    assert not rows[at + backlog.HEAD : kept].any()
    np.testing.assert_array_equal(rows[kept:], before[kept:])
    np.testing.assert_array_equal(rows[: at + backlog.HEAD], before[: at + backlog.HEAD])


@pytest.mark.parametrize(
    ("waiting", "possible"), [(0.0, True), (5.0, True), (7.0, True), (8.0, False), (-1.0, False), (2.5, False)]
)
def test_how_many_rewards_may_wait(waiting, possible):
    assert backlog.is_count(waiting) == possible
    assert not backlog.is_count(9.0)
