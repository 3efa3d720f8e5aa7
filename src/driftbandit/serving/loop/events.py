"""The events of a loop's log: everything that recovery and replay need, and nothing that can be computed."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What happened, and when: `time` is in milliseconds since 1970 and never runs backwards within a log."""

    time: int


class Configured(Event, frozen=True, tag="config"):
    """A version of the loop's settings came into force; `config` is JSON."""

    version: int
    config: bytes


class Catalogued(Event, frozen=True, tag="arms"):
    """The arm catalogue was replaced; `features` are float64, arm after arm, or None without any."""

    version: int
    ids: list[str]
    features: bytes | None


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
        What the policy chose: once, or as often as it was asked if its choices are random.
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
    """Windows due by now closed."""


AnyEvent = Configured | Catalogued | Decided | Rewarded | Late | Ticked

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
decode = msgspec.msgpack.Decoder(AnyEvent).decode


def encode_run(events: list[AnyEvent]) -> bytes:
    """Events that follow each other in one piece, as stores keep them."""
    return _encoder.encode(events)


KINDS: dict[type, str] = {
    Configured: "config",
    Catalogued: "arms",
    Decided: "decision",
    Rewarded: "reward",
    Late: "late",
    Ticked: "tick",
}
