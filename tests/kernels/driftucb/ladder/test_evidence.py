"""The ladder of young models against textbook Bayesian regression."""

import math

import numpy as np
import pytest
from scipy import stats
from tiled import matrix_of, weights_of, whole

from driftbandit.kernels.driftucb import mixture, scales
from driftbandit.kernels.driftucb.ladder import backlog, births, evidence, young
from driftbandit.kernels.driftucb.rows import COUNT, OTHERS, THETA, learn, row_size, square, variance_at

DIM, NU, NOISE, CAP = 3, 4.0, 0.25, 200.0
ONE = np.array([1.0])


def log_marginal(x, rewards, mean, ridge):
    """ln p(rewards) up to a constant, weights N(mean, s2 / ridge), noise variance s2 integrated out."""
    spread = np.eye(len(x)) + x @ x.T / ridge
    error = rewards - x @ mean
    fit = error @ np.linalg.solve(spread, error) / NOISE
    return -0.5 * np.linalg.slogdet(spread)[1] - 0.5 * (NU + len(x)) * math.log(NU + fit)


def learned(rungs, units, x, *told):
    """One round that all rungs learn at once; the strongest rung and its log-evidence."""
    rows = np.zeros(backlog.backlog_size(len(x)))
    evidence.show(rows, 0, whole(x), *told)
    return evidence.settle(np.zeros(scales.MEMO), rungs, rows, 0, units, 10.0)


@pytest.mark.parametrize("dim", [DIM, 22, 23, 64])  # 12 rewards fit into a triangle's place as vectors from 23 on
def test_log_evidence_is_the_ratio_of_marginal_likelihoods(dim):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, dim))
    mean = np.resize([1.0, -1.0, 0.5], dim)
    rewards = x @ (mean + 0.3) + 0.5 * rng.standard_normal(12)
    units = np.ones(dim)
    rungs = np.zeros((1, row_size(dim)))
    births.give_birth(rungs[0], mean, units, 1.0, 0.7, NU, NOISE)
    incumbent = np.zeros(row_size(dim))
    births.give_birth(incumbent, np.zeros(dim), units, 0.0, 50.0, NU, NOISE)
    young.unfold(incumbent, units)
    for t in range(12):
        arm = whole(x[t])
        error, width = learn(incumbent, 0, dim, arm, rewards[t], np.empty_like(arm))
        acting = 0.0
        theirs = error**2 / (width * NOISE)
        best, strongest = learned(rungs, units, x[t], rewards[t], theirs, width - 1.0, NOISE, acting, NU, 1e9)
    expected = log_marginal(x, rewards, mean, 0.7) - log_marginal(x, rewards, np.zeros(dim), 50.0)
    assert best == 0
    assert strongest == pytest.approx(expected, rel=1e-9)


def show(rungs: np.ndarray, reward: float, theirs: float, noise: float = NOISE, **told: float) -> tuple[int, float]:
    """One round with a single feature of 1."""
    told = {"acting": 0.0, "nu": NU, "cap": CAP} | told
    return learned(rungs, ONE, np.array([1.0]), reward, theirs, 0.0, noise, *told.values())


def test_lead_is_the_likelihood_ratio_against_those_who_act():
    rung = np.zeros((1, row_size(1)))
    births.give_birth(rung[0], np.zeros(1), ONE, 1.0, 1.0, NU, NOISE)
    show(rung, 1.0, 0.0, acting=-3.0)
    expected = stats.t.logpdf(1.0, NU, scale=(2.0 * NOISE) ** 0.5) - stats.t.logpdf(0.0, NU) + 3.0
    assert evidence.lead(rung[0]) == pytest.approx(expected)


def test_noise_since_birth():
    rung = np.zeros((1, row_size(1)))
    births.give_birth(rung[0], np.zeros(1), ONE, 1.0, 1.0, NU, NOISE)
    show(rung, 1.0, 0.0, noise=10.0)
    # One error of 1 with variance 2 sigma^2: worth 1 / 2, whatever the noise was taken for, beside the prior's 4.
    noise, worth = evidence.noise_since(rung[0])
    assert (noise, worth) == (pytest.approx((4.0 * NOISE + 0.5) / 5.0), 5.0)


