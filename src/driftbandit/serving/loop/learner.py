"""The policies of a loop: asked for decisions, and taught when rewards are final."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from driftbandit.batch.objects import (
    choose_each,
    chooses_in_crowds,
    learn_each,
    learns_in_crowds,
    pays_to_choose,
    pays_to_learn,
)
from driftbandit.core import Change, Floats
from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.serving.loop.arms import Pool
from driftbandit.serving.loop.config import weights_of
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.outbox import Found, Outbox
from driftbandit.serving.loop.scopes import EVERYONE, MAIN, SHADOW, Models
from driftbandit.serving.loop.state import State
from driftbandit.serving.loop.windows import Open, Pending

_Choose = Callable[..., int]


class Learner:
    """Asks and teaches the policies of a loop with the settings that the state has now.

    Parameters
    ----------
    state : State
        What the loop knows: rewards are counted there.
    outbox : Outbox
        Where closed decisions and detected changes go.
    models : Models
        The policies that decide, by scope.
    shadow : Models or None
        The shadow policies, which see every decision and reward and decide nothing.

    Attributes
    ----------
    knows_vote : bool
        Whether a pool's last vote still holds if nothing was learned since, and no shadow must be asked. It does not
        hold if the policy minds what is pending, since that grows with every decision.
    asking_changes : bool
        Whether `choose` changes some policy, so that a logged decision must be asked for again.
    pending : tuple of Pending
        What is pending, for each role whose policies mind; most policies do not, and then it is empty.
    """

    __slots__ = (
        "_ahead",
        "_asked",
        "_foresees",
        "_in_crowds",
        "_in_runs",
        "_judged",
        "_keeps_weights",
        "_moved",
        "_outbox",
        "_pending_main",
        "_pending_shadow",
        "_state",
        "_steady",
        "_uniform",
        "_weighs",
        "asking_changes",
        "knows_vote",
        "models",
        "pending",
        "shadow",
    )

    def __init__(self, state: State, outbox: Outbox, models: Models, shadow: Models | None = None) -> None:
        self._state = state
        self._outbox = outbox
        self.models = models
        self.shadow = shadow
        policy: Any = models.example
        shared = not state.config.scoped
        self._pending_main = self._count_pending(MAIN, models)
        self._pending_shadow = self._count_pending(SHADOW, shadow)
        self.pending = tuple(each for each in (self._pending_main, self._pending_shadow) if each is not None)
        self._asked = state.config.draws if policy.is_random else 1
        self._uniform = policy.is_uniform
        self._moved = policy.is_random and not policy.is_uniform
        self._steady = shared and not policy.is_random and not policy.minds_pending
        self._judged = shared and policy.miss_test is not None
        self._in_runs = shared and shadow is None and policy.learns_many
        self._in_crowds = not shared and shadow is None and learns_in_crowds(policy)
        self._foresees = chooses_in_crowds(policy)
        self._ahead: dict[tuple[str, int, int], int] = {}  # choices made ahead, by scope, pool and what is pending
        self._keeps_weights = policy.weights_before_change is not None
        self._weighs = policy.feature_weights is not None and not self._keeps_weights
        self.knows_vote = self._steady and shadow is None
        self.asking_changes = self._moved or shadow is not None

    @property
    def roles(self) -> list[tuple[int, Models]]:
        """The models with their roles."""
        return [(MAIN, self.models)] if self.shadow is None else [(MAIN, self.models), (SHADOW, self.shadow)]

    def _count_pending(self, role: int, models: Models | None) -> Pending | None:
        """What is pending for the models of a role; None if they do not mind."""
        policy: Any = None if models is None else models.example
        if policy is None or not policy.minds_pending:
            return None
        return Pending(role, self._state.epochs[role], self._state.recent.values())

    # Asking --------------------------------------------------------------------------------------------------------

    def ask(self, owner: str, pool: Pool) -> tuple[tuple[int, ...], int]:
        """What a scope's policy votes for, and what its shadow would play (-1 for nothing).

        A policy that plays every arm with the same probability has no votes, any other random policy has several, the
        rest have one.

        Raises
        ------
        Refused
            If the policy cannot use these arms.
        """
        models, shadow = self.models, self.shadow
        votes: tuple[int, ...] = ()
        try:
            if self._steady:
                learned = self._state.counts.learned
                if pool.voted_at != learned:
                    pool.vote, pool.voted_at = self._choose(owner, pool), learned
                votes = (pool.vote,)
            elif not self._uniform:
                if self._moved:
                    models.get(owner)
                    models.mark(owner)
                votes = tuple([self._choose(owner, pool) for _ in range(self._asked)])
        except ValueError as error:
            raise Refused(422, str(error)) from error
        return votes, -1 if shadow is None else self._ask_shadow(shadow, owner, pool)

    def _choose(self, owner: str, pool: Pool) -> int:
        """The choice of a scope's policy."""
        counted = self._pending_main
        pending = 0 if counted is None else counted[owner]
        if self._ahead and (known := self._ahead.get((owner, id(pool), pending))) is not None:
            return known
        choose: _Choose = self.models.get(owner).choose
        if counted is not None:
            choose = partial(choose, pending=pending)
        return choose(pool.features, pool.numbers)

    def look_ahead(self, asked: list[tuple[str, Pool]]) -> None:
        """Let policies choose for decisions that are about to be made, on threads; `ask` then knows the answers.

        Nothing may be learned until `forget_ahead`, and the pools must live as long. An answer is only used if as many
        rewards are pending as there will be if all these decisions are made, in this order.
        """
        arms = sum(len(pool.names) for _, pool in asked)
        if not self._foresees or not pays_to_choose(self.models.example, len(asked), arms):
            return
        counted = self._pending_main
        questions: dict[tuple[str, int, int], Pool] = {}
        before: Counter[str] = Counter()
        for owner, pool in asked:
            questions[owner, id(pool), 0 if counted is None else counted[owner] + before[owner]] = pool
            before[owner] += 1
        keys = list(questions)
        while keys:
            policies = self.models.get_many([owner for owner, _, _ in keys])
            some, keys = keys[: len(policies)], keys[len(policies) :]
            pools: list[Any] = [questions[key].features for key in some]
            found = choose_each(policies, pools, [pending for _, _, pending in some])
            self._ahead |= {
                key: arm for key, arm in zip(some, found, strict=True) if arm >= 0
            }  # others: `ask` says why

    def forget_ahead(self) -> None:
        """Forget the answers of `look_ahead`."""
        self._ahead.clear()

    def _ask_shadow(self, models: Models, owner: str, pool: Pool) -> int:
        try:
            choose: _Choose = models.get(owner).choose
            models.mark(owner)
            if self._pending_shadow is not None:
                choose = partial(choose, pending=self._pending_shadow[owner])
            return choose(pool.features, pool.numbers)
        except ValueError:  # the decision stands, even if the shadow cannot use these arms
            return -1

    # Teaching ------------------------------------------------------------------------------------------------------

    def close_due(self, now: int) -> None:
        """Close the windows that are due, count their rewards, and learn those not learned yet."""
        state, shadow = self._state, self.shadow
        if now >= state.bucket_ends:
            state.turn_over(now)
        counts, bucket = state.counts, state.bucket
        default, bounds = state.config.default_reward, state.config.reward_range
        records: list[Open] = []
        values: list[float] = []
        due = state.due.take(now)
        self._outbox.closed += [(record.id, record.seq, record.reward) for record in due]
        for pending in self.pending:
            pending.drop(record for record in due if not record.learned)
        closed, whole, lately = 0, counts.reward_sum, bucket.reward
        for record in due:
            record.closed = True
            value = record.reward
            if value is None:
                counts.missing += 1
                value = default
            if value is not None:
                closed += 1
                whole += value
                lately += value
                if shadow is not None and record.shadow_epoch == state.epochs[SHADOW]:
                    counts.shadow_closed += 1
                    counts.shadow_weight += record.weight
                    counts.shadow_reward += record.weight * value
                    if bounds is not None:
                        state.shadow_value.add(record.weight, value, *bounds)
                if not record.learned:
                    records.append(record)
                    values.append(value)
        counts.closed += closed
        bucket.closed += closed
        counts.reward_sum, bucket.reward = whole, lately
        if self._in_runs:
            self._learn_run(records, values)
        elif self._in_crowds and pays_to_learn(self.models.example, len(records)):
            self._learn_crowd(records, values)
        else:
            for record, value in zip(records, values, strict=True):
                self.learn(record, value)
        for record in due:
            record.features = None  # features are no longer needed, and may be large

    def learn(self, record: Open, value: float) -> None:
        """Teach a reward to the models that decided, unless newer models have replaced them."""
        record.learned = True
        state, shadow = self._state, self.shadow
        x, owner, number = self._features(record), record.scope, record.number
        main_epoch, shadow_epoch = state.epochs
        if record.epoch == main_epoch:
            policy = self.models.get(owner)
            self.models.mark(owner)
            before = weights_of(policy) if self._weighs else None
            try:
                changes = policy.learn(x, value, number)
            except ValueError:
                state.counts.refused += 1
            else:
                if changes and self._keeps_weights:
                    before = policy.weights_before_change.tobytes()  # type: ignore[attr-defined]
                self._learned(policy, 1, changes, owner, before)
        if shadow is not None and record.shadow_epoch == shadow_epoch:
            policy = shadow.get(owner)
            shadow.mark(owner)
            try:
                policy.learn(x, value, number)
            except ValueError:
                state.counts.refused += 1

    def _features(self, record: Open) -> Floats | None:
        """Features of the arm that a decision played."""
        row = record.features
        if isinstance(row, int):
            x: Floats = self._state.catalogue.features[row]  # type: ignore[union-attr,index]
            return x
        return None if row is None else np.frombuffer(row)

    def _learn_run(self, records: list[Open], values: list[float]) -> None:
        """Teach many rewards to the only model at once, with the same result as `learn` one after the other."""
        state = self._state
        records, xs, rewards = self._gathered(records, values)
        if not records:
            return
        policy: Any = self.models.get(EVERYONE)
        self.models.mark(EVERYONE)
        at = 0
        while at < len(rewards):
            try:
                count, changes, before = policy.learn_many(xs[at:], rewards[at:])
            except ValueError:
                state.counts.refused += 1
                at += 1
            else:
                self._learned(policy, count, changes, EVERYONE, before.tobytes())
                at += count

    def _learn_crowd(self, records: list[Open], values: list[float]) -> None:
        """Teach many rewards to the models of many scopes, on threads, with the same result as `learn` in turn."""
        counts, models = self._state.counts, self.models
        records, xs, rewards = self._gathered(records, values)
        at = 0
        while at < len(records):
            policies = models.get_many([record.scope for record in records[at:]])
            until = at + len(policies)
            for record in records[at:until]:
                models.mark(record.scope)
            lessons = learn_each(policies, xs[at:until], rewards[at:until])
            refused = sum(not lesson.learned for lesson in lessons)
            counts.refused += refused
            self._learned(policies[0], len(lessons) - refused, (), "", None)
            for record, policy, lesson in zip(records[at:until], policies, lessons, strict=True):
                if lesson.before is not None:
                    self._learned(policy, 0, lesson.changes, record.scope, lesson.before.tobytes())
            at = until

    def _gathered(self, records: list[Open], values: list[float]) -> tuple[list[Open], Floats, Floats]:
        """Those of these decisions that the present models made, the features of their arms, and their rewards."""
        state = self._state
        main = state.epochs[MAIN]
        if any(record.epoch != main for record in records):
            values = [value for record, value in zip(records, values, strict=True) if record.epoch == main]
            records = [record for record in records if record.epoch == main]
        rows = [record.features for record in records]
        if set(map(type, rows)) == {int}:
            xs = state.catalogue.features.take(rows, axis=0)  # type: ignore[union-attr,arg-type]
        else:
            xs = np.array([self._features(record) for record in records])
        return records, xs, np.array(values)

    def _learned(
        self, policy: SavedPolicy, count: int, changes: tuple[Change, ...], scope: str, before: bytes | None
    ) -> None:
        """Count rewards that were learned, and note the changes that the last of them revealed."""
        state = self._state
        counts, time = state.counts, state.time
        counts.learned += count
        if time >= state.bucket_ends:
            state.turn_over(time)
        bucket = state.bucket
        if self._judged and bucket.misses is None:
            bucket.misses = policy.miss_test  # type: ignore[attr-defined]
        for change in changes:
            counts.changes += 1
            bucket.changes += 1
            self._outbox.found.append(Found(scope, time, state.seq, counts.changes, change, before))
