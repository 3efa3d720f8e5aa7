"""Which frame features get: units for columns of different size, an intercept for rewards with an offset."""

import numpy as np
import pytest

from driftbandit.kernels.driftucb import frames


def lines(columns, weights, offset=0.0, noise=0.05, seed=0):
    """Arms with these columns and rewards with these weights."""
    rewards = columns @ np.asarray(weights) + offset
    return np.column_stack([columns, rewards + noise * np.random.default_rng(seed).standard_normal(len(columns))])


def best(seen):
    d = seen.shape[1] - 1
    units, anchor = np.full(d + 1, np.nan), np.full(d + 1, np.nan)
    columns, typical = frames.best_frame(seen, units, anchor)
    return columns, units[:columns], anchor[:columns], typical


def plain(count=64, dim=4, seed=1):
    return np.random.default_rng(seed).standard_normal((count, dim))


TASTE = [0.5, -0.4, 0.3, 0.6]


def test_frames_are_tested_at_powers_of_two_and_half_way_between():
    due = [count for count in range(1, 257) if frames.is_due(count)]
    assert due == [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
    assert frames.is_due(frames.TRIAL), "the last test sees all"


def test_similar_columns_stay_raw():
    x = plain() * [1.0, 1.5, 0.8, 1.0]
    columns, units, anchor, typical = best(lines(x, TASTE))
    assert (columns, units.tolist(), anchor.tolist()) == (4, [1.0] * 4, [0.0] * 4)
    assert typical == pytest.approx(np.mean(np.sum(x**2, axis=1)))


def test_a_price_beside_flags_gets_a_unit_of_its_own():
    """The unit is 1 / (root mean square of the values that are not 0): 1 for a flag, however rare."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(500.0, 1500.0, 64), rng.random((64, 3)) < 0.3]).astype(float)
    columns, units, anchor, _ = best(lines(x, [0.001, 0.5, -0.5, 0.3]))
    assert columns == 4
    assert units == pytest.approx([1.0 / np.sqrt(np.mean(x[:, 0] ** 2)), 1.0, 1.0, 1.0])
    assert not anchor.any()


@pytest.mark.parametrize("offset", [20.0, -3.0])
def test_rewards_with_an_offset_get_an_intercept(offset):
    columns, units, anchor, typical = best(lines(plain(), TASTE, offset))
    assert columns == 5
    assert anchor[4] == pytest.approx(offset, abs=0.2)
    assert not anchor[:4].any()
    assert units.tolist() == [1.0] * 4 + [pytest.approx(np.sqrt(typical))]


def test_a_constant_column_is_the_intercept():
    """A column of 2 needs a weight of 10 for rewards around 20; no column is added."""
    x = plain()
    x[:, 2] = 2.0
    columns, units, anchor, typical = best(lines(x, [0.5, -0.4, 0.0, 0.6], 20.0))
    assert columns == 4
    assert anchor[2] == pytest.approx(10.0, abs=0.1)
    assert not anchor[[0, 1, 3]].any()
    assert units[2] == pytest.approx(np.sqrt(typical) / 2.0)


@pytest.mark.parametrize(
    ("sizes", "constant", "unlike"),
    [
        ([1.0, 1.0, 4.3], -1, False),  # 3.2 * (1 + 3 / 8) = 4.4
        ([1.0, 1.0, 4.5], -1, True),
        ([1.0, 1.0, 0.24], -1, False),
        ([1.0, 1.0, 0.22], -1, True),
        ([1.0, 1.0, 1000.0], 2, False),  # a constant does not count
        ([1.0, 0.1, 1000.0], 2, True),
    ],
)
def test_columns_are_unlike_if_one_is_far_from_the_median(sizes, constant, unlike):
    assert frames._unlike(np.array(sizes), constant, 64) == unlike


def test_columns_without_values_get_a_unit_like_the_others():
    x = 8.0 * plain()
    x[:, 1] = 0.0
    _, units, anchor, typical = best(lines(x, TASTE))
    assert np.isfinite([*units, *anchor, typical]).all()
    nothing = np.zeros((8, 5))
    columns, units, anchor, typical = best(nothing)
    assert (columns, units.tolist(), anchor.tolist(), typical) == (4, [1.0] * 4, [0.0] * 4, 1.0)


@pytest.mark.parametrize("power", [-20, -3, 20])
@pytest.mark.parametrize("column", [0, 2])
def test_a_columns_unit_only_changes_its_unit(column, power):
    """In a standardised frame, a column times 2^k has a unit of 2^-k, and all else is the same, bit for bit."""
    x = plain() * [1.0, 2.0**12, 1.0, 2.0**-12]
    seen = lines(x, TASTE / np.array([1.0, 2.0**12, 1.0, 2.0**-12]), 3.0)
    columns, units, anchor, typical = best(seen)
    scaled = seen.copy()
    scaled[:, column] *= 2.0**power
    other = best(scaled)
    units[column] *= 2.0**-power
    assert (other[0], other[3]) == (columns, typical) == (5, typical)
    assert np.array_equal(other[1], units)
    assert np.array_equal(other[2], anchor)


def test_a_first_arm_in_another_unit_does_not_count():
    seen = lines(plain(8), TASTE)
    assert np.array_equal(frames.without_odd_first(seen), seen)
    for size, odd in ((1e3, True), (1e-3, False), (5.0, False)):
        spoilt = seen.copy()
        spoilt[0, :4] *= size
        assert np.array_equal(frames.without_odd_first(spoilt), spoilt[int(odd) :]), size
    late = seen.copy()
    late[3, :4] *= 1e3
    assert len(frames.without_odd_first(late)) == 8, "only the first one is suspicious"
    spoilt[0, :4] *= 1e6
    assert len(frames.without_odd_first(spoilt[:2])) == 2, "of two, nobody knows which is odd"
