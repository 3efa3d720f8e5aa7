"""Whatever things are called, the page shows their names and does not obey them."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from hostile import HOSTILE, PLAIN, read, renamed
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.policies.registry import REGISTRY
from driftbandit.serving.loop.config import LoopConfig, Mark
from driftbandit.serving.loop.series import Bucket
from driftbandit.serving.page import shell, svg
from driftbandit.serving.page.facts import Brief, Facts
from driftbandit.serving.page.sections import all_sections, tiles
from driftbandit.serving.page.story import Event

NOW = 1_790_000_000_000
SHADOW = {"agreed": 1, "decisions": 2, "ips": 0.25, "interval": [0.1, 0.4]}
TOTALS = {"decisions": 1234, "open": 5, "missing": 6, "shadow": SHADOW}
MEMBER = {"miss_rate": 0.05, "spawn_bound": 0.1, "retire_bound": 0.2}


def event(name: str, kind: str, *evidence: str) -> Event:
    return Event(NOW - 30_000, name, kind, 1, 1000, dict.fromkeys(evidence, 0.5), [0.1, 0.2])


def facts(name: str, *, scoped: bool) -> Facts:
    """A loop in which everything that a user can name has this name."""
    buckets = [Bucket(NOW - 60_000 + 5_000 * place, 10, 10, 5.0, 1, (0.1 * place, 0.2, 0.3)) for place in range(12)]
    events = [
        event(name, "spawned", "miss_rate", "bound"),
        event(name, "retired", name),
        event(name, "restarted", "log_evidence", "threshold", "shift_at"),
        event(name, name, name),
    ]
    model: dict[str, Any] = {
        "rounds": 2000,
        "members": [{"id": 1, **MEMBER}, {"id": 2, **MEMBER}],
        "leader": 2,
        "weights": [0.5, -0.5],
        "noise": 0.1,
        "age": 1500,
        "experts": [{"memory": None, "weight": 0.75}, {"memory": 1000.0, "weight": 0.25}],
    }
    marks = [Mark(datetime.fromtimestamp(NOW / 1000.0 - 20.0, UTC), name)]
    config = LoopConfig(dim=2, scoped=scoped, feature_names=[name, f"{name} 2"], policy="linucb", marks=marks)
    most = [(name, 3, NOW), (f"other {name}", 1, NOW)]
    return Facts(name, config, 1, NOW, 0, buckets, TOTALS, name, model, events, events * 20, most)


def pages(name: str) -> dict[str, str]:
    """Every page of the service, and its sections."""
    found: dict[str, str] = {}
    for scoped in (False, True):
        given = facts(name, scoped=scoped)
        sections = all_sections(given)
        found |= {f"{section} {scoped}": html for section, html in sections.items()}
        found[f"loop {scoped}"] = shell.loop_page(given, sections, "/live?loop=x", signed_in=scoped).decode()
    brief = Brief(name, given.config, TOTALS, given.buckets, NOW, given.events[0])
    found["overview"] = shell.overview_page(shell.overview([brief]), signed_in=True).decode()
    found["sign in"] = shell.sign_in(name, name).decode()
    found["refusal"] = shell.refusal(name, name).decode()
    return found


HARMLESS = {page: read(html) for page, html in pages(PLAIN).items()}


def check(name: str) -> None:
    for page, html in pages(name).items():
        assert read(html) == renamed(HARMLESS[page], name), page


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_not_obeyed(name: str) -> None:
    check(name)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0_"), min_size=1, max_size=30))
def test_any_name_is_shown_as_it_is(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", HOSTILE)
def test_titles_of_policies_are_shown_not_obeyed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of the user's own has a title of the user's own."""
    found = []
    for title in (PLAIN, name):
        monkeypatch.setitem(REGISTRY._entries, "linucb", dataclasses.replace(REGISTRY["linucb"], title=title))
        found.append(read(pages("x")["loop True"] + pages("x")["overview"]))
    assert found[1] == renamed(found[0], name)
    assert found[1] != found[0]


def test_the_pages_show_what_they_are_to_be_tested_for() -> None:
    """Or the tests above would test nothing."""
    seen = {page for page, found in HARMLESS.items() if PLAIN in str(found)}
    anonymous = {"tiles", "misses", "pace", "acting"}
    assert {page.split()[0] for page in HARMLESS} - {page.split()[0] for page in seen} == anonymous
    assert all(found for page, found in HARMLESS.items() if page != "scopes False")


@pytest.mark.parametrize("name", HOSTILE)
def test_an_element_escapes_attributes_and_text(name: str) -> None:
    made = svg.tag("text", {"class": name}, name, svg.tag("title", {"x": 1}, name))
    assert read(made) == [
        ("tag", "text", ("class", name)),
        ("text", name),
        ("tag", "title", ("x", "1")),
        ("text", name),
        ("end", "title"),
        ("end", "text"),
    ]
    alone = svg.tag("line", {"x1": name})
    assert read(alone) == [("tag", "line", ("x1", name)), ("end", "line")]


def test_the_page_shows_what_the_shadow_would_earn_if_it_is_known() -> None:
    known = facts("x", scoped=False)
    assert "what its shadow would earn; 0.100 to 0.400" in tiles(known)
    unknown = dataclasses.replace(known, totals=TOTALS | {"shadow": SHADOW | {"interval": None}})
    assert "agrees with its shadow" in tiles(unknown)
    assert "would earn" not in tiles(unknown)
