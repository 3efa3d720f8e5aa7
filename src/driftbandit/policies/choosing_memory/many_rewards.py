"""Many rewards at once for dLinUCB and DriftUCB, at compiled speed: what the service calls when windows close."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from driftbandit.core import LARGEST, Change, Floats, as_pool, not_finite
from driftbandit.kernels import windows
from driftbandit.kernels.driftucb import relearning

if TYPE_CHECKING:
    from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
    from driftbandit.policies.choosing_memory.driftucb import DriftUCB


def learn_many_dlinucb(policy: DLinUCB, features: Floats, rewards: Floats) -> tuple[int, tuple[Change, ...], Floats]:
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
    features, rewards = _checked(features, rewards, policy.dim, *policy.reward_bounds)
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


def learn_many_driftucb(policy: DriftUCB, features: Floats, rewards: Floats) -> tuple[int, tuple[Change, ...], Floats]:
    """Learn rewards one after the other, as `learn` does, until one reveals a change; see `DLinUCB.learn_many`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftbandit import DriftUCB
    >>> rng = np.random.default_rng(1)
    >>> policy, xs = DriftUCB(2), rng.standard_normal((2_000, 2))
    >>> rewards = xs[:, 0] * np.repeat([1.0, -1.0], 1_000) + 0.1 * rng.standard_normal(2_000)
    >>> learned, changes, before = policy.learn_many(xs, rewards)
    >>> learned, changes[0].kind, before.round(1).tolist()
    (1004, 'restarted', [1.0, -0.0])
    """
    features, rewards = _checked(features, rewards, policy.dim, -LARGEST, LARGEST)
    learned = 0
    changes: tuple[Change, ...] = ()
    for x, reward in zip(features, rewards.tolist(), strict=True):
        if not policy._trying or changes:
            break
        try:
            changes = policy.learn(x, reward)
        except ValueError:
            if not learned:
                raise
            return learned, changes, policy.weights_before_change  # the next call says what is wrong
        learned += 1
    if changes or learned == len(rewards):
        return learned, changes, policy.weights_before_change
    more, fired = relearning.learn_many(
        policy._rules, policy._memo, policy._bank, features[learned:], rewards[learned:]
    )
    if fired < 0:
        if learned + more == 1:
            raise policy._not_usable(features[0])
        more -= 1  # the next call says what is wrong with this reward
    policy.rounds += more
    if fired > 0:
        changes = policy._report_alarm()
    return learned + more, changes, policy.weights_before_change


def _checked(features: Floats, rewards: Floats, dim: int, low: float, high: float) -> tuple[Floats, Floats]:
    """Features and rewards as contiguous arrays that fit together."""
    features = as_pool(features, dim)
    rewards = np.ascontiguousarray(rewards, dtype=np.float64)
    if rewards.shape != (len(features),) or not ((rewards >= low) & (rewards <= high)).all():
        raise ValueError(f"rewards: expected {len(features)} finite numbers from {low:g} to {high:g}")
    return features, rewards
