"""What a loop knows: the attributes of its state, what follows from its settings, and snapshots of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from driftbandit.core import Floats
from driftbandit.serving.loop.arms import make_pool
from driftbandit.serving.loop.config import (
    LoopConfig,
    Plan,
    bounds,
    builder,
)
from driftbandit.serving.loop.events import (
    AnyEvent,
    Catalogued,
    Configured,
    encode_run,
)
from driftbandit.serving.loop.records import (
    MAIN,
    SHADOW,
    SHADOW_COUNTS,
    Catalogue,
    Core,
    Counts,
    Found,
    Open,
    Pool,
)
from driftbandit.serving.loop.scopes import Models
from driftbandit.serving.loop.series import TIERS, Bucket, Series
from driftbandit.serving.loop.windows import Due
from driftbandit.serving.stores.base import ClosedRow, Run

_config_decoder = msgspec.json.Decoder(LoopConfig)

_POOLS = 4096


class State:
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
        policy: Any = builder(config, plan)()
        self.bounds = bounds(config, policy)
        self._asked = config.draws if policy.is_random else 1
        self._moved = policy.is_random and not policy.is_uniform
        self._uniform = policy.is_uniform
        self._steady = not policy.is_random and not config.scoped
        self._judged = policy.miss_test is not None and not config.scoped
        self._in_runs = policy.learns_many and not config.scoped
        self._contextual = getattr(policy, "dim", None) is not None
        key = blake2b(f"{self.name}/{self.shard}/{config.seed}".encode(), digest_size=16).digest()
        self._key = int.from_bytes(key, "little")
        self._block = -1
        self._window = round(config.window * 1000.0)
        self._weighs = policy.feature_weights is not None
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
        numbered = not self._contextual or self.shadow is not None
        return make_pool(arms, features, self.config.dim, self.catalogue, numbered=numbered)

    def _turn_over(self, time: int) -> None:
        """Begin the bucket of this time, if it is another than before."""
        self._bucket = self.series.at(time)
        self._bucket_ends = self._bucket.start + TIERS[0][0]

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

    # What is on its way to the store -------------------------------------------------------------------------------

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
