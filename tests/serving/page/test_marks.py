"""A loop's marks: drawn where they belong, named in the legend, listed in the history."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import httpx
import msgspec

from driftbandit.serving.loop.config import Mark
from driftbandit.serving.page.facts import Facts
from driftbandit.serving.page.sections import history
from driftbandit.serving.page.timeline import reward

from ..live import problem
from .test_hostile import NOW, facts


def marked(*marks: tuple[float, str]) -> Facts:
    """A loop with marks so many seconds ago; its chart shows the last minute."""
    given = facts("news", scoped=False)
    made = [Mark(datetime.fromtimestamp(NOW / 1000.0 - ago, UTC), label) for ago, label in marks]
    config = msgspec.structs.replace(given.config, marks=made)
    return dataclasses.replace(given, config=config, all_events=given.events)


def test_a_mark_stands_at_its_time() -> None:
    given = marked((40.0, "release 4.2"), (4000.0, "long ago"), (-60.0, "planned"))
    drawn = reward(given)
    assert drawn.count('<g class="note">') == 1
    times = given.times
    place = 100.0 * (NOW - 40_000 - times.start) / (times.end - times.start)
    assert f'<line class="thin" x1="{place:.2f}%"' in drawn
    assert '<span class="key note-key"></span>release 4.2</span>' in drawn
    listed = history(given)
    assert "release 4.2" in listed
    assert "long ago" in listed
    assert "planned" not in listed, "it has not happened yet"


def test_several_labels_share_one_line_of_the_legend() -> None:
    drawn = reward(marked((40.0, "release 4.2"), (20.0, "campaign")))
    assert drawn.count('<g class="note">') == 2
    assert drawn.count("note-key") == 1
    assert "marks: point at one" in drawn


def test_without_marks_nothing_is_said_of_them() -> None:
    assert "note" not in reward(marked())
    assert '<li class="note">' not in history(marked())


def test_marks_are_set_with_the_settings(http: httpx.Client) -> None:
    path, config = "/v1/loops/with marks", {"dim": 2, "window": 60}
    assert http.put(path, json=config).status_code == 201
    marks = [{"time": "2026-03-01T12:00:00Z", "label": "release 4.2"}]
    answer = http.put(path, json=config | {"version": 1, "marks": marks})
    assert answer.status_code == 200
    assert answer.json()["config"]["marks"] == marks
    bad = http.put(path, json=config | {"version": 2, "marks": [{"time": "yesterday", "label": "x"}]})
    assert "marks[0].time" in problem(bad, 422)
    assert http.get(path).json()["config"]["marks"] == marks
