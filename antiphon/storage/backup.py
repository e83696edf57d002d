"""A data folder as one file, made while servers use it, and made a data folder again.

Databases are copied first, each as of one moment. A blob or a result that is gone by the time it is
copied was deleted since, and its row is left out. Prepared voices are computed again,
and so are jobs that were under way.
"""

import io
import os
import re
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from antiphon.errors import InvalidRequestError
from antiphon.storage import job_database, voice_database
from antiphon.storage.blobs import BlobStore, sync_folder
from antiphon.storage.faults import storage_faults
from antiphon.storage.job_database import COLUMNS, job_of

_VOICES = voice_database.SCHEMA.file_name
_JOBS = job_database.SCHEMA.file_name
_DATABASES = (_VOICES, _JOBS)
_MEMBER = re.compile(r"(blobs|media)/((?:[\w-]+/){1,3}\w[\w.-]*)", re.ASCII)
_LAST = "complete"
"""The last member: an archive without it has been cut."""
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DataPlaces:
    """Where a server keeps what it keeps.

    Attributes:
        folder: of the databases.
        blobs: of recordings.
        media: of what jobs have made.
    """

    folder: Path
    blobs: BlobStore
    media: BlobStore


@dataclass(slots=True)
class BackupCounts:
    """How much was copied."""

    num_recordings: int = 0
    num_results: int = 0


def back_up(places: DataPlaces, file: Path) -> BackupCounts:
    """Write all that a data folder keeps into one new file, readable by its owner alone.

    Raises:
        InvalidRequestError: the file is there already.
        StorageError: something cannot be read, or written.
    """
    if file.exists():
        raise InvalidRequestError(f"{file} is there already.")
    counts = BackupCounts()
    unfinished = file.with_name(f"{file.name}.tmp")
    with storage_faults(), tempfile.TemporaryDirectory(dir=file.parent) as temporary:
        copies = {name: Path(temporary) / name for name in _DATABASES}
        found = [n for n, copy in copies.items() if copy_database(places.folder / n, copy)]
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with (
                os.fdopen(descriptor, "wb") as output,
                tarfile.open(fileobj=output, mode="w|") as archive,
            ):
                if _VOICES in found:
                    counts.num_recordings = _add_blobs(archive, copies[_VOICES], places)
                if _JOBS in found:
                    counts.num_results = _add_media(
                        archive, copies[_JOBS], places.media, Path(temporary)
                    )
                for name in found:  # last, since rows without a file have been left out
                    archive.add(copies[name], name)
                archive.addfile(tarfile.TarInfo(_LAST))
                archive.close()
                output.flush()
                os.fsync(output.fileno())
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
    return counts


def restore(places: DataPlaces, file: Path) -> BackupCounts:
    """Make a data folder of a backup; no server may use it meanwhile.

    Raises:
        InvalidRequestError: there is a data folder already, or the file is no backup.
        StorageError: something cannot be written.
    """
    if any((places.folder / name).exists() for name in _DATABASES):
        raise InvalidRequestError(f"{places.folder} is in use already: choose an empty folder.")
    counts = BackupCounts()
    with storage_faults():
        places.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=places.folder) as temporary:
            is_whole = False
            try:
                with tarfile.open(file, mode="r|") as archive:
                    for member in archive:
                        is_whole = member.name == _LAST
                        if not is_whole:
                            _restore_member(member, archive, Path(temporary), places, counts)
            except tarfile.TarError as error:
                raise InvalidRequestError(f"{file} is no backup: {error}.") from error
            if not is_whole:
                raise InvalidRequestError(f"{file} is no backup, or has been cut.")
            for name in _DATABASES:  # last, since without them nothing is there
                if (found := Path(temporary) / name).exists():
                    found.replace(places.folder / name)
            sync_folder(places.folder)
    return counts


def _add_blobs(archive: tarfile.TarFile, database: Path, places: DataPlaces) -> int:
    num_added = 0
    with closing(sqlite3.connect(database)) as db:
        stores = [row[0] for row in db.execute("SELECT id FROM store")]
        for (id,) in db.execute(voice_database.BLOB_IDS).fetchall():
            try:
                content = places.blobs.get(f"{stores[0]}/{id}")
            except FileNotFoundError:  # deleted since
                for table in ("voices", "consents"):
                    db.execute(f"DELETE FROM {table} WHERE id = ?", (id,))
                continue
            member = tarfile.TarInfo(f"blobs/{stores[0]}/{id}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
            num_added += 1
        db.commit()
    return num_added


def _add_media(archive: tarfile.TarFile, database: Path, media: BlobStore, folder: Path) -> int:
    num_added = 0
    with closing(sqlite3.connect(database)) as db:
        db.row_factory = sqlite3.Row
        db.execute("UPDATE jobs SET state = 'queued', runner = NULL WHERE state = 'running'")
        for row in db.execute(f"SELECT {COLUMNS} FROM jobs WHERE result IS NOT NULL").fetchall():
            result = job_of(row).result
            for file in () if result is None else result.files:
                copy = folder / "result"
                try:
                    with copy.open("wb") as output:
                        output.writelines(media.read(file.key, 0, file.num_bytes))
                except FileNotFoundError:  # deleted since
                    db.execute("DELETE FROM jobs WHERE id = ?", (row["id"],))
                    break
                archive.add(copy, f"media/{file.key}")
                copy.unlink()
                num_added += 1
        db.commit()
    return num_added


def _restore_member(
    member: tarfile.TarInfo,
    archive: tarfile.TarFile,
    temporary: Path,
    places: DataPlaces,
    counts: BackupCounts,
) -> None:
    """Put one file where it belongs; its name is one of ours, or nothing is written."""
    content = archive.extractfile(member) if member.isfile() else None
    found = _MEMBER.fullmatch(member.name)
    if content is None or (found is None and member.name not in _DATABASES):
        raise InvalidRequestError(f"{member.name!a} is no part of a backup.")
    if found is not None and found[1] == "blobs":
        places.blobs.put(found[2], content.read())
        counts.num_recordings += 1
        return
    copy = temporary / (member.name if found is None else "result")
    with copy.open("wb") as output:
        output.writelines(_pieces(content))
        output.flush()
        os.fsync(output.fileno())
    if found is not None:
        places.media.move_in(copy, found[2])
        counts.num_results += 1


def copy_database(source: Path, target: Path) -> bool:
    """Copy a database in use by SQLite's online backup; ``False`` if there is none.

    Raises:
        StorageError: it cannot be read, or the copy cannot be written.
    """
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


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    while piece := content.read(_PIECE_BYTES):
        yield piece
