from __future__ import annotations

import itertools
from collections.abc import Callable

import httpx
import pytest

from ..live import play


@pytest.fixture(scope="session")
def new_path() -> Callable[[], str]:
    """Makes paths of loops that are not there yet."""
    numbers = itertools.count()
    return lambda: f"/v1/loops/loop{next(numbers)}"


@pytest.fixture
def loop(http: httpx.Client, new_path: Callable[[], str]) -> str:
    """A loop for one test: two features, a catalogue of three arms."""
    path = new_path()
    assert http.put(path, json={"dim": 2, "policy": "linucb", "window": 600}).status_code == 201
    arms = [{"id": name, "features": [x, y]} for name, x, y in (("a", 1, 0), ("b", 0, 1), ("ü c", 0.5, 0.5))]
    assert http.put(f"{path}/arms", json={"arms": arms}).status_code == 200
    return path


@pytest.fixture(scope="module")
def changed(http: httpx.Client, new_path: Callable[[], str]) -> str:
    """A loop whose policy has seen its world flip."""
    path = new_path()
    config = {"dim": 3, "policy": "dlinucb", "settings": {"noise": 0.1}, "learn": "arrival"}
    http.put(path, json=config | {"shadow": {"policy": "linucb"}})
    play(http, path, 800, 400)
    return path
