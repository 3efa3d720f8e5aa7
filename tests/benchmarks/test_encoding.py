"""The encoder's benchmark: the right work is timed, and a frozen encoder causes no alarms. No time is ever checked."""

import numpy as np

from driftbandit import DriftUCB
from driftbandit.benchmarks import encoding
from driftbandit.features import Encoder


def test_what_is_timed_is_ten_arms_with_eight_columns_into_64_features():
    decisions = encoding.Decisions.make(30)
    assert {len(record) for record in (*decisions.contexts, *decisions.items, decisions.fresh[0][0])} == {8}
    for reduce in ("hash", "project"):
        encoder = decisions.encoder(reduce)
        assert encoder.encode(decisions.contexts[0], decisions.fresh[0]).shape == (10, 64)
    spent = encoding.measure(count=20, repeats=2)
    assert next(iter(spent)) == encoding.POLICY
    assert len(spent) == 4
    assert all(len(times) == 2 and 0.0 < times.min() <= times.max() < np.inf for times in spent.values())
    assert encoding.rows_a_second(count=20, repeats=1) > 0.0


def test_a_frozen_encoder_causes_no_alarms_in_a_still_world():
    for seed in (100, 101):
        found = encoding.false_alarms(seed, rounds=1500)
        assert found["encoded"] <= found["true features"]
        assert found["hashed"] <= found["true features"]
        assert found["projected"] <= found["true features"]


def test_an_encoder_that_is_fitted_anew_does_cause_an_alarm():
    rng = np.random.default_rng(0)
    prices = rng.normal(1000.0, 100.0, size=(1000, 5))
    first, second = (
        Encoder(["age"], ["price"]).fit({"age": [1, 2], "price": range_}) for range_ in ([900, 1100], [0, 1500])
    )
    alarms = {}
    for name, later in (("frozen", first), ("refitted", second)):
        policy = DriftUCB(first.dim)
        for t, pool in enumerate(prices.tolist()):
            features = (first if t < 500 else later).encode({"age": 1.5}, [{"price": price} for price in pool])
            arm = policy.choose(features)
            policy.learn(features[arm], (pool[arm] - 1000.0) / 100.0 + 0.1 * float(rng.standard_normal()))
        alarms[name] = len(policy.changes)
    assert alarms["frozen"] == 0
    assert alarms["refitted"] > 0
