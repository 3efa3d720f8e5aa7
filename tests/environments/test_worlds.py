"""Worlds beyond the paper's: click rates, units, offsets, seasons, and changes both slow and sudden."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from driftbandit.environments import PRESETS, TWINS, World, synthetic
from driftbandit.environments.rates import log_odds_line

SPHERE = World(features="sphere", thetas="sphere", noise=0.1)
RATES = replace(SPHERE, reward="rates", noise=World.noise, clicks=(0.02, 0.08), path="still", horizon=2000)
PAIRS = {"0.3to1": (0.003, 0.01), "1to3": (0.01, 0.03), "2to8": (0.02, 0.08), "5to15": (0.05, 0.15)}


def theta_of(rounds, part, values):
    """Least-squares weights that explain `values` in these rounds, and the largest residual."""
    x = rounds.catalogue[rounds.pools[part]].reshape(-1, rounds.dim)
    weights, _, rank, _ = np.linalg.lstsq(x, values[part].ravel(), rcond=None)
    assert rank == rounds.dim
    return weights, np.abs(x @ weights - values[part].ravel()).max()


def taste_at(rounds, t, width=30):
    """Theta around round t, which hardly moves within `width` rounds."""
    return theta_of(rounds, slice(t, t + width), rounds.means)[0]


# ---- clicks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("dim", [6, 10, 25])
def test_click_rates_of_an_average_arm_and_of_the_best_of_a_pool(pair, dim):
    settings = replace(PRESETS[f"clicks{pair}-fast-v1"], dim=dim, period=20, horizon=2000)
    rounds = [settings.rounds(seed) for seed in range(5)]
    typical, best = PAIRS[pair]
    # 500 tastes and 5,000 arms; the rates of single worlds differ by a few percent.
    assert np.mean([r.means.mean() for r in rounds]) == pytest.approx(typical, rel=0.02)
    assert np.mean([r.means.max(axis=1).mean() for r in rounds]) == pytest.approx(best, rel=0.02)
    assert rounds[0].pools.shape[1] == (20 if pair == "0.3to1" else 10)
    assert rounds[0].noise == pytest.approx(math.sqrt(typical * (1 - typical)))


def test_rates_are_clicks_that_are_linear_in_log_odds_of_unit_features_and_a_constant():
    rounds = replace(RATES, horizon=60_000, pool=3, clicks=(0.02, 0.04)).rounds(0)
    log_odds = np.log(rounds.means / (1.0 - rounds.means))
    weights, residual = theta_of(rounds, slice(0, 300), log_odds)
    assert residual < 1e-10
    intercept, slope = log_odds_line(0.02, 0.04, 9, 3)
    assert weights[-1] == pytest.approx(intercept)
    assert np.linalg.norm(weights[:-1]) == pytest.approx(slope)
    np.testing.assert_array_equal(rounds.catalogue[:, -1], 1.0)
    np.testing.assert_allclose(np.linalg.norm(rounds.catalogue[:, :-1], axis=1), 1.0)
    assert set(np.unique(rounds.rewards)) == {0.0, 1.0}
    # 5 standard errors of 60,000 clicks at 2 %.
    assert rounds.rewards[:, 0].mean() == pytest.approx(rounds.means[:, 0].mean(), abs=0.003)


def test_rates_shift_to_a_new_direction():
    rounds = replace(PRESETS["clicks2to8-v1"], period=500, horizon=2000).rounds(0)
    log_odds = np.log(rounds.means / (1.0 - rounds.means))
    tastes = [theta_of(rounds, slice(t, t + 500), log_odds)[0] for t in (0, 500, 1000, 1500)]
    for one, other in itertools.pairwise(tastes):
        cosine = one[:-1] @ other[:-1] / np.linalg.norm(one[:-1]) / np.linalg.norm(other[:-1])
        assert cosine < 0.6, "at least 0.9 apart"
        assert one[-1] == pytest.approx(other[-1]), "while the rates stay as they are"


@pytest.mark.parametrize("dim", [6, 25])
@pytest.mark.parametrize("pair", PAIRS)
def test_click_presets_have_the_features_that_they_say(pair, dim):
    assert PRESETS[f"clicks{pair}-fast-d{dim}-v1"].dim == dim
    assert PRESETS[f"clicks{pair}-d{dim}-long-v1"].horizon == 100_000


def test_a_best_rate_that_no_slope_reaches_is_refused():
    with pytest.raises(ValueError, match=r"^clicks: if an average arm gets 0\.01, the best of 10 .* got 0\.5"):
        replace(RATES, clicks=(0.01, 0.5)).rounds(0)


def test_rates_without_a_best_arm_are_all_the_same():
    assert np.ptp(replace(RATES, clicks=(0.03, 0.03)).rounds(0).means) < 1e-12
    assert log_odds_line(0.5, 0.5, 5, 10) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_settings_that_rates_cannot_have_are_named():
    with pytest.raises(ValueError, match="features: expected 'sphere' with reward='rates', got 'uniform'"):
        replace(RATES, features="uniform")
    with pytest.raises(ValueError, match="dim: expected a whole number of at least 3, got 2"):
        replace(RATES, dim=2)
    with pytest.raises(ValueError, match="clicks: log-odds need probabilities strictly between 0 and 1"):
        replace(RATES, clicks=(0.0, 0.1))


# ---- arms and units -------------------------------------------------------------------------------------------------


def test_arms_on_the_sphere_favour_no_column():
    catalogue = replace(SPHERE, arms=20_000, horizon=1).rounds(0).catalogue
    np.testing.assert_allclose(np.linalg.norm(catalogue, axis=1), 1.0)
    np.testing.assert_allclose(catalogue.std(axis=0), 1 / math.sqrt(10), rtol=0.03)
    assert np.abs(catalogue.mean(axis=0)).max() < 0.01


def test_mixed_columns_have_sizes_from_a_hundredth_to_a_hundred():
    sizes = PRESETS["mixed-v1"].rounds(0).catalogue.std(axis=0)
    np.testing.assert_allclose(sizes, np.geomspace(0.01, 100.0, 10), rtol=0.1)  # 1,000 arms: 2 % a standard error


@pytest.mark.parametrize(("name", "power"), [("large", 20), ("small", -20)])
def test_a_single_column_in_other_units(name, power):
    plain, other = (PRESETS[f"{world}-v1"].rounds(3).catalogue for world in ("reference", f"column-{name}"))
    np.testing.assert_array_equal(other[:, -1], plain[:, -1] * 2.0**power)
    np.testing.assert_array_equal(other[:, :-1], plain[:, :-1])


def test_a_price_in_cents_beside_flags():
    rounds = PRESETS["price-still-v1"].rounds(0)
    flags, cents = rounds.catalogue[:, :9], rounds.catalogue[:, 9]
    assert set(np.unique(flags)) == {0.0, 1.0}
    np.testing.assert_allclose(flags.mean(axis=0), 0.5, atol=0.08)
    np.testing.assert_allclose(cents, np.rint(cents), atol=1e-9)
    assert 1800 < np.median(cents) < 2200
    assert np.log(cents).std() == pytest.approx(0.5, rel=0.1)
    worth = []
    for seed in range(30):
        drawn = PRESETS["price-still-v1"].rounds(seed)
        worth.append(np.abs(taste_at(drawn, 0) * drawn.catalogue.std(axis=0)))
    worth = np.mean(worth, axis=0)
    assert 0.6 < worth[9] / worth[:9].mean() < 2.0, "a price matters as much as a flag"


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_has_the_same_rounds_in_sensible_units(name):
    awkward, sensible = PRESETS[name].rounds(7), PRESETS[TWINS[name]].rounds(7)
    for array in ("pools", "arms", "means", "rewards", "shifts"):
        np.testing.assert_array_equal(getattr(awkward, array), getattr(sensible, array))
    assert (awkward.noise, awkward.reward_range) == (sensible.noise, sensible.reward_range)
    assert not np.array_equal(awkward.catalogue, sensible.catalogue)
    assert ("still" in name) == (len(awkward.shifts) == 0)
    _, residual = theta_of(sensible, slice(0, 500), sensible.means)
    assert residual < 1e-9, "linear in sensible features"
    spread = sensible.catalogue.std(axis=0)
    spread = spread[spread > 0]
    assert spread.max() / spread.min() < 1.6


@pytest.mark.parametrize(("name", "offset"), [("plus20", 20.0), ("minus3", -3.0)])
def test_an_offset_moves_rewards_and_a_constant_explains_it(name, offset):
    plain, moved, told = (PRESETS[f"{world}-v1"].rounds(1) for world in ("reference", name, f"{name}-constant"))
    np.testing.assert_array_equal(moved.means, plain.means + offset)
    np.testing.assert_allclose(moved.rewards - moved.means, plain.rewards - plain.means, atol=1e-12)
    np.testing.assert_array_equal(moved.catalogue, plain.catalogue)
    np.testing.assert_array_equal(told.catalogue[:, :10], plain.catalogue)
    np.testing.assert_array_equal(told.catalogue[:, 10], 1.0)
    assert moved.reward_range == pytest.approx([end + offset for end in plain.reward_range])
    assert theta_of(told, slice(0, 300), told.means)[0][10] == pytest.approx(offset)
    assert theta_of(moved, slice(0, 300), moved.means)[1] > 1.0, "not linear without the constant"


def test_reward_scale_multiplies_the_offset_too():
    one, other = replace(SPHERE, offset=2.0).rounds(0), replace(SPHERE, offset=2.0, reward_scale=8.0).rounds(0)
    np.testing.assert_array_equal(other.means, 8.0 * one.means)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 1}, "dim: expected a whole number of at least 2, got 1"),
        ({"reward": "click", "noise": World.noise}, "reward: expected 'gaussian' with features='flags', got 'click'"),
        ({"rule": "arms"}, "rule: expected 'distance' with features='flags', got 'arms'"),
    ],
)
def test_settings_that_flags_cannot_have_are_named(settings, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        World(**{"features": "flags", **settings})


# ---- noise ----------------------------------------------------------------------------------------------------------


def test_noise_of_the_noisy_and_the_noiseless():
    for name in ("noise-times20-v1", "noise-times20-still-v1"):
        rounds = PRESETS[name].rounds(0)
        noise = (rounds.rewards - rounds.means)[:, 0]
        assert noise[2500:].std() / noise[:2500].std() == pytest.approx(20.0, rel=0.1)
    quiet = PRESETS["noiseless-still-v1"].rounds(0)
    np.testing.assert_array_equal(quiet.rewards, quiet.means)


# ---- paths ----------------------------------------------------------------------------------------------------------


def test_seasons_go_back_and_forth_smoothly():
    settings = PRESETS["seasons-v1"]
    rounds = settings.rounds(0)
    assert len(rounds.shifts) == 0
    quarter = settings.horizon // 16
    summer, between, winter, spring, again = (taste_at(rounds, k * quarter, 4) for k in (0, 1, 2, 3, 4))
    np.testing.assert_allclose(again, summer, atol=0.01)
    np.testing.assert_allclose(between, spring, atol=0.01)
    assert np.linalg.norm(summer - winter) >= 0.9
    np.testing.assert_allclose(between, (summer + winter) / np.linalg.norm(summer + winter), atol=0.01)
    tastes = np.array([taste_at(rounds, t, 4) for t in range(0, 5000, 50)])
    np.testing.assert_allclose(np.linalg.norm(tastes, axis=1), 1.0, atol=0.01)
    assert np.linalg.norm(np.diff(tastes, axis=0), axis=1).max() < 0.15, "no jump in 50 rounds"


def test_day_and_night_take_turns():
    rounds = PRESETS["day-night-v1"].rounds(0)
    np.testing.assert_array_equal(rounds.shifts, np.arange(200, 10_000, 200))
    day, night, again = (taste_at(rounds, t, 100) for t in (0, 200, 400))
    np.testing.assert_allclose(day, again, atol=1e-9)
    assert np.linalg.norm(day - night) >= 0.9


def test_jolts_wander_and_jump():
    settings = PRESETS["jolts-v1"]
    rounds = settings.rounds(0)
    np.testing.assert_array_equal(rounds.shifts, np.arange(1600, 8000, 1600))
    for shift in rounds.shifts:
        before, after = taste_at(rounds, shift - 4, 4), taste_at(rounds, shift, 4)
        assert np.linalg.norm(after - before) > 0.5, "a jump"
        later = taste_at(rounds, shift + 400, 4)
        # 400 steps of 0.002 in ten coordinates: 0.002 sqrt(4,000) = 0.13 on average.
        assert 0.03 < np.linalg.norm(later - after) < 0.4, "and a walk"


def test_a_walk_without_steps_is_jumps():
    jolts, jumps = (replace(SPHERE, path=path, step=0.0, horizon=2000).rounds(0) for path in ("jolts", "jumps"))
    np.testing.assert_allclose(jolts.means, jumps.means, atol=1e-12)


def test_seasons_need_a_plane():
    with pytest.raises(ValueError, match="dim: expected a whole number of at least 2, got 1"):
        World(path="seasons", dim=1)


# ---- late rewards ---------------------------------------------------------------------------------------------------


def test_rounds_say_when_rewards_are_learned():
    rounds = synthetic("delay100-fixed", 0)
    assert (rounds.batch, rounds.delay, rounds.catalogue.shape, rounds.pools.shape) == (1, 100, (10, 10), (20_000, 10))
    assert rounds.shifts.tolist() == [5000, 10_000, 15_000]
    assert "noise 0.1, delay 100, seed 0" in repr(rounds)
    assert "noise 0.1, batch 1,000, seed 0" in repr(synthetic("batch1000-still", 0))
    in_time = replace(PRESETS["batch1000-v1"], batch=1).rounds(2)
    np.testing.assert_array_equal(PRESETS["batch1000-v1"].rounds(2).rewards, in_time.rewards)
    assert (in_time.batch, in_time.delay) == (1, 0)
