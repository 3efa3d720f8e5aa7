"""The progress bar: drawn in a terminal, silent elsewhere. The notebook's is in test_notebook.py."""

import io
import re

import pytest
from rich.console import Console

from driftbandit.evaluation.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """Make standard error a terminal of 100 columns. Not a fixture: pytest changes standard error after those."""
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    assert Console(stderr=True).is_terminal
    return shown


@pytest.mark.parametrize(("unit", "words"), [("runs", "3/12 runs"), ("", "25%")])
def test_a_terminal_sees_how_far_it_is(monkeypatch, unit, words):
    shown = terminal(monkeypatch)
    with progress_bar("playing", wanted=True, unit=unit) as progress:
        progress(3, 12)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())
    assert "playing" in plain
    assert words in plain


def test_nothing_is_drawn_where_it_is_not_wanted(monkeypatch):
    shown = terminal(monkeypatch)
    with progress_bar("playing", wanted=False) as progress:
        progress(3, 12)
    assert shown.getvalue() == ""


def test_nothing_is_drawn_into_files(capsys):
    with progress_bar("playing", wanted=True) as progress:
        progress(3, 12)
    assert capsys.readouterr() == ("", "")
