"""Erasing scopes from the store: models, log and index, a few rows with each commit, so that nobody waits.

Each shard of the loop is dealt with by the process that serves it, in these steps:

1. The archive, if there is one, and the log are read for the ids of the scope's decisions.
2. The scope's models and open decisions are dropped, and an `Erasure` is logged (see `loop.erasing`).
3. A snapshot is taken, so that no recovery begins before the erasure.
4. Events of the scope before the erasure are replaced by tombstones: first rewards, which only their decisions' ids tie
   to the scope, then decisions.
5. The same is done in the archive. Then the record of the removal loses the name.

If the service stops in between, the next one begins again with the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import Enum, auto
from functools import partial

from driftbandit.serving.engine.keeping import Keeper
from driftbandit.serving.engine.retention import Archive
from driftbandit.serving.engine.saving import Saver
from driftbandit.serving.engine.tasks import Task
from driftbandit.serving.loop.erasing import erase
from driftbandit.serving.loop.events import Decided, Erased, Late, Rewarded, Run, decode, encode, unpack_run
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.removals import Blotted, Finished, Forgotten, RemovalRow
from driftbandit.serving.stores.rows import Batch

_RUNS = 100
"""Runs of events that are looked through with one commit, at most."""

_EVENTS = 2_000
"""About how many events are looked through with one commit: some milliseconds' work."""


class _Step(Enum):
    READ_ARCHIVE = auto()
    SCAN = auto()
    MARK = auto()
    SAVE = auto()
    BLOT_REWARDS = auto()
    BLOT_DECISIONS = auto()
    ARCHIVE = auto()
    FINISH = auto()


_BLOTS = {_Step.BLOT_REWARDS: _Step.BLOT_DECISIONS, _Step.BLOT_DECISIONS: _Step.ARCHIVE}
"""The steps that replace events in the log, and what comes after them."""


class _Job:
    """One scope that is being erased from one shard."""

    __slots__ = ("at", "ids", "loop", "marker", "row", "scope", "step", "task")

    def __init__(self, row: RemovalRow, scope: str, loop: Loop) -> None:
        self.row = row
        self.scope = scope
        self.loop = loop
        self.step = _Step.READ_ARCHIVE
        self.task: Task[list[str] | None] | None = None
        self.at = 0
        self.ids: dict[str, None] = {}
        self.marker = 0

    @property
    def waits(self) -> bool:
        """Whether it can go on only when others are done: a snapshot, or a thread that uses the archive."""
        return self.step is _Step.SAVE or (self.task is not None and not self.task.done)


