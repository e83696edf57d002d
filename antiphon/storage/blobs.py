"""Keeps files, on this machine or wherever fsspec reaches; each is complete or absent.

On a local disk a file is written beside its path, synced, and renamed. An object store does the
like by itself: an object is there at once, or not at all.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from antiphon.errors import SettingsError

_PIECE_BYTES = 256 * 1024


class BlobStore:
    """Files by key, as ``a/b``; blocks, so it belongs in worker threads."""

    def __init__(self, url: str | os.PathLike[str], setting: str = "data.blobs_url") -> None:
        """Keep files in a folder, or at an address such as ``s3://bucket/voices``.

        Raises:
            SettingsError: fsspec knows no such address; it names the ``setting``.
        """
        self._files: Any
        try:
            self._files, self._root = fsspec.url_to_fs(os.fspath(url))
        except (ImportError, ValueError) as error:
            raise SettingsError(f"{setting}: '{url}' cannot be used: {error}") from error
        self._is_local = isinstance(self._files, LocalFileSystem)

    def put(self, key: str, content: bytes) -> None:
        """Write a file durably, or leave nothing; raises OSError if it could not be written."""
        if self._is_local:
            path = Path(self._path(key))
            unfinished = f"{path.name}.{secrets.token_hex(4)}.tmp"
            _place(path, unfinished, lambda part: part.write_bytes(content))
        else:
            self._files.pipe_file(self._path(key), content)

    def move_in(self, path: Path, key: str) -> int:
        """Move a local file in, durably, and return its size in bytes; raises OSError."""
        num_bytes = path.stat().st_size
        if self._is_local:
            place = Path(self._path(key))
            _place(place, f"{place.name}.tmp", partial(shutil.move, path))  # to another disk too
        else:
            self._files.put_file(os.fspath(path), self._path(key))
            path.unlink()
        return num_bytes

    def read(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes of a file from ``start`` to before ``stop``; raises OSError."""
        with self._files.open(self._path(key), "rb") as file:
            file.seek(start)
            num_left = stop - start
            while num_left and (piece := file.read(min(num_left, _PIECE_BYTES))):
                num_left -= len(piece)
                yield piece

    def get(self, key: str) -> bytes:
        """Return a file's content; raises OSError if there is none, or it could not be read."""
        content: bytes = self._files.cat_file(self._path(key))
        return content

    def delete(self, key: str) -> None:
        """Remove a file, if there is one; raises OSError if it could not be removed."""
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(key))

    def delete_folder(self, folder: str) -> None:
        """Remove all files below a key, if there are any; raises OSError."""
        with suppress(FileNotFoundError):
            self._files.rm(self._path(folder), recursive=True)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, those of unfinished files among them; raises OSError."""
        self._files.invalidate_cache()  # what other processes have done counts too
        try:
            found = self._files.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in found]

    @property
    def folder(self) -> Path | None:
        """Where the files are, if that is a local disk."""
        return Path(self._root) if self._is_local else None

    @property
    def can_sign(self) -> bool:
        """Whether the storage makes addresses that need no key."""
        return type(self._files).sign is not AbstractFileSystem.sign

    def signed_url(self, key: str, expires_s: int) -> str:
        """Return an address of a file that needs no key, for a time; raises OSError."""
        url: str = self._files.sign(self._path(key), expiration=expires_s)
        return url

    def num_bytes(self, key: str) -> int | None:
        """Return a file's length, ``None`` if there is none; raises OSError."""
        try:
            self._files.invalidate_cache(self._path(key))
            found = self._files.info(self._path(key))
        except FileNotFoundError:
            return None
        return int(found["size"]) if found["type"] == "file" else None

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield keys and lengths of all files, unfinished ones too; raises OSError."""
        self._files.invalidate_cache()
        for path, found in self._files.find(self._root, detail=True).items():
            yield str(path)[len(str(self._root)) :].lstrip("/"), int(found["size"])

    def delete_empty_folders(self) -> None:
        """Remove folders of a local disk that hold nothing; elsewhere there are none."""
        folder = self.folder
        for each in () if folder is None or not folder.exists() else sorted(folder.iterdir()):
            if each.is_dir():
                with suppress(OSError):  # it holds something
                    each.rmdir()

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"


def _place(path: Path, unfinished: str, fill: Callable[[Path], object]) -> None:
    """Fill a file beside its path; sync its bytes, its name and its folders, or leave nothing."""
    new_folders = [each for each in path.parents if not each.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(unfinished)
    try:
        fill(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
        for folder in (path.parent, *(each.parent for each in new_folders)):
            sync_folder(folder)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system can sync folders."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
