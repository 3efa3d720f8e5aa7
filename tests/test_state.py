"""Memory as flat arrays: what `Stateful` gives to everything that is made of it."""

from typing import ClassVar

import numpy as np
import pytest

from driftbandit.state import Stateful


class Inner(Stateful):
    _parts = ("_hits",)

    def __init__(self):
        self._hits = 2


class Renamed(Stateful):
    """Its attributes have other names than when its first states were stored."""

    _parts = ("_weights", "_inner", "rounds")
    _stored_as: ClassVar = {"_weights": "bank", "_inner": "watch"}

    def __init__(self):
        self._weights = np.arange(3.0)
        self._inner = Inner()
        self.rounds = 5


def test_a_renamed_part_keeps_its_stored_name():
    state = Renamed().state()
    assert list(state) == ["bank", "watch.hits", "rounds"]
    twin = Renamed().restore({"bank": np.ones(3), "watch.hits": np.array(7), "rounds": np.array(9)})
    assert (twin._weights.tolist(), twin._inner._hits, twin.rounds) == ([1.0, 1.0, 1.0], 7, 9)


def test_the_attributes_own_name_is_refused_where_another_is_stored():
    with pytest.raises(ValueError, match="missing bank"):
        Renamed().restore({"weights": np.ones(3), "watch.hits": np.array(7), "rounds": np.array(9)})
