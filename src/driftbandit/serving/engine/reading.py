"""A loop for inspection: its whole state as bytes, and the model of one scope."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from driftbandit.serving.loop.config import weights_of
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.stores.base import Store


def state_bytes(loop: Loop, store: Store | None = None) -> bytes:
    """Everything that a loop knows, as bytes; a store adds the models of scopes that are not in memory."""
    state = loop.state
    parts = [state.core()] if state.model is None else [state.core(), state.model]
    if state.catalogue is not None and state.catalogue.records is not None:
        parts.append(msgspec.msgpack.encode(state.catalogue.records))
    for role, models in loop.learner.roles:
        scopes = set(models.scopes())
        if store is not None:
            scopes |= set(store.model_scopes(loop.number, loop.shard, role, state.epochs[role]))
        for scope in sorted(scopes):
            packed = models.packed(scope)
            if packed is not None and packed != models.fresh:
                parts += [f"{role} {json.dumps(scope)}".encode(), packed]
    return b"\n".join(parts)


def digest(loops: Iterable[Loop], store: Store | None) -> str:
    """A hash of everything that some loops know; see `state_bytes`."""
    found = hashlib.sha256()
    for loop in loops:
        found.update(state_bytes(loop, store))
    return found.hexdigest()


def describe(loop: Loop, scope: str) -> dict[str, Any] | None:
    """The model of a scope as it is now; None if the scope was never met."""
    models = loop.models
    policy: Any = models.peek(scope)
    if policy is None:
        return None
    members = [
        {field: getattr(member, field) for field in member.__dataclass_fields__}
        for member in getattr(policy, "members", ())
        if hasattr(member, "__dataclass_fields__")
    ]
    weights = weights_of(policy)
    return {
        "policy": repr(policy),
        "rounds": int(policy.rounds),
        "leader": getattr(policy, "leader", None),
        "members": members,
        "weights": None if weights is None else np.frombuffer(weights).tolist(),
        **policy.facts(),
        "bytes": len(models.packed(scope) or b""),
    }
