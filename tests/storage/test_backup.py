"""A backup is the data folder as of one moment, made while it is used; a damaged one is refused."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.storage import backup as backups
from antiphon.storage.backup import back_up, copy_database, restore
from antiphon.storage.blobs import BlobStore
from antiphon.storage.checksums import DataPlaces, find_damage
from antiphon.storage.errors import StorageError
from antiphon.storage.job import JobFile, JobProgress, JobResult, JobState
from antiphon.storage.job_ledger import JobLedger
from antiphon.storage.voice_database import VoiceDatabase
from antiphon.voices.consents import ConsentStore
from antiphon.voices.store import NewVoice, VoiceStore


class Folder:
    def __init__(self, path: Path) -> None:
        self.places = DataPlaces(path, BlobStore(path / "blobs"), BlobStore(path / "media"))
        self.database = VoiceDatabase(path)
        self.voices = VoiceStore(self.database, 10)
        self.consents = ConsentStore(self.database, 10)
        self.jobs = JobLedger(path)

    def fill(self, scratch: Path) -> None:
        self.voices.add(NewVoice(name="Ann", content=b"recording", owner="ann"))
        self.voices.add(NewVoice(name="Bob", content=b"other"))
        self.consents.add("label", "en", b"agreed", "audio/wav")
        for _ in range(2):
            self.jobs.add("{}", "ann")
        runner = self.jobs.runner()
        done = self.jobs.acquire(runner)
        assert done is not None
        scratch.write_bytes(b"speech")
        num_bytes = self.places.media.move_in(scratch, f"jobs/{done.id}/0.wav")
        file = JobFile(
            key=f"jobs/{done.id}/0.wav",
            media_type="audio/wav",
            num_bytes=num_bytes,
            duration_s=1.0,
            sha256=hashlib.sha256(b"speech").hexdigest(),
        )
        result = JobResult(
            files=(file,), chapters=(), finish_reason="stop", input_tokens=1, output_tokens=2
        )
        assert self.jobs.finish(done.id, runner, result, JobProgress(fraction=1.0))
        assert self.jobs.acquire(runner) is not None  # one is under way

    def told(self) -> object:
        jobs = self.jobs.page(10, None)
        return (
            [(voice, self.voices.content(voice)) for voice in self.voices.all()],
            self.consents.page(10),
            [(job.id, job.owner, job.result, job.progress) for job in jobs],
            [
                b"".join(self.places.media.read(file.key, 0, file.num_bytes))
                for job in jobs
                if job.result
                for file in job.result.files
            ],
        )

    def close(self) -> None:
        self.database.close()
        self.jobs.close()


@pytest.fixture
def old(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "old")
    folder.fill(tmp_path / "scratch")
    return folder


def test_what_is_restored_is_what_was_backed_up(old: Folder, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    counts = back_up(old.places, file)  # while the folder is in use
    assert (counts.num_recordings, counts.num_results) == (3, 1)
    assert file.stat().st_mode & 0o077 == 0
    told = old.told()
    old.close()
    new = Folder(tmp_path / "new")
    assert restore(new.places, file) == counts
    assert new.told() == told
    assert [job.state for job in new.jobs.page(5, None)] == [JobState.QUEUED, JobState.COMPLETED]
    assert new.jobs.acquire(new.jobs.runner()) is not None, "what was under way begins anew"
    new.voices.add(NewVoice(name="Cid", content=b"more"))
    new.database.sweep()
    assert [new.voices.content(voice) for voice in new.voices.all()][-1] == b"more"
    with pytest.raises(InvalidRequestError, match="in use"):
        restore(new.places, file)
    with pytest.raises(InvalidRequestError, match="already"):
        back_up(new.places, file)
    new.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar", "new", "old"]


def test_what_is_deleted_meanwhile_is_left_out_as_a_whole(
    old: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied_and_deleted(source: Path, target: Path) -> bool:
        found = copy_database(source, target)
        if target.name.startswith("jobs"):  # the second one
            old.voices.delete(next(voice.id for voice in old.voices.all() if voice.owner))
            (done,) = (job for job in old.jobs.page(5, None) if job.result)
            old.places.media.delete_folder(f"jobs/{done.id}")
            old.jobs.delete(done.id)
        return found

    monkeypatch.setattr(backups, "copy_database", copied_and_deleted)
    back_up(old.places, tmp_path / "backup.tar")
    told = old.told()
    old.close()
    new = Folder(tmp_path / "new")
    restore(new.places, tmp_path / "backup.tar")
    assert new.told() == told
    assert [voice.name for voice in new.voices.all()] == ["Bob"]
    new.close()


def test_an_empty_folder_has_a_backup_too(tmp_path: Path) -> None:
    old, new = Folder(tmp_path / "old"), Folder(tmp_path / "new")
    back_up(old.places, tmp_path / "backup.tar")
    restore(new.places, tmp_path / "backup.tar")
    assert new.voices.all() == []


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.9])
def test_a_backup_that_was_cut_is_refused(old: Folder, tmp_path: Path, kept: float) -> None:
    file = tmp_path / "backup.tar"
    back_up(old.places, file)
    old.close()
    content = file.read_bytes().rstrip(b"\0")
    file.write_bytes(content[: int(len(content) * kept) // 512 * 512])
    new = Folder(tmp_path / "new")
    with pytest.raises(InvalidRequestError, match="no backup"):
        restore(new.places, file)
    assert not (tmp_path / "new").exists()


def refused(file: Path, content: bytes, folder: Path) -> str:
    file.write_bytes(content)
    with pytest.raises(InvalidRequestError) as caught:
        restore(Folder(folder).places, file)
    assert not folder.exists()
    return caught.value.message


def test_no_byte_of_a_backup_may_differ(old: Folder, tmp_path: Path) -> None:
    file, damaged = tmp_path / "backup.tar", tmp_path / "damaged.tar"
    back_up(old.places, file)
    old.close()
    content = file.read_bytes()
    places = {*range(0, len(content), 509), len(content) - 1}
    with tarfile.open(file) as archive:
        members = archive.getmembers()
    assert {"manifest.json", "complete"} < {member.name for member in members}
    for member in members:
        end = member.offset_data + member.size
        places |= {member.offset, member.offset + 148, member.offset + 155}
        places |= {member.offset_data, (member.offset_data + end) // 2, end - 1, end}
    for place in sorted(places):
        flipped = bytearray(content)
        flipped[place] ^= 1
        refused(damaged, bytes(flipped), tmp_path / "new")
    for num_bytes in sorted(places):
        refused(damaged, content[:num_bytes], tmp_path / "new")
    refused(damaged, content + b"\0", tmp_path / "new")
    recording = next(member for member in members if member.name.startswith("blobs/"))
    flipped = bytearray(content)
    flipped[recording.offset_data] ^= 1
    assert recording.name in refused(damaged, bytes(flipped), tmp_path / "new")


def rewritten(file: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Make a sealed archive of another one's members, of which some are changed or left out."""
    with tarfile.open(file) as archive:
        found = {
            member.name: (archive.extractfile(member) or io.BytesIO()).read()
            for member in archive
            if member.name not in ("manifest.json", "complete")
        }
    with file.open("wb") as output:
        writer = backups._Writer(output)
        for name, content in found.items():
            if (changed := change(name, content)) is not None:
                writer.add(name, io.BytesIO(changed), len(changed))
        writer.end()


