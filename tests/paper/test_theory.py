"""What the theory asks for: the figures of the notes, and the real policy's own threshold."""

import json
import math

import numpy as np
import pytest
from scipy.special import erfinv

from driftbandit import DLinUCB
from driftbandit.kernels import windows
from driftbandit.paper.table1_columns import COLUMNS
from driftbandit.paper.theory import advise


def holds(advice, name):
    (condition,) = [condition for condition in advice.conditions if condition.name == name]
    return condition.holds


@pytest.mark.parametrize(("noise", "needed"), [(0.1, 1.148), (0.05, 0.890), (0.01, 0.684)])
def test_smallest_shift_of_theorem_3_3(noise, needed):
    advice = advise(noise=noise, shift=0.9)
    assert round(advice.least_shift, 3) == needed
    assert advice.epsilon == pytest.approx(math.sqrt(2.0) * noise * erfinv(0.99))
    assert advice.least_shift == pytest.approx(2.0 * math.sqrt(0.1) + 2.0 * advice.epsilon)


def test_columns_1_4_and_5_of_table_1_violate_it():
    broken = [
        number
        for number, column in enumerate(COLUMNS, start=1)
        if not advise(noise=column.noise, shift=column.shift, period=column.period).detectable
    ]
    assert broken == [1, 4, 5]


def test_a_shift_of_exactly_the_smallest_size_will_do():
    least = advise(noise=0.05, shift=0.9).least_shift
    assert holds(advise(noise=0.05, shift=least), "shift")
    assert not holds(advise(noise=0.05, shift=least - 1e-9), "shift")


@pytest.mark.parametrize(
    ("noise", "period", "ceiling"), [(0.01, 800, 3.66e-5), (0.01, 400, 7.44e-5), (0.0, 800, 5.29e-5)]
)
def test_ceiling_on_delta_of_lemma_3_5_is_attained(noise, period, ceiling):
    delta = advise(noise=noise, shift=0.9, period=period).delta_ceiling
    assert delta == pytest.approx(ceiling, rel=2e-3)
    # At rho = 1 it is sqrt(lambda) (Delta - 2 sqrt(lambda) - 2 epsilon) / (2 S), with its own epsilon.
    epsilon = math.sqrt(2.0) * noise * erfinv(1.0 - delta)
    assert delta == pytest.approx(math.sqrt(0.1) * (0.9 - 2.0 * math.sqrt(0.1) - 2.0 * epsilon) / (2.0 * period))
    for part, allowed in ((0.99, True), (1.01, False)):
        assert (
            holds(advise(noise=noise, shift=0.9, period=period, delta=part * delta, spawn_delta=0.0), "delta")
            == allowed
        )


def test_no_delta_will_do_in_column_2_although_the_shift_is_large_enough():
    advice = advise(noise=0.05, shift=0.9)
    assert advice.detectable
    assert advice.delta_ceiling == 0.0
    assert advice.probability == 0.0
    for delta in np.geomspace(1e-300, 0.49, 200):
        assert not holds(advise(noise=0.05, shift=0.9, delta=delta, spawn_delta=0.0), "delta")


def test_window_delta_between_what_the_window_and_what_the_theorem_allow():
    advice = advise(noise=0.01, shift=0.9, window=30)
    assert advice.window_delta_floor < advice.window_delta_ceiling
    at_least = advise(noise=0.01, shift=0.9, window=30, window_delta=advice.window_delta_floor * 1.0001)
    assert holds(at_least, "window")
    assert holds(at_least, "window_delta")
    assert not holds(advise(noise=0.01, shift=0.9, window=30, window_delta=advice.window_delta_floor * 0.999), "window")
    assert advise(noise=0.01, shift=0.9, window=1).window_delta_floor == 1.0


def test_probability_of_the_bounds_by_hand():
    advice = advise(noise=0.01, shift=0.9)
    one, two = advice.delta_ceiling, 1.0 / 1600.0
    assert advice.probability == pytest.approx((1.0 - one) * (1.0 - two) * (1.0 - two / (1.0 - two)))
    smaller = advise(noise=0.01, shift=0.9, delta=1e-5, spawn_delta=0.0, window_delta=1e-4)
    assert smaller.probability == pytest.approx((1.0 - 1e-5) * (1.0 - 1e-4) * (1.0 - 1e-4 / (1.0 - 1e-4)))


