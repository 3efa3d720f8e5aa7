"""One loop's state machine: what each command does to the state, and what each event of the log does to it again.

Commands check, act and return the event that records what they did; `apply` does to the state what a logged event once
did. Both end in the same few methods, so recovered and live state agree byte for byte. Nothing here reads a clock or
touches the disk.
"""

from __future__ import annotations

import numpy as np

from driftbandit.serving.loop.events import (
    AnyEvent,
    Configured,
    Decided,
    Late,
    Rewarded,
    Ticked,
)
from driftbandit.serving.loop.learner import Learner
from driftbandit.serving.loop.randomness import BLOCK, arm_number, chance, draws
from driftbandit.serving.loop.records import (
    EVERYONE,
    Open,
    Pool,
    Refused,
)
from driftbandit.serving.loop.scopes import Models


class Loop(Learner):
    """One loop on one shard; see `State` for the parameters."""

    __slots__ = ()

    # Commands ------------------------------------------------------------------------------------------------------

    def decide(self, now: int, decision_id: str, scope: str | None, pool: Pool) -> Decided:
        """Choose an arm of a pool; the id must be new."""
        config, counts = self.config, self.counts
        if not config.scoped:
            owner = EVERYONE
        elif scope is None:
            raise Refused(422, "scope: this loop has one model a scope, so a decision must name one")
        else:
            owner = scope
        if self._steady and pool.voted_at == counts.learned and self.shadow is None:  # nothing new to ask
            votes: tuple[int, ...] = (pool.vote,)
            shadow = -1
        else:
            votes, shadow = self._ask(owner, pool)
        # Two numbers drawn from the decision's own: exploring or not, and which of the arms or votes.
        number = counts.decisions
        if number // BLOCK != self._block:
            self._block = number // BLOCK
            self._draws = draws(self._key, self._block)
        at = 2 * (number % BLOCK)
        explores, which = self._draws[at], self._draws[at + 1]
        names, floor = pool.names, config.floor
        size = len(names)
        index = votes[int(which * len(votes))] if votes and explores >= floor else int(which * size)
        event = Decided(
            now,
            decision_id,
            scope,
            pool.ids,
            pool.own,
            index,
            names[index],
            chance(votes, floor, size, index),
            votes,
            shadow,
            self.version,
            counts.learned,
            now + self._window,
        )
        self._decided(event, pool)
        return event

    def reward(self, now: int, decision_id: str, value: float, reward_id: str | None) -> Rewarded | Late | None:
        """Take the reward of a decision; None if it is known already.

        Raises
        ------
        Refused
            404 if there is no such decision here, 409 if it has another reward, 422 if the value is out of range.
        """
        recent = self.recent.get(decision_id)
        record = recent or self.known.get(decision_id)
        if record is None:
            raise Refused(404, f"no decision {decision_id[:200]!r} in loop {self.name!r}")
        low, high = self.bounds
        if not low <= value <= high:
            raise Refused(422, f"value: expected a number in [{low:g}, {high:g}], got {value:g}")
        if record.reward is not None:
            if record.reward != value:
                raise Refused(409, f"decision {decision_id!r} has the reward {record.reward:g} already")
            return None
        if recent is None or recent.closed:
            late = Late(now, decision_id, value, reward_id)
            self.apply(late)
            return late
        event = Rewarded(now, decision_id, value, reward_id)
        self._rewarded(event, recent)
        return event

    def tick(self, now: int) -> Ticked | None:
        """Close the windows that are due; None if there are none."""
        if self.due.first > now:
            return None
        event = Ticked(now)
        self.apply(event)
        return event

    # The log -------------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent, *, verify: bool = False) -> bool:
        """Do what a logged event did; with `verify` False is returned for a decision that would come out otherwise."""
        kind = type(event)
        if kind is Rewarded:
            self._rewarded(event, self.recent[event.id])  # type: ignore[arg-type,union-attr]
        elif kind is Decided:
            return self._decided_again(event, verify)  # type: ignore[arg-type]
        elif kind is Ticked:
            self._advance(event)
            self._close_due(event.time)
        elif kind is Late:
            self._advance(event)
            self.counts.late += 1
        elif kind is Configured:
            self._configured(event)  # type: ignore[arg-type]
        else:
            self._catalogued(event)  # type: ignore[arg-type]
        return True

    def _ask(self, owner: str, pool: Pool) -> tuple[tuple[int, ...], int]:
        """What the policy votes for, and what its shadow would play; refuses features that the policy cannot use."""
        models, shadow = self.models, self.shadow
        assert models is not None
        votes: tuple[int, ...] = ()
        try:
            if self._steady:
                learned = self.counts.learned
                if pool.voted_at != learned:
                    pool.vote, pool.voted_at = models.get(owner).choose(pool.features, pool.numbers), learned
                votes = (pool.vote,)
            elif not self._uniform:
                policy = models.get(owner)
                votes = tuple([policy.choose(pool.features, pool.numbers) for _ in range(self._asked)])
                if self._moved:
                    models.mark(owner)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        return votes, -1 if shadow is None else self._ask_shadow(shadow, owner, pool)

    def _ask_shadow(self, models: Models, owner: str, pool: Pool) -> int:
        try:
            choice = models.get(owner).choose(pool.features, pool.numbers)
        except ValueError:  # what the policy can use is played, whatever its shadow thinks of it
            return -1
        models.mark(owner)
        return choice

    def _decided_again(self, event: Decided, verify: bool) -> bool:
        features = None
        if event.features is not None:
            features = np.frombuffer(event.features).reshape(len(event.arms or ()), -1).copy()
        pool = self.pool(event.arms, features)
        if verify:
            return self.decide(event.time, event.id, event.scope, pool) == event
        if self._moved or self.shadow is not None:  # being asked changes them
            self._ask(event.scope or EVERYONE if self.config.scoped else EVERYONE, pool)
        self._decided(event, pool)
        return True

    def _decided(self, event: Decided, pool: Pool) -> None:
        self.seq = seq = self.seq + 1
        self.time = event.time
        counts = self.counts
        counts.decisions += 1
        weight = 0.0
        if self.shadow is not None:
            counts.shadow_decisions += 1
            if event.shadow == event.index:
                counts.shadow_agreed += 1
                weight = 1.0 / event.propensity
        features: bytes | int | None = None
        if pool.own is not None:
            features = pool.features[event.index].tobytes()  # type: ignore[index]
        elif pool.features is not None:
            features = self.catalogue.rows[event.arm]  # type: ignore[union-attr]
        number = 0 if self._contextual and self.shadow is None else arm_number(event.arm)
        owner = event.scope if self.config.scoped and event.scope is not None else EVERYONE
        main, shadow = self.epochs
        record = Open(event.id, seq, event.expires, owner, main, shadow, number, features, weight)
        self.recent[event.id] = record
        self.due.add(record)
        if event.time >= self._bucket_ends:
            self._turn_over(event.time)
        self._bucket.decisions += 1

    def _rewarded(self, event: Rewarded, record: Open) -> None:
        self.seq += 1
        self.time = event.time
        record.reward = event.value
        self.counts.rewards += 1
        if self._on_arrival:
            self._learn(record, event.value)
