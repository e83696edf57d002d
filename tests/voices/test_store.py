"""Voices are kept or not, never by half: whatever dies, whoever else uses the folder."""

import errno
import multiprocessing
import os
import signal
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from antiphon.errors import (
    InvalidRequestError,
    SettingsError,
    UnknownConsentError,
    UnknownVoiceError,
)
from antiphon.storage.blobs import BlobStore
from antiphon.storage.database import Database
from antiphon.storage.errors import StorageError, StorageFullError
from antiphon.storage.voice_database import SCHEMA, VoiceDatabase
from antiphon.voices.consents import ConsentStore
from antiphon.voices.names import name_key
from antiphon.voices.store import NewVoice, VoiceStore

MAX_VOICES = 4
NAMES = ("Ann", "ann", "ANN", "Bob", "Zoë", "Zoe\u0308", "ﬁn", "fin", "straße", "STRASSE")
CONTENTS = (b"one", b"two", b"three")
OPENED: list[VoiceDatabase] = []


class Killed(BaseException):
    """The process is gone: nobody handles this, and nothing is tidied up."""


class FaultyBlobs(BlobStore):
    """BlobStore of a process that dies, or of a disk that is full, at a moment of choice."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fault: tuple[str, BaseException] | None = None
        self.is_dead = False

    def put(self, key: str, content: bytes) -> None:
        self._perhaps("before put")
        super().put(key, content)
        self._perhaps("after put")

    def delete(self, key: str) -> None:
        self._perhaps("before delete")
        super().delete(key)

    def _perhaps(self, now: str) -> None:
        if self.is_dead:
            raise Killed
        if self.fault is not None and self.fault[0] == now:
            self.is_dead = isinstance(self.fault[1], Killed)
            raise self.fault[1]


def database(folder: Path, blobs: BlobStore | None = None) -> VoiceDatabase:
    OPENED.append(VoiceDatabase(folder, blobs))
    return OPENED[-1]


def opened(folder: Path, blobs: BlobStore | None = None) -> VoiceStore:
    return VoiceStore(database(folder, blobs), MAX_VOICES)


def blob_names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "blobs").glob("*/*")}


def outcome(store: VoiceStore, voice: NewVoice) -> str:
    try:
        store.add(voice)
    except InvalidRequestError as error:
        return error.code
    return "added"


def close(store: VoiceStore) -> None:
    store._database.close()


@pytest.fixture(autouse=True)
def _close_what_was_opened() -> Generator[None, None, None]:
    yield
    while OPENED:
        OPENED.pop().close()


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


def test_nothing_is_written_before_the_first_voice(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    store = opened(folder)
    store._database.sweep()
    assert (store.all(), store.find("Ann")) == ([], None)
    assert not folder.exists()
    store.add(NewVoice(name="Ann", content=b"one"))
    assert store.get("ann").name == "Ann"


def test_all_that_is_known_is_kept(tmp_path: Path) -> None:
    voice = NewVoice(
        name="Ann",
        content=b"one",
        media_type="audio/wav",
        consent="yes",
        ref_text="Grüß dich.",
        description="calm",
    )
    stored = opened(tmp_path).add(voice)
    again = opened(tmp_path).get(stored.id)
    assert again == stored
    known = (again.media_type, again.num_bytes, again.consent, again.ref_text, again.description)
    assert known == ("audio/wav", 3, "yes", "Grüß dich.", "calm")
    assert again.content_hash == voice.content_hash
    assert again.embedding_size is None


@pytest.mark.parametrize(
    "change",
    [{"content": b"2"}, {"ref_text": "Other."}, {"consent": "no"}, {"description": "loud"}],
    ids=lambda change: next(iter(change)),
)
def test_only_the_very_same_voice_may_come_again(tmp_path: Path, change: dict[str, Any]) -> None:
    known: dict[str, Any] = {"name": "Ann", "content": b"1", "ref_text": "One.", "consent": "yes"}
    store = opened(tmp_path)
    stored = store.add(NewVoice(**known))
    assert store.add(NewVoice(**known)) == stored == store.check(NewVoice(**known))
    for attempt in (store.add, store.check):
        with pytest.raises(InvalidRequestError, match="'Ann' already") as caught:
            attempt(NewVoice(**{**known, **change}))
        assert (caught.value.param, caught.value.code) == ("name", "voice_exists")
    assert store.all() == [stored]


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "\u200d", ".", "..", "a/b", "a\\b", "../a", "a\0b", "a\r\nX-Header: b", "a\nb"),
        *("a\tb", "\u202eabc", "a\u200bb", "\ud800", "x" * 101, "voice_" + "0" * 24, "alloy"),
        *("ALLOY", "ａｌｌｏｙ", "al\u200cloy", "cons_" + "f" * 24, "a\x7fb", "a\u2028b"),
    ],
    ids=ascii,
)
def test_names_that_mislead_are_refused(tmp_path: Path, name: str) -> None:
    store = opened(tmp_path)
    with pytest.raises(InvalidRequestError) as caught:
        store.add(NewVoice(name=name, content=b"1"), reserved={"alloy", "default"})
    assert caught.value.param == "name"
    assert not (tmp_path / SCHEMA.file_name).exists()


@pytest.mark.parametrize("name", ["Ann", "日本語", "می‌خواهم", "O'Neill; DROP TABLE voices", "a b"])
def test_names_of_all_scripts_are_found(tmp_path: Path, name: str) -> None:
    store = opened(tmp_path)
    store.add(NewVoice(name=f"  {name} ", content=b"1"))
    assert store.get(name.upper()).name == name


def test_half_a_character_names_nobody(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.add(NewVoice(name="Ann", content=b"1"))
    assert store.find("\ud800") is None
    with pytest.raises(UnknownVoiceError):
        store.delete("\udfff")


def test_the_limit_holds_for_many_at_once(tmp_path: Path) -> None:
    stores = [opened(tmp_path) for _ in range(4)]

    def add(number: int) -> str:
        return outcome(stores[number % 4], NewVoice(name=f"v{number}", content=b"1"))

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(pool.map(add, range(16)))
    assert outcomes == {"added": MAX_VOICES, "too_many_voices": 16 - MAX_VOICES}
    assert len(stores[0].all()) == MAX_VOICES


def test_of_many_with_one_name_one_wins(tmp_path: Path) -> None:
    def add(number: int) -> str:
        return outcome(opened(tmp_path), NewVoice(name="Ann", content=b"%d" % number))

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(pool.map(add, range(8)))
    assert outcomes == {"added": 1, "voice_exists": 7}
    assert len(blob_names(tmp_path)) == 1


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


def _add_and_delete(folder: Path) -> None:
    store = opened(folder)
    store.delete("mine")
    store.add(NewVoice(name="theirs", content=b"2"))


def test_another_process_is_seen_at_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.add(NewVoice(name="mine", content=b"1"))
    process = multiprocessing.get_context("spawn").Process(target=_add_and_delete, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    (voice,) = store.all()
    assert (voice.name, store.content(voice)) == ("theirs", b"2")


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


def test_blobs_may_be_wherever_fsspec_reaches(tmp_path: Path) -> None:
    stores = [opened(tmp_path / name, BlobStore("memory://antiphon-tests")) for name in ("a", "b")]
    one, two = (store.add(NewVoice(name="Ann", content=b"1")) for store in stores)
    for store, voice in zip(stores, (one, two), strict=True):
        store._database.sweep()  # of its own blobs only, though both are in one place
        assert store.content(voice) == b"1"
    stores[0].delete("Ann")
    assert stores[1].content(two) == b"1"
    assert not (tmp_path / "a" / "blobs").exists()


def test_an_address_that_nobody_knows_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match="blobs_url"):
        BlobStore("nowhere://bucket")


def test_consents_come_in_pages_and_can_be_renamed_and_deleted(tmp_path: Path) -> None:
    consents = ConsentStore(database(tmp_path), max_rows=5)
    assert consents.page(10) == ([], False)
    added = [consents.add(f"c{n}", "en-US", b"recording", "audio/wav") for n in range(5)]
    newest_first = added[::-1]
    first, has_more = consents.page(2)
    assert (first, has_more) == (newest_first[:2], True)
    consents.delete(first[-1].id)  # the next page begins after it all the same
    assert consents.page(2, after=first[-1].id) == (newest_first[2:4], True)
    assert consents.page(2, after=newest_first[3].id) == (newest_first[4:], False)
    assert consents.rename(added[0].id, "other").name == "other"
    assert consents.get(added[0].id).name == "other"
    consents.check(added[0].id)
    consents.check("I agree.")
    for attempt in (consents.get, consents.delete, consents.check):
        with pytest.raises(UnknownConsentError):
            attempt(first[-1].id)
    consents.add("c6", "de", b"recording", "audio/wav")
    with pytest.raises(InvalidRequestError, match="at most 5"):
        consents.add("c7", "de", b"recording", "audio/wav")


@pytest.mark.parametrize(
    ("name", "language", "param"),
    [
        ("", "en", "name"),
        ("a\nb", "en", "name"),
        ("x" * 201, "en", "name"),
        ("a", "e!", "language"),
    ],
    ids=ascii,
)
def test_wrong_consents_name_their_field(
    tmp_path: Path, name: str, language: str, param: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ConsentStore(database(tmp_path), 5).add(name, language, b"1", "audio/wav")
    assert caught.value.param == param


def test_an_edit_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    ann = kept.add(NewVoice(name="Ann", content=b"one", description="old", ref_text="Hi."))
    bob = kept.add(NewVoice(name="Bob", content=b"two"))
    assert kept.edit("ann", name="  Anna ") == replace(ann, name="Anna")
    assert kept.find("Ann") is None
    assert kept.edit("Anna", description="new") == replace(ann, name="Anna", description="new")
    assert kept.edit(ann.id, name="ANNA").name == "ANNA", "its own name in another case"
    assert opened(tmp_path).get(ann.id) == replace(ann, name="ANNA", description="new")
    assert kept.content(kept.get("anna")) == b"one"
    for name, reserved in [("BOB", ()), ("a/b", ()), ("alloy", ("alloy",)), ("", ())]:
        with pytest.raises(InvalidRequestError):
            kept.edit("anna", name=name, reserved=reserved)
    with pytest.raises(UnknownVoiceError):
        kept.edit("nobody", name="Cleo")
    assert [voice.name for voice in kept.all()] == ["ANNA", "Bob"]
    assert kept.get("bob") == bob
