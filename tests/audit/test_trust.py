"""A sound log is trusted, and each way of being unsound is named."""

import numpy as np
import pytest

from driftbandit.audit.trust import TrustCheck
from driftbandit.logs import Decisions


def events(rng, count=5000, chances=(0.5, 0.3, 0.2), written=None, **changes):
    """A log of three arms that are shown with `chances`; `written` is what the log says."""
    shown = rng.choice(len(chances), size=count, p=chances)
    arrays = {
        "columns": {},
        "members": np.tile(np.arange(3), count),
        "offsets": np.arange(0, 3 * count + 1, 3),
        "shown": shown,
        "propensities": np.array(written or chances)[shown],
        "rewards": (rng.random(count) < 0.1).astype(float),
        "scopes": np.zeros(count),
        "times": np.arange(count),
        "rows": np.arange(count),
    }
    return Decisions(**{**arrays, **changes})


def trust_of(*batches):
    check = TrustCheck()
    for batch in batches:
        check.add(batch)
    return check.result()


def test_a_sound_log_gives_no_warning():
    found = trust_of(events(np.random.default_rng(0)))
    assert found.warnings == []
    assert found.clicks
    assert (found.decisions, found.arms, found.pool, found.smallest) == (5000, 3, 3.0, 0.2)
    assert found.largest_weight == pytest.approx(1 / 0.6)
    assert found.uniform_mean == pytest.approx(1.0, abs=4 * found.uniform_error)


def test_sound_logs_are_hardly_ever_accused():
    values = [trust_of(events(np.random.default_rng(seed), count=500)).p_value for seed in range(200)]
    assert np.mean(np.array(values) < 0.05) < 0.12
    assert min(values) > 1e-6


@pytest.mark.parametrize("written", [(1 / 3, 1 / 3, 1 / 3), (0.3, 0.5, 0.2)])
def test_wrong_propensities_are_found(written):
    found = trust_of(events(np.random.default_rng(0), written=written))
    assert "do not add up" in found.warnings[0]


def test_thin_support_is_said():
    found = trust_of(events(np.random.default_rng(0), chances=(0.996, 0.002, 0.002)))
    assert any("thin" in warning for warning in found.warnings)


def test_times_that_go_back_are_said_also_between_batches():
    batch = events(np.random.default_rng(0), count=10)
    assert any("Times go back" in warning for warning in trust_of(batch, batch).warnings)


def test_batches_add_up():
    rng = np.random.default_rng(0)
    whole = events(rng, count=100)
    halves = [
        Decisions(
            columns={},
            members=whole.members[150 * k : 150 * (k + 1)],
            offsets=np.arange(0, 151, 3),
            **{
                name: getattr(whole, name)[50 * k : 50 * (k + 1)]
                for name in ("shown", "propensities", "rewards", "scopes", "times", "rows")
            },
        )
        for k in (0, 1)
    ]
    one, two = trust_of(whole), trust_of(*halves)
    for name in one.__dataclass_fields__:
        assert getattr(one, name) == pytest.approx(getattr(two, name))


@pytest.mark.parametrize(("rewards", "clicks"), [((0.0, 5.0), True), ((1.0, 2.0), False), ((0.0, 1.0, 0.5), False)])
def test_what_counts_as_clicks(rewards, clicks):
    rng = np.random.default_rng(0)
    found = trust_of(events(rng, count=30, rewards=np.resize(rewards, 30)))
    assert found.clicks is clicks
    assert (found.lowest, found.highest) == (min(rewards), max(rewards))


def test_an_empty_log_is_refused():
    with pytest.raises(ValueError, match="at least one decision"):
        TrustCheck().result()


def test_how_late_rewards_come():
    rng = np.random.default_rng(0)
    delays = np.where(np.arange(5000) % 100 < 90, rng.uniform(20.0, 40.0, 5000), 3000.0)
    found = trust_of(events(rng, delays=delays, times=100.0 * np.arange(5000)))
    assert found.half_within == pytest.approx(np.median(delays), rel=0.1)
    assert found.most_within == pytest.approx(3000.0, rel=0.1)
    assert found.warnings == []


def test_an_end_whose_rewards_may_still_come_is_said():
    rng = np.random.default_rng(0)
    found = trust_of(events(rng, delays=np.full(5000, 60.0)))
    assert any("Rewards come late" in warning and "1 min" in warning for warning in found.warnings)


def test_unknown_delays_are_left_out():
    rng = np.random.default_rng(0)
    some = np.where(np.arange(5000) % 2, np.nan, 0.0)
    found = trust_of(events(rng, delays=some, times=100.0 * np.arange(5000)), events(rng, delays=np.full(5000, np.nan)))
    assert found.half_within == pytest.approx(1e-3)
    assert trust_of(events(rng, delays=np.full(5000, np.nan))).half_within is None


def test_rewards_that_are_all_the_same_are_said():
    found = trust_of(events(np.random.default_rng(0), rewards=np.ones(5000)))
    assert any("Every reward is 1" in warning for warning in found.warnings)
