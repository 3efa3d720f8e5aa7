"""Simulated worlds: what is drawn is what the settings say."""

import itertools
import math
from dataclasses import FrozenInstanceError, asdict, replace

import numpy as np
import pytest

from driftbandit.environments import PRESETS, Rounds, World, synthetic, world
from driftbandit.environments.drawing import draw_rounds
from driftbandit.environments.synthetic import preset_name

ARRAYS = ("catalogue", "pools", "arms", "means", "rewards", "shifts")
PAPERS = ("table1-v1", "exact-v1", "text-v1", "stationary-v1", "rotation-v1", "brownian-v1", "recurring-v1")
"""Presets that also have a version with clicks."""
FEASIBLE_TEXT = {"shift": 0.1, "share": 0.2, "dim": 5, "period": 100}


def small(**overrides):
    """A world of table 1 that is quick to draw."""
    return World(**{"horizon": 400, "period": 100, "arms": 200, "dim": 5, **overrides})


def segments(rounds):
    """Slices of the rounds of each regime."""
    edges = [0, *rounds.shifts.tolist(), len(rounds)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def weights_of(rounds, part, values=None):
    """Least-squares weights that explain the means (or `values`) of these rounds, and the largest residual."""
    x = rounds.catalogue[rounds.pools[part]].reshape(-1, rounds.dim)
    y = (rounds.means if values is None else values)[part].ravel()
    weights, _, rank, _ = np.linalg.lstsq(x[:300], y[:300], rcond=None)
    assert rank == rounds.dim, "too few different arms to recover theta"
    return weights, np.abs(x @ weights - y).max()


def thetas_of(rounds):
    """Theta of every regime, recovered from the means of the arms shown."""
    found = [weights_of(rounds, part) for part in segments(rounds)]
    assert max(residual for _, residual in found) < 1e-12, "means are not linear in the features"
    return np.array([weights for weights, _ in found])


def feasible(name):
    """Settings that make a preset, the impossible 'text' included, small and possible."""
    if name.startswith("people"):
        return {"users": 20, "visits": 30}
    changes = {"horizon": 600, "period": 200}
    if name.startswith("text"):
        changes |= FEASIBLE_TEXT
    return changes


def attempt(**settings):
    """The rounds of a small world, or None and why it was refused."""
    try:
        return synthetic(small(**settings), 0), ""
    except ValueError as error:
        return None, str(error)


# ---- the same seed, the same world ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(PRESETS))
def test_the_same_seed_gives_the_same_arrays_and_another_does_not(name):
    one, again, other = (synthetic(name, seed, **feasible(name)) for seed in (4, 4, 5))
    for array in ARRAYS:
        np.testing.assert_array_equal(getattr(one, array), getattr(again, array))
    for array in ("catalogue", "pools", "means", "rewards"):
        assert not np.array_equal(getattr(one, array), getattr(other, array)), array


def test_noise_and_pools_do_not_depend_on_each_other():
    # One stream a purpose: a wider world keeps its arms, a noisier one keeps its pools and means.
    calm, loud = synthetic(small(noise=0.01), 3), synthetic(small(noise=0.5), 3)
    for array in ("catalogue", "pools", "means", "shifts"):
        np.testing.assert_array_equal(getattr(calm, array), getattr(loud, array))
    np.testing.assert_allclose((loud.rewards - loud.means) / 0.5, (calm.rewards - calm.means) / 0.01, atol=1e-12)


def test_arms_and_noise_come_from_different_streams():
    # In one dimension an arm is the sign of its draw: drawn from the same numbers, all signs would agree.
    rounds = synthetic(World(dim=1, arms=400, pool=1, horizon=400, path="still"), 0)
    noise = (rounds.rewards - rounds.means)[:, 0]
    # 5 standard errors of a share of 400 even coins.
    assert np.mean(np.sign(noise) == rounds.catalogue[:, 0]) == pytest.approx(0.5, abs=0.125)


def test_a_preset_name_and_its_settings_are_the_same_world():
    by_name = synthetic("table1", 2, horizon=50)
    by_world = synthetic(PRESETS["table1-v1"], 2, horizon=50)
    for array in ARRAYS:
        np.testing.assert_array_equal(getattr(by_name, array), getattr(by_world, array))


@pytest.mark.parametrize("reward", ["gaussian", "click", "logit"])
def test_shapes_and_types(reward):
    rounds = synthetic(small(reward=reward, horizon=70, pool=7, arms=40, dim=4), 0)
    assert rounds.catalogue.shape == (40, 4)
    assert rounds.pools.shape == rounds.arms.shape == rounds.means.shape == rounds.rewards.shape == (70, 7)
    assert len(rounds) == 70
    assert rounds.dim == 4
    for array in (rounds.pools, rounds.arms, rounds.shifts):
        assert array.dtype == np.int64
    for array in (rounds.catalogue, rounds.means, rounds.rewards):
        assert array.dtype == np.float64
    assert rounds.catalogue.flags.c_contiguous


def test_settings_say_what_the_world_was_made_from():
    settings = small(noise=0.2)
    assert synthetic(settings, 9).seed == 9


# ---- arms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["gaussian", "uniform"])
def test_arms_have_unit_length(features):
    rounds = synthetic(small(features=features, path="still"), 0)
    np.testing.assert_allclose(np.linalg.norm(rounds.catalogue, axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("features", ["gaussian", "uniform"])
def test_click_arms_have_unit_length_beside_their_constant(features):
    rounds = synthetic(small(features=features, path="still", reward="click"), 0)
    np.testing.assert_array_equal(rounds.catalogue[:, -1], 1.0)
    np.testing.assert_allclose(np.linalg.norm(rounds.catalogue[:, :-1], axis=1), 1.0, atol=1e-12)


def test_variances_of_gaussian_arms_fall_as_the_authors_have_it():
    dim, arms = 10, 40_000
    x = synthetic(World(dim=dim, arms=arms, path="still", horizon=2), 0).catalogue
    # Normalising cancels in a ratio of coordinates, and |N(0, s^2) / N(0, 1)| is a folded Cauchy with median s.
    # Its density there is 1 / (pi s): 5 standard errors of the median are 5 * pi / 2 / sqrt(40,000) = 3.9 % of s.
    medians = np.median(np.abs(x / x[:, :1]), axis=0)
    np.testing.assert_allclose(medians, np.sqrt((dim - np.arange(dim)) / dim), rtol=0.04)
    # Signs are even: 5 standard errors of a mean sign are 0.025.
    np.testing.assert_allclose(np.sign(x).mean(axis=0), 0.0, atol=0.025)


def test_uniform_arms_are_normalised_uniform_draws():
    x = synthetic(World(features="uniform", arms=40_000, path="still", horizon=2), 0).catalogue
    assert x.min() >= 0.0
    # P(U1 <= U2 / 2) = 1/4 whatever the length; 5 standard errors are 0.011.
    assert np.mean(x[:, 3] <= 0.5 * x[:, 7]) == pytest.approx(0.25, abs=0.011)


# ---- pools ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arms", "pool"), [(1000, 10), (100, 10), (30, 6), (12, 11), (60, 57), (10, 10), (7, 1), (1, 1)]
)
def test_pools_have_no_repeats_and_show_every_arm_equally_often(arms, pool):
    horizon = 6000
    pools = synthetic(World(arms=arms, pool=pool, horizon=horizon, path="still"), 1).arms
    assert pools.min() >= 0
    assert pools.max() < arms
    assert (np.diff(np.sort(pools, axis=1), axis=1) > 0).all(), "an arm is shown twice in a round"
    # Every arm is shown in a share pool / arms of the rounds. 5 standard errors and one for looking at up to 1,000.
    share = pool / arms
    counts = np.bincount(pools.ravel(), minlength=arms)
    assert np.abs(counts - horizon * share).max() <= 6.0 * math.sqrt(horizon * share * (1.0 - share))
    # And in random order: the same for the first place alone.
    first = np.bincount(pools[:, 0], minlength=arms)
    spread = math.sqrt(horizon / arms * (1.0 - 1.0 / arms))
    assert np.abs(first - horizon / arms).max() <= 6.0 * spread + 1.0


def test_pools_of_neighbouring_rounds_differ():
    pools = synthetic(World(arms=12, pool=11, horizon=500, path="still"), 1).pools
    assert len({tuple(row) for row in pools.tolist()}) > 490, "12!/1! orders: repeats among 500 are very unlikely"


# ---- theta ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
def test_consecutive_thetas_differ_by_the_shift_at_least(shift, seed):
    thetas = thetas_of(synthetic("table1", seed, shift=shift, period=300))
    assert len(thetas) == 17
    np.testing.assert_allclose(np.linalg.norm(thetas, axis=1), 1.0, atol=1e-10)
    assert thetas.min() > -1e-12
    distances = np.linalg.norm(np.diff(thetas, axis=0), axis=1)
    assert distances.min() >= shift - 1e-10


def test_shifts_come_exactly_every_period():
    rounds = synthetic(small(horizon=1000, period=150), 0)
    assert rounds.shifts.tolist() == [150, 300, 450, 600, 750, 900]
    # The round of a shift is the first of the new regime: the old theta explains the one before it, not this one.
    old, residual = weights_of(rounds, slice(0, 150))
    assert residual < 1e-12
    x = rounds.catalogue[rounds.pools[150]]
    assert np.abs(x @ old - rounds.means[150]).max() > 1e-3


def test_a_horizon_of_one_period_has_no_shift():
    assert synthetic(small(horizon=100, period=100), 0).shifts.tolist() == []
    assert synthetic(small(horizon=101, period=100), 0).shifts.tolist() == [100]


def test_coin_flips_delay_the_shifts():
    rounds = synthetic(small(horizon=4000, period=100, times="coin"), 0)
    gaps = np.diff(rounds.shifts, prepend=0)
    assert gaps.min() >= 100
    assert len(set(gaps.tolist())) > 2, "about 39 geometric waits: all within two values has chance 1e-5"
    # Mean wait about 2 flips; one gap waits more than 20 with chance 1e-6.
    assert gaps.max() <= 100 + 21
    thetas = thetas_of(rounds)
    assert np.linalg.norm(np.diff(thetas, axis=0), axis=1).min() >= 0.9 - 1e-10
    assert synthetic(small(horizon=4000, times="coin"), 1).shifts.tolist() != rounds.shifts.tolist()


@pytest.mark.parametrize("share", [0.1, 0.35, 0.8])
@pytest.mark.parametrize("reward", ["gaussian", "click"])
def test_the_right_share_of_arms_changes(share, reward):
    rounds = synthetic(small(share=share, reward=reward, horizon=2000, period=500), 2)
    thetas = thetas_of(rounds)
    expected = round(share * 200)
    for number, part in enumerate(segments(rounds)[1:], start=1):
        rows = np.zeros((200, rounds.dim))
        rows[rounds.arms[part].ravel()] = rounds.catalogue[rounds.pools[part].ravel()]
        assert np.abs(rows).sum(axis=1).min() > 0.0, "500 rounds of 10 show each of 200 arms, but for chance 1e-9"
        # What a model that still believes in the old theta gets wrong about every arm.
        change = np.abs(rows @ (thetas[number] - thetas[number - 1]))
        assert np.sum(change > 1e-9) == expected
    assert np.linalg.norm(np.diff(thetas, axis=0), axis=1).min() > 0.0


def test_arms_that_change_keep_their_features():
    rounds = synthetic(small(share=0.35), 2)
    changed = rounds.arms < 70
    np.testing.assert_array_equal(rounds.catalogue[rounds.pools[changed]], rounds.catalogue[rounds.arms[changed]])
    lengths = np.linalg.norm(rounds.catalogue, axis=1)
    assert lengths.max() <= 1.0 + 1e-12, "a projection never lengthens"


def test_arm_ids_survive_the_projection():
    plain, projected = synthetic(small(share=1.0), 2), synthetic(small(share=0.5), 2)
    np.testing.assert_array_equal(plain.arms, projected.arms)
    assert projected.arms.max() < 200
    np.testing.assert_array_equal(plain.pools, plain.arms)


def test_no_arm_changes_at_share_zero():
    rounds = synthetic(small(share=0.0), 2)
    assert rounds.shifts.tolist() == []
    assert rounds.catalogue.shape == (200, 5)
    _, residual = weights_of(rounds, slice(0, 400))
    assert residual < 1e-12


def test_the_papers_text_is_impossible_and_says_so_with_figures():
    with pytest.raises(ValueError, match="shift") as caught:
        synthetic("text", 1)
    message = str(caught.value)
    for figure in ("204,800", "100 %", "0.9", "0.0 %"):
        assert figure in message
    assert "\n" not in message


def test_an_impossible_distance_says_how_far_it_got():
    with pytest.raises(ValueError, match=r"shift: no theta in 204,800 draws is 1\.5 away.*farthest was (0|1)\.\d{3}"):
        synthetic(small(shift=1.5), 0)


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_text_works_where_it_is_possible(seed):
    rounds = synthetic("text", seed, arms=300, horizon=500, **FEASIBLE_TEXT)
    assert rounds.catalogue.min() >= 0.0
    thetas = thetas_of(rounds)
    changes = np.abs(rounds.catalogue @ np.diff(thetas, axis=0).T)
    assert (np.mean(changes > 0.1, axis=0) >= 0.2 - 1e-9).all()


def test_a_still_world_has_one_theta():
    rounds = synthetic("stationary", 0, horizon=3000)
    assert rounds.shifts.tolist() == []
    theta, residual = weights_of(rounds, slice(0, 3000))
    assert residual < 1e-12
    assert np.linalg.norm(theta) == pytest.approx(1.0, abs=1e-10)
    assert len(synthetic("stationary", 0)) == 20_000


def thetas_by_round(**settings):
    """Theta of every round of a drifting world, recovered from its own pool."""
    rounds = synthetic(World(dim=3, arms=50, pool=8, horizon=240, **settings), 4)
    assert rounds.shifts.tolist() == []
    return np.array([weights_of(rounds, slice(t, t + 1))[0] for t in range(240)])


def test_rotation_moves_every_round_and_returns_after_a_full_turn():
    thetas = thetas_by_round(path="rotation", turns=2.0)
    np.testing.assert_allclose(np.linalg.norm(thetas, axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(thetas[120:], thetas[:120], atol=1e-9)
    np.testing.assert_allclose(thetas[60], -thetas[0], atol=1e-9)
    steps = np.linalg.norm(np.diff(thetas, axis=0), axis=1)
    np.testing.assert_allclose(steps, 2.0 * math.sin(math.pi * 2.0 / 240.0), atol=1e-9)


def test_brownian_moves_every_round_and_stays_on_the_unit_sphere():
    thetas = thetas_by_round(path="brownian", step=0.02)
    np.testing.assert_allclose(np.linalg.norm(thetas, axis=1), 1.0, atol=1e-9)
    squares = np.sum(np.diff(thetas, axis=0) ** 2, axis=1)
    assert squares.min() > 1e-9
    # Two of three coordinates remain on the sphere: 2 * 0.02^2; 5 standard errors, sqrt(2 / 2 / 239) each, are 32 %.
    assert squares.mean() == pytest.approx(8e-4, rel=0.33)


def test_long_drifts_are_gathered_without_seams():
    # Features are gathered 4,096 rounds at a time; the seam must not show.
    rounds = synthetic(World(path="rotation", dim=3, arms=30, pool=6, horizon=4200), 0)
    for t in (4094, 4095, 4096, 4097, 4199):
        theta, residual = weights_of(rounds, slice(t, t + 1))
        assert residual < 1e-12
        assert np.linalg.norm(theta) == pytest.approx(1.0, abs=1e-9)


def test_many_short_regimes_are_computed_like_few():
    rounds = synthetic(small(period=2, shift=0.3, dim=2), 0)
    assert len(rounds.shifts) == 199
    thetas = thetas_of(rounds)
    assert np.linalg.norm(np.diff(thetas, axis=0), axis=1).min() >= 0.3 - 1e-9


def test_recurring_worlds_alternate():
    rounds = synthetic("recurring", 3, horizon=2500)
    assert rounds.shifts.tolist() == [500, 1000, 1500, 2000]
    thetas = thetas_of(rounds)
    for number in range(3):
        np.testing.assert_allclose(thetas[number], thetas[number + 2], atol=1e-10)
    assert np.linalg.norm(thetas[0] - thetas[1]) >= 0.9 - 1e-10


def test_recurring_worlds_with_three_regimes_come_back_to_the_first():
    thetas = thetas_of(synthetic("recurring", 3, horizon=3500, regimes=3, shift=0.3))
    np.testing.assert_allclose(thetas[3:6], thetas[:3], atol=1e-10)
    np.testing.assert_allclose(thetas[6], thetas[0], atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1])
def test_recurring_shifts_are_large_enough_on_the_way_back_too(seed):
    # `shift` is the smallest size of a shift; the one from the last regime to the first is a shift like any other.
    thetas = thetas_of(synthetic("recurring", seed, horizon=2000, regimes=3))
    distances = np.linalg.norm(np.diff(thetas, axis=0), axis=1)
    assert distances.min() >= 0.9 - 1e-10


@pytest.mark.parametrize("settings", [{"path": "recurring", "regimes": 1}, {"share": 0.001}])
def test_shifts_are_only_listed_where_something_changes(settings):
    # One regime that alternates with itself, or a share that rounds to no arm: no shift, or no such world.
    rounds, message = attempt(**settings)
    assert rounds.shifts.tolist() == [] if rounds else message.startswith(("regimes: ", "share: "))


# ---- rewards --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.01, 0.1, 2.0])
def test_noise_has_the_right_standard_deviation(noise):
    rounds = synthetic(World(noise=noise, path="still", horizon=20_000, pool=2), 5)
    drawn = (rounds.rewards - rounds.means)[:, 0]
    # 5 standard errors: of a standard deviation sigma / sqrt(2 T), of a mean sigma / sqrt(T).
    assert drawn.std() == pytest.approx(noise, rel=5.0 / math.sqrt(40_000))
    assert abs(drawn.mean()) <= 5.0 * noise / math.sqrt(20_000)
    lag = np.corrcoef(drawn[1:], drawn[:-1])[0, 1]
    assert abs(lag) <= 5.0 / math.sqrt(20_000), "noise of neighbouring rounds is independent"
    assert rounds.noise == noise


def test_no_noise_pays_the_mean():
    rounds = synthetic(small(noise=0.0), 0)
    np.testing.assert_array_equal(rounds.rewards, rounds.means)


def test_all_arms_of_a_round_share_its_noise():
    rounds = synthetic(small(noise=0.3), 0)
    drawn = rounds.rewards - rounds.means
    np.testing.assert_allclose(drawn, np.repeat(drawn[:, :1], 10, axis=1), atol=1e-12)


@pytest.mark.parametrize("name", [name for name in PRESETS if "clicks" not in name])
def test_almost_all_rewards_are_in_the_range_that_policies_are_told(name):
    rounds = synthetic(name, 0, **feasible(name))
    low, high = rounds.reward_range
    # Four standard deviations: at most 6e-5 of the noise is beyond, and the means rarely touch their own ends.
    assert np.mean((rounds.rewards < low) | (rounds.rewards > high)) <= 1e-3
    assert low < high


@pytest.mark.parametrize("path", ["jumps", "recurring", "rotation", "brownian", "still"])
@pytest.mark.parametrize("features", ["gaussian", "uniform"])
def test_means_are_in_the_range_that_policies_are_told(path, features):
    rounds = synthetic(small(path=path, features=features, noise=0.01, shift=0.3, step=0.1), 0)
    low, high = rounds.reward_range
    assert rounds.means.min() >= low
    assert rounds.means.max() <= high


@pytest.mark.parametrize("name", PAPERS)
def test_every_preset_of_the_papers_kind_has_a_click_version(name):
    clicks = name.replace("-v1", "-clicks-v1")
    assert clicks in PRESETS
    same = replace(PRESETS[clicks], reward="gaussian", noise=PRESETS[name].noise)
    assert same == PRESETS[name], "only the reward differs, and with it the noise"
    rounds = synthetic(clicks, 0, **feasible(name))
    assert set(np.unique(rounds.rewards)) == {0.0, 1.0}
    low, high = PRESETS[clicks].clicks
    assert low <= rounds.means.min() < rounds.means.max() <= high
    assert rounds.reward_range == (0.0, 1.0)
    assert 0.0 < rounds.noise <= 0.5, "no 0/1 variable has a larger standard deviation"


@pytest.mark.parametrize("clicks", [(0.05, 0.2), (0.0, 1.0), (0.3, 0.31)])
def test_click_probabilities_are_linear_in_the_features(clicks):
    low, high = clicks
    rounds = synthetic(small(reward="click", clicks=clicks), 1)
    for part in segments(rounds):
        weights, residual = weights_of(rounds, part)
        assert residual < 1e-13
        # p = low + (high - low) (1 + x'theta) / 2 with |theta| = 1.
        assert np.linalg.norm(weights[:-1]) == pytest.approx((high - low) / 2.0, abs=1e-11)
        assert weights[-1] == pytest.approx((low + high) / 2.0, abs=1e-11)


def test_logit_probabilities_are_linear_in_log_odds():
    low, high = 0.02, 0.6
    rounds = synthetic(small(reward="logit", clicks=(low, high)), 1)
    assert low <= rounds.means.min() < rounds.means.max() <= high
    odds = np.log(rounds.means / (1.0 - rounds.means))
    ends = [math.log(p / (1.0 - p)) for p in (low, high)]
    for part in segments(rounds):
        weights, residual = weights_of(rounds, part, odds)
        assert residual < 1e-12
        assert np.linalg.norm(weights[:-1]) == pytest.approx((ends[1] - ends[0]) / 2.0, abs=1e-10)
        assert weights[-1] == pytest.approx((ends[0] + ends[1]) / 2.0, abs=1e-10)
    _, residual = weights_of(rounds, segments(rounds)[0])
    assert residual > 1e-3, "and not linear in the probability"


@pytest.mark.parametrize("reward", ["click", "logit"])
def test_click_rates_agree_with_the_means(reward):
    settings = World(reward=reward, clicks=(0.05, 0.6), path="still", horizon=20_000, arms=50, pool=3, dim=4)
    rounds = synthetic(settings, 8)
    means, clicks = rounds.means[:, 1], rounds.rewards[:, 1]
    # One column, because all arms of a round share one draw. 4.5 standard errors of a sum of independent clicks, in
    # the whole and in each quarter of the probabilities.
    quarters = np.quantile(means, [0.0, 0.25, 0.5, 0.75, 1.0])
    for low, high in [(0.0, 1.0), *itertools.pairwise(quarters)]:
        some = (means >= low) & (means <= high)
        spread = math.sqrt(np.sum(means[some] * (1.0 - means[some])))
        assert abs(np.sum(clicks[some] - means[some])) <= 4.5 * spread


def test_a_better_arm_clicks_whenever_a_worse_one_does():
    rounds = synthetic(small(reward="click"), 0)
    order = np.argsort(rounds.means, axis=1)
    assert (np.diff(np.take_along_axis(rounds.rewards, order, axis=1), axis=1) >= 0.0).all()


# ---- regret ---------------------------------------------------------------------------------------------------------


def test_regret_by_hand():
    means = np.array([[0.1, 0.5, 0.2], [0.9, -0.3, 0.9], [0.0, 0.0, 0.25]])
    rounds = Rounds(
        catalogue=np.eye(3),
        pools=np.tile(np.arange(3), (3, 1)),
        arms=np.tile(np.arange(3), (3, 1)),
        means=means,
        rewards=np.array([[9.0, -9.0, 0.0]] * 3),  # what was paid does not matter
        shifts=np.array([], dtype=np.int64),
        noise=0.1,
        reward_range=(-9.0, 9.0),
    )
    np.testing.assert_allclose(rounds.regret_of(np.array([0, 1, 2])), [0.4, 1.2, 0.0], atol=1e-15)
    np.testing.assert_allclose(rounds.regret_of(np.array([1, 2, 0])), [0.0, 0.0, 0.25], atol=1e-15)


# ---- names and versions ---------------------------------------------------------------------------------------------


def test_presets_by_short_and_full_name():
    assert preset_name("table1") == "table1-v1"
    assert preset_name("table1-v1") == "table1-v1"
    assert preset_name("table1-clicks") == "table1-clicks-v1"
    assert world("rotation-clicks") == PRESETS["rotation-clicks-v1"]


def test_a_short_name_means_the_newest_version(monkeypatch):
    for version in (2, 10, 9):
        monkeypatch.setitem(PRESETS, f"table1-v{version}", World(noise=float(version)))
    assert preset_name("table1") == "table1-v10"
    assert world("table1").noise == 10.0
    assert world("table1-v2").noise == 2.0
    assert world("table1-v1") == World()
    assert preset_name("table1-clicks") == "table1-clicks-v1"


def test_table1_is_the_world_of_the_notes():
    expected = {
        "path": "jumps",
        "features": "gaussian",
        "dim": 10,
        "arms": 1000,
        "pool": 10,
        "rule": "distance",
        "share": 1.0,
        "times": "fixed",
        "horizon": 5000,
        "reward": "gaussian",
    }
    assert expected.items() <= asdict(world("table1")).items()


def test_overrides_change_only_what_they_name():
    changed = asdict(world("table1", noise=0.3))
    assert changed.pop("noise") == 0.3
    assert changed.items() <= asdict(World()).items()


def test_settings_cannot_be_changed_behind_the_worlds_back():
    with pytest.raises(FrozenInstanceError):
        world("table1").noise = 3.0


# ---- bad settings ---------------------------------------------------------------------------------------------------

BAD = [
    ("path", "jump"),
    ("features", "flag"),
    ("thetas", "anywhere"),
    ("constant", 1),
    ("constant", "yes"),
    ("column_scale", (1.0, 2.0)),
    ("column_scale", 2.0),
    ("column_scale", "large"),
    ("column_scale", (0.0,) * 10),
    ("column_scale", (math.nan,) * 10),
    ("column_scale", ("1",) * 10),
    ("offset", math.inf),
    ("offset", "20"),
    ("offset", None),
    ("batch", 0),
    ("batch", 1.5),
    ("batch", True),
    ("delay", -1),
    ("delay", 2.5),
    ("delay", None),
    ("path", None),
    ("features", "normal"),
    ("rule", "l2"),
    ("times", "random"),
    ("reward", "clicks"),
    ("dim", 0),
    ("dim", -3),
    ("dim", 2.5),
    ("dim", "ten"),
    ("dim", True),
    ("dim", None),
    ("arms", 0),
    ("arms", math.nan),
    ("pool", 0),
    ("pool", 1001),
    ("period", 0),
    ("period", -800),
    ("horizon", 0),
    ("horizon", 1e3),
    ("regimes", 0),
    ("noise", -0.1),
    ("noise", math.nan),
    ("noise", math.inf),
    ("noise", "loud"),
    ("noise", None),
    ("shift", -0.9),
    ("shift", math.nan),
    ("shift", "far"),
    ("turns", -1.0),
    ("turns", math.inf),
    ("step", -0.1),
    ("step", "big"),
    ("share", -0.1),
    ("share", 1.1),
    ("share", math.nan),
    ("share", "half"),
    ("clicks", (0.3, 0.2)),
    ("clicks", (-0.1, 0.2)),
    ("clicks", (0.1, 1.2)),
    ("clicks", (math.nan, 0.2)),
    ("clicks", (0.1, "high")),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: expected .*, got "):
        World(**{name: value})
    with pytest.raises(ValueError, match=rf"^{name}: expected "):
        synthetic("table1", 0, **{name: value})


@pytest.mark.parametrize("value", [0.5, None, (0.1, 0.2, 0.3), (0.1,), "text"])
def test_clicks_that_are_no_pair_are_named(value):
    with pytest.raises(ValueError, match=r"^clicks: "):
        World(clicks=value)


@pytest.mark.parametrize(("name", "value"), [("noise", "0.1"), ("share", "0.5"), ("shift", "0.9")])
def test_numbers_as_text_are_refused_or_understood(name, value):
    # Either answer will do; passing the check and failing in the draws will not.
    rounds, message = attempt(**{name: value})
    if rounds:
        np.testing.assert_array_equal(rounds.rewards, synthetic(small(**{name: float(value)}), 0).rewards)
    else:
        assert message.startswith(f"{name}: ")


@pytest.mark.parametrize("path", ["recurring", "rotation", "brownian", "still"])
def test_a_share_needs_jumps(path):
    with pytest.raises(ValueError, match=r"^share: "):
        World(path=path, share=0.5)


@pytest.mark.parametrize("reward", ["click", "logit", "rates"])
@pytest.mark.parametrize(
    ("name", "value"), [("noise", 0.1), ("tails", "student"), ("noise_jump", 5.0), ("offset", 3.0)]
)
def test_settings_that_clicks_have_no_use_for_are_named(reward, name, value):
    with pytest.raises(ValueError, match=rf"^{name}: clicks have no noise but their own.* got {value!r}"):
        small(reward=reward, features="sphere", **{name: value})


def test_clicks_need_room_for_the_constant():
    with pytest.raises(ValueError, match=r"^dim: expected a whole number of at least 2, got 1"):
        World(reward="click", dim=1)


@pytest.mark.parametrize("clicks", [(0.0, 0.2), (0.1, 1.0)])
def test_log_odds_of_certainty_are_refused(clicks):
    # ln(p / (1 - p)) is infinite at 0 and 1; NaN means would follow.
    with pytest.raises(ValueError, match=r"^clicks: "):
        synthetic(small(reward="logit", clicks=clicks), 0)


@pytest.mark.parametrize(("dim", "reward"), [(1, "gaussian"), (2, "click")])
def test_a_rotation_needs_a_plane(dim, reward):
    with pytest.raises(ValueError, match=r"^dim: "):
        synthetic(small(path="rotation", dim=dim, reward=reward), 0)


def test_unknown_settings_are_named():
    with pytest.raises(ValueError, match=r"^settings: unknown 'nois' \(did you mean 'noise'\?\), 'sift' \("):
        synthetic("table1", 0, nois=0.1, sift=0.9, horizon=10)
    with pytest.raises(ValueError, match="nois"):
        world("table1", nois=0.1)


def test_unknown_settings_are_named_beside_settings_of_your_own_too():
    with pytest.raises(ValueError, match="nois"):
        synthetic(World(), 0, nois=0.1)


@pytest.mark.parametrize("name", ["table2", "", "table1-v99", "v1", "Table1", "table"])
def test_unknown_presets_list_the_known_ones(name):
    with pytest.raises(ValueError, match=r"^preset: unknown .*; expected one of table1-v1, .*recurring-clicks-v1"):
        synthetic(name, 0)


@pytest.mark.parametrize("seed", [-1, 1.0, "0", None, True, math.nan])
def test_bad_seeds_are_named(seed):
    with pytest.raises(ValueError, match=r"^seed: expected a whole number of at least 0, got "):
        synthetic("table1", seed, horizon=10)


def test_numpy_seeds_are_seeds():
    one, other = synthetic("table1", np.int64(3), horizon=10), synthetic("table1", 3, horizon=10)
    np.testing.assert_array_equal(one.rewards, other.rewards)


@pytest.mark.parametrize("arms", [1, 2])
def test_the_smallest_worlds_work(arms):
    rounds = synthetic(World(dim=1, arms=arms, pool=arms, horizon=1, path="still"), 0)
    assert rounds.means.shape == (1, arms)
    np.testing.assert_allclose(np.abs(rounds.catalogue), 1.0)


@pytest.mark.parametrize("size", [0.1, 0.9, 2.0])
def test_exact_shifts_have_exactly_the_stated_size(size):
    rounds = synthetic("exact", seed=3, shift=size, horizon=1000, period=200, noise=0.0)
    thetas = [
        np.linalg.lstsq(
            rounds.catalogue[rounds.pools[t : t + 50]].reshape(-1, 10), rounds.means[t : t + 50].ravel(), rcond=None
        )[0]
        for t in range(0, 1000, 200)
    ]
    assert np.linalg.norm(thetas, axis=1) == pytest.approx(np.ones(5))
    assert np.linalg.norm(np.diff(thetas, axis=0), axis=1) == pytest.approx(np.full(4, size))


def test_exact_shifts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"^shift: expected more than 0 and at most 2 with rule='exact', got 2.1"):
        world("exact", shift=2.1)
    with pytest.raises(ValueError, match=r"^regimes: expected 2 with rule='exact', got 3"):
        World(rule="exact", path="recurring", regimes=3)
    with pytest.raises(ValueError, match=r"^dim: "):
        World(rule="exact", dim=1)


def test_tastes_of_one_seed_with_pools_of_another():
    one, other = draw_rounds(World(horizon=100), 5), draw_rounds(World(horizon=100), 6, tastes=5)
    assert (one.catalogue == other.catalogue).all()
    assert (one.pools != other.pools).any()
    same = draw_rounds(World(horizon=100), 5, tastes=5)
    assert (same.rewards == one.rewards).all()
