"""A data folder as one file, made while servers use it, and made a data folder again.

Databases are copied first, each as of one moment. A blob or a result that is gone by the time it is
copied was deleted since, and its row is left out. Prepared voices are computed again,
and so are jobs that were under way.

The file is a tar archive: recordings and results, the databases, `_MANIFEST` with the SHA-256 of
each, and `_LAST` with the SHA-256 of all bytes before it.
"""

import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from antiphon.errors import InvalidRequestError
from antiphon.storage import checksums
from antiphon.storage.blobs import BlobStore, sync_folder
from antiphon.storage.checksums import DATABASES, JOBS, VOICES, DataPlaces, KeptFile
from antiphon.storage.errors import StorageError
from antiphon.storage.faults import storage_faults

_MEMBER = re.compile(r"(blobs|media)/((?:[\w-]+/){1,3}\w[\w.-]*)", re.ASCII)
_MANIFEST = "manifest.json"
_LAST = "complete"
"""The last member: an archive without it has been cut; of earlier versions it is empty."""
_PIECE_BYTES = 1024 * 1024


@dataclass(slots=True)
class BackupCounts:
    """How much was copied."""

    num_recordings: int = 0
    num_results: int = 0


@dataclass(slots=True)
class _Hashed:
    """A file whose SHA-256 is taken of what is read or written."""

    file: IO[bytes]
    sha256: Any = field(default_factory=hashlib.sha256)

    def read(self, size: int = -1) -> bytes:
        content = self.file.read(size)
        self.sha256.update(content)
        return content

    def write(self, content: bytes) -> int:
        self.sha256.update(content)
        return self.file.write(content)

    def tell(self) -> int:
        return self.file.tell()


class _Writer:
    """Writes an archive with its checksums."""

    def __init__(self, output: IO[bytes]) -> None:
        self._output = _Hashed(output)
        self._archive = tarfile.TarFile(fileobj=self._output, mode="w")  # type: ignore[arg-type]
        self._digests: dict[str, str] = {}

    def add(self, name: str, content: IO[bytes], num_bytes: int) -> str:
        member, hashed = tarfile.TarInfo(name), _Hashed(content)
        member.size = num_bytes
        self._archive.addfile(member, hashed)
        self._digests[name] = hashed.sha256.hexdigest()
        return self._digests[name]

    def end(self) -> None:
        """Add manifest and seal."""
        manifest = json.dumps({"sha256": self._digests}).encode()
        self.add(_MANIFEST, io.BytesIO(manifest), len(manifest))
        offset, digest = self._output.tell(), self._output.sha256.hexdigest()
        self._output.write(_seal(digest, offset))


def back_up(places: DataPlaces, file: Path) -> BackupCounts:
    """Write all that a data folder keeps into one new file, readable by its owner alone.

    Raises:
        InvalidRequestError: the file is there already.
        StorageError: something cannot be read, is damaged, or cannot be written.
    """
    if file.exists():
        raise InvalidRequestError(f"{file} is there already.")
    counts = BackupCounts()
    unfinished = file.with_name(f"{file.name}.tmp")
    with storage_faults(), tempfile.TemporaryDirectory(dir=file.parent) as temporary:
        copies = {name: Path(temporary) / name for name in DATABASES}
        found = [n for n, copy in copies.items() if copy_database(places.folder / n, copy)]
        for name in found:
            if (fault := checksums.database_fault(copies[name])) is not None:
                raise StorageError(f"The server's database {name} is damaged: {fault}.")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as output:
                archive = _Writer(output)
                if VOICES in found:
                    counts.num_recordings = _add_blobs(archive, copies[VOICES], places.blobs)
                if JOBS in found:
                    counts.num_results = _add_media(archive, copies[JOBS], places.media)
                for name in found:  # last, since rows without a file have been left out
                    with copies[name].open("rb") as content:
                        archive.add(name, content, copies[name].stat().st_size)
                archive.end()
                output.flush()
                os.fsync(output.fileno())
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
    return counts