class Eraser:
    """Erases the scopes whose removal the store has recorded.

    Parameters
    ----------
    store : Store
        Where they are.
    clock : callable
        Milliseconds since 1970.
    keeper : Keeper
        Knows which shards are served.
    saver : Saver
        Takes snapshots.
    archive : Archive or None
        Where old events are.
    background : bool
        Whether the archive is read and written in a thread of its own.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        keeper: Keeper,
        saver: Saver,
        archive: Archive | None = None,
        *,
        background: bool = False,
    ) -> None:
        self._archive = archive
        self._background = background
        self._store = store
        self._clock = clock
        self._keeper = keeper
        self._saver = saver
        self._jobs: list[_Job] = []
        self._failed: set[int] = set()

    @property
    def busy(self) -> bool:
        """Whether the next commit has something to erase."""
        return bool(self._jobs) and not self._jobs[0].waits

    @property
    def erases(self) -> bool:
        """Whether a scope is being erased."""
        return bool(self._jobs)

    def look(self) -> None:
        """Ask the store what is to be erased; called about once per second."""
        self._jobs = [job for job in self._jobs if self._keeper.serves(job.loop)]
        known = {job.row.number for job in self._jobs} | self._failed
        for row in self._store.removals(pending=True):
            parts = self._keeper.loops.get(row.name)
            if row.scope is not None and row.number not in known and parts is not None and parts.row.number == row.loop:
                loop = parts.here.get(row.shard)
                if loop is not None:
                    self._jobs.append(_Job(row, row.scope, loop))

    def fill(self, batch: Batch) -> None:
        """Add a slice to a commit."""
        job = self._jobs[0] if self._jobs else None
        if job is None or not self._keeper.serves(job.loop):
            return
        place = job.loop.number, job.loop.shard
        if job.step is _Step.MARK:
            batch.forgotten.append(Forgotten(*place, job.scope, job.loop.state.epochs))
        elif job.step in _BLOTS:
            self._try(job, partial(self._blot, job, batch))
        elif job.step is _Step.FINISH:
            batch.finished.append(Finished(*place, job.row.number, job.scope, self._clock()))

    def settle(self) -> bool:
        """After a commit: take the next step; says whether it logged an event, which must be committed at once."""
        self._jobs = [job for job in self._jobs if self._keeper.serves(job.loop)]
        job = self._jobs[0] if self._jobs else None
        if job is None:
            return False
        if job.step in (_Step.READ_ARCHIVE, _Step.ARCHIVE):
            self._try(job, partial(self._use_archive, job))
        elif job.step is _Step.SCAN:
            self._try(job, partial(self._scan, job))
        elif job.step is _Step.MARK:
            job.step = _Step.SAVE
            self._saver.demand([job.loop])
        elif job.step is _Step.SAVE and job.loop.outbox.saved_at >= job.marker:
            job.step, job.at = _Step.BLOT_REWARDS, 0
        elif job.step in _BLOTS and job.at >= job.marker:
            job.step, job.at = _BLOTS[job.step], 0
        elif job.step is _Step.FINISH:
            self._jobs.remove(job)
        return job.step is _Step.MARK

    def _try(self, job: _Job, work: Callable[[], object]) -> None:
        """Take a step; what cannot be read stays, until the service is started again."""
        if self._keeper.attempt(job.loop, work) is not None:
            self._jobs.remove(job)
            self._failed.add(job.row.number)

    def _use_archive(self, job: _Job) -> None:
        """Read the archive for ids in a thread of its own, or rewrite it, or go on if that is done."""
        if self._archive is not None and job.task is None:
            work = self._archived_ids if job.step is _Step.READ_ARCHIVE else self._erase_archived
            job.task = Task(partial(work, self._archive, job), background=self._background)
        task = job.task
        if task is not None and not task.done:
            return
        if task is not None and task.error is not None:
            raise task.error
        job.ids |= dict.fromkeys((task and task.result) or ())
        job.task = None
        job.step = _Step.SCAN if job.step is _Step.READ_ARCHIVE else _Step.FINISH

    @staticmethod
    def _archived_ids(archive: Archive, job: _Job) -> list[str]:
        return archive.ids_of(job.loop.number, job.loop.shard, job.scope)

    @staticmethod
    def _erase_archived(archive: Archive, job: _Job) -> None:
        archive.erase(job.loop.number, job.loop.shard, job.scope, job.ids, job.marker)

    def _scan(self, job: _Job) -> None:
        """Look for decisions of the scope; at the end of the log, forget the scope."""
        loop = job.loop
        for seq, body in self._store.events(loop.number, loop.shard, job.at, _EVENTS):
            event = decode(body)
            if isinstance(event, Decided) and event.scope == job.scope:
                job.ids[event.id] = None
            job.at = seq
        if job.at < loop.state.seq:
            return
        if job.ids or any(models.packed(job.scope) is not None for _, models in loop.learner.roles):
            job.step = _Step.MARK
            self._keeper.touched.add(loop)
            self._keeper.guarded(loop, partial(self._mark, job))
        else:
            job.step = _Step.FINISH

    def _mark(self, job: _Job) -> None:
        loop = job.loop
        loop.outbox.events.append(erase(loop, loop.time_at(self._clock()), job.scope, job.ids))
        job.marker = loop.state.seq

    def _blot(self, job: _Job, batch: Batch) -> None:
        """Replace some events by tombstones."""
        loop, until = job.loop, min(job.marker, job.at + _EVENTS)
        changed: list[Run] = []
        ids: list[str] = []
        for run in self._store.whole_runs(loop.number, loop.shard, job.at, _RUNS):
            if run.first > until:
                break
            if job.step is _Step.BLOT_REWARDS:
                new = without_rewards(run, job.ids, job.marker)
            else:
                new, found = without_decisions(run, job.scope, job.marker)
                ids += found
            if new != run:
                changed.append(new)
            job.at = run.last
        batch.blotted.append(Blotted(loop.number, loop.shard, changed, ids))


def without_rewards(run: Run, ids: Container[str], until: int) -> Run:
    """A run with tombstones for the rewards of some decisions before event `until`."""
    bodies = []
    for seq, body in enumerate(unpack_run(run.bodies), run.first):
        event = decode(body)
        erases = seq < until and isinstance(event, Rewarded | Late) and event.id in ids
        bodies.append(encode(Erased(event.time, False, until)) if erases else bytes(body))
    return Run.of(run.loop, run.shard, run.first, bodies)


def without_decisions(run: Run, scope: str, until: int) -> tuple[Run, list[str]]:
    """A run with tombstones for the decisions of a scope before event `until`, and the ids of these decisions."""
    bodies, ids = [], []
    for seq, body in enumerate(unpack_run(run.bodies), run.first):
        event, new = decode(body), bytes(body)
        if seq < until and isinstance(event, Decided) and event.scope == scope:
            ids.append(event.id)
            new = encode(Erased(event.time, True, until))
        bodies.append(new)
    return Run.of(run.loop, run.shard, run.first, bodies), ids