def test_one_wild_reward_makes_no_case():
    rungs = np.zeros((1, row_size(1)))
    births.give_birth(rungs[0], np.zeros(1), ONE, 1.0, 1e6, NU, NOISE)
    shown = [show(rungs, 0.0, wrong) for wrong in (1e9, 0.0, 0.0)]
    assert [best for best, _ in shown] == [-1, -1, -1], "without its one telling reward the evidence is gone"
    again, strongest = show(rungs, 0.0, 1e9)
    assert again == 0
    assert strongest == pytest.approx(0.5 * (NU + 4) * math.log((NU + 400.0) / NU)), "errors are capped at 200"


@pytest.mark.parametrize(("wrong", "best"), [(6.8, -1), (6.9, 0)])
def test_evidence_of_3_must_remain_without_the_most_telling_reward(wrong, best):
    """One of two rewards left out: (NU + 2) / 2 * ln((NU + wrong) / NU) = 3 at wrong = 4 (e - 1) = 6.87."""
    rungs = np.zeros((1, row_size(1)))
    births.give_birth(rungs[0], np.zeros(1), ONE, 1.0, 1e9, NU, NOISE)
    show(rungs, 0.0, wrong)
    assert show(rungs, 0.0, wrong)[0] == best


def memo_with(**slots):
    memo = np.zeros(scales.MEMO)
    for name, value in slots.items():
        memo[getattr(scales, name)] = value
    return memo


CLICKS = {"HITS": 4.0}  # of 8 rewards: half of them


def test_threshold_grows_with_age_and_on_clicks_with_births():
    """With 39 clicks of 398 the rate is 0.1: one round in 40 gives birth to a model that can tell anything."""
    assert evidence.threshold(memo_with(), 98.0, 0.02) == pytest.approx(math.log(5000.0))
    clicks = memo_with(HITS=39.0, ROUNDS=398.0)
    assert evidence.threshold(clicks, 80.0, 0.02) == pytest.approx(math.log((80.0 * 0.1 / 4.0 + 100.0) / 0.02))
    assert evidence.threshold(memo_with(HITS=359.0, ROUNDS=398.0), 80.0, 0.02) == evidence.threshold(clicks, 80.0, 0.02)


def test_an_error_counts_for_200_or_a_new_taste():
    assert evidence.error_cap(memo_with(PRIOR=2.0, FIRST_SQUARE=3.0, NOISE=0.04)) == 200.0
    assert evidence.error_cap(memo_with(PRIOR=2.0, FIRST_SQUARE=3.0, NOISE=0.02)) == pytest.approx(300.0)


def test_no_alarm_before_enough_is_known():
    assert evidence.ready(memo_with(ALL_COUNT=6.0), 3)
    assert not evidence.ready(memo_with(ALL_COUNT=5.9), 3)
    for hits in (6.0, 14.0):
        assert evidence.ready(memo_with(ALL_COUNT=6.0, ROUNDS=20.0, HITS=hits), 3)
    for hits in (5.0, 15.0):
        assert not evidence.ready(memo_with(ALL_COUNT=6.0, ROUNDS=20.0, HITS=hits), 3), "clicks, one outcome too rare"


def born(**slots):
    """The young model of round 8 with one feature; its n, theta and matrix, and the noise it was born with."""
    rungs = np.full((births.RUNGS, row_size(1)), 7.0)
    known = {"ROUNDS": 8.0, "PRIOR": 1.0, "FIRST_SQUARE": 1.0, "NOISE": 0.25, "SHRINK": 0.5, "RECENT_COUNT": 50.0}
    births.renew(memo_with(**(known | slots)), rungs, np.array([3.0]), ONE, np.zeros(20), 0, 100.0, 0.02)
    assert (np.delete(rungs, 3, axis=0) == 7.0).all(), "the others are not touched"
    if rungs[3, COUNT] == 0.0:
        young.unfold(rungs[3], ONE)
    return rungs[3, [COUNT, THETA, variance_at(1, 0)]].tolist(), evidence.noise_since(rungs[3])


