"""Artefacts that have not changed are not made again; all others are."""

import json

import pytest

from driftbandit.evaluation.results import Table
from driftbandit.paper import everything, kept
from driftbandit.paper.everything import PaperArtefact, redo
from driftbandit.paper.kept import kept_or_made
from driftbandit.plots import Picture
from driftbandit.report import Artefact, publish


@pytest.fixture
def made(tmp_path):
    """Makes an artefact, or takes the one that is kept; counts how often it was made."""

    class Made:
        count = 0

        def __call__(self, settings, *, fresh=False):
            return kept_or_made(self.make, tmp_path / "kept" / "artefact.json", settings, fresh=fresh)

        def make(self):
            self.count += 1
            figure = Picture()
            figure.subplots().plot([1, 2])
            table = Table("t", ("a", "b"), (("x", "1"), ("y", "2")), "note", numbers=False)
            return Artefact("name", "Title", ["words"], [table], {"name": figure}, {"numbers": [1.5, None]})

    return Made()


def test_what_is_kept_is_the_same(made, tmp_path):
    first, second = made({"seeds": [1]}), made({"seeds": [1]})
    assert made.count == 1
    one, two = publish(first, tmp_path / "one"), publish(second, tmp_path / "two")
    assert [path.name for path in one] == [path.name for path in two]
    for path, other in zip(one, two, strict=True):
        assert path.read_bytes() == other.read_bytes()
    assert second.tables == first.tables


def test_other_settings_or_fresh_make_it_again(made):
    made({"seeds": [1]})
    made({"seeds": [2]})
    made({"seeds": [2]}, fresh=True)
    assert made.count == 3


def test_other_code_makes_it_again(made, monkeypatch):
    made({})
    monkeypatch.setattr(kept, "version", lambda name: "0")
    made({})
    assert made.count == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"key": 1}', b"\xff"])
def test_a_damaged_file_is_made_again(made, tmp_path, damage):
    made({})
    path = tmp_path / "kept" / "artefact.json"
    whole = json.loads(path.read_text())
    path.write_bytes(damage)
    made({})
    assert made.count == 2
    path.write_text(json.dumps({"key": whole["key"]}))  # the right key, and nothing else
    made({})
    assert made.count == 3


def test_data_that_changes_is_noticed(tmp_path, monkeypatch):
    files = tmp_path / "data" / "lastfm" / "a.dat"
    files.parent.mkdir(parents=True)
    files.write_text("1")
    asked = []

    def note(make, path, settings, *, fresh):
        asked.append(settings)
        return Artefact("figure5", "Title")

    monkeypatch.setattr(kept, "kept_or_made", note)
    for text in ("1", "12"):
        files.write_text(text)
        redo(PaperArtefact.FIGURE5, out=tmp_path / "out", data=tmp_path / "data")
    assert asked[0] != asked[1]
    assert everything._files(tmp_path / "nowhere") == []
