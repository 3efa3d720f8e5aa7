"""Replay of one policy per scope: scopes share nothing, so each goes through its own events, on all cores at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftbandit.batch import ManyScopes
from driftbandit.core import Change, Ints, not_finite
from driftbandit.evaluation.agreement import Questions
from driftbandit.policies.scoped.per_scope import PerScope


def replay_scopes(policy: Any, questions: Questions) -> tuple[Ints, tuple[tuple[int, Change], ...]] | None:
    """Replay a log with the policies of a `PerScope` in flat arrays; the same events and changes as one by one.

    Returns the events that count and the changes with their events, or None if these policies cannot be put into flat
    arrays, or if the log has rewards that they refuse.
    """
    log = questions.log
    if type(policy) is not PerScope or not policy.scopes_apart or not ManyScopes.can_hold(policy.build):
        return None
    build: Any = policy.build
    low, high = build.reward_bounds
    if questions.user_features or not ((log.rewards >= low) & (log.rewards <= high)).all() or log.dim != build.dim:
        return None
    assert questions.scopes is not None  # a scoped policy is always told scopes
    names, owners = np.unique(questions.scopes, return_inverse=True)
    scopes = names.tolist()
    if not scopes or len({*policy.scopes, *scopes}) > policy.max_scopes:
        return None
    store = ManyScopes(build, len(scopes))
    for number, scope in enumerate(scopes):
        if (known := policy.policy_of(scope)) is not None:
            store.put(number, known)
    features = np.ascontiguousarray(log.features[log.pool_members], dtype=np.float64)
    whole = [np.array(part, dtype=np.int64) for part in (log.pool_offsets, log.pools, log.shown)]
    events = features, *whole, questions.kept, np.array(log.rewards)  # of one type, mapped or not: compiled once
    arms, status, changes = store.replay(owners.astype(np.int64), events, len(log))
    if (bad := np.flatnonzero(status < 0)).size:
        pool = log.pools[bad[0]]
        raise not_finite(features[log.pool_offsets[pool] : log.pool_offsets[pool + 1]])
    matched = np.flatnonzero(questions.kept & (arms == log.shown))
    last = np.zeros(len(scopes), dtype=np.int64)
    last[owners] = np.arange(len(log))
    order = np.argsort(last).tolist()  # by their last use
    policy.adopt({scopes[number]: store.policy_of(number) for number in order}, len(matched))
    return matched, tuple(changes)
