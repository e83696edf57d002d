"""A database that could not be read once is opened anew, so that a repaired file is found."""

import sqlite3
from pathlib import Path

import pytest

from antiphon.storage.database_reader import Reader


def test_after_a_failure_the_file_is_opened_anew(tmp_path: Path) -> None:
    file = tmp_path / "rows.sqlite3"
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(file))
        return opened[-1]

    reader = Reader(file, connect)
    assert reader.query("SELECT 1") == []
    assert not opened, "a file that is not there is not made"
    file.write_bytes(b"this is no database, but it is as long as the header of one" * 20)
    with pytest.raises(sqlite3.DatabaseError):
        reader.query("SELECT * FROM sqlite_master")
    file.unlink()
    file.touch()
    assert reader.query("SELECT 1") == [(1,)]
    assert len(opened) == 2
    reader.close()
    with pytest.raises(sqlite3.ProgrammingError):
        opened[1].execute("SELECT 1")
