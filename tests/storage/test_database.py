"""A database is migrated once; after a failure it is opened anew, to find a repaired file."""

import sqlite3
from pathlib import Path

import pytest

from antiphon.storage import database as storage_database
from antiphon.storage.database import Database, Schema
from antiphon.storage.errors import StorageBusyError, StorageError

SCHEMA = Schema(
    file_name="rows.sqlite3", version=1, migrations={0: ("CREATE TABLE rows (id INTEGER)",)}
)


def test_after_a_failure_the_file_is_opened_anew(tmp_path: Path) -> None:
    file = tmp_path / SCHEMA.file_name
    database = Database(tmp_path, SCHEMA)
    assert database.query("SELECT 1") == []
    assert not file.exists(), "a query creates no file"
    file.write_bytes(b"this is no database, but it is as long as the header of one" * 20)
    with pytest.raises(StorageError):
        database.query("SELECT * FROM rows")
    file.unlink()
    file.touch()
    assert [tuple(row) for row in database.query("SELECT 1")] == [(1,)]
    database.close()


def test_a_transaction_that_raises_changes_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path, SCHEMA)
    with database.write() as connection:
        connection.execute("INSERT INTO rows VALUES (1)")

    def failing() -> None:
        with database.write() as connection:
            connection.execute("INSERT INTO rows VALUES (2)")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    other = Database(tmp_path, SCHEMA)
    assert [row["id"] for row in other.query("SELECT id FROM rows")] == [1]
    other.check(is_thorough=True)
    database.close()
    other.close()


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    database = Database(tmp_path, SCHEMA)
    with database.write() as connection:
        connection.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(StorageError, match="later version"):
        database.query("SELECT 1")


def test_a_locked_database_is_busy_and_asks_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_database, "MAX_WAIT_S", 0.01)
    database = Database(tmp_path, SCHEMA)
    with database.write() as connection:
        connection.execute("INSERT INTO rows VALUES (1)")
    other = sqlite3.connect(tmp_path / SCHEMA.file_name, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageBusyError) as caught, database.write():
        pass
    assert (caught.value.status, caught.value.code) == (503, "storage_busy")
    assert caught.value.retry_after_s
    other.execute("ROLLBACK")
    other.close()
    with database.write() as connection:
        connection.execute("INSERT INTO rows VALUES (2)")
    assert [tuple(row) for row in database.query("SELECT id FROM rows")] == [(1,), (2,)]
    database.close()
