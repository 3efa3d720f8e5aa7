"""A loop's state for those who look at it: as one piece of bytes, as changes found, as a scope's members."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np

from driftbandit.serving.loop.config import weights_of
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.records import MAIN, SHADOW
from driftbandit.serving.stores.base import ChangeRow, Store


def state_bytes(loop: Loop, store: Store | None, number: int, *, stored: bool) -> bytes:
    """Everything that a loop knows, in one canonical piece."""
    parts = [loop.core()]
    for role, models in ((MAIN, loop.models), (SHADOW, loop.shadow)):
        if models is None:
            continue
        scopes = set(models.scopes())
        if stored and store is not None:
            scopes |= set(store.model_scopes(number, loop.shard, role, loop.epochs[role]))
        for scope in sorted(scopes):
            state = models.packed(scope)
            if state is not None and state != models.fresh:
                parts += [f"{role} {json.dumps(scope)}".encode(), state]
    return b"\n".join(parts)


def change_rows(loop: Loop) -> list[ChangeRow]:
    """The changes that learning revealed since the last commit, as the store keeps them."""
    rows = []
    for found in loop.found:
        change = found.change
        body = {
            "kind": change.kind,
            "member": change.member,
            "round": change.round,
            "evidence": dict(change.evidence),
            "weights_before": None if found.before is None else np.frombuffer(found.before).tolist(),
        }
        rows.append(
            ChangeRow(
                loop.number, loop.shard, found.number, found.seq, found.time, found.scope, msgspec.json.encode(body)
            )
        )
    return rows


def describe(loop: Loop, scope: str) -> dict[str, Any] | None:
    """What a scope's model looks like now; None if the scope was never met."""
    models = loop.models
    policy: Any = None if models is None else models.peek(scope)
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
        "bytes": len(models.packed(scope) or b"") if models is not None else 0,
    }
