"""How each event of the log is repeated, with the same few methods of the loop in which the commands end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from driftbandit.serving.loop.erasing import apply_erased, apply_erasure
from driftbandit.serving.loop.events import (
    AnyEvent,
    Catalogued,
    Configured,
    Decided,
    Erased,
    Erasure,
    Late,
    NamedDecision,
    Rewarded,
    Ticked,
)
from driftbandit.serving.loop.scopes import EVERYONE

if TYPE_CHECKING:
    from driftbandit.serving.loop.loop import Loop


def repeat(loop: Loop, event: AnyEvent, verify: bool) -> bool:
    """Repeat what a logged event did.

    With `verify`, decisions are made again where that is possible; False is returned if one comes out differently.
    """
    state = loop.state
    kind = type(event)
    if kind is Rewarded:
        _reward(loop, event)  # type: ignore[arg-type]
    elif kind is Decided or kind is NamedDecision:
        return _decide(loop, event, verify and is_verifiable(loop))  # type: ignore[arg-type]
    elif kind is Ticked:
        state.advance(event)
        loop.learner.close_due(event.time)
    elif kind is Late:
        state.note_late(event)  # type: ignore[arg-type]
    elif kind is Configured:
        loop.take_settings(event)  # type: ignore[arg-type]
    elif kind is Erased:
        apply_erased(loop, event)  # type: ignore[arg-type]
    elif kind is Erasure:
        apply_erasure(loop, event)  # type: ignore[arg-type]
    else:
        assert isinstance(event, Catalogued)
        state.replace_arms(event)
        loop.renew_pools()
    return True


def is_verifiable(loop: Loop) -> bool:
    """Whether the next decision of the log can be made again: not if the model lacks rewards that were erased."""
    return loop.state.config.scoped or loop.state.seq >= loop.blurred_until


def _decide(loop: Loop, event: Decided, verify: bool) -> bool:
    pool = loop.pools.again(event)
    if verify:
        made = loop.decide(event.time, event.id, event.scope, pool)
        if loop.state.seq <= loop.blurred_until:  # how many rewards were learned is among what was erased
            made = msgspec.structs.replace(made, learned=event.learned)
        return made == event
    if loop.learner.asking_changes:
        loop.learner.ask(event.scope or EVERYONE if loop.state.config.scoped else EVERYONE, pool)
    loop.take_decision(event, pool)
    return True


def _reward(loop: Loop, event: Rewarded) -> None:
    record = loop.state.recent.get(event.id)
    if record is None:
        raise ValueError(f"a reward for decision {event.id!r}, which is not open")
    loop.take_reward(event, record)
