"""What a loop learns: rewards whose windows close, one by one or in runs, and the changes that they reveal."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftbandit.core import Change, Floats
from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.serving.loop.config import (
    weights_of,
)
from driftbandit.serving.loop.records import (
    EVERYONE,
    MAIN,
    SHADOW,
    Found,
    Open,
)
from driftbandit.serving.loop.state import State


class Learner(State):
    """A loop's state that learns."""

    __slots__ = ()

    def _close_due(self, now: int) -> None:
        if now >= self._bucket_ends:
            self._turn_over(now)
        counts, bucket = self.counts, self._bucket
        default = self.config.default_reward
        records: list[Open] = []
        values: list[float] = []
        due = self.due.take(now)
        self.closed += [(record.id, record.seq, record.reward) for record in due]
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
                if self.shadow is not None and record.shadow_epoch == self.epochs[SHADOW]:
                    counts.shadow_closed += 1
                    counts.shadow_weight += record.weight
                    counts.shadow_reward += record.weight * value
                if not record.learned:
                    records.append(record)
                    values.append(value)
        counts.closed += closed
        bucket.closed += closed
        counts.reward_sum, bucket.reward = whole, lately
        if self._in_runs and self.shadow is None:
            self._learn_run(records, values)
        else:
            for record, value in zip(records, values, strict=True):
                self._learn(record, value)
        for record in due:
            record.features = None  # have served their turn, and may be large

    def _learn(self, record: Open, value: float) -> None:
        """Teach the models; those started afresh since the decision are spared rewards of their predecessors."""
        record.learned = True
        x, owner, number = self._features(record), record.scope, record.number
        if record.epoch == self.epochs[MAIN] and self.models is not None:
            policy = self.models.get(owner)
            self.models.mark(owner)
            self._teach(policy, x, value, number, record)
        if self.shadow is not None and record.shadow_epoch == self.epochs[SHADOW]:
            self.shadow.mark(owner)
            try:
                self.shadow.get(owner).learn(x, value, number)
            except ValueError:
                self.counts.refused += 1

    def _features(self, record: Open) -> Floats | None:
        """Features of the arm that a decision played."""
        row = record.features
        if isinstance(row, int):
            x: Floats = self.catalogue.features[row]  # type: ignore[union-attr,index]
            return x
        return None if row is None else np.frombuffer(row)

    def _teach(self, policy: SavedPolicy, x: Floats | None, value: float, number: int, record: Open) -> None:
        before = weights_of(policy) if self._weighs else None
        try:
            changes = policy.learn(x, value, number)
        except ValueError:
            self.counts.refused += 1
            return
        self._learned(policy, 1, changes, record.scope, before)

    def _learn_run(self, records: list[Open], values: list[float]) -> None:
        """Teach the only model many rewards, as `_learn` would one after the other."""
        main = self.epochs[MAIN]
        if any(record.epoch != main for record in records):
            values = [value for record, value in zip(records, values, strict=True) if record.epoch == main]
            records = [record for record in records if record.epoch == main]
        if not records:
            return
        assert self.models is not None
        policy: Any = self.models.get(EVERYONE)
        self.models.mark(EVERYONE)
        rows = [record.features for record in records]
        if set(map(type, rows)) == {int}:
            xs = self.catalogue.features.take(rows, axis=0)  # type: ignore[union-attr,arg-type]
        else:
            xs = np.array([self._features(record) for record in records])
        rewards = np.array(values)
        at = 0
        while at < len(rewards):
            try:
                count, changes, before = policy.learn_many(xs[at:], rewards[at:])
            except ValueError:
                self.counts.refused += 1
                at += 1
            else:
                self._learned(policy, count, changes, EVERYONE, before.tobytes())
                at += count

    def _learned(
        self, policy: SavedPolicy, count: int, changes: tuple[Change, ...], scope: str, before: bytes | None
    ) -> None:
        """Count rewards that were learned, and note the changes that the last of them revealed."""
        counts, time = self.counts, self.time
        counts.learned += count
        if time >= self._bucket_ends:
            self._turn_over(time)
        bucket = self._bucket
        if self._judged and bucket.misses is None:
            bucket.misses = policy.miss_test  # type: ignore[attr-defined]
        for change in changes:
            counts.changes += 1
            bucket.changes += 1
            self.found.append(Found(scope, time, self.seq, counts.changes, change, before))