def test_bound_of_several_members_by_hand():
    settings = {"noise": 0.2, "shift": 0.9, "share": 0.5, "period": 1000, "horizon": 4001, "dim": 4, "ridge": 0.5}
    one = advise(**settings, members=1, window_delta=0.05)
    three = advise(**settings, members=3, window_delta=0.05)
    late = one.window + 4.0 / 0.95
    stage = (one.bound / 5.0 - late) / 2.0
    assert one.bound_of_several == pytest.approx(5.0 * (stage + 2.0 * late))
    gaps = np.linspace(0.01, 20.0, 20_000)
    choosing = (8.0 * math.log(1000.0) / gaps + (1.0 + math.pi**2 / 3.0) * gaps).min()
    assert three.bound_of_several == pytest.approx(5.0 * (stage + 2.0 * late + 2.0 * choosing), rel=1e-6)


def test_a_harmless_change_is_smaller_the_more_of_it_there_is():
    assert advise(noise=0.1, shift=0.9).harmless_change == math.inf
    half, most = (advise(noise=0.1, shift=0.9, share=share).harmless_change for share in (0.5, 0.1))
    assert half == pytest.approx(0.1**2 * math.sqrt(10.0 * math.log(1.0 + 200.0 / (0.1 * 0.01))) / 100.0)
    assert most == pytest.approx(half * 0.5 / 0.9)


@pytest.mark.parametrize("share", [0.99, 0.9, 0.5, 0.1])
def test_no_delta_will_do_where_arms_stay(share):
    advice = advise(noise=0.01, shift=0.9, share=share)
    assert advice.delta_ceiling == 0.0
    assert not holds(advice, "delta")
    assert any("no delta will do" in condition.asks for condition in advice.conditions)


def test_a_delta_below_the_ceiling_holds():
    assert not holds(advise(noise=0.01, shift=0.9, delta=1e-4, spawn_delta=0.0), "delta")
    assert holds(advise(noise=0.01, shift=0.9, delta=1e-5, spawn_delta=0.0), "delta")


@pytest.mark.parametrize("share", [1.0, 0.9, 0.5, 0.1])
@pytest.mark.parametrize("window_delta", [0.1, 6e-4])
def test_window_formula(share, window_delta):
    advice = advise(noise=0.01, shift=0.9, share=share, window_delta=window_delta)
    # The delta that the lemma allows, or the given one where it allows none.
    delta = advice.delta_ceiling if advice.delta_ceiling > 0.0 else 0.01
    expected = 2.0 * math.log(2.0 / window_delta) / (share * (1.0 - delta) - delta) ** 2
    assert advice.window == pytest.approx(expected)
    least = math.ceil(expected)
    assert holds(advise(noise=0.01, shift=0.9, share=share, window_delta=window_delta, window=least), "window")
    assert not holds(advise(noise=0.01, shift=0.9, share=share, window_delta=window_delta, window=least - 1), "window")


def test_no_window_will_do_where_too_few_arms_change():
    advice = advise(noise=0.01, shift=0.9, share=0.01)  # rho (1 - delta) <= delta
    assert advice.window == math.inf
    assert advice.bound == math.inf
    assert not holds(advice, "window")


def test_ceiling_on_window_delta():
    advice = advise(noise=0.01, shift=0.9, period=800)
    assert advice.window_delta_ceiling == 1.0 / 1600.0
    assert f"{advice.window_delta_ceiling:.0e}" == "6e-04"
    assert not holds(advice, "window_delta")
    assert holds(advise(noise=0.01, shift=0.9, period=800, window_delta=1.0 / 1600.0), "window_delta")


def test_periods_must_be_longer_than_the_window():
    assert holds(advise(noise=0.01, shift=0.9, period=201, window=200), "period")
    assert not holds(advise(noise=0.01, shift=0.9, period=200, window=200), "period")


def test_regret_bound_by_hand():
    # 2 G R(S) + G (tau + 4 / (1 - delta2)), G = 5 periods of S = 1,000, d = 4, lambda = 0.5, delta1 = 0.01.
    advice = advise(
        noise=0.2, shift=0.9, share=0.5, period=1000, horizon=4001, dim=4, ridge=0.5, delta=0.01, window_delta=0.05
    )
    radius = 0.2**2 * math.sqrt(4.0 * math.log(1.0 + 1000.0 / (0.5 * 0.01))) + math.sqrt(0.5)
    one = math.sqrt(4.0 * 1000.0 * math.log(0.5 + 1000.0 / 4.0)) * radius
    tau = 2.0 * math.log(2.0 / 0.05) / (0.5 * 0.99 - 0.01) ** 2
    assert advice.bound == pytest.approx(2.0 * 5.0 * one + 5.0 * (tau + 4.0 / 0.95))
    assert advice.worst == 8002.0


