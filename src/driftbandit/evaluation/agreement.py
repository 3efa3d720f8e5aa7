"""Where a policy agrees with a log: event by event, or at compiled speed if the policy allows it.

Between two rewards, a policy that does not draw at random (`is_random`) gives the same answer to the same candidates.
Its answers are kept in a table, and a compiled loop runs over the events until one agrees or has no answer yet. A
policy with one model per arm (`scores_each_arm`) meets another user at every event; a compiled loop scores its models.
Any other policy is asked event by event. All three ways find the same events.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints
from driftbandit.environments.log import Log
from driftbandit.environments.log_checks import Rows
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import jit

_LARGEST_TABLE = 50_000_000
_CHUNK = 1 << 14
"""Number of events for which random numbers are drawn at a time."""

Flags = NDArray[np.bool_]


class Questions:
    """What a policy is asked at every event of a log.

    Parameters
    ----------
    log : Log
        The events.
    kept : array of bool
        Whether an agreement counts.
    scopes : array, optional
        Whose model chooses.
    user_features : bool
        Whether the user's features are shown for every candidate, instead of the articles'.
    """

    def __init__(self, log: Log, kept: Flags, scopes: NDArray[Any] | None, user_features: bool) -> None:
        self.log = log
        self.kept = kept
        self.scopes = scopes
        self.user_features = user_features
        self._owners = None if scopes is None else scopes.tolist()
        # Candidate sets repeat, so their features and ids are gathered once.
        offsets = log.pool_offsets.tolist()
        members = [log.pool_members[start:stop] for start, stop in itertools.pairwise(offsets)]
        self._arms = [log.articles[rows] for rows in members]
        self._features = [] if user_features else [np.ascontiguousarray(log.features[rows]) for rows in members]

    def ask(self, policy: Any, event: int) -> int:
        """The policy's choice at an event."""
        pool = self.log.pools[event]
        if self.user_features:
            features = np.repeat(self.log.users[event : event + 1], len(self._arms[pool]), axis=0)
        else:
            features = self._features[pool]
        index: int = policy.choose(features, self._arms[pool], **self._scope(event))
        return index

    def tell(self, policy: Any, event: int) -> Any:
        """Let the policy learn the reward of an event; returns the changes that it revealed."""
        pool, shown = self.log.pools[event], self.log.shown[event]
        features = self.log.users[event] if self.user_features else self._features[pool][shown]
        return policy.learn(
            features, float(self.log.rewards[event]), int(self._arms[pool][shown]), **self._scope(event)
        )

    def _scope(self, event: int) -> dict[str, Any]:
        return {} if self._owners is None else {"scope": self._owners[event]}


def agreements(policy: Any, questions: Questions) -> Iterator[int]:
    """Events that count and at which the policy chooses what was displayed; it must learn from each before the next."""
    if getattr(policy, "scores_each_arm", False) and _scorable(policy, questions):
        return _scored(policy, questions)
    if not questions.user_features and not getattr(policy, "is_random", True):
        scopes = 1 if questions.scopes is None else len(np.unique(questions.scopes))
        small = scopes * (len(questions.log.pool_offsets) - 1) <= _LARGEST_TABLE
        kept = getattr(policy, "most_scopes", None)
        if small and (kept is None or scopes <= kept):
            return _tabled(policy, questions, apart=getattr(policy, "scopes_apart", False))
    return _one_by_one(policy, questions)


def _scorable(policy: Any, questions: Questions) -> bool:
    """Whether a compiled loop can score the models of all articles, none of which will be forgotten."""
    return (
        questions.user_features
        and questions.scopes is None
        and len(questions.log.articles) > 0
        and policy.reward_model.scoring(policy.row_of(int(questions.log.articles[0]))) is not None
        and questions.log.user_dim == policy.dim
        and len(set(policy.arms) | set(questions.log.articles.tolist())) < policy.max_arms
    )


def _one_by_one(policy: Any, questions: Questions) -> Iterator[int]:
    for event, (shown, kept) in enumerate(zip(questions.log.shown.tolist(), questions.kept.tolist(), strict=True)):
        if questions.ask(policy, event) == shown and kept:
            yield event


