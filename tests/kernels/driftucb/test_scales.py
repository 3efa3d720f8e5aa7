"""What DriftUCB finds out about its world, by hand."""

import numpy as np
import pytest

from driftbandit.kernels.driftucb import scales


def memo_with(**slots):
    memo = np.zeros(scales.MEMO)
    for name, value in slots.items():
        memo[getattr(scales, name)] = value
    return memo


def told(*rewards, size=1.0):
    memo = np.zeros(scales.MEMO)
    for reward in rewards:
        scales.tally(memo, reward, reward, size)
    return memo


def test_tally_adds_up():
    memo = told(0.0, 2.0, -1.0, 2.0, size=3.0)
    expected = memo_with(ROUNDS=4, REWARD_SQUARES=9, FEATURE_SQUARES=12, HITS=3, HIT_VALUE=2, MISFITS=1)
    assert memo.tolist() == expected.tolist()


def test_what_the_anchor_expects_is_no_size_of_rewards():
    """Rewards of 20, of which 19 were expected, are of size 1; whether they are clicks, the rewards themselves say."""
    memo = np.zeros(scales.MEMO)
    for reward in (20.0, 20.0, 0.0):
        scales.tally(memo, reward, reward - 19.0, 1.0)
    assert memo[scales.REWARD_SQUARES] == 1.0 + 1.0 + 19.0**2
    assert (memo[scales.HITS], memo[scales.HIT_VALUE], memo[scales.MISFITS]) == (2.0, 20.0, 0.0)


def test_the_rate_is_that_of_the_rarer_outcome_with_one_of_each_added():
    assert scales.click_rate(memo_with(HITS=0, ROUNDS=0)) == 0.5
    assert scales.click_rate(memo_with(HITS=9, ROUNDS=98)) == pytest.approx(0.1)
    assert scales.click_rate(memo_with(HITS=89, ROUNDS=98)) == pytest.approx(0.1)


def test_clicks_are_zeros_and_one_other_value_but_for_two_per_cent():
    assert not scales.are_clicks(told(0.0, 0.0))
    assert scales.are_clicks(told(0.0, 2.0, 2.0))
    assert not scales.are_clicks(told(0.0, 1.0, 2.0))
    assert scales.are_clicks(memo_with(HITS=1000, MISFITS=20))
    assert not scales.are_clicks(memo_with(HITS=1000, MISFITS=21))


def test_a_reward_counts_for_a_hundred_times_the_others_at_most():
    memo = told(0.0, 3.0, -4.0)  # root mean square of those that are not 0: sqrt(12.5)
    most = 100.0 * np.sqrt(12.5)
    assert scales.tame(memo, 353.0) == 353.0
    assert scales.tame(memo, 1e9) == pytest.approx(most)
    assert scales.tame(memo, -1e9) == pytest.approx(-most)
    assert scales.tame(told(0.0), 1e9) == 1e9, "nothing to compare it with"
    assert scales.tame(memo, 1e-151) == 0.0, "its square would be 0"


def learn_noise(memo, errors, variances, weights=(1.0,)):
    scales.learn_noise(memo, np.array(weights), np.array(errors), np.array(variances))


def sums(memo):
    return [memo[at] for at in range(scales.RECENT_SUM, scales.ALL_COUNT + 1)]


def test_an_error_is_noise_as_far_as_its_variance_is():
    memo = memo_with(NOISE=1.0)
    learn_noise(memo, [2.0, 3.0, 1e9], [1.0, 4.0, 1.0], [0.75, 0.25, 0.0])
    worth, total = 0.75 + 0.25 / 4.0, 0.75 * 2.0**2 + 0.25 * (3.0 / 4.0) ** 2
    assert sums(memo) == pytest.approx([total, worth] * 3)
    learn_noise(memo, [0.0], [1.0])
    assert sums(memo) == pytest.approx([0.98 * total, 0.98 * worth + 1.0, total, worth + 1.0, total, worth + 1.0])


def test_a_wild_error_counts_for_twenty():
    memo = memo_with(NOISE=0.5)
    learn_noise(memo, [100.0], [1.0])
    assert sums(memo)[:2] == pytest.approx([20.0 * 0.5 * 0.5, 0.5])


