"""Changes are dated, named, and rare where nothing changes."""

import numpy as np
import pytest

from driftbandit.detection.segmentation import TWINS, collect, find_splits


def blocks_of(rng, theta_at, count=2000, blocks=50, noise=1.0, batches=1, heavy=False):
    """A linear log whose weights at row t are theta_at(t)."""
    thetas = np.array([theta_at(t) for t in range(count)])
    x = rng.standard_normal(thetas.shape)
    spread = np.where(np.arange(count) < count // 2, 1.0, 3.0) if heavy else np.ones(count)
    y = (x * thetas).sum(axis=1) + noise * spread * rng.standard_normal(count)
    errors = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    variance = errors.var()
    rows = np.linspace(0, count, blocks + 1).astype(np.int64)
    parts = np.array_split(np.arange(count), batches)
    return collect(((x[p], errors[p] / variance, np.full(len(p), 1 / variance)) for p in parts), rows)


def test_two_changes_are_dated_and_named():
    def theta(t):
        return [1.0, 1.0, 0.0] if t < 600 else [1.0, -1.0, 0.0] if t < 1400 else [1.0, -1.0, 1.5]

    found = find_splits(blocks_of(np.random.default_rng(1), theta))
    assert [split.row for split in found] == pytest.approx([600, 1400], abs=40)
    assert [split.moved for split in found] == [(1,), (2,)]
    for split, date in zip(found, (600, 1400), strict=True):
        assert split.low <= date <= split.high
        assert split.false_alarm_rate == 1 / (TWINS + 1)
    assert found[0].after[1] - found[0].before[1] == pytest.approx(-2.0, abs=0.3)


@pytest.mark.parametrize("heavy", [False, True])
def test_still_logs_raise_few_alarms(heavy):
    """Also where the noise triples halfway: a change of the noise is none of the weights."""
    alarms = sum(
        bool(
            find_splits(
                blocks_of(np.random.default_rng(seed), lambda t: [1.0, -0.5], count=400, blocks=25, heavy=heavy)
            )
        )
        for seed in range(100)
    )
    assert alarms <= 5  # one in a hundred is meant; six or more would happen once in 2,000 times


def test_batches_do_not_matter_but_for_the_order_of_sums():
    def theta(t):
        return [1.0, 0.0] if t < 900 else [0.0, 1.0]

    one, many = (blocks_of(np.random.default_rng(3), theta, batches=n) for n in (1, 7))
    np.testing.assert_allclose(one.scores, many.scores)
    np.testing.assert_allclose(one.information, many.information)
    assert [split.row for split in find_splits(one)] == [split.row for split in find_splits(many)]


def test_the_same_seed_gives_the_same_twins():
    made = [blocks_of(np.random.default_rng(3), lambda t: [1.0]) for _ in range(2)]
    np.testing.assert_array_equal(made[0].twins, made[1].twins)


def test_a_short_log_has_no_changes():
    assert find_splits(blocks_of(np.random.default_rng(0), lambda t: [1.0], count=60, blocks=3)) == []


def test_a_feature_that_is_never_seen_is_harmless():
    rng = np.random.default_rng(0)
    x = np.hstack([rng.standard_normal((1000, 1)), np.zeros((1000, 1))])
    errors = np.where(np.arange(1000) < 500, 1.0, -1.0) * x[:, 0]
    found = find_splits(collect([(x, errors, np.ones(1000))], np.arange(0, 1001, 20)))
    assert [(split.row, split.moved) for split in found] == [(500, (0,))]


@pytest.mark.parametrize("count", [0, 999, 1001])
def test_rows_that_do_not_fit_are_refused(count):
    batches = [(np.ones((count, 1)), np.ones(count), np.ones(count))] if count else []
    with pytest.raises(ValueError, match="batches: expected 1000 rows"):
        collect(batches, np.arange(0, 1001, 20))