def test_a_young_model_starts_from_the_shrunken_elder():
    assert born() == ([0.0, 1.5, 4.0], (0.25, 8.0))
    assert born(PRIOR=2.0) == ([0.0, 1.5, 8.0], (0.25, 8.0))
    assert born(NOISE=1e-9)[0] == pytest.approx([0.0, 1.5, 1e6]), "the least ridge"
    assert born(RECENT_COUNT=3.0)[1] == (0.25, 3.0)
    assert born(RECENT_COUNT=0.1)[1] == (0.25, 0.5)
    assert born(**CLICKS, RECENT_COUNT=90.0)[1] == (0.25, 50.0)


def test_no_young_model_where_it_could_not_tell_a_shift_from_noise():
    """8 rewards of a new taste that moves each by 1 are worth 20 times a noise variance of 0.4."""
    assert born(NOISE=0.399)[0][0] == 0.0
    assert born(NOISE=0.401)[0][0] == -1.0
    assert born(**CLICKS, NOISE=0.401)[0][0] == 0.0


def test_rungs_cover_every_age_up_to_a_factor_of_two():
    born = {}
    for t in range(1, 2000):
        rung = births.rung_of(t, 10)
        assert t % 2**rung == 0
        assert t % 2 ** (rung + 1) != 0 or rung == 9
        born[rung] = t
        ages = {t - birth for birth in born.values()}
        for age in (a for a in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if a < t):
            assert any(age / 2 <= other <= 2 * age for other in ages)


def test_clear_empties():
    rungs = np.ones((3, row_size(2)))
    births.clear(rungs)
    assert learned(rungs, np.ones(2), np.ones(2), 1.0, 1e9, 0.0, 1.0, 0.0, NU, CAP) == (-1, 3.0)
    assert (rungs[:, 1:] == 0.0).all()


def test_a_birth_by_hand():
    """The head is [n, 1 / ridge] and eight sums, of which the prior fills two; the matrix is not touched."""
    rung = np.full(row_size(2), 7.0)
    births.give_birth(rung, np.array([2.0, -3.0]), np.array([1.0, 2.0]), 0.5, 4.0, 3.0, 0.2)
    head = [0, 0.25, 0, 0, 0, 0, 3.0, 3.0 * 0.2, 0, 0, *[0] * 6]
    np.testing.assert_allclose(rung, [*head, 1, -1.5, *[0] * 6, *[7] * 16], rtol=1e-15)
    young.unfold(rung, np.array([1.0, 2.0]))
    assert rung[young.SCALE] == 0.0
    np.testing.assert_allclose(matrix_of(rung, 2), [[0.25, 0.0], [0.0, 1.0]], rtol=1e-15)


def test_rungs_by_hand():
    born = [1, 2, 3, 4, 6, 8, 96, 256, 512, 1024, 512 * 3]
    assert [births.rung_of(t, 10) for t in born] == [0, 1, 0, 2, 1, 3, 5, 8, 9, 9, 9]
    assert births.rung_of(2**15, 19) == 15
    assert births.rung_of(2**20, 19) == 18
    assert births.RUNGS == 10


def certain(*means: float) -> np.ndarray:
    """Rungs that predict these rewards, and are too sure of them to learn; None is an empty rung."""
    rungs = np.zeros((len(means), row_size(1)))
    births.clear(rungs)
    for rung, mean in zip(rungs, means, strict=True):
        if mean is not None:
            births.give_birth(rung, np.array([mean]), ONE, 1.0, 1e12, NU, NOISE)
    return rungs


@pytest.mark.parametrize(("error", "found"), [(6.8, False), (6.95, True)])
def test_three_must_remain_without_the_most_telling_reward(error, found):
    """Two rewards with errors of the incumbent's alone: 3 ln(1 + error / 4) remains, which is 3 at 4 (e - 1) = 6.87."""
    rungs = certain(0.0)
    show(rungs, 0.0, error)
    best, strongest = show(rungs, 0.0, error)
    assert (best == 0) == found
    assert strongest == pytest.approx(3.0 * math.log((4.0 + 2.0 * error) / 4.0) if found else 3.0)


