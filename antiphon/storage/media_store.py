"""Keeps files that the server has made, on this machine or wherever fsspec reaches.

A file is made in a folder of this machine and handed over when it is complete; readers take it
piece by piece, from any place.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from antiphon.errors import SettingsError
from antiphon.storage.blobs import sync_folder

_PIECE_BYTES = 256 * 1024


class MediaStore:
    """Files by key, as ``jobs/ID/0.mp3``; blocks, so it belongs in worker threads."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        """Keep files in a folder, or at an address such as ``s3://bucket/media``.

        Raises:
            SettingsError: nobody knows such addresses here.
        """
        try:
            self._files: Any
            self._files, self._root = fsspec.url_to_fs(os.fspath(url))
        except (ImportError, ValueError) as error:
            raise SettingsError(f"jobs.media_url: '{url}' cannot be used: {error}") from error
        self._is_local = isinstance(self._files, LocalFileSystem)

    def take(self, path: Path, key: str) -> int:
        """Move a file in, and return its size in bytes; it will be there after a power cut.

        Raises:
            OSError: it could not be written.
        """
        num_bytes = path.stat().st_size
        if self._is_local:
            _move(path, Path(self._path(key)))
        else:
            self._files.put_file(os.fspath(path), self._path(key))
            path.unlink()
        return num_bytes

    def read(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes of a file from ``start`` to before ``stop``.

        Raises:
            OSError: there is none, or it could not be read.
        """
        with self._files.open(self._path(key), "rb") as file:
            file.seek(start)
            num_left = stop - start
            while num_left and (piece := file.read(min(num_left, _PIECE_BYTES))):
                num_left -= len(piece)
                yield piece

    def delete(self, folder: str) -> None:
        """Remove all files below a key, if there are any.

        Raises:
            OSError: they could not be removed.
        """
        with suppress(FileNotFoundError):
            self._files.rm(self._path(folder), recursive=True)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"


def _move(path: Path, place: Path) -> None:
    """Move a file, to another disk too, and make it last: its bytes, its name, its folders."""
    new_folders = [each for each in place.parents if not each.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f"{place.name}.tmp")
    try:
        shutil.move(path, unfinished)
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        unfinished.replace(place)
        for folder in (place.parent, *(each.parent for each in new_folders)):
            sync_folder(folder)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
