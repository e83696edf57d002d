"""Keeps recordings as files, on this machine or wherever fsspec reaches; each is whole or absent.

On a disk of ours a file is written beside its place, made to last, and renamed into it. Object
stores do the like by themselves: what is put is there at once, or not at all.
"""

import errno
import os
import secrets
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from antiphon.errors import SettingsError

_TEMPORARY = ".tmp"


class Blobs:
    """Files by key; a key may have several parts, as ``a/b``."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        """Keep files in a folder, or at an address such as ``s3://bucket/voices``.

        Raises:
            SettingsError: nobody knows such addresses here.
        """
        try:
            self._files: Any
            self._files, self._root = fsspec.url_to_fs(os.fspath(url))
        except (ImportError, ValueError) as error:
            raise SettingsError(f"data.blobs_url: '{url}' cannot be used: {error}") from error
        self._is_local = isinstance(self._files, LocalFileSystem)

    def put(self, key: str, content: bytes) -> None:
        """Write a file that will still be there after a power cut.

        Raises:
            OSError: it could not be written, and nothing is there.
        """
        if self._is_local:
            _write(Path(self._path(key)), content)
        else:
            self._files.pipe_file(self._path(key), content)

    def get(self, key: str) -> bytes:
        """Return a file's content.

        Raises:
            OSError: there is none, or it could not be read.
        """
        content: bytes = self._files.cat_file(self._path(key))
        return content

    def delete(self, key: str) -> None:
        """Remove a file, if there is one.

        Raises:
            OSError: it could not be removed.
        """
        try:
            self._files.rm_file(self._path(key))
        except FileNotFoundError:
            return

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, those of unfinished files among them.

        Raises:
            OSError: it could not be read.
        """
        self._files.invalidate_cache()  # what other processes have done counts too
        try:
            found = self._files.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in found]

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make a rename last, where folders can be asked for that."""
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