def _tabled(policy: Any, questions: Questions, *, apart: bool) -> Iterator[int]:
    """Look answers up while they hold: until a reward of the same scope if scopes are `apart`, else of any scope."""
    log = questions.log
    count = len(log)
    rows = np.zeros(count, dtype=np.int64)
    if questions.scopes is not None:
        rows = np.unique(questions.scopes, return_inverse=True)[1].astype(np.int64)
    shape = (int(rows.max(initial=0)) + 1, len(log.pool_offsets) - 1)
    answers = np.zeros(shape, dtype=np.int32)
    asked = np.full(shape, -1, dtype=np.int64)  # rewards that the answer's scope had learned when it was asked
    learned = np.zeros(shape[0], dtype=np.int64)
    event = 0
    while (event := _next_stop(event, log.pools, log.shown, questions.kept, rows, answers, asked, learned)) < count:
        place = rows[event], log.pools[event]
        if asked[place] != learned[rows[event]]:
            answers[place] = questions.ask(policy, event)
            asked[place] = learned[rows[event]]
            continue
        yield event
        learned[rows[event] if apart else slice(None)] += 1
        event += 1
    if getattr(policy, "most_scopes", None) is not None:  # leave the scopes in the order of their last use
        last = np.zeros(shape[0], dtype=np.int64)
        last[rows] = np.arange(count)
        for event in np.sort(last[np.unique(rows)]).tolist():
            questions.ask(policy, event)


@jit
def _next_stop(
    event: int, pools: Rows, shown: Rows, kept: Flags, rows: Ints, answers: Rows, asked: Ints, learned: Ints
) -> int:
    """First event from `event` on that agrees with the answer in the table, or has no valid answer there."""
    while event < len(pools):
        row, pool = rows[event], pools[event]
        if asked[row, pool] != learned[row] or (kept[event] and answers[row, pool] == shown[event]):
            return event
        event += 1
    return event


def _scored(policy: Any, questions: Questions) -> Iterator[int]:
    """Score the models of all candidates in a compiled loop, on a copy of what they have learned."""
    log = questions.log
    bank = np.array([policy.row_of(article) for article in log.articles.tolist()])
    settings = np.array([policy.reward_model.scoring(row) for row in bank], dtype=np.float64)
    displayed = log.displayed()
    sizes = np.diff(log.pool_offsets)
    for start in range(0, len(log), _CHUNK):
        stop = min(start + _CHUNK, len(log))
        ends = np.cumsum(sizes[log.pools[start:stop]])
        draws = policy.draws(int(ends[-1])) if policy.reward_model.samples else np.ones(int(ends[-1]))
        begins = ends - sizes[log.pools[start:stop]]
        event = start
        while event < stop:
            event, usable = _next_agreement(
                event, start, stop, settings, bank, begins, draws,
                log.users, log.pools, log.pool_offsets, log.pool_members, log.shown, questions.kept,
            )  # fmt: skip
            if not usable:
                questions.ask(policy, event)  # raises an error that says what is wrong
            if event < stop:
                yield event
                row = displayed[event]
                bank[row] = policy.row_of(int(log.articles[row]))
                settings[row] = policy.reward_model.scoring(bank[row])
                event += 1


@jit
def _next_agreement(
    event: int,
    start: int,
    stop: int,
    settings: Floats,
    bank: Floats,
    begins: Ints,
    draws: Floats,
    users: Floats,
    pools: Rows,
    offsets: Ints,
    members: Rows,
    shown: Rows,
    kept: Flags,
) -> tuple[int, bool]:
    """First event from `event` to before `stop` whose displayed article scores highest; False if one has no score."""
    while event < stop:
        pool = pools[event]
        scores = np.empty(offsets[pool + 1] - offsets[pool])
        for k in range(len(scores)):
            row = members[offsets[pool] + k]
            mean, width = kernel.predict(settings[row], bank[row], users[event])
            scores[k] = mean + width * draws[begins[event - start] + k]
        best = kernel.first_best(scores)
        if best < 0:
            return event, False
        if kept[event] and best == shown[event]:
            return event, True
        event += 1
    return event, True