def misses_until_doubt(policy):
    """Misses after a full, clean window until a member is no longer fine; None if it never is."""
    entry = np.zeros(windows.RING + policy.window, dtype=np.int64)
    for _ in range(policy.window + 3):
        windows.record(entry, 0)
    assert windows.standing(*windows.miss_rate(entry, policy._rules), policy._rules) == windows.FINE
    for misses in range(1, policy.window + 1):
        windows.record(entry, 1)
        if windows.standing(*windows.miss_rate(entry, policy._rules), policy._rules) != windows.FINE:
            return misses
    return None


SETTINGS = [
    {},
    {"window": 2},
    {"window": 20},
    {"window": 57, "window_delta": 0.3},
    {"window": 999, "window_delta": 0.01},
    {"window": 200, "spawn_delta": 0.0},
    {"window": 200, "delta": 0.2, "spawn_delta": 0.1},
    {"window": 12, "window_delta": 6e-4},
    # Exactly four misses: 16 * sqrt(ln(1 / window_delta) / 32) = 4, and Algorithm 1 asks for a rate below the bound.
    {"window": 16, "window_delta": math.exp(-2.0), "spawn_delta": 0.0},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_misses_to_spawn_is_the_policys_own_threshold(settings):
    policy = DLinUCB(3, 0.1, **settings)
    expected = misses_until_doubt(policy)
    assert expected is not None
    assert advise(noise=0.1, shift=0.9, **settings).misses_to_spawn == expected


def test_misses_to_spawn_is_sixteen_for_the_defaults():
    assert advise(noise=0.1, shift=0.9).misses_to_spawn == 16


def test_a_real_policy_spawns_after_so_many_misses():
    policy = DLinUCB(1, 0.01, window=50)
    for _ in range(60):
        assert policy.learn([1.0], 0.5) == ()
    spawned = []
    while not spawned:
        spawned = [change for change in policy.learn([1.0], -5.0) if change.kind == "spawned"]
    assert policy.rounds - 60 == advise(noise=0.01, shift=5.5, window=50).misses_to_spawn


def test_expected_delay_waits_for_the_arms_that_change():
    assert advise(noise=0.1, shift=0.9, share=1.0).expected_delay == 16.0
    assert advise(noise=0.1, shift=0.9, share=0.25).expected_delay == 64.0


def test_a_window_too_short_to_spawn_promises_no_delay():
    assert misses_until_doubt(DLinUCB(3, 0.1, window=1)) is None
    assert advise(noise=0.1, shift=0.9, window=1).expected_delay == math.inf


@pytest.mark.parametrize("share", [1.0, 0.5, 0.01])
def test_json_has_no_infinity(share):
    record = json.loads(json.dumps(advise(noise=0.01, shift=0.9, share=share).as_dict(), allow_nan=False))
    assert [condition["name"] for condition in record["conditions"]] == [
        "shift",
        "period",
        "delta",
        "window",
        "window_delta",
    ]
    assert (record["window"] is None) == (share == 0.01)
    assert (record["bound"] is None) == (share == 0.01)


BAD = [
    ("noise", -0.1),
    ("noise", math.nan),
    ("noise", math.inf),
    ("noise", "loud"),
    ("shift", -0.9),
    ("shift", math.nan),
    ("share", 0.0),
    ("share", 1.1),
    ("share", None),
    ("period", 0),
    ("period", 2.5),
    ("horizon", 0),
    ("dim", 0),
    ("dim", True),
    ("ridge", 0.0),
    ("delta", 0.0),
    ("delta", 0.6),
    ("spawn_delta", -0.1),
    ("spawn_delta", 0.02),  # above delta
    ("window_delta", 0.0),
    ("window_delta", 1.0),
    ("window", 0),
    ("window", "long"),
    ("members", 0),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: expected .*, got "):
        advise(**{"noise": 0.1, "shift": 0.9, name: value})
