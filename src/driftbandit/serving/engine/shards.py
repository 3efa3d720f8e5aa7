"""The shards of a loop that this process serves, and the one that a command belongs to."""

from __future__ import annotations

import zlib

from driftbandit.serving.engine.loading import Job
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.scopes import EVERYONE
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.rows import LoopRow


class Elsewhere(Refused):
    """Another process holds the shard."""

    def __init__(self, shard: int, address: str | None) -> None:
        super().__init__(421, f"shard {shard} is served by another process" + (f" at {address}" if address else ""))
        self.address = address


_LONGEST = 64
_FORGIVEN = 60


class Trouble:
    """Why one shard of a loop failed last, and when to read it again.

    The first failure is followed by another attempt at once. Then the pauses double, up to about a minute.
    """

    __slots__ = ("_pause", "_quiet", "failures", "why")

    def __init__(self) -> None:
        self.why = ""
        self.failures = 0
        self._pause = 0
        self._quiet = 0

    def again(self, why: str) -> None:
        """Note a failure."""
        self.why = why
        self._pause = min(2**self.failures, _LONGEST) - 1
        self.failures += 1
        self._quiet = 0

    def waits(self) -> bool:
        """Whether to wait some more; called once per `Engine.refresh`."""
        self._pause -= 1
        return self._pause >= 0

    def over(self) -> bool:
        """Whether the shard has served for so long that its failures are forgiven; called once per `Engine.refresh`."""
        self._quiet += 1
        return self._quiet >= _FORGIVEN


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
        Shards that this process holds, with their tokens. A held shard that is not `here` cannot be served yet.
    loading : dict
        The jobs that read shards which are not `here` yet.
    troubles : dict
        Shards that failed lately.
    aside : set of int
        Shards that failed and whose log is not durable yet.
    distrusted : set of int
        Shards whose snapshot or models are damaged, so that the whole log must be repeated.
    touched : set of Loop
        Loops with something for the next commit.
    active : set of Loop
        The shard on which the present command works, if it is known.
    """

    __slots__ = (
        "active",
        "aside",
        "config",
        "distrusted",
        "held",
        "here",
        "loading",
        "only",
        "row",
        "store",
        "touched",
        "troubles",
    )

    def __init__(self, row: LoopRow, config: LoopConfig, store: Store, touched: set[Loop], active: set[Loop]) -> None:
        self.row = row
        self.config = config
        self.store = store
        self.touched = touched
        self.active = active
        self.here: dict[int, Loop] = {}
        self.only: Loop | None = None
        self.held: dict[int, int] = {}
        self.loading: dict[int, Job] = {}
        self.troubles: dict[int, Trouble] = {}
        self.aside: set[int] = set()
        self.distrusted: set[int] = set()

    def bring(self, loop: Loop) -> None:
        """Serve a shard from now on."""
        self.here[loop.shard] = loop
        self.only = loop if self.store.shards == 1 else None

    def drop(self, shard: int) -> None:
        """Serve a shard no longer, and read it no longer."""
        self.here.pop(shard, None)
        self.only = None
        job = self.loading.pop(shard, None)
        if job is not None:
            job.wanted = False

    def failed(self, shard: int, why: str) -> None:
        """Note that a shard failed."""
        self.troubles.setdefault(shard, Trouble()).again(why)

    def to_read(self) -> list[int]:
        """The shards that are held and are to be read now; called once per `Engine.refresh`."""
        for shard in [shard for shard, trouble in self.troubles.items() if shard in self.here and trouble.over()]:
            del self.troubles[shard]
        wanted = sorted(self.held.keys() - self.here.keys() - self.loading.keys() - self.aside)
        return [shard for shard in wanted if shard not in self.troubles or not self.troubles[shard].waits()]

    def check_here(self, shard: int) -> None:
        """Refuse with 503 if a shard is held and cannot be served yet."""
        if shard in self.held and shard not in self.here:
            trouble = self.troubles.get(shard)
            why = "is being read" if trouble is None else f"failed and is to be read again: {trouble.why}"
            raise Refused(503, f"loop {self.row.name!r}: shard {shard} {why}")

    def of_scope(self, scope: str | None) -> Loop:
        """The shard that decides for a scope."""
        shards = self.store.shards
        shard = 0
        if shards > 1:
            scoped = self.config.scoped
            shard = shard_of(self.row.name, scope if scoped and scope is not None else EVERYONE, shards)
        part = self.here.get(shard)
        if part is None:
            self.check_here(shard)
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
        if len(self.here) < self.store.shards:
            if not self.config.scoped or scope is not None:
                self.of_scope(scope)
            else:
                self._check_all(decision_id)
        raise Refused(404, f"no decision {decision_id[:200]!r} in loop {self.row.name!r}")

    def _check_all(self, decision_id: str) -> None:
        """Refuse if a shard that is not here may know a decision, of which the scope is not known."""
        prefix = decision_id.partition("-")[0]  # ids made by the service begin with their shard
        digits = 0 < len(prefix) <= 3 and all(digit in "0123456789abcdef" for digit in prefix)
        shard = int(prefix, 16) if digits else -1
        if shard in range(self.store.shards) and shard not in self.held:
            raise Elsewhere(shard, self.store.holder(shard))
        for held in self.held:
            self.check_here(held)
        if shard not in self.held:
            raise Elsewhere(shard, None)

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
