"""What a store must be able to do, and how it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from driftbandit.serving.loop.events import Run
from driftbandit.serving.loop.windows import ClosedRow
from driftbandit.serving.stores.removals import RemovalRow
from driftbandit.serving.stores.rows import Batch, ChangeRow, KeyRow, LoopRow, SizeRow, TallyRow

LATEST = (1 << 63) - 1
"""Number above those of all events."""


class StoreError(Exception):
    """The store could not do what was asked. The caller must assume that nothing was done."""


class Unreachable(StoreError):
    """The store cannot be used at the moment; it may be there later."""


class Damaged(StoreError):
    """Something in the store is not what was written.

    Parameters
    ----------
    what : str
        What it is, with loop, shard and number.
    rest : bool
        Whether the log may still be whole: True for snapshots and models, which can be made again from the log.
    """

    def __init__(self, what: str, *, rest: bool) -> None:
        super().__init__(f"{what}: damaged, not what was written")
        self.rest = rest


class Fenced(StoreError):
    """Another process has taken over a shard that this one held."""


class VersionConflict(Exception):
    """The loop has another version than the caller expected."""

    def __init__(self, version: int) -> None:
        super().__init__(f"the loop has version {version}")
        self.version = version


def without_password(address: str) -> str:
    """A store's address for people to read, also if it is misspelt: what could be a password is hidden.

    >>> without_password("postgresql://me:secret@db/x"), without_password("sqlite:a.db")
    ('postgresql://me:***@db/x', 'sqlite:a.db')
    >>> without_password("postgresq//me:se/cr@et@db"), without_password("postgresql://db/x?password=secret&user=me")
    ('postgresq//me:***@db', 'postgresql://db/x?password=***&user=me')
    """
    shown = re.sub(r"(?i)(password\s*=\s*)('[^']*'|[^&\s]*)", r"\1***", address)
    before, at, after = shown.rpartition("@")
    scheme, user = re.fullmatch(r"((?:[\w+]*:)?/+|postgres\w*:|)(.*)", before, re.DOTALL).groups()  # type: ignore[union-attr]
    return scheme + user.partition(":")[0] + ":***@" + after if at and ":" in user else shown


class Store(Protocol):
    """A durable log, with snapshots, changes and access keys.

    An object serves one thread; `reader` makes another object for another thread.
    """

    shards: int
    """Number of shards into which scopes are divided."""

    def reader(self) -> Store:
        """Open a second connection, for reading and for keys."""
        ...

    def reopen(self) -> None:
        """Start over after an error."""
        ...

    def close(self) -> None:
        """Give the shards back and close the connection."""
        ...

    def hold(self) -> dict[int, int]:
        """Take the right to write to free shards, and give some back if others need them; called about once per second.

        Everything written so far must have been committed. Returns the shards held, each with a token. If a shard's
        token is new, another process may have held the shard in between. From the first call on, the store keeps the
        right alive by itself, however long it is until the next call.
        """
        ...

    def holder(self, shard: int) -> str | None:
        """Address of the process that holds a shard, if it gave one."""
        ...

    def loops(self) -> list[LoopRow]:
        """All loops."""
        ...

    def put_loop(self, name: str, expected: int, config: bytes, arms: bytes | None = None) -> LoopRow:
        """Create a loop (expected version 0) or replace its settings, or raise VersionConflict.

        With `arms` the catalogue is replaced in the same step.
        """
        ...

    def delete_loop(self, name: str, who: str, time: int) -> bool:
        """Delete a loop and record that; False if there is none. A loop of that name made later has a new number.

        Its data stays until it is swept, a few rows with each commit; see `Swept`.
        """
        ...

    def removals(self, *, pending: bool = False) -> list[RemovalRow]:
        """Loops that were deleted and scopes that were erased; with `pending`, only if data may be left."""
        ...

    def erase_scope(self, loop: LoopRow, scope: str, scope_hash: str, who: str, time: int) -> None:
        """Record that a scope is to be erased from all shards of a loop."""
        ...

    def has_rows(self, loop: int) -> bool:
        """Whether there is any data of a loop, deleted or not."""
        ...

    def put_arms(self, number: int, arms: bytes) -> LoopRow:
        """Replace a loop's catalogue."""
        ...

    def commit(self, batch: Batch) -> None:
        """Make a batch durable, all of it or nothing.

        Raises StoreError if that failed, and Fenced if another process holds one of the shards.
        """
        ...

    def events(self, loop: int, shard: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """(seq, body) of at most `limit` events after number `after`, in order; raises Damaged."""
        ...

    def pruned(self, loop: int, shard: int) -> int:
        """Number of the last event that went out of the log because it was old; 0 if the log is whole."""
        ...

    def whole_runs(self, loop: int, shard: int, after: int, limit: int) -> list[Run]:
        """At most `limit` runs, in order, starting with the one that has the event after `after`; raises Damaged."""
        ...

    def event(self, loop: int, shard: int, seq: int) -> bytes | None:
        """One event."""
        ...

    def snapshot(self, loop: int, shard: int) -> tuple[int, bytes] | None:
        """Number of the last event that the latest snapshot includes, and its core; raises Damaged."""
        ...

    def model(self, loop: int, shard: int, role: int, epoch: int, scope: str, upto: int = LATEST) -> bytes | None:
        """Packed state of a scope, the latest up to an event; raises Damaged."""
        ...

    def model_scopes(self, loop: int, shard: int, role: int, epoch: int) -> list[str]:
        """Scopes that have a model."""
        ...

    def outdated(self, loop: int, shard: int, role: int, epoch: int, limit: int) -> list[str]:
        """Some scopes that have models of earlier epochs."""
        ...

    def closed(self, loop: int, ids: list[str]) -> list[ClosedRow]:
        """Closed decisions among these ids."""
        ...

    def tallies(self) -> list[TallyRow]:
        """The latest tally of each shard of each loop."""
        ...

    def damage(self) -> Iterator[str]:
        """Look at everything, and say what is not what was written, a line each."""
        ...

    def log_sizes(self) -> dict[tuple[int, int], int]:
        """Bytes of the events of every loop and shard. Reads a little of every row, so it may take seconds."""
        ...

    def oldest(self, loop: int, shard: int, size: int) -> int:
        """Number of the last event of the oldest runs that have at least so many bytes; 0 if all have fewer."""
        ...

    def sizes(self) -> list[SizeRow]:
        """How many rows and bytes each loop has, by kind."""
        ...

    def changes(self, loop: int, shard: int, after: int, limit: int) -> list[ChangeRow]:
        """Changes after a number, in order."""
        ...

    def last_changes(self, loop: int, limit: int, scope: str | None = None) -> list[ChangeRow]:
        """The latest changes of all shards, or of a scope, oldest first."""
        ...

    def changed_scopes(self, loop: int, limit: int) -> list[tuple[str, int, int]]:
        """The most changed scopes: (scope, number of changes, time of the last)."""
        ...

    def access_keys(self) -> list[KeyRow]:
        """All access keys."""
        ...

    def add_key(self, key: KeyRow) -> None:
        """Add an access key."""
        ...

    def revoke_key(self, key_id: str, time: int) -> bool:
        """Revoke an access key; False if no key has that id."""
        ...

    def add_session(self, digest: bytes, key_id: str, expires: int, now: int) -> None:
        """Begin a session with a key, and forget those that ended before now."""
        ...

    def session(self, digest: bytes, now: int) -> str | None:
        """Id of the key with which a session began; None if there is none, or its time is over."""
        ...

    def end_session(self, digest: bytes) -> None:
        """End a session."""
        ...
