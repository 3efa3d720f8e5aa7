"""One loop's state machine: what each command does to the state, and what each event of the log does to it again.

Commands check, act and return the event that records what they did; `apply` does to the state what a logged event once
did. Both end in the same few methods, so recovered and live state agree byte for byte. Nothing here reads a clock or
touches the disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from driftbandit.core import Change, Floats
from driftbandit.policies.dlinucb import DLinUCB
from driftbandit.policies.per_scope import SavedPolicy
from driftbandit.serving.chance import BLOCK, arm_number, arm_numbers, chance, draws
from driftbandit.serving.config import (
    LoopConfig,
    Plan,
    bounds,
    builder,
    is_moved,
    is_random,
    is_uniform,
    weights_of,
)
from driftbandit.serving.due import Due
from driftbandit.serving.events import (
    AnyEvent,
    Catalogued,
    Configured,
    Decided,
    Late,
    Rewarded,
    Ticked,
    encode_run,
)
from driftbandit.serving.models import Models
from driftbandit.serving.records import (
    EVERYONE,
    MAIN,
    MAX_ARMS,
    SHADOW,
    SHADOW_COUNTS,
    Catalogue,
    Core,
    Counts,
    Found,
    Open,
    Pool,
    Refused,
)
from driftbandit.serving.series import TIERS, Bucket, Series
from driftbandit.serving.stores.base import ClosedRow, Run

_config_decoder = msgspec.json.Decoder(LoopConfig)

_POOLS = 4096


class Loop:
    """The state of one loop on one shard.

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
        Under which the store knows it.
    """

    # Python finds attributes sooner in slots than in a dictionary of so many.
    __slots__ = (
        "_asked",
        "_block",
        "_bucket",
        "_bucket_ends",
        "_contextual",
        "_draws",
        "_encoded_config",
        "_in_runs",
        "_judged",
        "_key",
        "_limit",
        "_load",
        "_moved",
        "_on_arrival",
        "_steady",
        "_uniform",
        "_weighs",
        "_window",
        "arms_version",
        "bounds",
        "catalogue",
        "closed",
        "config",
        "counts",
        "due",
        "epochs",
        "found",
        "known",
        "models",
        "name",
        "number",
        "pools",
        "recent",
        "saved_at",
        "sealed",
        "seq",
        "series",
        "shadow",
        "shard",
        "time",
        "unlogged",
        "version",
    )

    def __init__(
        self,
        name: str,
        shard: int,
        load: Callable[[int, int, str], bytes | None],
        limit: int = 1_000_000,
        number: int = 0,
    ) -> None:
        self.name = name
        self.number = number
        self.shard = shard
        self._load = load
        self._limit = limit
        self.seq = 0
        self.saved_at = 0
        """The last event that a snapshot includes."""
        self.time = 0
        self.version = 0
        self.config = LoopConfig(policy="random")
        self._encoded_config = b""
        self.arms_version = 0
        self.catalogue: Catalogue | None = None
        self.epochs = (0, 0)
        self.counts = Counts()
        self.recent: dict[str, Open] = {}
        """Decisions that are open, or closed and not in the store's index yet."""
        self.closed: list[tuple[str, int, float | None]] = []
        """Id, number and reward of those of them that are closed."""
        self.unlogged: list[AnyEvent] = []
        """The latest events, which the store does not have yet; the last of them is number `seq`."""
        self.sealed: list[Run] = []
        """Events before those, encoded, which the store does not have yet either."""
        self.known: dict[str, ClosedRow] = {}
        """Closed before those, as far as the present commands ask for them."""
        self.series = Series()
        self.found: list[Found] = []
        self.due = Due()
        """The open decisions, those first whose windows close first."""
        self._bucket = Bucket(0)
        self._bucket_ends = 0
        self._draws: list[float] = []
        self._block = -1
        self.pools: dict[Any, Pool] = {}
        """Those met of late, by their ids; the whole catalogue is None."""
        self.bounds = (-math.inf, math.inf)
        """Lowest and highest reward that is taken."""
        self.models: Models | None = None
        self.shadow: Models | None = None

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
        if self._steady and pool.voted_at == counts.learned and self.shadow is None:
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

    def _advance(self, event: AnyEvent) -> None:
        self.seq += 1
        self.time = event.time

    def _configured(self, event: Configured) -> None:
        self._advance(event)
        before, self.config = self.config, _config_decoder.decode(event.config)
        first = self.version == 0
        self.version = event.version
        self._encoded_config = event.config
        main, shadow = self.epochs
        if first or before.model_key != self.config.model_key:
            main, self.models = main + 1, None
        if first or before.shadow_key != self.config.shadow_key:
            shadow, self.shadow = shadow + 1, None
            for name in SHADOW_COUNTS:
                setattr(self.counts, name, 0.0 if name in ("shadow_weight", "shadow_reward") else 0)
        self.epochs = main, shadow
        self._build()

    def _build(self) -> None:
        """Make what follows from the settings."""
        config = self.config
        plan = Plan(config.policy, config.settings)
        policy = builder(config, plan)()
        self.bounds = bounds(config, policy)
        self._asked = config.draws if is_random(policy) else 1
        self._moved = is_moved(policy) and not is_uniform(policy)
        self._uniform = is_uniform(policy)
        self._steady = not is_moved(policy) and not config.scoped
        self._judged = isinstance(policy, DLinUCB) and not config.scoped
        self._in_runs = isinstance(policy, DLinUCB) and policy.learns_many and not config.scoped
        self._contextual = getattr(policy, "dim", None) is not None
        key = blake2b(f"{self.name}/{self.shard}/{config.seed}".encode(), digest_size=16).digest()
        self._key = int.from_bytes(key, "little")
        self._block = -1
        self._window = round(config.window * 1000.0)
        self._weighs = weights_of(policy) is not None
        self._on_arrival = config.learn == "arrival"
        self.pools.clear()
        main, shadow = self.epochs
        if self.models is None:
            self.models = Models(builder(config, plan), lambda scope: self._load(MAIN, main, scope), self._limit)
        if config.shadow is None:
            self.shadow = None
        elif self.shadow is None:
            build = builder(config, config.shadow)
            self.shadow = Models(build, lambda scope: self._load(SHADOW, shadow, scope), self._limit)

    def _catalogued(self, event: Catalogued) -> None:
        self._advance(event)
        old = self.catalogue
        if old is not None:  # open decisions point into the old one
            for record in self.recent.values():
                if type(record.features) is int and not record.closed:
                    record.features = None if old.features is None else old.features[record.features].tobytes()
        self.catalogue = Catalogue(event.ids, event.features)
        self.arms_version = event.version
        self.pools.clear()

    def pool(self, arms: Sequence[str] | None, features: Floats | None = None) -> Pool:
        """The pool of these arms, None for the whole catalogue, or why it cannot be used."""
        if features is not None:
            return self._make_pool(tuple(arms or ()), features)
        ids = None if arms is None else tuple(arms)
        pool = self.pools.get(ids)
        if pool is None:
            pool = self._make_pool(ids, None)
            # Pools repeat: the latest are kept, gathered and checked.
            if len(self.pools) >= _POOLS:
                self.pools.clear()
            self.pools[ids] = pool
        return pool

    def _make_pool(self, arms: tuple[str, ...] | None, features: Floats | None) -> Pool:
        dim = self.config.dim
        if arms is not None and not 0 < len(set(arms)) == len(arms) <= MAX_ARMS:
            raise Refused(422, f"arms: expected 1 to {MAX_ARMS:,} different ids, got {len(arms)}")
        if features is not None:
            if dim is None:
                raise Refused(422, "arms: this loop has no features (dim), so arms are given by id")
            if features.shape[1] != dim:
                raise Refused(422, f"arms: expected {dim} features an arm, got {features.shape[1]}")
            numbers = None if self._contextual and self.shadow is None else arm_numbers(arms or ())
            return Pool(arms, arms or (), features, numbers, features.tobytes())
        catalogue = self.catalogue
        if arms is None:
            if catalogue is None:
                raise Refused(422, "arms: expected a list, or a catalogue put before")
            self._check_catalogue(catalogue)
            return Pool(None, catalogue.ids, catalogue.features, catalogue.numbers)
        if dim is None:
            return Pool(arms, arms, None, arm_numbers(arms))
        if catalogue is None:
            raise Refused(422, "arms: ids need a catalogue with features, and this loop has none")
        self._check_catalogue(catalogue)
        rows = catalogue.rows
        try:
            at = [rows[arm] for arm in arms]
        except KeyError as error:
            raise Refused(422, f"arms: {error.args[0][:200]!r} is not in the catalogue") from error
        numbers = None if self._contextual and self.shadow is None else catalogue.numbers[at]
        return Pool(arms, arms, catalogue.features.take(at, axis=0), numbers)  # type: ignore[union-attr]

    def _check_catalogue(self, catalogue: Catalogue) -> None:
        have = None if catalogue.features is None else catalogue.features.shape[1]
        if self.config.dim is not None and have != self.config.dim:
            raise Refused(422, f"arms: the catalogue has {have} features an arm, the loop {self.config.dim}")

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

    def _turn_over(self, time: int) -> None:
        """Begin the bucket of this time, if it is another than before."""
        self._bucket = self.series.at(time)
        self._bucket_ends = self._bucket.start + TIERS[0][0]

    def _rewarded(self, event: Rewarded, record: Open) -> None:
        self.seq += 1
        self.time = event.time
        record.reward = event.value
        self.counts.rewards += 1
        if self._on_arrival:
            self._learn(record, event.value)

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
            leader = next(member for member in policy.members if member.id == policy.leader)  # type: ignore[attr-defined]
            bucket.misses = leader.miss_rate, leader.spawn_bound, leader.retire_bound
        for change in changes:
            counts.changes += 1
            bucket.changes += 1
            self.found.append(Found(scope, time, self.seq, counts.changes, change, before))

    # Snapshots -----------------------------------------------------------------------------------------------------

    def core(self) -> bytes:
        """Everything but the models, as bytes."""
        arms = self.catalogue
        core = Core(
            self.seq,
            self.time,
            self.version,
            self._encoded_config,
            self.arms_version,
            None if arms is None else arms.ids,
            None if arms is None else arms.encoded,
            self.epochs,
            self.counts,
            [record for record in self.recent.values() if not record.closed],
            self.series,
        )
        return msgspec.msgpack.encode(core)

    def seal(self, least: int = 1) -> None:
        """Encode the latest events, if there are so many."""
        count = len(self.unlogged)
        if count >= least:
            run = Run(self.number, self.shard, self.seq - count + 1, self.seq, encode_run(self.unlogged))
            self.sealed.append(run)
            self.unlogged.clear()

    def forget_closed(self) -> None:
        """Let go of the decisions that are closed; a store knows them."""
        recent = self.recent
        for decision_id, _, _ in self.closed:
            del recent[decision_id]
        self.closed = []

    @property
    def waiting(self) -> int:
        """How many decisions are open."""
        return len(self.recent) - len(self.closed)

    def restore(self, data: bytes) -> None:
        """Take back what `core` returned; models come from the store when they are needed."""
        core = msgspec.msgpack.decode(data, type=Core)
        self.seq, self.time, self.version = core.seq, core.time, core.version
        self.config, self._encoded_config = _config_decoder.decode(core.config), core.config
        self.arms_version = core.arms_version
        self.catalogue = None if core.arm_ids is None else Catalogue(core.arm_ids, core.arm_features)
        self.epochs = core.epochs
        self.counts, self.series = core.counts, core.series
        self.recent = {record.id: record for record in core.open}
        self.due = Due(core.open)
        self._bucket_ends = 0
        self._build()
