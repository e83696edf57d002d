"""Voices as prompts need them, computed once for a recording and a model, and kept on the disk.

A file's name is a hash of the recording and of the model, so that it never has to be looked
into to know whether it fits. Whatever goes wrong with a file costs time, never a voice.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from threading import Lock

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.errors import InvalidRequestError

logger = logging.getLogger(__name__)

_SUFFIX = ".voice"
_FORMAT = 1  # changed when families prepare voices differently: what was kept is forgotten
_MAX_IN_MEMORY = 256  # of up to 60 kB each


class PreparedCache:
    """Prepared voices by content and model; for threads and several processes at once."""

    def __init__(self, folder: Path, *, max_in_memory: int = _MAX_IN_MEMORY) -> None:
        """Keep files in a folder, which is made when it is needed."""
        self._folder = folder
        self._max_in_memory = max_in_memory
        self._lock = Lock()
        self._recent: OrderedDict[str, PreparedVoice] = OrderedDict()

    def find(self, content_hash: str, model: str, name: str) -> PreparedVoice | None:
        """Return a voice as it was kept, under the name that it has now."""
        key = _key(content_hash, model)
        with self._lock:
            found = self._recent.get(key)
        if found is None:
            path = self._folder / f"{key}{_SUFFIX}"
            try:
                found = PreparedVoice.load(path) if path.exists() else None
            except (InvalidRequestError, OSError) as error:
                logger.warning("a prepared voice is damaged and made again: %s", error)
        if found is None:
            return None
        self._remember(key, found)
        return found if found.name == name else replace(found, name=name)

    def keep(self, content_hash: str, model: str, voice: PreparedVoice) -> None:
        """Keep a voice in memory, and on the disk if it can be written."""
        key = _key(content_hash, model)
        self._remember(key, voice)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            voice.save(self._folder / f"{key}{_SUFFIX}")
        except OSError as error:
            logger.warning("a prepared voice could not be kept on the disk: %s", error)

    def keep_only(self, content_hashes: Collection[str]) -> None:
        """Forget the voices of all other contents."""
        with self._lock:
            for key in [key for key in self._recent if _content(key) not in content_hashes]:
                del self._recent[key]
        try:
            for path in list(self._folder.glob(f"*{_SUFFIX}")):
                if _content(path.stem) not in content_hashes:
                    path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("a prepared voice could not be deleted: %s", error)

    def _remember(self, key: str, voice: PreparedVoice) -> None:
        with self._lock:
            self._recent[key] = voice
            self._recent.move_to_end(key)
            while len(self._recent) > self._max_in_memory:
                self._recent.popitem(last=False)


def model_identity(family: str, path: Path | None) -> str:
    """Return an identity that changes when a checkpoint may prepare voices differently.

    Weights are identified by their sizes and times: reading them all would take too long.
    """
    digest = hashlib.sha256(f"{_FORMAT} {family}".encode())
    if path is None:
        return digest.hexdigest()
    for file in sorted(each for each in path.rglob("*") if each.is_file()):
        state = file.stat()
        digest.update(f"{file.relative_to(path).as_posix()} {state.st_size} ".encode())
        is_small = file.suffix == ".json"
        digest.update(file.read_bytes() if is_small else str(state.st_mtime_ns).encode())
    return digest.hexdigest()


def _key(content_hash: str, model: str) -> str:
    return f"{content_hash}-{model[:32]}"


def _content(key: str) -> str:
    return key.partition("-")[0]
