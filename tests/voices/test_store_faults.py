"""Voices are kept or not, never by half: processes die, disks are full, folders are damaged."""

import errno
import multiprocessing
import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.storage.database import Database
from antiphon.storage.errors import StorageError, StorageFullError
from antiphon.storage.voice_database import SCHEMA
from antiphon.voices.names import name_key
from antiphon.voices.store import NewVoice, VoiceStore
from tests.voices.stores import MAX_VOICES, FaultyBlobs, Killed, blob_names, opened

NAMES = ("Ann", "ann", "ANN", "Bob", "Zoë", "Zoe\u0308", "ﬁn", "fin", "straße", "STRASSE")
CONTENTS = (b"one", b"two", b"three")


def close(store: VoiceStore) -> None:
    store._database.close()


class StoreMachine(RuleBasedStateMachine):
    """Two processes share a folder, and one of them dies again and again."""

    def __init__(self) -> None:
        super().__init__()
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self._temporary.name)
        self.mortal_blobs = FaultyBlobs(self.folder / "blobs")
        self.mortal, self.other = opened(self.folder, self.mortal_blobs), opened(self.folder)
        self.expected: dict[str, tuple[str, bytes]] = {}

    @rule(name=st.sampled_from(NAMES), content=st.sampled_from(CONTENTS), by_other=st.booleans())
    def add(self, name: str, content: bytes, by_other: bool) -> None:
        store, key = self.other if by_other else self.mortal, name_key(name)
        voice = NewVoice(name=name, content=content)
        if key in self.expected and self.expected[key][1] == content:
            assert store.add(voice) == store.get(name)
        elif key in self.expected or len(self.expected) == MAX_VOICES:
            with pytest.raises(InvalidRequestError):
                store.add(voice)
        else:
            self.expected[key] = (store.add(voice).name, content)

    @rule(name=st.sampled_from(NAMES), by_id=st.booleans())
    def delete(self, name: str, by_id: bool) -> None:
        if self.expected.pop(name_key(name), None) is None:
            with pytest.raises(UnknownVoiceError):
                self.other.delete(name)
        else:
            self.other.delete(self.mortal.get(name).id if by_id else name)

    @rule(
        moment=st.sampled_from(("before put", "after put")),
        fault=st.sampled_from((Killed(), OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "io"))),
    )
    def add_in_vain(self, moment: str, fault: BaseException) -> None:
        if len(self.expected) == MAX_VOICES:
            return
        self.mortal_blobs.fault = (moment, fault)
        with pytest.raises((Killed, StorageError)):
            self.mortal.add(NewVoice(name="victim", content=b"lost"))
        self.restart()

    @rule()
    def die_after_a_deletion(self) -> None:
        if self.expected:
            key, (name, _) = next(iter(self.expected.items()))
            self.mortal_blobs.fault = ("before delete", Killed())
            with pytest.raises(Killed):
                self.mortal.delete(name)
            del self.expected[key]
            self.restart()

    @rule()
    def restart(self) -> None:
        close(self.mortal)
        self.mortal_blobs = FaultyBlobs(self.folder / "blobs")
        self.mortal = opened(self.folder, self.mortal_blobs)
        self.mortal._database.sweep()
        assert blob_names(self.folder) == {voice.id for voice in self.other.all()}

    @invariant()
    def both_see_the_same(self) -> None:
        for store in (self.mortal, self.other):
            found = {name_key(v.name): (v.name, store.content(v)) for v in store.all()}
            assert found == self.expected

    def teardown(self) -> None:
        close(self.mortal)
        close(self.other)
        self._temporary.cleanup()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


