"""Whole pages around the sections: a loop, the overview, the sign-in form, an error."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from driftbandit.policies.registry import title_of
from driftbandit.serving.loop.series import TIERS
from driftbandit.serving.page import svg
from driftbandit.serving.page.facts import Brief, Facts, recent
from driftbandit.serving.page.html import render


def loop_page(facts: Facts, sections: dict[str, Markup], live: str, *, signed_in: bool) -> bytes:
    """A loop's page; `live` is the address of its events."""
    return render(
        "loop.html",
        name=facts.name,
        policy=title_of(facts.config.policy),
        models="one model per scope" if facts.config.scoped else "one model for everyone",
        config=facts.config,
        version=facts.version,
        live=live,
        sections=sections,
        signed_in=signed_in,
    ).encode()


def overview_page(loops: Markup, *, signed_in: bool) -> bytes:
    """The page of all loops."""
    return render("overview.html", loops=loops, signed_in=signed_in).encode()


def overview(briefs: list[Brief]) -> Markup:
    """A card for every loop."""
    return render("loops.html", cards=[_card(brief) for brief in briefs])


def _card(brief: Brief) -> dict[str, Any]:
    rate, mean = recent(brief.buckets, brief.now, TIERS[0][0])
    return {
        "name": brief.name,
        "policy": title_of(brief.config.policy),
        "models": "one model per scope" if brief.config.scoped else "one model",
        "sparkline": _sparkline(brief),
        "mean": mean,
        "rate": f"{rate:,.1f}",
        "decisions": brief.totals["decisions"],
        "partial": brief.partial,
        "changed": None if brief.last is None else brief.last.time,
    }


def _sparkline(brief: Brief) -> Markup:
    """Mean reward lately."""
    whole = [bucket for bucket in brief.buckets if bucket.closed and bucket.start + TIERS[0][0] <= brief.now]
    if len(whole) < 2:
        return Markup()
    values = svg.Values.of([bucket.reward / bucket.closed for bucket in whole], 4, 40)
    times = svg.Times(whole[0].start, whole[-1].start)
    points = [(times.at(bucket.start), values.at(bucket.reward / bucket.closed)) for bucket in whole]
    shapes = svg.stretched(48, svg.area(points, 46, "area"), svg.line(points, "line"))
    return svg.chart(48, f"mean reward of {brief.name} lately", shapes)


def sign_in(why: str, back: str) -> bytes:
    """The form that asks for a key; `back` is where it leads."""
    return render("sign_in.html", why=why, back=back, signed_in=False).encode()


def refusal(title: str, detail: str) -> bytes:
    """An error."""
    return render("refusal.html", title=title, detail=detail, signed_in=False).encode()
