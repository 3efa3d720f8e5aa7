"""How regret grows: slopes by hand, the bound's, and a few measured figures on seeds that nothing else uses."""

import numpy as np
import pytest

from driftbandit.environments import world
from driftbandit.evaluation.study import Place, Result, play_study
from driftbandit.paper import growth_axes
from driftbandit.paper.growth import cost_table
from driftbandit.paper.growth_axes import AXES, CHANGES, LENGTH, POLICIES, SIZE, place_of, promised_slopes, slope
from driftbandit.paper.theory import advise, stage_bound

SEEDS = range(22_000, 22_004)


def made_up(axis, regret):
    """Results along an axis, for every policy: regret by value and seed."""
    return {
        (place_of(axis, at), policy): [
            Result(place_of(axis, at), policy, seed, regret(at, seed), 0.0, 1.0, 0, 0, 0, float("nan"))
            for seed in range(5)
        ]
        for at in axis.worlds
        for policy in POLICIES
    }


def test_a_power_law_has_its_exponent_for_slope():
    found = made_up(LENGTH, lambda at, seed: (1 + seed) * at**0.7)
    fitted = slope(found, LENGTH, "dlinucb")
    assert [fitted.estimate, fitted.low, fitted.high] == pytest.approx([0.7] * 3), "the same for every seed"


def test_the_interval_of_a_slope_is_over_seeds():
    found = made_up(LENGTH, lambda at, seed: at ** (0.1 * seed))
    fitted = slope(found, LENGTH, "dlinucb")
    assert 0.0 <= fitted.low < fitted.estimate < fitted.high <= 0.4 + 1e-12


def test_the_slope_of_a_straight_line_is_above_one_where_the_first_stage_is_cheap():
    found = made_up(CHANGES, lambda at, seed: 4.0 + 10.0 * (at - 1))
    few, all_of_them = slope(found, CHANGES, "dlinucb", 3).estimate, slope(found, CHANGES, "dlinucb").estimate
    assert 1.0 < all_of_them < few
    assert [row[1:5] for row in cost_table(found).cells] == [("10.0",) * 4] * len(POLICIES)


def test_the_bound_is_the_theorems():
    """At 800 rounds a stage 2 R(800) = 129.2, and 200 + 4 / 0.9 = 204.4 besides."""
    assert growth_axes.promised(CHANGES)[0] == pytest.approx([stages * 333.7 for stages in CHANGES.values], rel=1e-3)
    assert promised_slopes(CHANGES) == pytest.approx((1.0, 1.0))
    assert promised_slopes(SIZE) == pytest.approx((0.0, 0.0), abs=1e-12)
    whole, learning = promised_slopes(LENGTH)
    assert 0.2 < whole < 0.5 < learning < 0.7, "the square root and a little more, watered down by a constant"
    assert advise(noise=0.05, shift=0.9).bound > 14 * stage_bound(dim=10, period=800, noise=0.05, ridge=0.1, delta=0.01)


def test_every_axis_varies_one_thing():
    for axis in AXES:
        worlds = list(axis.worlds.values())
        changed = {name for name in vars(worlds[0]) if len({str(getattr(w, name)) for w in worlds}) > 1}
        allowed = {"stages": {"horizon"}, "stage length": {"period", "horizon"}, "dimension": {"dim"}}
        allowed |= {"horizon": {"horizon"}, "size": {"shift"}}
        assert changed == allowed[axis.name]
        assert list(axis.worlds) == sorted(axis.worlds)


@pytest.fixture(scope="module")
def measured():
    """A stage more or less, long stages, small and large shifts: 4 seeds each."""
    few = {name: POLICIES[name][1] for name in ("dlinucb", "dlinucb-paper", "dlinucb-paper-one", "linucb")}
    worlds = {
        "2": CHANGES.worlds[2],
        "8": CHANGES.worlds[8],
        "short": LENGTH.worlds[600],
        "long": LENGTH.worlds[1200],
        "tiny": SIZE.worlds[0.1],
        "large": SIZE.worlds[0.5],
    }
    found = play_study({name: Place(w, SEEDS, few) for name, w in worlds.items()}, processes=1)
    return {place: np.mean([run.regret for run in runs]) for place, runs in found.items()}, found


def test_a_stage_more_costs_what_was_measured(measured):
    """Ten seeds gave 9.2 for dLinUCB and 8.2 as printed, from 2 to 8 stages; four seeds vary by about 0.8."""
    regret, _ = measured
    assert (regret["8", "dlinucb"] - regret["2", "dlinucb"]) / 6 == pytest.approx(9.2, abs=1.6)
    assert (regret["8", "dlinucb-paper"] - regret["2", "dlinucb-paper"]) / 6 == pytest.approx(8.2, abs=1.6)
    assert regret["8", "dlinucb-paper"] < regret["8", "dlinucb-paper-one"], "several members are better than one"


def test_longer_stages_cost_linucb_twice_as_much_and_dlinucb_nothing(measured):
    regret, _ = measured
    assert regret["long", "linucb"] / regret["short", "linucb"] == pytest.approx(2.0, abs=0.3)
    assert regret["long", "dlinucb"] / regret["short", "dlinucb"] == pytest.approx(1.0, abs=0.2)


def test_tiny_shifts_are_not_detected_and_large_ones_are(measured):
    """2 of 60 and 60 of 60 on ten seeds; dLinUCB and LinUCB lose the same where neither reacts."""
    regret, found = measured
    assert sum(run.found for run in found["tiny", "dlinucb"]) <= 4
    assert regret["tiny", "dlinucb"] == pytest.approx(regret["tiny", "linucb"], rel=0.2)
    assert sum(run.missed for run in found["large", "dlinucb"]) == 0
    assert regret["large", "linucb"] > 3 * regret["large", "dlinucb"]


def test_half_the_noise_told_means_less_regret_and_false_alarms():
    """Ten seeds gave 42 instead of 61, and 14.7 false alarms in 20,000 still rounds."""
    from driftbandit.paper.sensitivity import STILL, _settings

    build = _settings()["dlinucb noise 0.5"]
    usual = POLICIES["dlinucb"][1]
    found = play_study(
        {
            "shifts": Place(world("table1"), SEEDS, {"half": build, "usual": usual}),
            "still": Place(STILL, SEEDS[:1], {"half": build, "usual": usual}),
        },
        processes=1,
    )
    mean = {place: np.mean([run.regret for run in runs]) for place, runs in found.items()}
    assert mean["shifts", "half"] < 0.85 * mean["shifts", "usual"]
    assert 8 <= found["still", "half"][0].false_alarms <= 22
    assert found["still", "usual"][0].false_alarms == 0
