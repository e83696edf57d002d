"""Kept media: whole or absent, its owner's alone, gone when it is old, within its limits."""

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.contracts.types import OPERATOR, Caller
from antiphon.errors import SettingsError
from antiphon.storage.blobs import BlobStore
from antiphon.storage.errors import StorageError, StorageFullError, UnknownMediaError
from antiphon.storage.media import MediaLimits, MediaStore
from tests.clock import Clock

ALICE, BOB, NOBODY = Caller("alice"), Caller("bob"), Caller()


@pytest.fixture
def clock() -> Clock:
    return Clock(1_800_000_000.0)


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A local folder, and an object store within this process."""
    if request.param == "folder":
        return str(tmp_path / "kept")
    return f"memory://{uuid.uuid4().hex}"


def files_in(place: str) -> list[str]:
    return [key for key, _ in BlobStore(place).files()]


def test_what_is_kept_is_found_by_its_owner_alone(place: str, clock: Clock) -> None:
    store = MediaStore(BlobStore(place), MediaLimits(), clock)
    key = store.put(b"content", "png", "alice")
    assert key.startswith("2027-01-15/")
    assert "alice" not in key
    for caller in (ALICE, OPERATOR):
        kept = store.find(key, caller)
        assert (kept.num_bytes, kept.media_type) == (7, "image/png")
    assert b"".join(store.read(key, 3, 7)) == b"tent"
    for caller in (BOB, NOBODY):
        with pytest.raises(UnknownMediaError):
            store.find(key, caller)
    of_nobody = store.put(b"", "mp4", None)
    assert store.find(of_nobody, NOBODY).media_type == "video/mp4"
    assert of_nobody.rpartition("-")[2] != store.put(b"", "mp4", None).rpartition("-")[2]
    for _ in range(2):
        BlobStore(place).delete(key)
    with pytest.raises(UnknownMediaError):
        store.find(key, ALICE)


@pytest.mark.parametrize(
    "key", ["", "..", "../secret.png", "2027-01-15/../../x.png", "2027-01-15/x.png", "a\0b", "/etc"]
)
def test_other_names_name_nothing(place: str, key: str, clock: Clock) -> None:
    with pytest.raises(UnknownMediaError):
        MediaStore(BlobStore(place), MediaLimits(), clock).find(key, OPERATOR)


def test_what_is_too_old_goes(place: str, clock: Clock) -> None:
    store = MediaStore(BlobStore(place), MediaLimits(retention_s=3 * 86400), clock)
    old = store.put(b"old", "png", None)
    clock.now_s += 2 * 86400
    new = store.put(b"new", "png", None)
    assert store.sweep() == 0
    clock.now_s += 2 * 86400
    assert store.sweep() == 1
    assert files_in(place) == [new]
    folder = BlobStore(place).folder
    assert folder is None or not (folder / old.partition("/")[0]).exists()
    for_ever = MediaStore(BlobStore(place), MediaLimits(), clock)
    clock.now_s += 1e9
    assert for_ever.sweep() == 0


def test_what_was_never_finished_goes(tmp_path: Path, clock: Clock) -> None:
    store = MediaStore(BlobStore(tmp_path), MediaLimits(), clock)
    key = store.put(b"whole", "png", None)
    half = tmp_path / f"{key}.1a2b3c4d.tmp"
    half.write_bytes(b"wh")
    (tmp_path / "notes.txt").write_text("somebody else's")
    with pytest.raises(UnknownMediaError):
        store.find(f"{key}.1a2b3c4d.tmp", OPERATOR)
    assert store.sweep() == 0
    clock.now_s += 7200
    assert store.sweep() == 1
    assert sorted(files_in(str(tmp_path))) == [key, "notes.txt"]


def test_no_more_is_kept_than_is_allowed(place: str, clock: Clock) -> None:
    store = MediaStore(BlobStore(place), MediaLimits(max_bytes=100), clock)
    first = store.put(bytes(60), "png", None)
    with pytest.raises(StorageFullError, match=r"media\.max_gib"):
        store.put(bytes(41), "png", None)
    store.put(bytes(40), "png", None)
    other = MediaStore(BlobStore(place), MediaLimits(max_bytes=100), clock)
    with pytest.raises(StorageFullError):
        other.put(bytes(1), "png", None)  # what other servers keep counts
    BlobStore(place).delete(first)
    clock.now_s += 10  # what is kept is counted again
    store.put(bytes(60), "png", None)
    assert len(files_in(place)) == 2


def test_the_disk_is_not_filled(tmp_path: Path, clock: Clock) -> None:
    store = MediaStore(BlobStore(tmp_path), MediaLimits(min_free_bytes=2**60), clock)
    with pytest.raises(StorageFullError):
        store.put(b"content", "png", None)
    assert files_in(str(tmp_path)) == []


def failing(error: int) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise OSError(error, os.strerror(error))

    return fail


@pytest.mark.parametrize(
    ("error", "kind"),
    [(errno.ENOSPC, StorageFullError), (errno.EACCES, StorageError), (errno.EIO, StorageError)],
)
def test_a_disk_that_fails_leaves_no_half_file(
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    error: int,
    kind: type[StorageError],
) -> None:
    store = MediaStore(BlobStore(tmp_path), MediaLimits(), clock)
    kept = store.put(b"before", "png", None)  # what fails comes after the bytes of the next one
    monkeypatch.setattr("antiphon.storage.blobs.os.fsync", failing(error))
    with pytest.raises(kind) as failed:
        store.put(b"content", "png", None)
    assert type(failed.value) is kind
    assert str(tmp_path) not in failed.value.message
    monkeypatch.undo()
    assert files_in(str(tmp_path)) == [kept]
    assert b"".join(store.read(kept, 0, 6)) == b"before"


def test_addresses(tmp_path: Path, clock: Clock) -> None:
    key = "2027-01-15/name.png"
    own = MediaStore(BlobStore(tmp_path), MediaLimits(), clock)
    assert own.url(key, "http://server/v1/media/") == f"http://server/v1/media/{key}"
    limits = MediaLimits(http_url="https://cdn.example/media/")
    elsewhere = MediaStore(BlobStore(tmp_path), limits, clock)
    assert elsewhere.url(key, "http://server/v1/media/") == f"https://cdn.example/media/{key}"
    with pytest.raises(SettingsError, match=r"media\.signed_url_s"):
        MediaStore(BlobStore(tmp_path), MediaLimits(signed_url_s=60), clock)