def test_the_most_telling_reward_is_the_largest_gain_not_the_last():
    """The incumbent is wrong once by a lot and twice by a little: without the large error nothing is left."""
    for errors in ((100.0, 1.0, 1.0), (1.0, 100.0, 1.0), (1.0, 1.0, 100.0)):
        rungs = certain(0.0)
        assert [show(rungs, 0.0, error)[0] for error in errors] == [-1, -1, -1]


def test_a_gain_is_what_the_incumbent_lost_beyond_the_own_error():
    """Both are wrong by the same: no reward tells anything, and leaving one out takes nothing away."""
    rungs = certain(0.5)
    for error in (9.0, 9.0, 1.0, 9.0):
        best, strongest = show(rungs, 0.0, error)
    own = 4 * 0.5**2 / NOISE
    assert best == 0
    assert strongest == pytest.approx(4.0 * math.log((4.0 + 28.0) / (4.0 + own)))


@pytest.mark.parametrize(
    ("means", "best"),
    [((0.1, 0.0), 1), ((0.0, 0.1), 0), ((0.0, 0.0), 0), ((None, 0.0), 1), ((None, 0.1, None, 0.0), 3), ((9.0, 0.0), 1)],
)
def test_the_rung_with_the_strongest_evidence(means, best):
    rungs = certain(*means)
    for _ in range(3):
        found = show(rungs, 0.0, 20.0)
    assert found == (best, pytest.approx(3.5 * math.log((4.0 + 60.0) / 4.0)))


def test_own_errors_are_capped_too():
    rungs = certain(100.0)
    show(rungs, 0.0, 0.0, cap=6.0)
    assert evidence.noise_since(rungs[0]) == (pytest.approx((NU * NOISE + 6.0 * NOISE) / (NU + 1.0)), NU + 1.0)


def test_leads_add_up():
    rungs = certain(0.0, 0.5)
    for reward, acting in ((0.5, -1.0), (0.25, -2.0)):
        show(rungs, reward, 0.0, acting=acting)
    scale = NOISE**0.5
    for rung, errors in ((0, (0.5, 0.25)), (1, (0.0, 0.25))):
        logs = [stats.t.logpdf(error, NU, scale=scale) - stats.t.logpdf(0.0, NU) for error in errors]
        assert evidence.lead(rungs[rung]) == pytest.approx(sum(logs) + 3.0)


@pytest.mark.parametrize(("error", "variance", "nu"), [(0.0, 2.0, 3.0), (1.5, 2.0, 3.0), (-0.3, 0.1, 7.0)])
def test_likelihood_is_students_but_for_a_constant(error, variance, nu):
    expected = stats.t.logpdf(error, nu, scale=variance**0.5) - stats.t.logpdf(0.0, nu)
    assert mixture.log_likelihood(error, variance, math.log(variance), nu) == pytest.approx(expected)


def test_a_wider_model_must_explain_more():
    """A rung of prior variance 1 pays ln(2) / 2 for the width of its first prediction, the incumbent ln(4) / 2."""
    rungs = np.zeros((1, row_size(1)))
    births.give_birth(rungs[0], np.zeros(1), ONE, 1.0, 1.0, NU, NOISE)
    for _ in range(3):
        best, strongest = learned(rungs, ONE, ONE, 0.0, 30.0, 3.0, NOISE, 0.0, NU, CAP)
    widths = math.log(2.0) + math.log(3 / 2) + math.log(4 / 3) - 3 * math.log(4.0)
    assert best == 0
    assert strongest == pytest.approx(3.5 * math.log((4.0 + 90.0) / 4.0) - 0.5 * widths)