def restore(places: DataPlaces, file: Path, *, unverified: bool = False) -> BackupCounts:
    """Make a data folder of a backup; no server may use it meanwhile.

    Nothing is written before all checksums are verified, and nothing stays if it fails later.

    Args:
        unverified: whether a backup of an earlier version, which has no checksums, is accepted.

    Raises:
        InvalidRequestError: there is a data folder already, or the file is no backup, or damaged.
        StorageError: something cannot be written.
    """
    if any((places.folder / name).exists() for name in DATABASES):
        raise InvalidRequestError(f"{places.folder} is in use already: choose an empty folder.")
    with storage_faults(), ExitStack() as undo:
        _verify(file, unverified=unverified)
        for folder in (places.folder, places.blobs.folder, places.media.folder):
            _undo_folders(folder, undo)
        places.folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=places.folder) as temporary,
            tarfile.open(file, mode="r:") as archive,
        ):
            _extract_databases(archive, file, Path(temporary))
            counts = _restore_files(archive, places, Path(temporary), undo)
            for name in DATABASES:  # last, since without them nothing is there
                if (found := Path(temporary) / name).exists():
                    undo.callback((places.folder / name).unlink, missing_ok=True)
                    found.replace(places.folder / name)
        sync_folder(places.folder)
        undo.pop_all()
    return counts


def _extract_databases(archive: tarfile.TarFile, file: Path, target: Path) -> None:
    for member in archive:
        if member.name in DATABASES:
            _extract(archive, member, target / member.name)
            if (fault := checksums.database_fault(target / member.name)) is not None:
                raise InvalidRequestError(f"{file}: {member.name} is damaged: {fault}.")


def _restore_files(
    archive: tarfile.TarFile, places: DataPlaces, temporary: Path, undo: ExitStack
) -> BackupCounts:
    counts = BackupCounts()
    for member in archive:
        if found := _MEMBER.fullmatch(member.name):
            is_recording = found[1] == "blobs"
            store = places.blobs if is_recording else places.media
            undo.callback(_delete, store, found[2])
            _extract(archive, member, temporary / "file")
            store.move_in(temporary / "file", found[2])
            counts.num_recordings += is_recording
            counts.num_results += not is_recording
    return counts


def _verify(file: Path, *, unverified: bool) -> None:
    """Check names and checksums of all members, and that no byte of the file differs.

    Raises:
        InvalidRequestError: one does, or there are no checksums.
    """
    try:
        with tarfile.open(file, mode="r:") as archive:
            members = archive.getmembers()
            for member in members:
                _check_name(member)
            if not members or members[-1].name != _LAST:
                raise InvalidRequestError(f"{file} is no backup, or has been cut.")
            if not members[-1].size:
                if not unverified:
                    raise InvalidRequestError(
                        f"{file} has no checksums: an earlier version made it, and damage cannot be"
                        " found. Use --unverified to restore it all the same."
                    )
                return
            _check_manifest(file, archive, members)
    except tarfile.TarError as error:
        raise InvalidRequestError(f"{file} is no backup: {error}.") from error
    with file.open("rb") as content:
        offset = members[-1].offset
        digest = checksums.sha256_of(_pieces(content, offset))
        if content.read() != _seal(digest, offset):
            raise InvalidRequestError(f"{file} is damaged, or has been cut: its SHA-256 differs.")


def _check_manifest(file: Path, archive: tarfile.TarFile, members: list[tarfile.TarInfo]) -> None:
    contents = {member.name: archive.extractfile(member) for member in members[:-1]}
    manifest = contents.pop(_MANIFEST, None)
    try:
        known = {} if manifest is None else json.load(manifest)["sha256"]
    except (ValueError, TypeError, KeyError):
        known = {}
    for name, content in contents.items():
        if content is None or known.get(name) != checksums.sha256_of(_pieces(content)):
            raise InvalidRequestError(f"{file} is damaged: the SHA-256 of {name} differs.")
    if missing := set(known) - set(contents):
        raise InvalidRequestError(f"{file} is damaged: {min(missing)} is missing.")


