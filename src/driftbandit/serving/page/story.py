"""What a change history tells: which model was in charge when, and which weights moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from driftbandit.serving.page.words import number, percent
from driftbandit.serving.stores.rows import ChangeRow

ALARMS = frozenset({"spawned", "restarted"})
"""Kinds that say 'something changed'; 'retired' only tidies up after one."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change of one scope's model."""

    time: int
    scope: str
    kind: str
    member: int
    round: int
    evidence: dict[str, float]
    before: list[float] | None
    """Weights of the model in charge just before."""

    @classmethod
    def of(cls, row: ChangeRow) -> Event:
        """Read a stored change."""
        body: dict[str, Any] = msgspec.json.decode(row.body)
        return cls(
            row.time,
            row.scope,
            body["kind"],
            body["member"],
            body["round"],
            body["evidence"],
            body["weights_before"],
        )

    @property
    def why(self) -> str:
        """The evidence in words.

        >>> Event(0, "", "spawned", 1, 9, {"miss_rate": 0.5, "bound": 0.25}, None).why
        'even the best member missed 50.0 % of recent rewards, more than 25.0 %'
        """
        facts = self.evidence
        if "miss_rate" in facts:
            who = "even the best member" if self.kind == "spawned" else "it"
            return f"{who} missed {percent(facts['miss_rate'])} of recent rewards, more than {percent(facts['bound'])}"
        if "log_evidence" in facts:
            ago = self.round - facts["shift_at"]
            rewards = "reward" if ago == 1 else "rewards"
            return (
                f"log-evidence {facts['log_evidence']:.1f} passed {facts['threshold']:.1f}; "
                f"the shift came about {ago:,.0f} {rewards} earlier"
            )
        if "log_likelihood_ratio" in facts:
            ratio, bound = facts["log_likelihood_ratio"], facts["bound"]
            return f"the log-likelihood ratio of its latest clicks, {ratio:.1f}, passed {bound:.1f}"
        return ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in facts.items())


@dataclass(frozen=True, slots=True)
class Lane:
    """A model's time in a policy; `end` is None while it lasts."""

    title: str
    start: int
    end: int | None
    leads: bool = False


def latest(events: Sequence[Event], rounds: int) -> list[Event]:
    """The events of the present model; rounds are counted anew when a loop's settings change."""
    start = 0
    for place, event in enumerate(events):
        if place and event.round < events[place - 1].round:
            start = place
    return [] if events and rounds < events[-1].round else list(events[start:])


def lanes(events: Sequence[Event], began: int, members: Iterable[dict[str, Any]], leader: int | None) -> list[Lane]:
    """When each model was in the policy, in order of birth.

    Parameters
    ----------
    events : sequence of Event
        Of one scope's present model.
    began : int
        When its first member started, as far as is known.
    members : iterable of dict
        The present members; none for a policy with one model at a time.
    leader : int or None
        The member that chooses.
    """
    if any(event.kind == "restarted" for event in events) or not (present := {m["id"] for m in members}):
        starts = [began, *(event.time for event in events)]
        ends = [*starts[1:], None]
        return [
            Lane(f"model {number + 1}", start, end, leads=end is None)
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]
    born = {event.member: event.time for event in events if event.kind == "spawned"}
    gone = {event.member: event.time for event in events if event.kind == "retired"}
    return [
        Lane(f"member {member}", born.get(member, began), gone.get(member), leads=member == leader)
        for member in sorted(born.keys() | gone.keys() | present)
    ]


@dataclass(frozen=True, slots=True)
class Move:
    """A weight before an alarm, and after it: now, or just before the next alarm."""

    feature: int
    before: float
    after: float


def moves(events: Sequence[Event], weights: list[float] | None, most: int) -> list[tuple[Event, list[Move]]]:
    """The features whose weights moved most at each alarm, latest alarm first.

    >>> first = Event(1, "", "restarted", 0, 5, {}, [1.0, 0.0, 0.5])
    >>> [(event.round, moved) for event, moved in moves([first], [1.0, 0.9, 0.4], 1)]
    [(5, [Move(feature=1, before=0.0, after=0.9)])]
    """
    found = []
    after = weights
    for event in reversed(events):
        if event.kind not in ALARMS:
            continue
        if event.before is not None and after is not None and len(after) == len(event.before):
            pairs = [Move(i, old, new) for i, (old, new) in enumerate(zip(event.before, after, strict=True))]
            found.append((event, sorted(pairs, key=lambda move: -abs(move.after - move.before))[:most]))
        after = event.before
    return found
