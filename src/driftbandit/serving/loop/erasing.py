"""Forgetting one scope: a person who asked for it, for example.

In the log, each event of the scope is replaced by a tombstone (`Erased`), which keeps the numbering and nothing else.
An `Erasure` at the end of what was erased makes up for what the tombstones no longer say: it holds the counts at that
moment and, if all scopes share one model, the model. So a log with tombstones still gives the same state from the
erasure on, byte for byte: the same counts, the same models of all other scopes, the same decisions.

Between a tombstone and its erasure only the counts are off, and a shared model, which lacks what it learned from the
erased events.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from typing import TYPE_CHECKING

from driftbandit.serving.loop.events import Erased, Erasure
from driftbandit.serving.loop.scopes import EVERYONE
from driftbandit.serving.loop.windows import Due

if TYPE_CHECKING:
    from driftbandit.serving.loop.loop import Loop


def scope_hash(loop: str, scope: str) -> str:
    """What a record of an erasure says instead of a scope's name.

    Whoever knows the name can find the record. Whoever can guess the name can do so too.

    >>> scope_hash("news", "ann")[:12]
    'c309a19ec9ab'
    """
    return sha256(f"{loop}\n{scope}".encode()).hexdigest()


def erase(loop: Loop, now: int, scope: str, ids: Collection[str]) -> Erasure:
    """Forget a scope now, whose decisions have these ids; returns the event that records it.

    Open decisions of the scope are dropped: their rewards are no longer taken.
    """
    state, outbox = loop.state, loop.outbox
    outbox.closed = [row for row in outbox.closed if row[0] not in ids]
    outbox.found = [found for found in outbox.found if found.scope != scope]
    dropped = []
    for record in [state.recent[decision_id] for decision_id in ids if decision_id in state.recent]:
        if record.closed:
            del state.recent[record.id]
        else:
            dropped.append(record.seq)
    shared = [] if state.config.scoped else loop.learner.roles
    models = [(role, models.packed(EVERYONE) or models.fresh) for role, models in shared]
    event = Erasure(now, scope_hash(loop.name, scope), sorted(dropped), state.tally(), models)
    apply_erasure(loop, event, scope)
    return event


def apply_erased(loop: Loop, event: Erased) -> None:
    """Pass over an event that was erased."""
    loop.state.advance(event)
    loop.blurred_until = max(loop.blurred_until, event.until)
    if event.decision:  # the numbers drawn for later decisions depend on how many came before
        loop.state.counts.decisions += 1


def apply_erasure(loop: Loop, event: Erasure, scope: str | None = None) -> None:
    """Forget a scope, whose name is known the first time only.

    Some of the scope's events may not be replaced by tombstones yet, if the service stopped in between. What they left
    in memory is found by number and by hash.
    """
    state, learner = loop.state, loop.learner
    state.advance(event)
    state.take_tally(event.tally)
    dropped = set(event.dropped)
    gone = [record for record in state.recent.values() if record.seq in dropped]
    for pending in learner.pending:
        pending.drop(record for record in gone if not record.learned)
    for record in gone:
        del state.recent[record.id]
    if gone:
        state.due = Due(record for record in state.recent.values() if not record.closed)
    shared = dict(event.models)
    for role, models in learner.roles:
        if role in shared:
            models.put(EVERYONE, shared[role])
        else:
            names = [scope] if scope is not None else list(models.scopes())
            for name in names:
                if scope_hash(loop.name, name) == event.scope_hash:
                    models.forget(name)
    loop.renew_pools()
