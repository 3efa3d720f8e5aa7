"""The made-up shop is what it says, and its truth is the truth."""

import numpy as np
import pytest

from driftbandit.environments.shop import GENRES, LOCAL, SEGMENTS, Shop


@pytest.fixture(scope="module")
def log():
    return Shop(decisions=20_000).log(3)


def test_the_same_seed_gives_the_same_log(log):
    again = Shop(decisions=20_000).log(3)
    assert log.decisions.equals(again.decisions)
    assert log.items.equals(again.items)
    assert not log.decisions.equals(Shop(decisions=20_000).log(4).decisions)


def test_clicks_are_as_rare_as_promised_and_propensities_are_right(log):
    rows = np.arange(len(log))
    assert log.rewards[rows, log.shown].mean() == pytest.approx(0.05, abs=0.006)
    np.testing.assert_allclose(log.chances.sum(axis=1), 1.0)
    assert log.chances.min() > 0.01
    share = np.bincount(log.shown, minlength=10) / len(log)
    np.testing.assert_allclose(share, log.chances.mean(axis=0), atol=4 * np.sqrt(0.1 / len(log)))
    np.testing.assert_allclose(log.rewards.mean(), log.rates.mean(), atol=0.002)


def test_pools_hold_different_items_that_are_on_sale(log):
    assert all(len(set(pool)) == 10 for pool in log.pools[::500].tolist())
    times = log.decisions["time"].to_numpy()
    starts, ends = (log.items[name].to_numpy()[log.pools] for name in ("from", "until"))
    late = np.timedelta64(1, "D")  # sale is by share of the decisions, dates by share of the time
    assert ((starts - late <= times[:, None]) & (times[:, None] <= ends + late)).all()


def test_the_first_shift_is_everybodys_and_the_second_one_local(log):
    first, second = log.shifts.tolist()
    segments = np.array(log.decisions["segment"].to_pylist())
    genres = np.array([GENRES.index(genre) for genre in log.items["genre"].to_pylist()])[log.pools]
    odds = np.log(log.rates / (1 - log.rates))

    def tastes(segment, begin, end):
        of = np.flatnonzero(segments[begin:end] == segment) + begin
        means = np.bincount(genres[of].ravel(), odds[of].ravel(), minlength=6) / np.bincount(
            genres[of].ravel(), minlength=6
        )
        return means - means.mean()

    for segment in SEGMENTS:
        moved = [
            np.abs(tastes(segment, a, b) - tastes(segment, b, c)).max()
            for a, b, c in ((0, first, second), (first, second, len(log)))
        ]
        assert moved[0] > 0.5
        assert (moved[1] > 0.5) == (segment == LOCAL)


def test_a_still_shop_has_no_shifts():
    assert len(Shop(decisions=100, still=True).log(0).shifts) == 0


def test_value_is_the_mean_rate_of_what_is_chosen(log):
    assert log.value(log.rates.argmax(axis=1)) == pytest.approx(log.rates.max(axis=1).mean())


@pytest.mark.parametrize("settings", [{"decisions": 0}, {"items": 10, "pool": 6}, {"pool": -1}, {"decisions": 2.5}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(reversed(settings))):
        Shop(**settings)


def test_a_bad_seed_is_refused():
    with pytest.raises(ValueError, match="seed"):
        Shop(decisions=10).log(-1)
