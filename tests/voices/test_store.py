"""What is kept of voices and consents: all that is known, by names that mislead nobody."""

import multiprocessing
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import InvalidRequestError, SettingsError, UnknownVoiceError
from antiphon.storage.blobs import BlobStore
from antiphon.storage.errors import UnknownConsentError
from antiphon.storage.voice_database import SCHEMA
from antiphon.voices.consents import ConsentStore
from antiphon.voices.store import NewVoice, VoiceStore
from tests.voices.stores import MAX_VOICES, blob_names, database, opened


def outcome(store: VoiceStore, voice: NewVoice) -> str:
    try:
        store.add(voice)
    except InvalidRequestError as error:
        return error.code
    return "added"


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
