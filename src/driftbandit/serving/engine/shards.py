"""The shards of a loop that this process serves, and the one that a command belongs to."""

from __future__ import annotations

import zlib

from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.scopes import EVERYONE
from driftbandit.serving.stores.base import LoopRow, Store


class Elsewhere(Refused):
    """Another process holds the shard."""

    def __init__(self, shard: int, address: str | None) -> None:
        super().__init__(421, f"shard {shard} is served by another process" + (f" at {address}" if address else ""))
        self.address = address


class Parts:
    """One loop, and its shards that this process serves.

    Attributes
    ----------
    row, config : LoopRow, LoopConfig
        The loop as the store knows it, and its settings.
    here : dict
        The loop's state by shard.
    only : Loop or None
        The only shard, if the store has one shard.
    held : dict
        Shards that this process holds, with their tokens. A held shard that is not `here` yet is getting ready.
    touched : set of Loop
        Loops with something for the next commit.
    """

    __slots__ = ("config", "held", "here", "only", "row", "store", "touched")

    def __init__(self, row: LoopRow, config: LoopConfig, store: Store, touched: set[Loop]) -> None:
        self.row = row
        self.config = config
        self.store = store
        self.touched = touched
        self.here: dict[int, Loop] = {}
        self.only: Loop | None = None
        self.held: dict[int, int] = {}

    def of_scope(self, scope: str | None) -> Loop:
        """The shard that decides for a scope."""
        shards = self.store.shards
        shard = 0
        if shards > 1:
            scoped = self.config.scoped
            shard = shard_of(self.row.name, scope if scoped and scope is not None else EVERYONE, shards)
        part = self.here.get(shard)
        if part is None:
            if shard in self.held:
                raise Refused(503, f"loop {self.row.name!r} is getting ready")
            raise Elsewhere(shard, self.store.holder(shard))
        return part

    def knowing(self, decision_id: str, scope: str | None) -> Loop | None:
        """The shard that knows a decision, or None.

        Processes do not ask each other about ids, so two scopes may have used the same id. The shard of the given scope
        comes first. If another process holds that shard, the answer is None.
        """
        own: int | None = None
        if scope is not None and self.only is None and self.config.scoped:
            own = shard_of(self.row.name, scope, self.store.shards)
        other: Loop | None = None
        for part in self.here.values():
            if decision_id in part.state.recent or decision_id in part.known:
                if own is None or own == part.shard:
                    return part
                other = part
        if other is None or own not in self.here:
            return None
        for row in self.store.closed(self.row.number, [decision_id]):  # `look_up` kept the other scope's row
            if row.shard == own:
                self.here[own].known[decision_id] = row
                self.touched.add(self.here[own])
                return self.here[own]
        return other

    def of_decision(self, decision_id: str, scope: str | None) -> Loop:
        """The shard to which a decision's reward belongs."""
        known = self.knowing(decision_id, scope)
        if known is not None:
            return known
        if len(self.held) < self.store.shards:
            if not self.config.scoped or scope is not None:
                self.of_scope(scope)
            else:
                prefix = decision_id.partition("-")[0]
                shard = int(prefix, 16) if len(prefix) <= 3 and all(c in "0123456789abcdef" for c in prefix) else None
                if shard is None or shard not in self.held:
                    raise Elsewhere(shard or -1, self.store.holder(shard) if shard is not None else None)
        raise Refused(404, f"no decision {decision_id[:200]!r} in loop {self.row.name!r}")

    def look_up(self, ids: list[str]) -> None:
        """Read what the store knows about these decisions, all at once."""
        for found in self.store.closed(self.row.number, ids):
            if found.shard in self.here:
                part = self.here[found.shard]
                part.known[found.id] = found
                self.touched.add(part)


def shard_of(loop: str, scope: str, shards: int) -> int:
    """Which shard decides for a scope."""
    return zlib.crc32(f"{loop}\n{scope}".encode()) % shards
