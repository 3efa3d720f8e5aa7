"""The shards that a process serves: which it holds, which it has read, and what happens if one fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from driftbandit.serving.engine.loading import Job, Loader
from driftbandit.serving.engine.shards import Parts
from driftbandit.serving.engine.storage import news, settings
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.stores.base import LATEST, Damaged, Store, StoreError
from driftbandit.serving.stores.rows import Batch, LoopRow, Unfinished

logger = logging.getLogger("driftbandit")

T = TypeVar("T")
_WORTH_SAYING_MS = 1_000
"""How far a loop's time must be ahead of the clock to be logged; the clocks of two machines differ a little."""


class Keeper:
    """Takes shards over from the store, gives them up, and sets those aside that failed.

    Parameters
    ----------
    store : Store
        Where the shards are.
    clock : callable
        Milliseconds since 1970.
    loader : Loader
        Reads shards.
    ready : callable
        Says whether settings may come into force.

    Attributes
    ----------
    loops : dict
        All loops by name.
    held : dict
        Shards that this process holds, with their tokens.
    touched : set of Loop
        Loops with something for the next commit.
    to_save : list of Loop
        Loops whose snapshot is damaged and must be replaced.
    failures : int
        Commands that failed unexpectedly, and shards that could not close windows, take new settings or be saved.
    """

    def __init__(
        self, store: Store, clock: Callable[[], int], loader: Loader, ready: Callable[[LoopConfig], bool]
    ) -> None:
        self._store = store
        self._clock = clock
        self._loader = loader
        self._ready = ready
        self._active: set[Loop] = set()
        self.loops: dict[str, Parts] = {}
        self.held: dict[int, int] = {}
        self.touched: set[Loop] = set()
        self.to_save: list[Loop] = []
        self.failures = 0

    def forget(self) -> None:
        """Forget everything."""
        for parts in self.loops.values():
            for shard in list(parts.loading):
                parts.drop(shard)
        self.loops.clear()
        self.touched.clear()
        self._active.clear()
        self.to_save.clear()
        self.held = {}

    def parts(self, name: str) -> Parts:
        """A loop by its name; refuses with 404 if there is none."""
        parts = self.loops.get(name)
        if parts is None:
            raise Refused(404, f"no loop {name[:200]!r}")
        return parts

    def here(self) -> list[Loop]:
        """All shards of loops that are served."""
        return [loop for parts in self.loops.values() for loop in parts.here.values()]

    def serves(self, loop: Loop) -> bool:
        """Whether a loop is still the one that is served: not lost, and not set aside."""
        parts = self.loops.get(loop.name)
        return parts is not None and parts.here.get(loop.shard) is loop

    # Taking over -----------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Take shards and give shards up; everything must have been committed."""
        held = self._store.hold()
        lost = [shard for shard, token in self.held.items() if held.get(shard) != token]
        self.held = held
        for parts in self.loops.values():
            parts.held = held
            for shard in lost:
                parts.drop(shard)

    def read_settings(self, new: str | None = None) -> None:
        """Take settings and catalogues from the store, and read shards that are held and not here.

        The shards of a loop that is named as `new` are read at once: they are empty.
        """
        rows = self._store.loops()
        numbers = {row.name: row.number for row in rows}
        for name in [name for name, parts in self.loops.items() if numbers.get(name) != parts.row.number]:
            self._let_go(name)
        for row in rows:
            parts = self.loops.get(row.name)
            if parts is None or parts.row.version != row.version:
                config = settings(row)
                if not self._ready(config):
                    continue
                if parts is None:
                    parts = self.loops[row.name] = Parts(row, config, self._store, self.touched, self._active)
                    parts.held = self.held
                parts.config = config
            parts.row = row
            for loop in list(parts.here.values()):
                self.guarded(loop, partial(self._update, loop, row))
            self._read(parts, at_once=row.name == new)

    def _let_go(self, name: str) -> None:
        """Forget a loop that was deleted, with what was to be committed."""
        parts = self.loops.pop(name)
        self.touched.difference_update([loop for loop in self.touched if loop.number == parts.row.number])
        for shard in [*parts.here, *parts.loading]:
            parts.drop(shard)

    def _read(self, parts: Parts, *, at_once: bool = False) -> None:
        for shard in parts.to_read():
            job = parts.loading[shard] = Job(parts.row, shard, shard in parts.distrusted)
            parts.distrusted.discard(shard)
            self._loader.add(job, at_once=at_once)

    def adopt(self) -> list[Loop]:
        """Serve the shards that have been read meanwhile; returns them."""
        found = []
        for job in self._loader.done():
            parts = self.loops[job.row.name]
            del parts.loading[job.shard]
            if job.loop is None:
                parts.failed(job.shard, job.error or "")
                continue
            self._store.commit(Batch(unfinished=[Unfinished(job.row.number, job.shard)]))
            job.source.store, job.source.upto = self._store, LATEST
            parts.bring(job.loop)
            self._set_time(job.loop)
            found.append(job.loop)
            if job.whole_log:
                self.to_save.append(job.loop)
            self.guarded(job.loop, partial(self._update, job.loop, parts.row))
        return found

    def _set_time(self, loop: Loop) -> None:
        """Let a loop whose last event is later than the clock go on from there, instead of waiting for the clock."""
        loop.ahead = max(0, loop.state.time - self._clock())
        if loop.ahead >= _WORTH_SAYING_MS:
            logger.warning(
                "loop %r, shard %d: its last event is %.1f s ahead of the clock; its time goes on from there",
                *(loop.name, loop.shard, loop.ahead / 1000.0),
            )

    def _update(self, loop: Loop, row: LoopRow) -> None:
        """Give a loop new settings and a new catalogue from the store."""
        for event in news(loop, row, loop.time_at(self._clock())):
            self.touched.add(loop)
            loop.apply(event)
            loop.outbox.events.append(event)

    # Failures --------------------------------------------------------------------------------------------------------

    def carry_out(self, command: Callable[[T], Any], engine: T) -> Any:
        """What a command of an engine returns, or the refusal that it raises; see `Engine.carry_out`."""
        self._active.clear()
        try:
            return command(engine)
        except Refused as refusal:
            return refusal
        except Exception as error:
            if _is_lost(error):
                raise
            logger.exception("a command failed")
            self.failures += 1
            for loop in self._active:
                self._set_aside(loop, error)
            return Refused(500, "an error of the service; its log says more")

    def attempt(self, loop: Loop, work: Callable[[], object]) -> Exception | None:
        """Work on a shard without being asked by a command; returns the error if that fails."""
        try:
            work()
        except Exception as error:
            if _is_lost(error):
                raise
            logger.exception("loop %r, shard %d failed", loop.name, loop.shard)
            self.failures += 1
            return error
        return None

    def guarded(self, loop: Loop, work: Callable[[], object]) -> None:
        """Change a shard without being asked by a command; if that fails, the shard is set aside."""
        error = self.attempt(loop, work)
        if error is not None:
            self._set_aside(loop, error)

    def _set_aside(self, loop: Loop, error: Exception) -> None:
        """Serve a shard no longer, since its memory may be ahead of its log.

        The next commit makes its log durable, and then it is read again.
        """
        parts = self.loops[loop.name]
        parts.drop(loop.shard)
        parts.failed(loop.shard, f"{type(error).__name__}: {error}")
        parts.aside.add(loop.shard)
        if isinstance(error, Damaged) and error.rest:
            parts.distrusted.add(loop.shard)
        loop.outbox.keep_logged()
        self.touched.add(loop)

    def read_aside(self) -> bool:
        """Read shards that were set aside, now that their log is durable; says whether there were any."""
        found = [parts for parts in self.loops.values() if parts.aside]
        for parts in found:
            parts.aside.clear()
            self._read(parts)
        return bool(found)


def _is_lost(error: Exception) -> bool:
    """Whether an error means that the store as a whole cannot be used."""
    return isinstance(error, StoreError) and not isinstance(error, Damaged)
