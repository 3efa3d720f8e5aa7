"""One loop: what each command does, and how each event of the log is repeated.

A command checks, acts and returns the event that records what it did; `apply` repeats a logged event. Both
end in the same few methods, so that a recovered loop equals the live one byte for byte. Nothing here reads a clock or
touches the disk.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from driftbandit.serving.loop.arms import Pool, Pools
from driftbandit.serving.loop.config import LoopConfig, Plan, bounds, builder
from driftbandit.serving.loop.events import AnyEvent, Catalogued, Configured, Decided, Late, Refused, Rewarded, Ticked
from driftbandit.serving.loop.learner import Learner
from driftbandit.serving.loop.model import fitting
from driftbandit.serving.loop.randomness import BLOCK, Draws, arm_number, chance
from driftbandit.serving.loop.scopes import EVERYONE, MAIN, SHADOW, Models
from driftbandit.serving.loop.series import Series
from driftbandit.serving.loop.state import Counts, Outbox, State, late_key
from driftbandit.serving.loop.windows import ClosedRow, Open

Load = Callable[[int, int, str], bytes | None]


class Loop:
    """One loop on one shard.

    Parameters
    ----------
    name : str
        Its name.
    shard : int
        Which part of the scopes it serves.
    load : callable
        ``load(role, epoch, scope)`` reads a packed model from the store.
    limit : int
        How many scopes to keep in memory.
    number : int
        Its number in the store.

    Attributes
    ----------
    state : State
        What it knows.
    learner : Learner
        Its policies.
    pools : Pools
        Makes the pools that `decide` takes.
    outbox : Outbox
        What the store does not have yet.
    bounds : pair of float
        The lowest and the highest reward that the loop takes.
    known : dict
        Closed decisions from the store that the present commands ask for.
    """

    __slots__ = (
        "_draws",
        "_limit",
        "_load",
        "_numbered",
        "_on_arrival",
        "_window",
        "bounds",
        "known",
        "learner",
        "name",
        "number",
        "outbox",
        "pools",
        "shard",
        "state",
    )

    def __init__(self, name: str, shard: int, load: Load, limit: int = 1_000_000, number: int = 0) -> None:
        self.name = name
        self.shard = shard
        self.number = number
        self._load = load
        self._limit = limit
        self.state = State()
        self.outbox = Outbox(number, shard)
        self.known: dict[str, ClosedRow] = {}
        self._build(None, None)

    # Settings ------------------------------------------------------------------------------------------------------

    def _build(self, models: Models | None, shadow: Models | None) -> None:
        """Build everything that depends on the settings; models that are None start afresh, or come from the store."""
        state = self.state
        config, (main_epoch, shadow_epoch) = state.config, state.epochs
        if models is None:
            build = builder(config, Plan(config.policy, config.settings))
            begin = None if state.model is None else fitting(build(), state.model)
            models = Models(build, lambda scope: self._load(MAIN, main_epoch, scope), self._limit, begin=begin)
        if config.shadow is None:
            shadow = None
        elif shadow is None:
            build = builder(config, config.shadow)
            shadow = Models(build, lambda scope: self._load(SHADOW, shadow_epoch, scope), self._limit)
        self.learner = Learner(state, self.outbox, models, shadow)
        self.bounds = bounds(config, models.example)
        self._draws = Draws(self.name, self.shard, config.seed)
        self._window = round(config.window * 1000.0)
        self._on_arrival = config.learn == "arrival"
        self._numbered = shadow is not None or getattr(models.example, "dim", None) is None
        self._renew_pools()

    def _renew_pools(self) -> None:
        self.pools = Pools(self.state.catalogue, self.state.config.dim, numbered=self._numbered)

    def _configured(self, event: Configured) -> None:
        main_afresh, shadow_afresh = self.state.configure(event)
        learner = self.learner
        self._build(None if main_afresh else learner.models, None if shadow_afresh else learner.shadow)

    def restore(self, core: bytes) -> None:
        """Continue from a snapshot; models come from the store when they are needed."""
        self.state.restore(core)
        self._build(None, None)

    # Commands ------------------------------------------------------------------------------------------------------

    def decide(self, now: int, decision_id: str, scope: str | None, pool: Pool) -> Decided:
        """Choose an arm of a pool; the id must be new."""
        state, learner = self.state, self.learner
        config, counts = state.config, state.counts
        if not config.scoped:
            owner = EVERYONE
        elif scope is None:
            raise Refused(422, "scope: this loop has one model per scope, so a decision must name one")
        else:
            owner = scope
        if learner.knows_vote and pool.voted_at == counts.learned:
            votes: tuple[int, ...] = (pool.vote,)
            shadow = -1
        else:
            votes, shadow = learner.ask(owner, pool)
        # Two numbers drawn for this decision: whether it explores, and which of the arms or votes it plays.
        number, draws = counts.decisions, self._draws
        if number // BLOCK != draws.block:
            draws.turn_to(number // BLOCK)
        at = 2 * (number % BLOCK)
        explores, which = draws.drawn[at], draws.drawn[at + 1]
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
            state.version,
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
            404 if there is no such decision here, 409 if it has another reward, 410 if it came too late and is logged
            already, 422 if the value is out of range.
        """
        recent = self.state.recent.get(decision_id)
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
            if late_key(late) in self.state.late:
                raise Refused(410, f"the reward window of decision {decision_id!r} has closed; logged before")
            self.apply(late)
            return late
        event = Rewarded(now, decision_id, value, reward_id)
        self._rewarded(event, recent)
        return event

    def tick(self, now: int) -> Ticked | None:
        """Close the windows that are due; None if there are none."""
        if self.state.due.first > now:
            return None
        event = Ticked(now)
        self.apply(event)
        return event

    # The log -------------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent, *, verify: bool = False) -> bool:
        """Repeat what a logged event did.

        With `verify`, decisions are made again; False is returned if one comes out differently.
        """
        state = self.state
        kind = type(event)
        if kind is Rewarded:
            self._rewarded(event, state.recent[event.id])  # type: ignore[arg-type,union-attr]
        elif kind is Decided:
            return self._decided_again(event, verify)  # type: ignore[arg-type]
        elif kind is Ticked:
            state.advance(event)
            self.learner.close_due(event.time)
        elif kind is Late:
            state.note_late(event)  # type: ignore[arg-type]
        elif kind is Configured:
            self._configured(event)  # type: ignore[arg-type]
        else:
            assert isinstance(event, Catalogued)
            state.replace_arms(event)
            self._renew_pools()
        return True

    def _decided_again(self, event: Decided, verify: bool) -> bool:
        features = None
        if event.features is not None:
            features = np.frombuffer(event.features).reshape(len(event.arms or ()), -1).copy()
        pool = self.pools.of(event.arms, features)
        if verify:
            return self.decide(event.time, event.id, event.scope, pool) == event
        if self.learner.asking_changes:
            self.learner.ask(event.scope or EVERYONE if self.state.config.scoped else EVERYONE, pool)
        self._decided(event, pool)
        return True

    def _decided(self, event: Decided, pool: Pool) -> None:
        state = self.state
        state.seq = seq = state.seq + 1
        state.time = event.time
        counts = state.counts
        counts.decisions += 1
        weight = 0.0
        if self.learner.shadow is not None:
            counts.shadow_decisions += 1
            if event.shadow == event.index:
                counts.shadow_agreed += 1
                weight = 1.0 / event.propensity
        features: bytes | int | None = None
        if pool.own is not None:
            features = pool.features[event.index].tobytes()  # type: ignore[index]
        elif pool.features is not None:
            features = state.catalogue.rows[event.arm]  # type: ignore[union-attr]
        number = arm_number(event.arm) if self._numbered else 0
        owner = event.scope if state.config.scoped and event.scope is not None else EVERYONE
        main, shadow = state.epochs
        record = Open(event.id, seq, event.expires, owner, main, shadow, number, features, weight)
        state.recent[event.id] = record
        state.due.add(record)
        for pending in self.learner.pending:
            pending.add(record)
        if event.time >= state.bucket_ends:
            state.turn_over(event.time)
        state.bucket.decisions += 1

    def _rewarded(self, event: Rewarded, record: Open) -> None:
        state = self.state
        state.seq += 1
        state.time = event.time
        record.reward = event.value
        state.counts.rewards += 1
        if self._on_arrival:
            for pending in self.learner.pending:
                pending.drop((record,))
            self.learner.learn(record, event.value)

    def forget_closed(self) -> None:
        """Forget the decisions that are closed; the store knows them."""
        recent = self.state.recent
        for decision_id, _, _ in self.outbox.closed:
            del recent[decision_id]
        self.outbox.closed = []

    # Looking -------------------------------------------------------------------------------------------------------

    @property
    def config(self) -> LoopConfig:
        """Its settings."""
        return self.state.config

    @property
    def counts(self) -> Counts:
        """What happened so far."""
        return self.state.counts

    @property
    def series(self) -> Series:
        """What happened over time."""
        return self.state.series

    @property
    def models(self) -> Models:
        """The policies that decide."""
        return self.learner.models

    @property
    def waiting(self) -> int:
        """How many decisions are open."""
        return len(self.state.recent) - len(self.outbox.closed)