def test_units_are_the_sizes_of_weights():
    """A weight of unit 3 varies by 3^2 where one of unit 1 varies by 1, around the same mean."""
    rung = np.zeros(row_size(2))
    births.give_birth(rung, np.array([1.0, 2.0]), np.array([1.0, 3.0]), 1.0, 1.0, NU, NOISE)
    young.unfold(rung, np.array([1.0, 3.0]))
    assert weights_of(rung, 2).tolist() == [1.0, 2.0]
    assert square(rung, np.array([1.0, 1.0])) == 10.0


def test_sums_stand_in_the_head_of_a_row():
    rungs = np.zeros((1, row_size(2)))
    births.give_birth(rungs[0], np.zeros(2), np.ones(2), 1.0, 1e12, NU, NOISE)
    x = np.array([1.0, 1.0])
    learned(rungs, np.ones(2), x, 0.5, 3.0, 0.0, NOISE, -1.0, NU, CAP)
    likelihood = stats.t.logpdf(0.5, NU, scale=NOISE**0.5) - stats.t.logpdf(0.0, NU)
    own = 0.25 / NOISE
    sums = [3.0, own, 0.0, 3.0 - own, NU, NU * NOISE + 0.25, likelihood + 1.0, 0.0]
    young.unfold(rungs[0], np.ones(2))
    np.testing.assert_allclose(rungs[0, : OTHERS + 9], [1.0, 0.0, *sums], atol=1e-9)
    np.testing.assert_allclose(rungs[0, THETA:], 0.0, atol=1e-9)
    assert evidence.lead(rungs[0]) == pytest.approx(likelihood + 1.0)
    assert evidence.noise_since(rungs[0]) == (pytest.approx((NU * NOISE + 0.25) / 5.0), 5.0)


def test_wide_models_are_judged_by_their_logarithms_too():
    """The rung has a prior variance of a million: ln(1e6) / 2 = 6.9 against it, though its errors are no larger."""
    rungs = np.zeros((1, row_size(1)))
    births.give_birth(rungs[0], np.zeros(1), ONE, 1.0, 1e-6, NU, NOISE)
    found = [learned(rungs, ONE, ONE, 0.0, 12.0, 0.0, NOISE, 0.0, NU, CAP) for _ in range(3)]
    width = math.log(1.0 + 1e6) + math.log(2.0) + math.log(1.5)
    strongest = 3.5 * math.log((4.0 + 36.0) / 4.0) - 0.5 * width
    assert strongest < 3.0
    assert found[2] == (-1, 3.0)
    more = [learned(rungs, ONE, ONE, 0.0, 60.0, 0.0, NOISE, 0.0, NU, CAP) for _ in range(3)]
    width += math.log(4 / 3) + math.log(5 / 4) + math.log(6 / 5)
    assert more[2] == (0, pytest.approx(5.0 * math.log((4.0 + 216.0) / 4.0) - 0.5 * width, rel=1e-6))


def test_a_model_that_was_sure_and_right_needs_no_errors_of_the_others():
    """Both predict both rewards exactly; the incumbent, with q = 1000, would have put up with anything."""
    rungs = certain(0.0)
    for _ in range(2):
        found = learned(rungs, ONE, ONE, 0.0, 0.0, 1000.0, NOISE, 0.0, NU, CAP)
    assert found == (0, pytest.approx(math.log(1001.0)))


def learned_click(rungs, memo, x, *told):
    """As `learned`, for a click."""
    rows = np.zeros(backlog.backlog_size(len(x)))
    evidence.show_click(rows, 0, memo, whole(x), *told)
    return evidence.settle(memo, rungs, rows, 0, np.ones(len(x)), 10.0)


def show_click(rungs, reward, theirs, base=0.0, acting=0.0, **known):
    """One click, or none, of an arm with a single feature of 1; 40 % clicks of value 2 so far."""
    memo = memo_with(**({"HITS": 39.0, "ROUNDS": 98.0, "HIT_VALUE": 2.0} | known))
    return learned_click(rungs, memo, ONE, reward, base, theirs, acting)


