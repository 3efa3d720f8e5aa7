"""Replay of a policy with one model per scope, split by scopes: on all cores, or on many machines.

Scopes that share nothing (`scopes_apart`) can be replayed apart, each with its own events. What the parts find is put
together in the order of the log, and is what `replay` finds in one go.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Change, Ints, ScopedPolicy, takes_scope
from driftbandit.environments.log import Log
from driftbandit.evaluation.agreement import Questions
from driftbandit.evaluation.replay import Replay, answered, lucky_events, owners_of
from driftbandit.evaluation.workers import On, as_processes, check_travels, leaves_process, work_off

_PARTS_ON_RAY = 64
"""Parts on Ray, whatever its size, so that machines of different speed all stay busy."""


@dataclass(frozen=True, eq=False)
class _Part:
    """Some scopes with all their events; `events` are their numbers in the whole log."""

    number: int
    events: Ints
    log: Log
    kept: NDArray[np.bool_]
    owners: NDArray[np.generic]

    @property
    def file(self) -> str:
        return f"{self.number}.json"


def replay_by_scope(
    policy: ScopedPolicy,
    log: Log,
    scopes: ArrayLike,
    *,
    user_features: bool = False,
    equal_pools: bool = True,
    seed: int = 0,
    processes: int | None = None,
    progress: bool = False,
    on: On = "local",
) -> Replay:
    """Replay a log with a policy whose scopes share nothing, many scopes at a time.

    The result is that of `replay`, but for the time. Copies of the policy learn; the policy itself stays as it was.

    Parameters
    ----------
    policy, log, scopes, user_features, equal_pools, seed :
        As in `replay`.
    processes, progress, on :
        As in `compare`.

    Raises
    ------
    ValueError
        If the policy's scopes are not apart, or if it would forget some of them.

    Examples
    --------
    >>> from driftbandit import LinUCB, PerScope
    >>> given = {"articles": [1, 2], "features": [[1.0, 0.0], [0.0, 1.0]], "pool_offsets": [0, 2]}
    >>> given |= {"pool_members": [0, 1], "times": range(4), "pools": [0] * 4, "rewards": [1.0, 0.0, 1.0, 0.0]}
    >>> log = Log(**given, shown=[0, 0, 1, 1], users=[[1.0]] * 4, uniform=True)
    >>> replay_by_scope(PerScope(LinUCB(2)), log, ["ann", "bob", "ann", "bob"], processes=1).matched.tolist()
    [0, 1, 2, 3]
    """
    if not takes_scope(policy) or not getattr(policy, "scopes_apart", False):
        raise ValueError(
            f"policy: expected one whose scopes share nothing (scopes_apart), got {type(policy).__name__}; use replay"
        )
    owners = owners_of(policy, log, scopes)
    assert owners is not None  # the policy takes scopes
    names, whose, counts = np.unique(owners, return_inverse=True, return_counts=True)
    most = getattr(policy, "most_scopes", None)
    if most is not None and len(names) > most:
        raise ValueError(f"scopes: expected at most {most}, beyond which the policy forgets some, got {len(names)}")
    if leaves_process(processes, on):
        check_travels("policy", policy)
    count = _PARTS_ON_RAY if on == "ray" else as_processes(processes)
    kept = lucky_events(log, equal_pools=equal_pools, seed=seed)
    parts = []
    for number, mine in enumerate(_dealt(counts, count)):
        events = np.flatnonzero(mine[whose])
        parts.append(_Part(number, events, log.take(events), kept[events], owners[events]))
    started = time.perf_counter()
    matched: list[Ints] = [np.empty(0, dtype=np.int64)]
    changes: list[tuple[int, Change]] = []
    with TemporaryDirectory(prefix="driftbandit-") as folder:
        for part in work_off(
            parts,
            _run,
            folder=folder,
            shared=lambda part: (policy, user_features),
            processes=processes,
            on=on,
            progress=progress,
            total=len(log),
            finished=0,
            runs_of=lambda part: len(part.events),
        ):
            found = json.loads(Path(folder, part.file).read_text(encoding="utf-8"))
            matched.append(part.events[np.array(found["matched"], dtype=np.int64)])
            changes += [(int(part.events[event]), Change(**change)) for event, change in found["changes"]]
    all_matched = np.sort(np.concatenate(matched))
    changes.sort(key=lambda change: change[0])  # an event belongs to one scope, so its changes stay in order
    seconds = time.perf_counter() - started
    return Replay(all_matched, log.rewards[all_matched], log.rewards, tuple(changes), seconds)


def _dealt(counts: Ints, parts: int) -> Iterator[NDArray[np.bool_]]:
    """Deal scopes out to parts of about the same number of events; yields which scopes belong to each part."""
    order = np.argsort(-counts, kind="stable")
    load = np.zeros(min(parts, len(counts)), dtype=np.int64)
    owner = np.empty(len(counts), dtype=np.int64)
    for scope in order.tolist():
        owner[scope] = int(load.argmin())
        load[owner[scope]] += counts[scope]
    for part in range(len(load)):
        yield owner == part


def _run(part: _Part, folder: str, policy: ScopedPolicy, user_features: bool) -> None:
    questions = Questions(part.log, part.kept, part.owners, user_features)
    matched, changes = answered(copy.deepcopy(policy), questions)
    found = {"matched": matched.tolist(), "changes": [[event, asdict(change)] for event, change in changes]}
    Path(folder, part.file).write_text(json.dumps(found), encoding="utf-8")
