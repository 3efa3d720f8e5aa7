from __future__ import annotations

from pathlib import Path

import pytest

from driftbandit.serving.stores.base import StoreError
from driftbandit.serving.stores.check import check_store
from driftbandit.serving.stores.postgresql import PostgreSQLStore
from driftbandit.serving.stores.rows import Batch
from driftbandit.serving.stores.sqlite import SQLiteStore


def test_sqlite_keeps_the_contract(tmp_path: Path) -> None:
    check_store(lambda: SQLiteStore(tmp_path / "deep" / "a.db"))


def test_postgresql_keeps_the_contract(database: str) -> None:
    check_store(lambda: PostgreSQLStore(database))


def test_sqlite_has_one_writer(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    with pytest.raises(StoreError, match="another process is serving"):
        SQLiteStore(tmp_path / "a.db")
    store.close()
    SQLiteStore(tmp_path / "a.db").close()


def test_sqlite_has_one_writer_by_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "a.db")
    store = SQLiteStore(tmp_path / "real" / "a.db")
    for other in (tmp_path / "link" / "a.db", tmp_path / "link.db"):
        with pytest.raises(StoreError, match="another process is serving"):
            SQLiteStore(other)
    (tmp_path / "hard.db").hardlink_to(tmp_path / "real" / "a.db")
    with pytest.raises(StoreError, match=r"hard\.db: the file has another name \(a hard link\)"):
        SQLiteStore(tmp_path / "hard.db")
    store.close()
    (tmp_path / "hard.db").unlink()
    SQLiteStore(tmp_path / "link.db").close()  # one after the other is fine
    assert not (tmp_path / "link.db.lock").exists()


def test_check_store_notices_a_store_that_forgets(tmp_path: Path) -> None:
    class Forgetful(SQLiteStore):
        def commit(self, batch: Batch) -> None:
            batch.changes = batch.changes[:-1]
            super().commit(batch)

    with pytest.raises(AssertionError, match="changes must be stored once"):
        check_store(lambda: Forgetful(tmp_path / "a.db"))
