"""Warm start: let a policy learn what a log has to teach, and write it to a file from which others begin.

Learning needs no propensities: the policy is told every displayed arm with its reward, in the order of the log.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbandit.core import Change, Floats, takes_scope
from driftbandit.features import Encoder
from driftbandit.features.arms import ArmId, Record, numbers_of
from driftbandit.logs.events import Events
from driftbandit.policies.untold import name_and_settings
from driftbandit.recommender import Recommender

if TYPE_CHECKING:
    from driftbandit.logs.decisions import Decisions
    from driftbandit.logs.log import BatchEncoder, DecisionLog

SAMPLE = 5_000
"""Decisions at the beginning of a log to which an encoder is fitted."""


@dataclass(frozen=True)
class Lessons:
    """What a policy learned from a log.

    Attributes
    ----------
    rewards : int
        How many rewards it learned.
    changes : tuple of (int, Change)
        Changes that it detected, each with the row of the log whose reward revealed it.
    until : float
        Time of the last decision.
    """

    rewards: int
    changes: tuple[tuple[int, Change], ...]
    until: float


def fit_encoder(log: DecisionLog, dim: int | None = None) -> Encoder | None:
    """An encoder that is fitted to the beginning of a log; None if the log has features of its own.

    Parameters
    ----------
    log : DecisionLog
        The log, as `read_log` opens it.
    dim : int, optional
        Most features an arm may have; see `Encoder`. Not for a log that has features.
    """
    features = next(iter(log)).features
    if features is None:
        columns = None if set(log.arms.columns()) != {"id"} else ["id"]  # which an encoder leaves out unless asked
        return Encoder(arms=columns, dim=dim).fit(log.records(SAMPLE))
    if dim is not None and dim != features.shape[1]:
        raise ValueError(f"dim: the log has {features.shape[1]} features of its own, which stay as they are, got {dim}")
    return None


def dim_of(log: DecisionLog, encoder: Encoder | None) -> int:
    """How many features an arm of a log has."""
    return encoder.dim if encoder is not None else next(log.events()).dim


def learn_log(
    policy: Any,
    log: DecisionLog,
    encoder: BatchEncoder | None = None,
    *,
    progress: Callable[[int], object] = lambda done: None,
) -> Lessons:
    """Let a policy learn every reward of a log, in order.

    The policy knows arms by the numbers that a `Recommender` gives to their ids, and scopes by their names, so that it
    can go on in one.

    Parameters
    ----------
    policy : Policy or ScopedPolicy
        It learns as the log is read.
    log : DecisionLog
        The log, as `read_log` opens it. It is read once, a batch at a time.
    encoder : Encoder, optional
        What makes features. By default they are those in the log; a context-free policy needs none.
    progress : callable
        Called with the number of rewards learned so far.

    Raises
    ------
    ValueError
        If the policy cannot learn a reward, naming its row, or needs features and there are none.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from driftbandit import LinUCB, read_log
    >>> table = pa.table({
    ...     "device": ["phone", "phone", "desk", "desk"] * 25, "arms": [["tea", "cup"]] * 100,
    ...     "arm": ["tea", "cup"] * 50, "reward": [1.0, 0.0, 0.0, 1.0] * 25,
    ... })
    >>> log = read_log(table, logged="uniform")
    >>> encoder = fit_encoder(log)
    >>> policy = LinUCB(encoder.dim)
    >>> learn_log(policy, log, encoder)
    Lessons(rewards=100, changes=(), until=99.0)
    >>> policy.choose(encoder.encode({"device": "phone"}, [{"id": "cup"}, {"id": "tea"}]))
    1
    """
    done, until = 0, 0.0
    changes: list[tuple[int, Change]] = []
    for batch in log.events(encoder) if takes_features(policy) else log:
        try:
            changes += _learn(policy, log, batch)
        except _NotLearned as error:
            raise ValueError(f"{log.name}: row {error.row + 1}: {error}") from error
        done += len(batch)
        until = float(batch.times[-1])
        progress(done)
    return Lessons(done, tuple(changes), until)


def takes_features(policy: Any) -> bool:
    """Whether a policy needs features; a context-free one knows arms by their ids alone."""
    return getattr(policy, "dim", None) is not None


class _NotLearned(ValueError):
    """A reward that the policy refused, with its row."""

    def __init__(self, row: int, reason: ValueError) -> None:
        super().__init__(str(reason))
        self.row = row


def _learn(policy: Any, log: DecisionLog, batch: Decisions | Events) -> list[tuple[int, Change]]:
    """Learn a batch; returns its changes, with their rows."""
    shown: Floats | None = None
    if isinstance(batch, Events):
        places = batch.shown_places()
        shown, arms = batch.features[places], batch.arms[places]
        if getattr(policy, "learns_many", False):
            return _learn_many(policy, shown, batch)
    else:
        arms = batch.displayed()
    numbers = numbers_of([log.arms.ids[row] for row in arms.tolist()]).tolist()
    scopes = [log.scopes[row] for row in batch.scopes.tolist()] if takes_scope(policy) else None
    found: list[tuple[int, Change]] = []
    for at, reward in enumerate(batch.rewards.tolist()):
        x = None if shown is None else shown[at]
        try:
            changes = policy.learn(x, reward, numbers[at], **({} if scopes is None else _whose(policy, scopes[at])))
        except ValueError as error:
            raise _NotLearned(int(batch.rows[at]), error) from error
        if changes:
            found += [(int(batch.rows[at]), change) for change in changes]
    return found


def _whose(policy: Any, scope: str) -> dict[str, str]:
    """The scope as a keyword for a policy that keeps a model for each."""
    if not scope:
        raise ValueError(f"scope: {type(policy).__name__} keeps a model per scope, and the log names none here")
    return {"scope": scope}


def _learn_many(policy: Any, shown: Floats, batch: Events) -> list[tuple[int, Change]]:
    """Learn a batch in runs, each of which ends with a reward that revealed a change."""
    found: list[tuple[int, Change]] = []
    at = 0
    while at < len(batch):
        try:
            count, changes, _ = policy.learn_many(shown[at:], batch.rewards[at:])
        except ValueError as error:
            raise _NotLearned(int(batch.rows[at]), error) from error
        at += count
        found += [(int(batch.rows[at - 1]), change) for change in changes]
    return found


def items_at(log: DecisionLog, time: float) -> dict[ArmId, Record]:
    """Features by id of the arms of a log that could be shown at a time or just before it, for a `Recommender`.

    'Just before', because item tables often say that everything ended when the log did. Arms that are not in the item
    table have no end.
    """
    catalogue, facts = log.arms, log.arms.columns()
    times = np.array([np.nextafter(time, -np.inf), time])
    alive = set(catalogue.alive(times)[0].tolist()) if catalogue.known else set()
    return {
        arm: {name: column[row] for name, column in facts.items()}
        for row, arm in enumerate(catalogue.ids)
        if row >= catalogue.known or row in alive
    }


def save_learned(
    path: str | os.PathLike[str], policy: Any, encoder: Encoder | None, items: Mapping[ArmId, Record]
) -> None:
    """Write what was learned from a log to a file, whole or not at all.

    `driftbandit.load` reads the policy. Unless the log had features of its own, `Recommender.load` reads policy,
    encoder and items.
    """
    if encoder is None and takes_features(policy):
        policy.save(path)
    else:
        Recommender(encoder, policy, items=items).save(path)


def serving_command(policy: Any, model: str | os.PathLike[str], loop: str = "NAME") -> str | None:
    """The command that starts the service with a loop that begins with a saved policy; None if it cannot have it.

    Examples
    --------
    >>> from driftbandit import DriftUCB
    >>> serving_command(DriftUCB(3), "shop.policy")
    'driftbandit serve --insecure-local --loop NAME --model shop.policy'
    """
    try:
        name_and_settings(policy)
    except ValueError:
        return None
    return shlex.join(["driftbandit", "serve", "--insecure-local", "--loop", loop, "--model", str(model)])