def _die(folder: Path, moment: str) -> None:
    """Be a process that is killed while it adds a voice."""

    class KillingBlobs(FaultyBlobs):
        def _perhaps(self, now: str) -> None:
            if now == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    store = opened(folder, KillingBlobs(folder / "blobs"))
    store.add(NewVoice(name="second", content=b"2"))
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["before put", "after put", "after all"])
def test_a_killed_process_leaves_all_or_nothing(tmp_path: Path, moment: str) -> None:
    store = opened(tmp_path)
    store.add(NewVoice(name="first", content=b"1"))
    process = multiprocessing.get_context("spawn").Process(target=_die, args=(tmp_path, moment))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    expected = ["first", "second"] if moment == "after all" else ["first"]
    assert [voice.name for voice in store.all()] == expected
    assert len(blob_names(tmp_path)) == len(expected) + (moment == "after put")
    store.add(NewVoice(name="third", content=b"3"))  # the dead hold no lock
    store._database.sweep()
    assert blob_names(tmp_path) == {voice.id for voice in store.all()}
    assert [store.content(voice) for voice in store.all()][-1] == b"3"


def test_a_sweep_waits_for_uploads_under_way(tmp_path: Path) -> None:
    """What another process has written but not yet committed belongs to somebody."""
    store, other = opened(tmp_path), opened(tmp_path)
    store.add(NewVoice(name="first", content=b"1"))
    with ThreadPoolExecutor(1) as pool:
        with store._database.transaction() as changes:
            changes.blobs.put(f"{changes.folder}/voice_x", b"under way")
            sweep = pool.submit(other._database.sweep)
            assert not sweep.done()
            assert "voice_x" in blob_names(tmp_path)
        sweep.result(30)
    assert "voice_x" not in blob_names(tmp_path)  # nobody has claimed it


def test_a_full_disk_is_told_and_nothing_stays(tmp_path: Path) -> None:
    blobs = FaultyBlobs(tmp_path / "blobs")
    store = opened(tmp_path, blobs)
    kept = store.add(NewVoice(name="kept", content=b"1"))
    for moment in ("before put", "after put"):
        blobs.fault = (moment, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(StorageFullError, match="full"):
            store.add(NewVoice(name="lost", content=b"2"))
        assert store.all() == [kept]
        assert blob_names(tmp_path) == {kept.id}
    blobs.fault = None
    assert store.add(NewVoice(name="lost", content=b"2")).name == "lost"


def test_a_full_database_is_told_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    kept = store.add(NewVoice(name="kept", content=b"1"))
    connected = Database._connected

    def small(database: Database) -> sqlite3.Connection:
        connection = connected(database)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(Database, "_connected", small)
    with pytest.raises(StorageFullError):
        store.add(NewVoice(name="lost", content=b"2", ref_text="x" * 100_000))
    monkeypatch.undo()
    assert store.all() == [kept]
    assert blob_names(tmp_path) == {kept.id}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file.write_bytes(b"no database at all" * 100), "database cannot be used"),
        (lambda file: file.mkdir(), "cannot be used"),
    ],
    ids=["content", "folder"],
)
def test_a_damaged_folder_is_told(
    tmp_path: Path, damage: Callable[[Path], Any], words: str
) -> None:
    damage(tmp_path / SCHEMA.file_name)
    store = opened(tmp_path)
    for attempt in (store.all, lambda: store.add(NewVoice(name="Ann", content=b"1"))):
        with pytest.raises(StorageError, match=words) as caught:
            attempt()
        assert str(tmp_path) not in caught.value.message


def test_a_folder_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    opened(tmp_path).add(NewVoice(name="Ann", content=b"1"))
    connection = sqlite3.connect(tmp_path / SCHEMA.file_name)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    store = opened(tmp_path)
    with pytest.raises(StorageError, match="later version"):
        store.all()
    with pytest.raises(StorageError, match="later version"):
        store.add(NewVoice(name="Bob", content=b"2"))


def test_a_missing_recording_is_a_fault_of_the_server(tmp_path: Path) -> None:
    store = opened(tmp_path)
    voice = store.add(NewVoice(name="Ann", content=b"1"))
    for path in (tmp_path / "blobs").glob("*/*"):
        path.unlink()
    with pytest.raises(StorageError):
        store.content(voice)
