"""Copies of a SQLite store: made while the service runs, put back, and a file without the room that deleted rows left.

SQLite keeps the latest commits in a second file beside the first, so copying the file alone would lose them.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from driftbandit.files import sync, whole_file
from driftbandit.serving.stores.base import StoreError
from driftbandit.serving.stores.sqlite import SQLiteStore, errors, locked

_PAGES = 1_000
"""Pages (8 MB) that are copied at a time, so that an interrupt is noticed soon."""

_BESIDE = ("-wal", "-shm")
"""Endings of the files that SQLite keeps beside a database that is in use."""


def backup(source: Path, target: Path, *, force: bool = False) -> None:
    """Copy a store to a file, as it was when this began; the service may go on writing to the store meanwhile.

    The copy is read back before it counts. Raises StoreError if there is no store, the target exists (unless `force`),
    or the copy, and so the store, is damaged.
    """
    if not source.exists():
        raise StoreError(f"there is no store {source}")
    if target.exists() and (not force or target.samefile(source)):
        raise StoreError(f"{target} exists; choose another name" + ("" if force else ", or overwrite it with --force"))
    with whole_file(target) as partial:
        _copy(source, partial)


def restore(file: Path, target: Path, *, force: bool = False) -> None:
    """Put a copy that `backup` made in the place of a store; the copy stays as it is.

    Everything in the copy is read first. Raises StoreError if the copy is damaged, or the target exists (unless
    `force`) or is being served.
    """
    if not file.exists():
        raise StoreError(f"there is no file {file}")
    if target.exists() and (not force or target.samefile(file)):
        raise StoreError(f"{target} exists" + ("" if force else "; overwrite it with --force"))
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target), whole_file(target) as partial:
        _copy(file, partial)
        # The old store's latest commits must not be taken for commits of the new one.
        for ending in _BESIDE:
            Path(f"{target}{ending}").unlink(missing_ok=True)


def compact(path: Path) -> tuple[int, int]:
    """Write a store anew without the room that deleted rows left; returns the bytes of the file before and after.

    Raises StoreError if there is no store, or a service is using it.
    """
    store = SQLiteStore(path, create=False)
    try:
        return store.compact()
    finally:
        store.close()


def _copy(source: Path, target: Path) -> None:
    """Copy a database as it is now, check the copy, and leave one file that needs no others beside it."""
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    try:
        with errors(source):
            _copy_pages(source, target)
        copy = SQLiteStore(target, writer=False)
        damaged = next(copy.damage(), None)
        copy.close()
        if damaged is not None:
            raise StoreError(f"{source}: {damaged} (`driftbandit store check` lists all damage); nothing was written")
        with errors(target):
            database = apsw.Connection(str(target))
            database.execute("PRAGMA journal_mode = DELETE")
            database.close()
            sync(target)
    finally:
        for ending in _BESIDE:
            Path(f"{target}{ending}").unlink(missing_ok=True)


def _copy_pages(source: Path, target: Path) -> None:
    original = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
    copy = apsw.Connection(str(target))
    try:
        # A read transaction keeps the view of one moment. Without it each commit of the service would make the copy
        # start again, and under load it would never end.
        original.execute("BEGIN")
        original.execute("SELECT count(*) FROM sqlite_master").fetchall()
        with copy.backup("main", original, "main") as steps:
            while not steps.done:
                steps.step(_PAGES)
    finally:
        copy.close()
        original.close()