def _check_name(member: tarfile.TarInfo) -> None:
    """Refuse what is no file of ours, before anything is written."""
    is_ours = _MEMBER.fullmatch(member.name) or member.name in (*DATABASES, _MANIFEST, _LAST)
    if not (member.isfile() and is_ours):
        raise InvalidRequestError(f"{member.name!a} is no part of a backup.")


def _seal(digest: str, offset: int) -> bytes:
    """Return the end of an archive, from the header of the last member at ``offset`` on."""
    member = tarfile.TarInfo(_LAST)
    member.size = len(digest)
    padded = digest.encode().ljust(tarfile.BLOCKSIZE, b"\0")
    end = member.tobuf() + padded + bytes(2 * tarfile.BLOCKSIZE)
    return end + bytes(-(offset + len(end)) % tarfile.RECORDSIZE)


def _add_blobs(archive: _Writer, database: Path, blobs: BlobStore) -> int:
    num_added = 0
    with closing(sqlite3.connect(database)) as db:
        for kept in checksums.recordings(db):
            try:
                content = blobs.get(kept.key)
            except FileNotFoundError:  # deleted since
                for table in ("voices", "consents"):
                    db.execute(f"DELETE FROM {table} WHERE id = ?", (kept.row,))
                continue
            _add_kept(archive, "blobs", kept, io.BytesIO(content), len(content))
            num_added += 1
        db.commit()
    return num_added


def _add_media(archive: _Writer, database: Path, media: BlobStore) -> int:
    num_added = 0
    with closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE jobs SET state = 'queued', runner = NULL WHERE state = 'running'")
        for kept in checksums.results(db):
            copy = database.with_name("result")
            try:
                with copy.open("wb") as output:
                    output.writelines(media.read(kept.key, 0, kept.num_bytes or 0))
            except FileNotFoundError:  # deleted since
                db.execute("DELETE FROM jobs WHERE id = ?", (kept.row,))
                continue
            with copy.open("rb") as content:
                _add_kept(archive, "media", kept, content, copy.stat().st_size)
            copy.unlink()
            num_added += 1
        db.commit()
    return num_added


def _add_kept(
    archive: _Writer, folder: str, kept: KeptFile, content: IO[bytes], num_bytes: int
) -> None:
    digest = archive.add(f"{folder}/{kept.key}", content, num_bytes)
    if kept.sha256 not in ("", digest):
        raise StorageError(
            f"'{kept.key}' is damaged: its SHA-256 differs from the one it was stored with. Delete"
            " it and try again; 'antiphon data verify' lists all that is damaged."
        )


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = archive.extractfile(member)
    assert content is not None, "it has been verified"
    with target.open("wb") as output:
        output.writelines(_pieces(content))
        output.flush()
        os.fsync(output.fileno())


def _undo_folders(folder: Path | None, undo: ExitStack) -> None:
    """Have a folder removed again that is not there yet, with those that will lead to it."""
    new = (
        [] if folder is None else [each for each in (folder, *folder.parents) if not each.exists()]
    )
    if new:
        undo.callback(shutil.rmtree, new[-1], ignore_errors=True)


def _delete(store: BlobStore, key: str) -> None:
    with suppress(OSError):  # it may be missing, and the error that led here is reported
        store.delete(key)


def copy_database(source: Path, target: Path) -> bool:
    """Copy a database in use by an online backup; ``False`` if missing; raises StorageError."""
    if not source.exists():
        return False
    with (
        storage_faults(),
        closing(sqlite3.connect(source, timeout=30.0)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    return True


def _pieces(content: IO[bytes], num_bytes: int | None = None) -> Iterator[bytes]:
    num_left = num_bytes
    while num_left != 0:
        piece = content.read(_PIECE_BYTES if num_left is None else min(_PIECE_BYTES, num_left))
        if not piece:
            return
        num_left = None if num_left is None else num_left - len(piece)
        yield piece
