"""How cost grows: the curves that are measured, and the picture. No time is ever checked."""

import pytest

from driftbandit.benchmarks import growth
from driftbandit.benchmarks.growth_picture import draw


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(growth, "_SECONDS", 0.001)
    monkeypatch.setattr(growth, "_REPEATS", 1)


def test_every_panel_has_its_curves_and_a_floor(brief):
    by_size = growth.by_size([(2, 3), (4, 3)], [2, 4])
    assert list(by_size) == ["NumPy LinUCB", "LinUCB", "DriftUCB", growth.FLOOR]
    by_scopes = growth.by_scopes([10, 200])
    assert list(by_scopes) == ["LinUCB, 1 thread", "LinUCB, 2 threads", growth.FLOOR]
    by_members = growth.by_members([1, 3])
    assert list(by_members) == ["DLinUCB", growth.FLOOR]
    for curves, sizes in ((by_size, [2, 4]), (by_scopes, [10, 200]), (by_members, [1, 3])):
        for curve in curves.values():
            assert [size for size, _ in curve] == sizes
            assert all(value > 0.0 for _, value in curve)
    figure = draw({"features": by_size, "scopes": by_scopes})
    assert [axes.get_xscale() + axes.get_yscale() for axes in figure.axes] == ["loglog"] * 2


def test_the_floor_is_in_proportion_to_the_bytes():
    took = growth.copy_time(1e6, 1e6)
    assert growth.copy_time(0.0, 1e6) == 0.0
    assert took > 0.0