def test_a_damaged_database_is_refused_though_its_checksum_is_right(
    old: Folder, tmp_path: Path
) -> None:
    file = tmp_path / "backup.tar"
    back_up(old.places, file)
    old.close()

    def damaged(name: str, content: bytes) -> bytes:
        if name != "jobs.sqlite3":
            return content
        return content[:4096] + b"\xff" * 4096 + content[8192:]

    rewritten(file, damaged)
    new = tmp_path / "empty"
    new.mkdir()
    with pytest.raises(InvalidRequestError, match=r"jobs\.sqlite3 is damaged"):
        restore(Folder(new).places, file)
    assert list(new.iterdir()) == []


def test_what_cannot_be_written_leaves_nothing_behind(
    old: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "backup.tar"
    back_up(old.places, file)
    old.close()

    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backups, "sync_folder", full)
    with pytest.raises(StorageError):
        restore(Folder(tmp_path / "new").places, file)
    assert not (tmp_path / "new").exists()


def test_a_backup_without_checksums_is_restored_on_request_alone(
    old: Folder, tmp_path: Path
) -> None:
    file, former = tmp_path / "backup.tar", tmp_path / "former.tar"
    back_up(old.places, file)
    told = old.told()
    old.close()
    with tarfile.open(file) as archive, tarfile.open(former, "w") as written:
        for member in archive:
            if member.name not in ("manifest.json", "complete"):
                written.addfile(member, archive.extractfile(member))
        written.addfile(tarfile.TarInfo("complete"))
    assert "--unverified" in refused(former, former.read_bytes(), tmp_path / "new")
    new = Folder(tmp_path / "new")
    restore(new.places, former, unverified=True)
    assert new.told() == told
    new.close()


def test_damage_on_disk_is_found(old: Folder, tmp_path: Path) -> None:
    assert list(find_damage(old.places)) == []
    result = next(path for path in (tmp_path / "old" / "media").rglob("*") if path.is_file())
    recording = next(path for path in (tmp_path / "old" / "blobs").rglob("*") if path.is_file())
    for path in (result, recording):
        content = path.read_bytes()
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert [each.rpartition("/")[2].partition(":")[0] for each in find_damage(old.places)] == [
        recording.name,
        result.name,
    ]
    with pytest.raises(StorageError, match="damaged"):
        old.database.content(recording.name)
    with pytest.raises(StorageError, match="damaged"):
        back_up(old.places, tmp_path / "backup.tar")
    assert not (tmp_path / "backup.tar").exists()
    result.unlink()
    assert any("missing" in each for each in find_damage(old.places))
    old.close()


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "blobs/../../evil", "media/jobs/../evil", "blobs/a/..", "x.sqlite3"],
)
def test_a_backup_writes_nothing_anywhere_else(tmp_path: Path, name: str) -> None:
    file = tmp_path / "backup.tar"
    with tarfile.open(file, "w") as archive:
        for each in (name, "complete"):
            member = tarfile.TarInfo(each)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))
    new = Folder(tmp_path / "data" / "new")
    with pytest.raises(InvalidRequestError, match="no part of a backup"):
        restore(new.places, file)
    assert not [path for path in tmp_path.rglob("*") if path.name == "evil"]


def test_a_link_in_a_backup_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    with tarfile.open(file, "w") as archive:
        member = tarfile.TarInfo("blobs/a/b")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(InvalidRequestError, match="no part of a backup"):
        restore(Folder(tmp_path / "new").places, file)
