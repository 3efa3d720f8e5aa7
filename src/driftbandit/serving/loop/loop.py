"""One loop: what each command does, and how each event of the log is repeated.

A command checks, acts and returns the event that records what it did; `apply` repeats a logged event. Both
end in the same few methods, so that a recovered loop equals the live one byte for byte. Nothing here reads a clock or
touches the disk.
"""

from __future__ import annotations

from collections.abc import Callable

from driftbandit.features.arms import number_of
from driftbandit.serving.loop.arms import Pool, Pools
from driftbandit.serving.loop.config import LoopConfig, Plan, bounds, builder
from driftbandit.serving.loop.encoding import NamedFeatures
from driftbandit.serving.loop.events import (
    AnyEvent,
    Configured,
    Decided,
    Late,
    NamedDecision,
    Refused,
    Rewarded,
    Ticked,
)
from driftbandit.serving.loop.learner import Learner
from driftbandit.serving.loop.model import fitting
from driftbandit.serving.loop.outbox import Outbox
from driftbandit.serving.loop.randomness import BLOCK, Draws, arm_number, chance
from driftbandit.serving.loop.repeating import repeat
from driftbandit.serving.loop.scopes import EVERYONE, MAIN, SHADOW, Models, Room
from driftbandit.serving.loop.series import Series
from driftbandit.serving.loop.state import Counts, State, late_key
from driftbandit.serving.loop.windows import ClosedRow, Open

Load = Callable[[int, int, str], bytes | None]

_HOT = 4
"""Policy objects of a loop may take one in so many parts of the memory; older ones are packed."""


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
    room : Room, optional
        How much memory the models of all loops may take.
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
    blurred_until : int
        Number of the event until which counts, and a model that scopes share, are not exact; see `erasing`.
    ahead : int
        Milliseconds by which its time is ahead of the service's clock, if the clock was set back between two starts.
    behind : int
        Milliseconds by which its time is behind, while more windows are due than there is time to close; see
        `Engine.tick`.
    """

    __slots__ = (
        "_draws",
        "_load",
        "_named",
        "_number",
        "_numbered",
        "_on_arrival",
        "_room",
        "_window",
        "ahead",
        "behind",
        "blurred_until",
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

    def __init__(self, name: str, shard: int, load: Load, room: Room | None = None, number: int = 0) -> None:
        self.name = name
        self.shard = shard
        self.number = number
        self._load = load
        self._room = room or Room()
        self.state = State()
        self.outbox = Outbox(number, shard)
        self.known: dict[str, ClosedRow] = {}
        self.ahead = self.behind = 0
        self.blurred_until = 0
        self._build(None, None)

    def time_at(self, now: int) -> int:
        """The loop's time when the service's clock shows `now`; it never runs backwards."""
        return max(now + self.ahead - self.behind, self.state.time)

    # Settings ------------------------------------------------------------------------------------------------------

    def _build(self, models: Models | None, shadow: Models | None) -> None:
        """Build everything that depends on the settings; models that are None start afresh, or come from the store."""
        state = self.state
        config, (main_epoch, shadow_epoch) = state.config, state.epochs
        hot = self._room.limit // _HOT
        if models is None:
            build = builder(config, Plan(config.policy, config.settings))
            begin = None if state.model is None else fitting(build(), state.model)
            models = Models(build, lambda scope: self._load(MAIN, main_epoch, scope), hot, begin=begin)
        if config.shadow is None:
            shadow = None
        elif shadow is None:
            build = builder(config, config.shadow)
            shadow = Models(build, lambda scope: self._load(SHADOW, shadow_epoch, scope), hot)
        self.learner = Learner(state, self.outbox, models, shadow)
        self.bounds = bounds(config, models.example)
        self._draws = Draws(self.name, self.shard, config.seed)
        self._window = round(config.window * 1000.0)
        self._named = NamedFeatures(config.encoder) if config.encoder else None
        self._on_arrival = config.learn == "arrival"
        self._numbered = shadow is not None or getattr(models.example, "dim", None) is None
        self._number: Callable[[str], int] = number_of if state.numbers_as_library else arm_number
        self.renew_pools()

    def renew_pools(self) -> None:
        """Forget the pools, with the votes that they remember."""
        state = self.state
        self.pools = Pools(
            state.catalogue, state.config.dim, numbered=self._numbered, named=self._named, number=self._number
        )

    def take_settings(self, event: Configured) -> None:
        """Take new settings; models start afresh if they depend on what changed."""
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
        if self._room.full:
            self._room.admit(owner in learner.models)
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
        parts = (
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
            now + self.behind + self._window,
        )
        event = Decided(*parts) if pool.context is None else NamedDecision(*parts, pool.context, pool.records)
        self.take_decision(event, pool)
        return event

    def look_ahead(self, asked: list[tuple[str | None, Pool]]) -> None:
        """Prepare decisions that are about to be made for these scopes and pools; see `Learner.look_ahead`."""
        if not self._room.full:
            scoped = self.state.config.scoped
            known = [(scope if scoped else EVERYONE, pool) for scope, pool in asked]
            self.learner.look_ahead([(owner, pool) for owner, pool in known if owner is not None])

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
        self.take_reward(event, recent)
        return event

    def tick(self, now: int) -> Ticked | None:
        """Close the windows that are due; None if there are none."""
        return self.close(now) if self.state.due.first <= now else None

    def close(self, now: int) -> Ticked:
        """Close the windows that are due by now."""
        event = Ticked(now)
        self.apply(event)
        return event

    # The log -------------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent, *, verify: bool = False) -> bool:
        """Repeat what a logged event did; see `repeating.repeat`."""
        return repeat(self, event, verify)

    def take_decision(self, event: Decided, pool: Pool) -> None:
        """Open the window of a decision, and count it."""
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
        if pool.own is not None or pool.context is not None:
            features = pool.features[event.index].tobytes()  # type: ignore[index]
        elif pool.features is not None:
            features = state.catalogue.rows[event.arm]  # type: ignore[union-attr]
        number = self._number(event.arm) if self._numbered else 0
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

    def take_reward(self, event: Rewarded, record: Open) -> None:
        """Keep the reward of an open decision, and learn it if that is due."""
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
    def nbytes(self) -> int:
        """Bytes that models and open decisions take, about."""
        return sum(models.nbytes for _, models in self.learner.roles) + self.state.open_bytes

    @property
    def waiting(self) -> int:
        """How many decisions are open."""
        return len(self.state.recent) - len(self.outbox.closed)
