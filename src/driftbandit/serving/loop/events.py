"""Results of commands: an event of the log, or a refusal.

The log holds everything that is needed to repeat it, and nothing that can be computed from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

Record = dict[str, Any]
"""Values by column: of a context, or of an arm."""


class Refused(ValueError):
    """A command that cannot be carried out and changed nothing; `status` is the HTTP status to answer with."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What happened and when; `time` is in milliseconds since 1970 and never runs backwards within a log."""

    time: int


class Configured(Event, frozen=True, tag="config"):
    """The loop got new settings.

    Attributes
    ----------
    version : int
        Version of the settings.
    config : bytes
        The settings, as JSON.
    model : bytes or None
        Packed state (`scopes.pack`) with which models begin; None if they begin with nothing.
    """

    version: int
    config: bytes
    model: bytes | None = None


class Catalogued(Event, frozen=True, tag="arms"):
    """The catalogue of arms was replaced; `features` are float64, arm after arm, or None if arms have none."""

    version: int
    ids: list[str]
    features: bytes | None


class NamedArms(Catalogued, frozen=True, tag="named_arms"):
    """The catalogue of a loop with an encoder was replaced; `records` are the columns of each arm."""

    records: list[Record]


class Decided(Event, frozen=True, tag="decision"):
    """An arm was chosen and its reward window opened.

    Attributes
    ----------
    arms : tuple of str or None
        Ids of the pool; None stands for the whole catalogue.
    features : bytes or None
        The pool's features as float64; None if they are the catalogue's.
    index, arm : int, str
        The arm played, as a position in the pool and by id.
    propensity : float
        The probability with which that arm was drawn.
    votes : tuple of int
        What the policy chose: one number, or, if its choices are random, one for each time it was asked.
    shadow : int
        What the shadow policy would have played; -1 without one.
    version, learned : int
        Version of the settings, and how many rewards the loop had learned.
    expires : int
        When the window closes.
    """

    id: str
    scope: str | None
    arms: tuple[str, ...] | None
    features: bytes | None
    index: int
    arm: str
    propensity: float
    votes: tuple[int, ...]
    shadow: int
    version: int
    learned: int
    expires: int


class NamedDecision(Decided, frozen=True, tag="named_decision"):
    """An arm was chosen by a loop with an encoder; see `encoding` for what is stored of its features, and why.

    Attributes
    ----------
    context : dict
        Who asked, by column.
    records : list of dict or None
        The columns of each arm of the pool; None if they are the catalogue's.
    """

    context: Record
    records: list[Record] | None


class Rewarded(Event, frozen=True, tag="reward"):
    """The reward of an open decision arrived."""

    id: str
    value: float
    reward_id: str | None


class Late(Event, frozen=True, tag="late"):
    """A reward arrived after its window had closed; it is not learned."""

    id: str
    value: float
    reward_id: str | None


class Ticked(Event, frozen=True, tag="tick"):
    """The windows that were due closed."""


class Erased(Event, frozen=True, tag="erased"):
    """A tombstone: an event of a scope that was erased; see `erasing`.

    Attributes
    ----------
    decision : bool
        Whether it was a decision; else it was a reward, in time or late.
    until : int
        Number of the `Erasure` that makes up for it.
    """

    decision: bool
    until: int


class Erasure(Event, frozen=True, tag="erasure"):
    """A scope was erased; see `erasing`.

    Attributes
    ----------
    scope_hash : str
        Hash of the scope's name.
    dropped : list of int
        Numbers of the scope's decisions that were open.
    tally : bytes
        What the loop had counted, as `State.tally` writes it.
    models : list of (int, bytes)
        Role and packed state of the models that all scopes share; empty if each scope has its own.
    """

    scope_hash: str
    dropped: list[int]
    tally: bytes
    models: list[tuple[int, bytes]]


AnyEvent = Configured | Catalogued | NamedArms | Decided | NamedDecision | Rewarded | Late | Ticked | Erased | Erasure

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
decode = msgspec.msgpack.Decoder(AnyEvent).decode
unpack_run = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
"""The encoded events of a run's `bodies`."""

KINDS: dict[type, str] = {
    Configured: "config",
    Catalogued: "arms",
    NamedArms: "arms",
    Decided: "decision",
    NamedDecision: "decision",
    Rewarded: "reward",
    Late: "late",
    Ticked: "tick",
    Erased: "erased",
    Erasure: "erasure",
}


class Run(NamedTuple):
    """Events `first` to `last` of one shard of a loop, encoded together; `bodies` is one MessagePack array of them.

    >>> Run.of(1, 0, 7, [b"\\x01", b"\\x02"])
    Run(loop=1, shard=0, first=7, last=8, bodies=b'\\x92\\x01\\x02')
    """

    loop: int
    shard: int
    first: int
    last: int
    bodies: bytes

    @classmethod
    def of(cls, loop: int, shard: int, first: int, bodies: Sequence[bytes]) -> Run:
        """Join events that are already encoded."""
        return cls(loop, shard, first, first + len(bodies) - 1, encode([msgspec.Raw(body) for body in bodies]))

    def event(self, seq: int) -> bytes:
        """One of the events, encoded."""
        return bytes(unpack_run(self.bodies)[seq - self.first])
