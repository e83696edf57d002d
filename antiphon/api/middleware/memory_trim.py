"""Memory that requests held goes back to the system: glibc keeps what is freed, for others."""

import asyncio
import ctypes
import sys
from collections.abc import Callable

MIN_FREED_BYTES = 32 * 1024 * 1024
TRIM_DELAY_S = 1.0
"""What has just been given back is still being freed."""


def malloc_trim() -> None:
    """Return free memory to the system; does nothing without glibc. Takes milliseconds."""
    if sys.platform == "linux":
        try:
            trim = ctypes.CDLL(None).malloc_trim
        except AttributeError:  # another libc
            return
        trim.argtypes = [ctypes.c_size_t]
        trim(0)  # without the interpreter's lock


class MemoryTrimmer:
    """Trims in a worker thread, once requests hold much less than before; for one event loop."""

    def __init__(self, trim: Callable[[], None] = malloc_trim) -> None:
        """Call ``trim``, some time after each large release."""
        self._trim = trim
        self._peak_bytes = self._num_bytes = 0
        self._is_due = False

    def see(self, num_bytes: int) -> None:
        """Take the number of bytes held now."""
        self._num_bytes = num_bytes
        self._peak_bytes = max(self._peak_bytes, num_bytes)
        if not self._is_due and self._peak_bytes - num_bytes >= MIN_FREED_BYTES:
            self._is_due = True
            asyncio.get_running_loop().call_later(TRIM_DELAY_S, self._start)

    def _start(self) -> None:
        self._is_due = False
        self._peak_bytes = self._num_bytes
        asyncio.get_running_loop().run_in_executor(None, self._trim)
