"""Many rewards at once for dLinUCB, at compiled speed: what the service calls when rewards come in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from driftbandit.core import Change, Floats, as_pool, not_finite
from driftbandit.kernels import windows

if TYPE_CHECKING:
    from driftbandit.policies.choosing_memory.dlinucb import DLinUCB


def learn_many(policy: DLinUCB, features: Floats, rewards: Floats) -> tuple[int, tuple[Change, ...], Floats]:
    """Learn rewards one after the other, as `learn` does, until one reveals a change.

    Parameters
    ----------
    features : array of shape (n, dim)
        Features of the arms that were played.
    rewards : array of shape (n,)
        Their rewards, finite.

    Returns
    -------
    learned : int
        How many rewards were learned.
    changes : tuple of Change
        Changes that the last learned reward revealed.
    before : array of shape (dim,)
        The leading member's weights before that reward.

    Examples
    --------
    >>> import numpy as np
    >>> from driftbandit import DLinUCB
    >>> policy = DLinUCB(2, noise=0.1, window=20)
    >>> xs, rewards = np.tile([1.0, 0.0], (100, 1)), np.repeat([0.9, -0.9], 50)
    >>> learned, changes, before = policy.learn_many(xs, rewards)
    >>> learned, changes[0].kind, before.round(2).tolist()
    (55, 'spawned', [0.9, 0.0])
    """
    if not policy.learns_many:
        raise ValueError("learn_many: only for ridge members and a noise that is given; use learn")
    model = policy._model
    features = as_pool(features, policy.dim)
    rewards = np.ascontiguousarray(rewards, dtype=np.float64)
    low, high = policy.reward_bounds
    if rewards.shape != (len(features),) or not ((rewards >= low) & (rewards <= high)).all():
        raise ValueError(f"rewards: expected {len(features)} finite numbers from {low:g} to {high:g}")
    before = np.empty(model.size)
    learned, leader = model.judge_many(
        policy._bank, policy._ledger, policy._rules, policy._count, policy._leader, features, rewards, before
    )
    if leader == windows.NOT_FINITE:
        if learned == 1:
            raise not_finite(features[0])
        learned -= 1  # the next call says what is wrong with this reward
        leader = windows.leader(policy._ledger, policy._rules, policy._count)
    policy.rounds += learned
    changes: tuple[Change, ...] = ()
    if leader == windows.REVIEW:
        changes = policy._review()
    else:
        policy._leader = leader
    for x, reward in zip(features[:learned], rewards.tolist(), strict=False):
        if not policy._watch.busy:
            break
        policy._watch.after(policy, x, reward, None, ())  # last, as in `learn`
    weights = model.weights(before)
    assert weights is not None  # promised by a model that judges many
    return learned, changes, weights
