"""Whole pages around the sections: the frame, the overview, the sign-in form."""

from __future__ import annotations

from html import escape

from driftbandit.policies.registry import REGISTRY
from driftbandit.serving.loop.series import TIERS
from driftbandit.serving.page import svg
from driftbandit.serving.page.facts import Brief, Facts, recent
from driftbandit.serving.page.words import address, number

_LEFT = ("reward", "lanes", "misses", "pace")
_RIGHT = ("moved", "acting", "scopes")


def document(title: str, body: str, *, signed_in: bool = False) -> bytes:
    """A page."""
    leave = '<form method="post" action="/logout"><button>Sign out</button></form>' if signed_in else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/page.css">
<script src="/page/page.js" defer></script>
</head>
<body>
<header><a class="home" href="/"><img src="/page/icon.svg" alt="" width="22" height="22"> driftbandit</a>
<span id="live" role="status"></span>{leave}</header>
{body}
</body>
</html>
""".encode()


def loop_page(facts: Facts, sections: dict[str, str], live: str, *, signed_in: bool) -> bytes:
    """A loop's page."""
    config = facts.config
    shape = "Context-free" if config.dim is None else f"{config.dim} features"
    models = "one model a scope" if config.scoped else "one model for everyone"
    learns = "when its window closes" if config.learn == "window_close" else "as it arrives"
    about = (
        f"{shape}, {models}. A reward is awaited for {config.window:g} s and learned {learns}. "
        f"A random arm is played with probability {config.floor:g}. Version {facts.version}."
    )

    def show(names: tuple[str, ...]) -> str:
        return "".join(f'<section id="{name}">{sections[name]}</section>' for name in names)

    body = f"""<main data-live="{escape(live)}">
<nav class="path"><a href="/">Loops</a> / {escape(facts.name)}</nav>
<h1>{escape(facts.name)} <small>{escape(policy_title(config.policy))}</small></h1>
<p class="about">{about}</p>
<section id="tiles">{sections["tiles"]}</section>
<div class="columns"><div>{show(_LEFT)}</div><div>{show(_RIGHT)}</div></div>
{show(("history",))}
</main>"""
    return document(f"{facts.name} · driftbandit", body, signed_in=signed_in)


def overview_page(section: str, *, signed_in: bool) -> bytes:
    """All loops."""
    body = f"""<main data-live="/live">
<h1>Loops</h1>
<section id="loops">{section}</section>
</main>"""
    return document("driftbandit", body, signed_in=signed_in)


def overview(briefs: list[Brief]) -> str:
    """A card for every loop."""
    if not briefs:
        return (
            '<p class="empty">There are no loops yet. Make one with <code>PUT /v1/loops/NAME</code>; '
            "<code>driftbandit demo</code> shows some that are busy.</p>"
        )
    return f'<div class="cards">{"".join(_card(brief) for brief in briefs)}</div>'


def _card(brief: Brief) -> str:
    rate, mean = recent(brief.buckets, brief.now, TIERS[0][0])
    whole = [bucket for bucket in brief.buckets if bucket.closed and bucket.start + TIERS[0][0] <= brief.now]
    spark = ""
    if len(whole) > 1:
        values = svg.Values.of([bucket.reward / bucket.closed for bucket in whole], 4, 40)
        times = svg.Times(whole[0].start, whole[-1].start)
        points = [(times.at(bucket.start), values.at(bucket.reward / bucket.closed)) for bucket in whole]
        shapes = svg.area(points, 46, "area") + svg.line(points, "line")
        spark = svg.chart(48, f"mean reward of {brief.name} lately", svg.stretched(48, shapes))
    last = "no change so far" if brief.last is None else f"last change {svg.moment(brief.last.time)} UTC"
    return (
        f'<a class="card" href="{escape(address(brief.name))}"><h2>{escape(brief.name)}</h2>'
        f"<small>{escape(policy_title(brief.config.policy))}, "
        f"{'a model a scope' if brief.config.scoped else 'one model'}</small>{spark}"
        f"<dl><div><dt>mean reward</dt><dd>{number(mean)}</dd></div>"
        f"<div><dt>decisions a second</dt><dd>{rate:,.1f}</dd></div>"
        f"<div><dt>decisions</dt><dd>{number(brief.totals['decisions'])}</dd></div></dl><p>{last}</p></a>"
    )


def policy_title(name: str) -> str:
    """What a policy is called.

    >>> policy_title("driftucb"), policy_title("dlinucb")
    ('DriftUCB', 'dLinUCB')
    """
    return REGISTRY[name].title


def sign_in(why: str, back: str) -> bytes:
    """The form that asks for a key; `back` is where it leads."""
    body = f"""<main class="narrow">
<h1>Sign in</h1>
<p>{escape(why)}</p>
<form method="post" action="/login" class="sign-in">
<input type="hidden" name="back" value="{escape(back)}">
<label>Key, of role read or admin
<input type="password" name="key" autocomplete="current-password" required autofocus></label>
<button>Sign in</button>
</form>
<p class="legend">Make one with <code>driftbandit keys create NAME --role read</code>.
Your browser keeps it until it is closed.</p>
</main>"""
    return document("Sign in · driftbandit", body)


def refusal(title: str, detail: str) -> bytes:
    """An error."""
    body = f"""<main class="narrow">
<h1>{escape(title)}</h1>
<p>{escape(detail)}</p>
<p><a href="/">All loops</a></p>
</main>"""
    return document(f"{title} · driftbandit", body)