def test_evidence_of_clicks_is_a_likelihood_ratio():
    """A rung that expects 1 of 2 gives either outcome 1/2; the incumbent gave it e^-3."""
    rungs = certain(1.0)
    found = [show_click(rungs, reward, -3.0) for reward in (2.0, 0.0, 2.0)]
    gain = math.log(0.5) + 3.0
    assert found[0] == (-1, 3.0), "one reward alone is no case"
    assert found[1] == (-1, 3.0), "nor are two, of which the more telling one is left out"
    assert found[2] == (0, pytest.approx(3.0 * gain))
    assert evidence.lead(rungs[0]) == pytest.approx(3.0 * math.log(0.5))


def test_three_must_remain_of_clicks_without_the_most_telling_one():
    for gains, best in (((1.5, 1.6, 1.5), 0), ((1.5, 9.0, 1.4), -1), ((9.0, 1.4, 1.5), -1), ((1.4, 1.5, 9.0), -1)):
        rungs = certain(1.0)
        for gain in gains:
            found = show_click(rungs, 2.0, math.log(0.5) - gain)
        assert found[0] == best, gains
        assert found[1] == pytest.approx(sum(gains) if best == 0 else 3.0)


@pytest.mark.parametrize(
    ("mean", "reward", "chance"),
    [(1.0, 2.0, 0.5), (0.5, 0.0, 0.75), (-7.0, 2.0, 0.08), (-7.0, 0.0, 0.92), (9.0, 2.0, 0.92), (9.0, 0.0, 0.08)],
)
def test_a_click_is_never_certain(mean, reward, chance):
    """40 % clicks: no outcome is expected with less than a fifth of that."""
    rungs = certain(mean)
    show_click(rungs, reward, 0.0, acting=-1.0)
    assert evidence.lead(rungs[0]) == pytest.approx(math.log(chance) + 1.0)


def test_rungs_explain_what_clicks_have_beyond_the_anchor():
    rungs = certain(0.25)
    show_click(rungs, 2.0, 0.0, base=0.75)
    assert evidence.lead(rungs[0]) == pytest.approx(math.log(0.5))
    wide = np.zeros((1, row_size(1)))
    births.give_birth(wide[0], np.array([0.5]), ONE, 1.0, 4.0, NU, NOISE)
    show_click(wide, 2.0, 0.0, base=0.75)
    surprise = 2.0 - 0.75 - 0.5
    young.unfold(wide[0], ONE)
    assert wide[0, COUNT] == 1.0
    assert wide[0, THETA] == pytest.approx(0.5 + surprise / 5.0), "a fifth of the surprise, at a ridge of 4"
    assert matrix_of(wide[0], 1) == pytest.approx(0.2)


def test_sums_of_clicks_stand_in_the_head_of_a_row():
    rungs = np.zeros((1, row_size(2)))
    births.give_birth(rungs[0], np.array([0.25, 0.75]), np.ones(2), 1.0, 1e12, NU, NOISE)
    memo = memo_with(HITS=39.0, ROUNDS=98.0, HIT_VALUE=2.0)
    learned_click(rungs, memo, np.ones(2), 2.0, 0.0, -3.0, -1.0)
    own = math.log(0.5)
    young.unfold(rungs[0], np.ones(2))
    sums = [3.0, -own, 0.0, own + 3.0, NU, NU * NOISE, own + 1.0, 0.0]
    np.testing.assert_allclose(rungs[0, : OTHERS + 9], [1.0, 0.0, *sums], atol=1e-9)
    np.testing.assert_allclose(weights_of(rungs[0], 2), [0.25, 0.75], atol=1e-9)
    np.testing.assert_allclose(matrix_of(rungs[0], 2), 0.0, atol=1e-9)


def test_empty_rungs_learn_no_click():
    rungs = certain(None)
    before = rungs.copy()
    assert show_click(rungs, 2.0, -9.0) == (-1, 3.0)
    assert np.array_equal(rungs, before)


def test_the_strongest_case_of_clicks_wins():
    for means, best in (((1.0, 1.5), 1), ((1.5, 1.0), 0), ((1.5, 1.5), 0), ((None, 1.5), 1)):
        rungs = certain(*means)
        for _ in range(3):
            found = show_click(rungs, 2.0, -4.0)
        assert found == (best, pytest.approx(3.0 * (4.0 + math.log(0.75))))


