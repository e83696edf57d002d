"""A full disk can be emptied: voices, consents and jobs are deleted on it, on a real one too."""

import os
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.storage import disk_reserve
from antiphon.storage.database import Database
from antiphon.storage.disk_reserve import DiskReserve
from antiphon.storage.errors import StorageFullError
from antiphon.storage.job_ledger import JobLedger
from antiphon.storage.voice_database import VoiceDatabase
from antiphon.voices.consents import ConsentStore
from antiphon.voices.store import NewVoice, VoiceStore

DISK_BYTES = 4 * 1024 * 1024


class Kept:
    def __init__(self, folder: Path) -> None:
        self.database = VoiceDatabase(folder)
        self.voices = VoiceStore(self.database, 10)
        self.consents = ConsentStore(self.database, 10)
        self.jobs = JobLedger(folder)

    def add(self) -> tuple[str, str, str]:
        voice = self.voices.add(NewVoice(name="Ann", content=b"1"))
        consent = self.consents.add("label", "en", b"recording", "audio/wav")
        return voice.id, consent.id, self.jobs.add("{}").id

    def delete(self, ids: tuple[str, str, str]) -> None:
        voice, consent, job = ids
        self.voices.delete(voice)
        self.consents.delete(consent)
        self.jobs.change(job, "pause")
        self.jobs.change(job, "cancel")
        self.jobs.delete(job)
        assert not self.voices.all()
        assert not self.consents.page(5)[0]
        assert not self.jobs.page(5, None)

    def close(self) -> None:
        self.database.close()
        self.jobs.close()


@pytest.fixture
def kept(tmp_path: Path) -> Generator[Kept, None, None]:
    found = Kept(tmp_path)
    yield found
    found.close()


def test_deleting_takes_the_room_that_was_kept_back(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk on which SQLite can write only where the reserve was."""
    ids = kept.add()
    path = tmp_path / disk_reserve.FILE_NAME
    assert path.stat().st_size == disk_reserve.NUM_BYTES

    def only_with_room(make: Any) -> Any:
        def made(self: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = make(self)
            if path.exists():
                connection.execute("PRAGMA max_page_count = 1")
                connection.execute("PRAGMA query_only = 1")
                raise StorageFullError
            return connection

        return made

    monkeypatch.setattr(Database, "_connected", only_with_room(Database._connected))
    with pytest.raises(StorageFullError):
        kept.voices.add(NewVoice(name="Bob", content=b"2"))
    kept.delete(ids)
    assert path.stat().st_size == disk_reserve.NUM_BYTES, "it comes back"


def test_what_is_left_of_the_room_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reserve that cannot be whole again is as large as it can be."""
    room = DiskReserve(tmp_path)
    room.keep()
    path = tmp_path / disk_reserve.FILE_NAME
    with path.open("rb+") as file:
        file.truncate(1000)
    room.keep()
    assert path.stat().st_size == disk_reserve.NUM_BYTES
    room.free()
    assert not path.exists()
    room.free()


def test_a_part_of_the_disk_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_reserve, "free_bytes", lambda folder: 1_000_000)
    database = VoiceDatabase(tmp_path, min_free_bytes=999_990)
    voices, consents = VoiceStore(database, 10), ConsentStore(database, 10)
    for attempt in (voices.add, voices.check):
        with pytest.raises(StorageFullError, match="min_free_mib"):
            attempt(NewVoice(name="Ann", content=b"x" * 11))
    with pytest.raises(StorageFullError):
        consents.add("label", "en", b"x" * 11, "audio/wav")
    voice = voices.add(NewVoice(name="Ann", content=b"x" * 10))
    monkeypatch.setattr(disk_reserve, "free_bytes", lambda folder: 0)
    voices.delete(voice.id)
    database.close()


def test_one_owner_has_its_own_limit(tmp_path: Path) -> None:
    database = VoiceDatabase(tmp_path)
    voices = VoiceStore(database, 10, max_owned_rows=2)
    for name in ("a", "b"):
        voices.add(NewVoice(name=name, content=b"1", owner="ann"))
    with pytest.raises(InvalidRequestError, match="max_owner_voices"):
        voices.add(NewVoice(name="c", content=b"1", owner="ann"))
    voices.add(NewVoice(name="c", content=b"1", owner="bob"))
    database.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path, None, None]:
    """A file system of its own, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    with suppress(OSError):
        if os.name == "posix" and subprocess.run(command, capture_output=True).returncode == 0:
            yield folder
            subprocess.run(["umount", "-l", str(folder)], check=True)
            return
    pytest.skip("no file system can be mounted here")


def fill(folder: Path) -> None:
    num_bytes = 65_536
    with (folder / "filler").open("ab", buffering=0) as file:
        while num_bytes:
            try:
                file.write(b"x" * num_bytes)
            except OSError:
                num_bytes //= 2


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_disk_that_is_really_full_can_be_emptied(small_disk: Path, is_restarted: bool) -> None:
    kept = Kept(small_disk / "data")
    ids = kept.add()
    if is_restarted:
        kept.close()
        kept = Kept(small_disk / "data")
    fill(small_disk)
    with pytest.raises(StorageFullError):
        kept.voices.add(NewVoice(name="Bob", content=b"2" * 100_000))
    kept.delete(ids)
    kept.close()
