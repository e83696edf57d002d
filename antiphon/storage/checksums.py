"""SHA-256 of what a data folder keeps, and what no longer has it."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from antiphon.storage import job_database, voice_database
from antiphon.storage.blobs import BlobStore
from antiphon.storage.faults import storage_faults
from antiphon.storage.job_database import COLUMNS, job_of

VOICES = voice_database.SCHEMA.file_name
JOBS = job_database.SCHEMA.file_name
DATABASES = (VOICES, JOBS)


@dataclass(frozen=True, slots=True)
class DataPlaces:
    """Where a server keeps what it keeps."""

    folder: Path
    blobs: BlobStore
    media: BlobStore


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that a row of a database refers to.

    Attributes:
        sha256: Hexadecimal digest of the content; ``""`` if it was stored before checksums existed.
        num_bytes: Size of the content; ``None`` if the row does not have it.
    """

    row: str
    key: str
    sha256: str
    num_bytes: int | None = None


def sha256_of(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of a content, in hexadecimal digits."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def database_fault(file: Path) -> str | None:
    """Return what is wrong with a database, ``None`` if nothing is: all of it is read."""
    try:
        with closing(sqlite3.connect(file, timeout=30.0)) as db:
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if found == "ok" else str(found)


def recordings(db: sqlite3.Connection) -> list[KeptFile]:
    """Return the recordings of a database of voices."""
    (store,) = db.execute("SELECT id FROM store").fetchone()
    tables = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'checksums'").fetchone()
    known = dict(db.execute("SELECT id, sha256 FROM checksums")) if tables[0] else {}
    ids = [id for (id,) in db.execute(voice_database.BLOB_IDS)]
    return [KeptFile(id, f"{store}/{id}", known.get(id, "")) for id in ids]


def results(db: sqlite3.Connection) -> list[KeptFile]:
    """Return the files of a database of jobs."""
    db.row_factory, db.text_factory = sqlite3.Row, job_database.SCHEMA.decode_text
    rows = db.execute(f"SELECT {COLUMNS} FROM jobs WHERE result IS NOT NULL").fetchall()
    found = [(row["id"], job_of(row).result) for row in rows]
    return [
        KeptFile(id, file.key, file.sha256, file.num_bytes)
        for id, result in found
        if result is not None
        for file in result.files
    ]


def find_damage(places: DataPlaces) -> Iterator[str]:
    """Yield what is damaged or missing in a data folder, also in use; raises StorageError."""
    kinds = ((VOICES, recordings, places.blobs), (JOBS, results, places.media))
    for name, list_files, store in kinds:
        file = places.folder / name
        if not file.exists():
            continue
        if (fault := database_fault(file)) is not None:
            yield f"{name}: {fault}"
            continue
        with storage_faults(), closing(sqlite3.connect(file, timeout=30.0)) as db:
            kept = list_files(db)
        for each in kept:
            with storage_faults():
                num_bytes = store.num_bytes(each.key)
                if num_bytes is None:
                    yield f"{each.key}: it is missing"
                elif each.num_bytes not in (None, num_bytes):
                    yield f"{each.key}: it has {num_bytes} bytes instead of {each.num_bytes}"
                elif each.sha256 and sha256_of(store.read(each.key, 0, num_bytes)) != each.sha256:
                    yield f"{each.key}: its SHA-256 differs from the one it was stored with"
