"""Compiled programs on disk, in the folder of Triton's compiled kernels (`TRITON_CACHE_DIR`).

Triton's cache manager writes a file under another name and renames it, so that processes which
start together never read half of one. A digest before the content detects a damaged file.
"""

import logging
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)
_FILE = "program.cubin"
_FAILURES = (ImportError, OSError, RuntimeError)
"""No Triton; a folder that cannot be read or written; a folder that is not set."""


def cached(inputs: tuple[object, ...], compile_program: Callable[[], bytes]) -> bytes:
    """Return the program stored for these inputs, or compile and store it.

    Args:
        inputs: all that the program depends on; values whose ``repr`` identifies them.
        compile_program: compiler; its errors are raised, and nothing is stored.
    """
    key = sha256(repr(inputs).encode()).hexdigest()
    binary = _loaded(key)
    if binary is None:
        binary = compile_program()
        _store(key, binary)
    return binary


def _loaded(key: str) -> bytes | None:
    try:
        path = _manager(key).get_file(_FILE)
        content = b"" if path is None else Path(path).read_bytes()
    except _FAILURES:  # `_store` reports it
        return None
    size = sha256().digest_size
    digest, binary = content[:size], content[size:]
    return binary if sha256(binary).digest() == digest else None


def _store(key: str, binary: bytes) -> None:
    try:
        _manager(key).put(sha256(binary).digest() + binary, _FILE)
    except _FAILURES as error:
        logger.warning("a compiled program was not stored; each start compiles it: %s", error)


def _manager(key: str) -> Any:
    """Return Triton's manager of the files of a key, a hexadecimal number."""
    return import_module("triton.runtime.cache").get_cache_manager(key)
