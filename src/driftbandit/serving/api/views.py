"""What the API answers: results of batches, and what it shows of a loop (counts, series, members, changes)."""

from __future__ import annotations

from typing import Any

import msgspec

from driftbandit.evaluation.anytime import RunningValue
from driftbandit.evaluation.intervals import Interval
from driftbandit.serving.api.errors import Problem
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Decision, iso
from driftbandit.serving.engine.reading import describe
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.scopes import EVERYONE
from driftbandit.serving.loop.series import TIERS, Bucket
from driftbandit.serving.loop.state import Counts
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.removals import RemovalRow
from driftbandit.serving.stores.rows import ChangeRow

COUNTED = ("decisions", "rewards", "late", "learned", "changes")
RESOLUTIONS = {str(length // 1000): tier for tier, (length, _) in enumerate(TIERS)}


class RewardAnswer(msgspec.Struct, frozen=True):
    """What became of a reward: 'accepted' or 'duplicate'."""

    status: str


class Deleted(msgspec.Struct, frozen=True):
    """A loop that was deleted."""

    loop: str
    status: str = "deleted"


class ErasureAnswer(msgspec.Struct, frozen=True):
    """A scope that is being erased."""

    loop: str
    scope_hash: str
    status: str = "erasing"


class DecisionResult(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One decision of a batch, with the status it would have had on its own."""

    status: int
    decision: Decision | None = None
    problem: Problem | None = None


class RewardResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reward of a batch."""

    status: int
    reward: RewardAnswer | None = None
    problem: Problem | None = None


class DecisionResults(msgspec.Struct, frozen=True):
    """Results in the order of the requests."""

    results: list[DecisionResult]


class RewardResults(msgspec.Struct, frozen=True):
    """Results in the order of the requests."""

    results: list[RewardResult]


def tier_of(resolution: str) -> int:
    """The tier of a resolution in seconds."""
    if resolution not in RESOLUTIONS:
        raise Refused(422, f"resolution: expected one of {', '.join(RESOLUTIONS)} seconds, got {resolution[:100]!r}")
    return RESOLUTIONS[resolution]


def whole_number(name: str, text: str, low: int, high: int) -> int:
    """Read a number of the query."""
    if not text.isascii() or not text.isdigit() or len(text) > 20 or not low <= int(text) <= high:
        raise Refused(422, f"{name}: expected a whole number from {low} to {high}, got {text[:100]!r}")
    return int(text)


def totals(engine: Engine, name: str) -> dict[str, Any]:
    """Counts of a loop over all its shards, those of other processes as they were a second or two ago."""
    counts, shadow = Counts(), RunningValue()
    waiting = scopes = 0
    for part in engine.tallies(name):
        for field in Counts.__struct_fields__:
            setattr(counts, field, getattr(counts, field) + getattr(part.counts, field))
        shadow.merge(part.shadow_value)
        waiting += part.waiting
        scopes += part.scopes
    bounds = engine.configuration(name).config.reward_range
    found: dict[str, Any] = {
        field: getattr(counts, field) for field in Counts.__struct_fields__ if not field.startswith("shadow_")
    }
    found["open"] = waiting
    found["scopes_in_memory"] = scopes
    found["mean_reward"] = counts.reward_sum / counts.closed if counts.closed else None
    found["shadow"] = None
    if counts.shadow_decisions:
        found["shadow"] = {
            "decisions": counts.shadow_decisions,
            "agreed": counts.shadow_agreed,
            # What the shadow would have earned, by inverse propensity and its self-normalised variant.
            "ips": counts.shadow_ips,
            "snips": counts.shadow_snips,
            # Holds at any time with 95 %, however often one looks; needs a reward range.
            "interval": None if bounds is None else _ends(shadow.interval(*bounds)),
        }
    return found


def loop_counts(engine: Engine) -> dict[str, dict[str, int]]:
    """Counts of all loops over their shards in this process, by name, for metrics."""
    found = {}
    for name in engine.names():
        parts = engine.parts(name)
        counts = {field: sum(getattr(part.counts, field) for part in parts) for field in COUNTED}
        counts["open"] = sum(part.waiting for part in parts)
        counts["scopes_in_memory"] = sum(len(part.models) for part in parts)
        found[name] = counts
    return found


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def partial(engine: Engine, name: str) -> str | None:
    """Of what part of a loop series and models are; None if this process serves all of it."""
    here, shards = len(engine.parts(name)), engine.store.shards
    return None if here == shards else f"of the {here} of {shards} shards that this process serves"


def stats(engine: Engine, name: str, tier: int) -> dict[str, Any]:
    """Counts, and what happened over time.

    The series is of the shards that this process serves; `partial` says so if others serve some.
    """
    merged: dict[int, Bucket] = {}
    for part in engine.parts(name):
        for bucket in part.series.buckets(tier):
            merged.setdefault(bucket.start, Bucket(bucket.start)).add(bucket)
    return {
        "loop": name,
        "totals": totals(engine, name),
        "resolution": TIERS[tier][0] // 1000,
        "partial": None if (served := partial(engine, name)) is None else f"the series is only {served}",
        "series": [
            {
                "time": iso(bucket.start),
                "decisions": bucket.decisions,
                "closed": bucket.closed,
                "reward": bucket.reward,
                "mean_reward": bucket.reward / bucket.closed if bucket.closed else None,
                "changes": bucket.changes,
                "miss_rate": None if bucket.misses is None else bucket.misses[0],
                "spawn_bound": None if bucket.misses is None else bucket.misses[1],
                "retire_bound": None if bucket.misses is None else bucket.misses[2],
            }
            for _, bucket in sorted(merged.items())
        ],
    }


def scope(engine: Engine, name: str, scope: str) -> dict[str, Any]:
    """A scope's model: members, miss rates and bounds."""
    for part in engine.parts(name):
        found = describe(part, scope)
        if found is not None:
            return {"loop": name, "scope": scope, **found, **feature_names(engine, name)}
    engine.check_scope(name, scope)
    raise Refused(404, f"loop {name!r} has no model of scope {scope[:200]!r}")


def scopes(engine: Engine, name: str, most: list[tuple[str, int, int]]) -> dict[str, Any]:
    """The shared model where there is one, and the most changed scopes."""
    config = engine.configuration(name).config
    shared = None
    if not config.scoped:
        for part in engine.parts(name):
            shared = shared or describe(part, EVERYONE)
    changed = [{"scope": who, "changes": count, "last": iso(last)} for who, count, last in most]
    found = {"loop": name, "scoped": config.scoped, "shared": shared, "most_changed": changed}
    return found | feature_names(engine, name)


def feature_names(engine: Engine, name: str) -> dict[str, Any]:
    """What to call the weights of a loop's models, in their order; nothing if the features have no names."""
    names = engine.configuration(name).config.shown_names
    return {} if names is None else {"feature_names": names}


def change(row: ChangeRow) -> dict[str, Any]:
    """A change as the API shows it."""
    body: dict[str, Any] = msgspec.json.decode(row.body)
    return {"shard": row.shard, "number": row.number, "time": iso(row.time), "scope": row.scope, **body}


def changes_after(store: Store, number: int, shards: int, cursor: dict[int, int]) -> list[ChangeRow]:
    """New changes of all shards."""
    found: list[ChangeRow] = []
    for shard in range(shards):
        found += store.changes(number, shard, cursor.get(shard, 0), 1000)
    return found


def cursor_of(text: str) -> dict[int, int]:
    """Read what `cursor_text` wrote; anything else starts from the beginning.

    >>> cursor_of("0:5,3:7"), cursor_of("nonsense")
    ({0: 5, 3: 7}, {})
    """
    try:
        pairs = [part.split(":") for part in text[:10_000].split(",") if part]
        found = {int(shard): int(number) for shard, number in pairs}
    except ValueError:
        return {}
    return found if all(0 <= number < 1 << 62 for number in found.values()) else {}


def cursor_text(cursor: dict[int, int]) -> str:
    """The position of a stream, for its Last-Event-ID."""
    return ",".join(f"{shard}:{number}" for shard, number in sorted(cursor.items()))


def as_event(kind: str, data: Any, ident: str) -> bytes:
    """One server-sent event."""
    return f"id: {ident}\nevent: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def erasures(rows: list[RemovalRow], number: int) -> list[dict[str, Any]]:
    """The erasures of a loop, each once for all shards."""
    found: dict[tuple[str, str, int], list[RemovalRow]] = {}
    for row in rows:
        if row.loop == number and row.scope_hash is not None:
            found.setdefault((row.scope_hash, row.who, row.time), []).append(row)
    return [
        {
            "scope_hash": scope_hash,
            "key": who,
            "requested_at": iso(time),
            "done_at": None if any(part.done is None for part in parts) else iso(max(part.done or 0 for part in parts)),
        }
        for (scope_hash, who, time), parts in found.items()
    ]


def check_whole(store: Store, number: int) -> None:
    """Refuse if old events of a loop went out of the store."""
    gone = max(store.pruned(number, shard) for shard in range(store.shards))
    if gone:
        raise Refused(422, f"format: dsjson needs the whole log, but events up to {gone} are no longer in the store")
