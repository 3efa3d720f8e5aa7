"""What stores take and give where loops are deleted and scopes are erased."""

from __future__ import annotations

from typing import NamedTuple

from driftbandit.serving.loop.events import Run


class RemovalRow(NamedTuple):
    """The record that a loop was deleted, or a scope erased from one shard of a loop.

    Attributes
    ----------
    number : int
        Its own number.
    loop, shard, name : int, int, str
        Number of the loop, the shard, and the loop's name. A deleted loop has shard 0: its holder removes the data.
    scope, scope_hash : str or None
        Name of the scope, until it is erased, and a hash of it, which stays; None if the loop was deleted.
    who, time : str, int
        Id of the key that asked for it, and when.
    done : int or None
        When the last of the data was gone; None if some may be left.
    """

    number: int
    loop: int
    shard: int
    name: str
    scope: str | None
    scope_hash: str | None
    who: str
    time: int
    done: int | None


class Swept(NamedTuple):
    """A deleted loop of which some rows go, and, if `done` is a time, the fact that the last ones are gone.

    `shard` is the shard that a process must hold to do this, so that only one does.
    """

    loop: int
    shard: int
    done: int | None


class Forgotten(NamedTuple):
    """A scope of one shard whose models go, for each role the one of the present epoch."""

    loop: int
    shard: int
    scope: str
    epochs: tuple[int, int]


class Blotted(NamedTuple):
    """Events of one shard that take the place of those with the same numbers, and ids that go out of the index."""

    loop: int
    shard: int
    runs: list[Run]
    ids: list[str]


class Pruned(NamedTuple):
    """Events of one shard that go out of the log, up to a number, and ids that go out of the index with them."""

    loop: int
    shard: int
    upto: int
    ids: list[str]


class Finished(NamedTuple):
    """The erasing of a scope that is done but for its changes, its older models and the scope's name in the record."""

    loop: int
    shard: int
    number: int
    scope: str
    time: int
