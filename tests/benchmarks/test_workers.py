"""The benchmark of one worker against two."""

from driftbandit.benchmarks import workers


def test_every_place_is_measured_with_one_worker_and_with_two(monkeypatch):
    monkeypatch.setattr(workers, "POLICIES", ("random",))
    monkeypatch.setattr(workers, "WORLDS", ("table1-2-v1",))
    found = workers.measure(["local"], seeds=1, turns=1)
    assert [*found] == [("local", 1), ("local", 2)]
    assert all(time > 0 for time in found.values())


def test_efficiency_by_hand():
    shown = workers.table({("local", 1): 10.0, ("local", 2): 5.0, ("ray", 1): 12.0, ("ray", 2): 8.0})
    assert shown.cells == (("local", "10.0", "5.0", "1.00"), ("ray", "12.0", "8.0", "0.75"))


def test_the_worlds_and_policies_exist():
    assert set(workers.WORLDS) <= set(workers.SCENARIOS)
    assert set(workers.POLICIES) <= set(workers.entrants("driftucb"))
