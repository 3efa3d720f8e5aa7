"""The benchmark of one worker against two."""

import multiprocessing

from driftbandit.benchmarks import workers


def test_every_place_is_measured_with_one_worker_and_with_two(monkeypatch):
    monkeypatch.setattr(workers, "POLICIES", ("random",))
    monkeypatch.setattr(workers, "WORLDS", ("table1-2-v1",))
    monkeypatch.setattr(
        workers, "get_context", lambda method: multiprocessing.get_context("fork")
    )  # inherits the above
    found = workers.measure(["local"], seeds=1, turns=1)
    assert [*found] == ["local", workers.PROGRAMS]
    assert all(one > 0 and two > 0 for one, two in found.values())


def test_efficiency_by_hand():
    shown = workers.table({"local": (10.0, 5.0), "ray": (12.0, 8.0)})
    assert shown.cells == (("local", "10.0", "5.0", "1.00"), ("ray", "12.0", "8.0", "0.75"))


def test_the_worlds_and_policies_exist():
    assert set(workers.WORLDS) <= set(workers.SCENARIOS)
    assert set(workers.POLICIES) <= set(workers.entrants("driftucb"))