@pytest.mark.parametrize(
    ("recent", "count", "jumps"),
    [(2.1, 11.0, True), (1.9, 11.0, False), (0.48, 11.0, True), (0.52, 11.0, False), (2.1, 9.9, False)],
)
def test_noise_has_jumped_when_the_recent_is_twice_or_half_the_steady(recent, count, jumps):
    memo = memo_with(NOISE=1.0, STEADY_COUNT=1000.0, STEADY_SUM=1000.0, RECENT_COUNT=count, RECENT_SUM=count * recent)
    learn_noise(memo, [np.sqrt(recent) * 1e5], [1e10])  # an error worth nothing
    assert memo[scales.STEADY_COUNT] == pytest.approx(5.0 if jumps else 1000.0)
    assert memo[scales.STEADY_SUM] / memo[scales.STEADY_COUNT] == pytest.approx(recent if jumps else 1.0, rel=1e-6)


def rescaled(memo, theta=(3.0, 1.0)):
    """After the scales were judged with these weights of the elder, in the frame's units."""
    scales.rescale(memo, float(np.mean(np.square(theta))))
    return memo


def known(**slots):
    """100 rewards with a mean square of 4 and |x|^2 = 2, noise 1 by the steady and 1.5 by the overall estimate."""
    sums = {"ROUNDS": 100, "REWARD_SQUARES": 400, "FEATURE_SQUARES": 200, "HITS": 100, "HIT_VALUE": 1, "MISFITS": 99}
    noise = {"RECENT_COUNT": 50, "STEADY_SUM": 90, "STEADY_COUNT": 90, "ALL_SUM": 135, "ALL_COUNT": 90}
    return memo_with(**(sums | noise | slots))


def test_noise_is_the_steady_estimate_with_floors():
    assert rescaled(known())[scales.NOISE] == 1.0
    assert rescaled(known(STEADY_SUM=0))[scales.NOISE] == pytest.approx(1e-12 * 4.0, abs=0.0)
    assert rescaled(known(STEADY_SUM=0, RECENT_COUNT=0.9))[scales.NOISE] == pytest.approx(0.05 * 4.0)
    assert rescaled(memo_with(NOISE=1.0))[scales.NOISE] == 1.0, "nothing to go by before the first reward"


def test_noise_of_clicks_follows_from_their_rate():
    clicks = {"HITS": 24, "HIT_VALUE": 2, "MISFITS": 0}
    rate = 25.0 / 102.0
    assert rescaled(known(**clicks, ALL_SUM=0))[scales.NOISE] == pytest.approx(0.75 * rate * (1.0 - rate) * 4.0)
    assert rescaled(known(**clicks))[scales.NOISE] == 1.5, "the overall estimate where that is more"


def test_tastes_spread_as_much_as_the_elder_cannot_explain():
    memo = rescaled(known(ELDER_ERRORS=250, ALARMS=3))  # errors of 2.5, noise 1.5: tastes spread by 1 / |x|^2 = 0.5
    assert memo[scales.TASTE] == 2.0
    assert memo[scales.PRIOR] == 0.5
    assert memo[scales.SHRINK] == pytest.approx(1.0 - 0.5 / (2.0 * 5.0)), "4 tastes count as 2; mean square of theta: 5"
    memo = rescaled(known(ELDER_ERRORS=150))
    assert memo[scales.PRIOR] == pytest.approx(0.2 * 2.0), "never less than 0.2 of a taste"
    assert memo[scales.SHRINK] == 1.0
    memo = rescaled(known(ELDER_ERRORS=1e4), theta=(0.1, 0.0))
    assert memo[scales.PRIOR] == 2.0, "never more than a taste"
    assert memo[scales.SHRINK] == 0.0
    assert rescaled(known(), theta=(0.0, 0.0))[scales.SHRINK] == 0.0


def test_what_was_told_about_tastes_holds():
    assert rescaled(known(SPREAD=7.0))[scales.TASTE] == 7.0


def test_clicks_leave_more_room_for_new_tastes():
    memo = rescaled(known(HITS=24, MISFITS=0, ELDER_ERRORS=150))
    assert memo[scales.PRIOR] == 0.5 * 2.0


def test_a_new_incumbent_says_what_the_noise_is():
    memo = known(RECENT_SUM=50)
    scales.take_over_noise(memo, 3.0, 8.0)
    assert sums(memo)[:4] == [24.0, 8.0, 24.0, 8.0]
    scales.take_over_noise(memo, 2.0, 100.0)
    assert sums(memo)[:4] == [16.0, 8.0, 16.0, 8.0]
    clicks = known(RECENT_SUM=50, MISFITS=0)
    scales.take_over_noise(clicks, 3.0, 8.0)
    assert sums(clicks)[:4] == [50.0, 50.0, 90.0, 90.0]