def test_on_clicks_a_rung_is_used_from_a_telling_age_on():
    """8 rounds bring 4 of the rarer outcome if that is every second one."""
    assert born(HITS=4.0)[0][0] == 0.0, "rate 1/2"
    assert born(HITS=3.0)[0][0] == 7.0, "rate 0.4: 3.2 clicks in 8 rounds; the row belongs to a longer life"
    assert born(HITS=5.0)[0][0] == 7.0, "the same for the rarer outcome being 0"


@pytest.mark.parametrize(
    ("hits", "rounds", "row"),
    [
        (0.0, 2**9, 9),
        (0.0, 2**15, 9),
        (2.0**14, 2**12, 2),  # every second reward a click: rungs 3 to 12 in ten rows
        (2.0**14, 2**15, 2),
        (2.0**14, 2**9, 9),
        (2.0**14, 2**2, None),
        (2.0**8, 2**9, 9),  # one of 128: rungs 9 to 18
        (2.0**8, 2**8, None),
        (2.0**8, 2**18, 8),
        (2.0**8, 2**19, 8),
    ],
)
def test_on_clicks_the_ladder_starts_where_models_see_enough(hits, rounds, row):
    rungs = np.full((births.RUNGS, row_size(1)), 7.0)
    known = {"ROUNDS": float(rounds), "PRIOR": 1.0, "FIRST_SQUARE": 1.0, "NOISE": 0.25, "RECENT_COUNT": 50.0}
    births.renew(
        memo_with(**known, HITS=hits / 2**15 * rounds), rungs, np.array([3.0]), ONE, np.zeros(20), 0, 1.0, 0.02
    )
    assert np.flatnonzero(rungs[:, 0] != 7.0).tolist() == ([] if row is None else [row])


def test_without_noise_the_bias_of_a_ridge_is_no_alarm():
    """Rewards with a mean square of 4: the incumbent must be wrong by more than 4e-4 on average."""
    known = {"ALL_COUNT": 2.0, "NOISE": 1e-6, "REWARD_SQUARES": 40.0, "ROUNDS": 10.0}
    rungs = certain(0.0)
    show(rungs, 0.0, 300.0, cap=1e9)
    show(rungs, 0.0, 499.0, cap=1e9)  # 799 * 1e-6 / 2 = 3.995e-4
    assert not evidence.holds(memo_with(**known), rungs[0], 1)
    assert evidence.holds(memo_with(**(known | {"NOISE": 1.01e-6})), rungs[0], 1)
    assert not evidence.holds(memo_with(**(known | {"NOISE": 1.0, "ALL_COUNT": 1.9})), rungs[0], 1), "too early"
    assert evidence.holds(memo_with(**known, HITS=5.0), rungs[0], 1), "clicks always have noise"


def test_an_incumbent_that_is_wrong_is_so_with_any_number_of_features():
    """Two features: rewards with a mean square of 4, and a mean error of 1 or of nothing."""
    known = {"ALL_COUNT": 4.0, "NOISE": 0.5, "REWARD_SQUARES": 40.0, "ROUNDS": 10.0}
    for theirs in (2.0, 0.0):
        rungs = np.zeros((1, row_size(2)))
        births.give_birth(rungs[0], np.zeros(2), np.ones(2), 1.0, 1e12, NU, NOISE)
        learned(rungs, np.ones(2), np.ones(2), 9.0, theirs, 0.0, 0.5, 0.0, NU, CAP)
        assert evidence.holds(memo_with(**known), rungs[0], 2) == (theirs > 0.0)


def test_where_every_reward_was_0_an_incumbent_that_expects_0_is_not_wrong():
    rungs = certain(0.0)
    show(rungs, 0.0, 0.0)
    assert not evidence.holds(memo_with(ALL_COUNT=2.0, NOISE=1.0, ROUNDS=10.0), rungs[0], 1)
