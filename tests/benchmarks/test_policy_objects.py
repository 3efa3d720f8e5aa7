"""Many policy objects at once: what is measured, and the table. No time is ever checked."""

from driftbandit.benchmarks import policy_objects
from driftbandit.benchmarks.policy_objects import Case


def test_every_way_is_measured_for_every_case(monkeypatch):
    monkeypatch.setattr(policy_objects, "_MEMORY", 1)
    cases = [Case(name, dim=3, arms=4, batch=5) for name in policy_objects.POLICIES]
    times = {case: policy_objects.measure(case, [1, 2], repeats=1) for case in cases}
    assert all(list(row) == [0, 1, 2] for row in times.values())
    assert all(took.choose > 0.0 and took.learn > 0.0 for row in times.values() for took in row.values())
    table = policy_objects.objects_table(times)
    assert table.headings[4:] == ("one by one", "threads: 1", "threads: 2")
    assert [row[:4] for row in table.cells] == [("LinUCB", "3", "4", "5"), ("DriftUCB", "3", "4", "5")]
