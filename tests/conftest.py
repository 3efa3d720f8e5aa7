"""Shared by all tests."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Machines are shared and noisy: no deadlines; and the same examples on every run, so that a red test stays red.
settings.register_profile("driftbandit", deadline=None, derandomize=True)
settings.load_profile("driftbandit")

# Files with few, long tests. They begin first: begun last, they would keep one process busy when the others are done.
_LONGEST = (
    "evaluation/test_on_ray.py",
    "test_docs.py",
    "serving/page/test_page.py",
    "test_notebook.py",
    "cli/test_paper.py",
    "paper/test_figure3.py",
    "kernels/test_compile.py",
    "serving/test_demo.py",
    "serving/test_crash.py",
    "serving/engine/test_warmup.py",
    "serving/stores/test_leases.py",
    "audit/test_audit.py",
    "paper/test_figure4.py",
    "paper/test_simulation_study.py",
)


def pytest_collection_modifyitems(items):
    root = Path(__file__).parent
    places = {root / name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture
def no_data(tmp_path_factory, monkeypatch):
    """A home without data sets and converted files, and none of the variables that point to them."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("DRIFTBANDIT_DATA", "DRIFTBANDIT_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def _table(path, header, rows):
    lines = ["\t".join(header), *("\t".join(str(cell) for cell in row) for row in rows)]
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")


@pytest.fixture
def tiny_data(tmp_path, no_data):
    """LastFM and Delicious in the official layout, made up: 12 users, 600 items, 40 tags."""
    rng = np.random.default_rng(0)
    rows = [
        (2 * user + 2, 3 * item + 1, 5 * tag + 1)
        for user in range(12)
        for item in rng.permutation(600)[: 30 + user]
        for tag in rng.permutation(40)[: rng.integers(1, 4)]
    ]
    root = tmp_path / "sets"
    lastfm, delicious = root / "lastfm", root / "delicious"
    for folder in (lastfm, delicious):
        folder.mkdir(parents=True)
    dated = [(*row, 1, 1 + k % 12, 2008) for k, row in enumerate(rows)]
    _table(lastfm / "user_taggedartists.dat", ("userID", "artistID", "tagID", "day", "month", "year"), dated)
    friends = [(a, b) for a in range(2, 26, 2) for b in range(2, 26, 2) if a != b]
    _table(lastfm / "user_friends.dat", ("userID", "friendID"), friends)
    _table(lastfm / "user_clusters_200.tsv", ("userID", "cluster"), [(user, user % 3) for user in range(2, 26, 2)])
    _table(lastfm / "tags.dat", ("tagID", "tagValue"), [(5 * tag + 1, f"metal {tag}") for tag in range(40)])
    timed = [(*row, 1000 * k) for k, row in enumerate(rows)]
    header = ("userID", "bookmarkID", "tagID", "timestamp")
    _table(delicious / "user_taggedbookmarks-timestamps.dat", header, timed)
    weighted = [(item, tag, 1 + k % 5) for k, (_, item, tag) in enumerate(rows)]
    _table(delicious / "bookmark_tags.dat", ("bookmarkID", "tagID", "tagWeight"), weighted)
    contacts = [(*pair, 4, 10, 2010, "x") for pair in friends]
    _table(delicious / "user_contacts.dat", ("userID", "contactID", "day", "month", "year", "rest"), contacts)
    return root
