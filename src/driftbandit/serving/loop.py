"""One loop's state machine: what each command does to the state, and what each event of the log does to it again.

Commands check, act and return the event that records what they did; `apply` does to the state what a logged event once
did. Both end in the same few methods, so recovered and live state agree byte for byte. Nothing here reads a clock or
touches the disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec
import numpy as np

from driftbandit.core import Floats, Ints
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
from driftbandit.serving.series import Series
from driftbandit.serving.stores.base import ClosedRow

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
        self.open: dict[str, Open] = {}
        self.closed: dict[str, ClosedRow] = {}
        """Closed since the last snapshot."""
        self.unlogged: list[bytes] = []
        """Encoded events that are not in the store yet, the last of them number `seq`."""
        self.fresh: dict[str, Decided] = {}
        """The decisions among them."""
        self.known: dict[str, ClosedRow] = {}
        """Closed before it, as far as the present commands ask for them."""
        self.series = Series()
        self.found: list[Found] = []
        self._due = Due()
        self._draws: list[list[float]] = []
        self._block = -1
        self._pools: dict[tuple[str, ...], Pool] = {}
        self.bounds = (-math.inf, math.inf)
        """Lowest and highest reward that is taken."""
        self.models: Models | None = None
        self.shadow: Models | None = None

    # Commands ------------------------------------------------------------------------------------------------------

    def decide(
        self,
        now: int,
        decision_id: str,
        scope: str | None,
        arms: list[str] | None,
        features: Floats | None,
        known: Pool | None = None,
    ) -> Decided:
        """Choose an arm; the id must be new. `known` is what `known_pool` says of the arms."""
        config = self.config
        pool, numbers, size = known or self._pool(arms, features)
        if config.scoped:
            if scope is None:
                raise Refused(422, "scope: this loop has one model a scope, so a decision must name one")
            owner = scope
        else:
            owner = EVERYONE
        votes, shadow = self._ask(owner, pool, numbers)
        # Two numbers drawn from the decision's own: exploring or not, and which of the arms or votes.
        number = self.counts.decisions
        if number // BLOCK != self._block:
            self._block = number // BLOCK
            self._draws = draws(self._key, self._block)
        explores, which = self._draws[number % BLOCK]
        if not votes:
            index = int(which * size)
        else:
            index = int(which * size) if explores < config.floor else votes[int(which * len(votes))]
        propensity = chance(votes, config.floor, size, index)
        event = Decided(
            now,
            decision_id,
            scope,
            arms,
            None if features is None else features.tobytes(),
            index,
            arms[index] if arms is not None else self.catalogue.ids[index],  # type: ignore[union-attr]
            propensity,
            votes,
            shadow,
            self.version,
            self.counts.learned,
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
        record: Open | ClosedRow | None = self.open.get(decision_id)
        late = record is None
        if record is None:
            record = self.closed.get(decision_id) or self.known.get(decision_id)
            if record is None:
                raise Refused(404, f"no decision {decision_id[:200]!r} in loop {self.name!r}")
        low, high = self.bounds
        if not low <= value <= high:
            raise Refused(422, f"value: expected a number in [{low:g}, {high:g}], got {value:g}")
        if record.reward is not None:
            if record.reward != value:
                raise Refused(409, f"decision {decision_id!r} has the reward {record.reward:g} already")
            return None
        event = (Late if late else Rewarded)(now, decision_id, value, reward_id)
        self.apply(event)
        return event

    def tick(self, now: int) -> Ticked | None:
        """Close the windows that are due; None if there are none."""
        if self._due.next() > now:
            return None
        event = Ticked(now)
        self.apply(event)
        return event

    # The log -------------------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent, *, verify: bool = False) -> bool:
        """Do what a logged event did; with `verify` False is returned for a decision that would come out otherwise."""
        kind = type(event)
        if kind is Rewarded:
            self._rewarded(event)  # type: ignore[arg-type]
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
        self._judged = isinstance(policy, DLinUCB) and not config.scoped
        self._contextual = getattr(policy, "dim", None) is not None
        key = blake2b(f"{self.name}/{self.shard}/{config.seed}".encode(), digest_size=16).digest()
        self._key = int.from_bytes(key, "little")
        self._block = -1
        self._window = round(config.window * 1000.0)
        self._weighs = weights_of(policy) is not None
        self._pools.clear()
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
            for record in self.open.values():
                if type(record.features) is int:
                    record.features = None if old.features is None else old.features[record.features].tobytes()
        self.catalogue = Catalogue(event.ids, event.features)
        self.arms_version = event.version
        self._pools.clear()

    def known_pool(self, arms: Sequence[object]) -> Pool | None:
        """What is known of arms, if they are ids that were met before in this order."""
        try:
            return self._pools.get(tuple(arms))  # type: ignore[arg-type]
        except TypeError:  # arms with features have no hash
            return None

    def _pool(self, arms: list[str] | None, features: Floats | None) -> Pool:
        """Features, numbers and size of a pool, or why it cannot be used."""
        dim = self.config.dim
        if arms is not None and features is None:
            known = self.known_pool(arms)
            if known is not None:
                return known
        if arms is not None and not 0 < len(set(arms)) == len(arms) <= MAX_ARMS:
            raise Refused(422, f"arms: expected 1 to {MAX_ARMS:,} different ids, got {len(arms)}")
        if features is not None:
            if dim is None:
                raise Refused(422, "arms: this loop has no features (dim), so arms are given by id")
            if features.shape[1] != dim:
                raise Refused(422, f"arms: expected {dim} features an arm, got {features.shape[1]}")
            numbers = None if self._contextual and self.shadow is None else arm_numbers(arms or [])
            return features, numbers, len(features)
        catalogue = self.catalogue
        if arms is None:
            if catalogue is None:
                raise Refused(422, "arms: expected a list, or a catalogue put before")
            self._check_catalogue(catalogue)
            return catalogue.features, catalogue.numbers, len(catalogue.ids)
        if dim is None:
            return None, arm_numbers(arms), len(arms)
        if catalogue is None:
            raise Refused(422, "arms: ids need a catalogue with features, and this loop has none")
        self._check_catalogue(catalogue)
        rows = catalogue.rows
        try:
            at = [rows[arm] for arm in arms]
        except KeyError as error:
            raise Refused(422, f"arms: {error.args[0][:200]!r} is not in the catalogue") from error
        pool = catalogue.features.take(at, axis=0)  # type: ignore[union-attr]
        numbers = None if self._contextual and self.shadow is None else catalogue.numbers[at]
        # Pools repeat: the latest are kept, gathered and checked.
        if len(self._pools) >= _POOLS:
            self._pools.clear()
        self._pools[tuple(arms)] = pool, numbers, len(arms)
        return pool, numbers, len(arms)

    def _check_catalogue(self, catalogue: Catalogue) -> None:
        have = None if catalogue.features is None else catalogue.features.shape[1]
        if self.config.dim is not None and have != self.config.dim:
            raise Refused(422, f"arms: the catalogue has {have} features an arm, the loop {self.config.dim}")

    def _ask(self, owner: str, pool: Floats | None, numbers: Ints | None) -> tuple[list[int], int]:
        """What the policy votes for, and what its shadow would play; refuses features that the policy cannot use."""
        models = self.models
        assert models is not None
        votes: list[int] = []
        try:
            if not self._uniform:
                policy = models.get(owner)
                votes = [policy.choose(pool, numbers) for _ in range(self._asked)]
                if self._moved:
                    models.mark(owner)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        return votes, -1 if self.shadow is None else self._ask_shadow(self.shadow, owner, pool, numbers)

    def _ask_shadow(self, models: Models, owner: str, pool: Floats | None, numbers: Ints | None) -> int:
        try:
            choice = models.get(owner).choose(pool, numbers)
        except ValueError:  # what the policy can use is played, whatever its shadow thinks of it
            return -1
        models.mark(owner)
        return choice

    def _decided_again(self, event: Decided, verify: bool) -> bool:
        features = None
        if event.features is not None:
            features = np.frombuffer(event.features).reshape(len(event.arms or ()), -1).copy()
        if verify:
            again = self.decide(event.time, event.id, event.scope, event.arms, features)
            return again == event
        pool, numbers, _ = self._pool(event.arms, features)
        if self._moved or self.shadow is not None:  # being asked changes them
            self._ask(event.scope or EVERYONE if self.config.scoped else EVERYONE, pool, numbers)
        self._decided(event, pool)
        return True

    def _decided(self, event: Decided, pool: Floats | None) -> None:
        self.seq += 1
        self.time = event.time
        counts = self.counts
        counts.decisions += 1
        index = event.index
        weight = 0.0
        if self.shadow is not None:
            counts.shadow_decisions += 1
            if event.shadow == index:
                counts.shadow_agreed += 1
                weight = 1.0 / event.propensity
        features: bytes | int | None = None
        if event.features is not None:
            features = pool[index].tobytes()  # type: ignore[index]
        elif pool is not None:
            features = index if event.arms is None else self.catalogue.rows[event.arm]  # type: ignore[union-attr]
        number = 0 if self._contextual and self.shadow is None else arm_number(event.arm)
        owner = event.scope if self.config.scoped and event.scope is not None else EVERYONE
        main, shadow = self.epochs
        self.open[event.id] = Open(self.seq, event.expires, owner, main, shadow, number, features, weight)
        self._due.add((event.expires, self.seq, event.id))
        self.series.decided(event.time)

    def _rewarded(self, event: Rewarded) -> None:
        self._advance(event)
        record = self.open[event.id]
        record.reward = event.value
        self.counts.rewards += 1
        if self.config.learn == "arrival":
            self._learn(record, event.value)

    def _close_due(self, now: int) -> None:
        due, open_ones, closed, counts = self._due, self.open, self.closed, self.counts
        default, number, shard = self.config.default_reward, self.number, self.shard
        while (entry := due.pop(now)) is not None:
            decision_id = entry[2]
            record = open_ones.pop(decision_id)
            value = record.reward
            if value is None:
                counts.missing += 1
                value = default
            if value is not None:
                counts.closed += 1
                counts.reward_sum += value
                if self.shadow is not None and record.shadow_epoch == self.epochs[SHADOW]:
                    counts.shadow_closed += 1
                    counts.shadow_weight += record.weight
                    counts.shadow_reward += record.weight * value
                self.series.closed(now, value)
                if not record.learned:
                    self._learn(record, value)
            closed[decision_id] = ClosedRow(number, decision_id, shard, record.seq, record.reward)

    def _learn(self, record: Open, value: float) -> None:
        """Teach the models; those started afresh since the decision are spared rewards of their predecessors."""
        record.learned = True
        x: Floats | None
        if type(record.features) is int:
            x = self.catalogue.features[record.features]  # type: ignore[union-attr,index]
        else:
            x = None if record.features is None else np.frombuffer(record.features)  # type: ignore[arg-type]
        owner, number = record.scope, record.number
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

    def _teach(self, policy: SavedPolicy, x: Floats | None, value: float, number: int, record: Open) -> None:
        before = weights_of(policy) if self._weighs else None
        try:
            changes = policy.learn(x, value, number)
        except ValueError:
            self.counts.refused += 1
            return
        self.counts.learned += 1
        if self._judged and self.series.lacks_misses(self.time):
            leader = next(member for member in policy.members if member.id == policy.leader)  # type: ignore[attr-defined]
            self.series.missed(self.time, (leader.miss_rate, leader.spawn_bound, leader.retire_bound))
        for change in changes:
            self.counts.changes += 1
            self.series.changed(self.time)
            self.found.append(Found(record.scope, self.time, self.seq, self.counts.changes, change, before))

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
            self.open,
            self.series,
        )
        return msgspec.msgpack.encode(core)

    def restore(self, data: bytes) -> None:
        """Take back what `core` returned; models come from the store when they are needed."""
        core = msgspec.msgpack.decode(data, type=Core)
        self.seq, self.time, self.version = core.seq, core.time, core.version
        self.config, self._encoded_config = _config_decoder.decode(core.config), core.config
        self.arms_version = core.arms_version
        self.catalogue = None if core.arm_ids is None else Catalogue(core.arm_ids, core.arm_features)
        self.epochs = core.epochs
        self.counts, self.open, self.series = core.counts, core.open, core.series
        self._due = Due((record.expires, record.seq, key) for key, record in self.open.items())
        self._build()

    def next_due(self) -> float:
        """When the next window closes."""
        return self._due.next()
