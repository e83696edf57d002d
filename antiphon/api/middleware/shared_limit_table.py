"""A `LimitTable` in memory that several processes map, so that limits hold for all of them.

It is a hash table of fixed size: digests of names, a bucket for each, and a column of counts for
each process. A process writes to its own column only, and a count is the sum of its row: what a
process that was killed has counted is gone once its column is cleared. A lock on the file lets one
process in at a time; the system takes it from a process that dies. Nothing is ever half written
but a bucket, which is then full or empty by one request.
"""

import fcntl
import mmap
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from threading import RLock

from antiphon.api.middleware.limit_table import TokenBucket
from antiphon.errors import UnavailableError

NUM_ROWS = 1 << 16
"""Names that are remembered at once: about six for each of 10,000 callers."""
PROBED_ROWS = 32
"""A name stands in one of so many rows; the oldest unused one of them makes room for it."""

_DIGEST_BYTES = 16
_WORD_BYTES = 8
_UNUSED = bytes(_DIGEST_BYTES)


def make_shared_memory(num_columns: int, num_rows: int = NUM_ROWS) -> int:
    """Return the descriptor of an empty table's memory, which other processes may inherit.

    It has no name in the file system: nothing is left behind when all processes have ended.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("antiphon-limits")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, _num_bytes(num_columns, num_rows))
    return descriptor


class SharedLimitTable:
    """One process's view of the table; for any of its threads."""

    def __init__(self, descriptor: int, column: int, num_columns: int) -> None:
        """Map a table.

        Args:
            descriptor: File descriptor of its memory; it has to stay open.
            num_columns: processes that share it.
        """
        self._descriptor = descriptor
        self._lock = RLock()
        self._depth = 0
        memory = mmap.mmap(descriptor, 0)
        row_bytes = _num_bytes(num_columns, 1)
        self._num_rows = num_rows = len(memory) // row_bytes
        self._memory = memory
        view = memoryview(memory)
        words = view[num_rows * _DIGEST_BYTES :]
        self._seen_s, self._tokens, self._filled_s = (
            words[n * num_rows * _WORD_BYTES : (n + 1) * num_rows * _WORD_BYTES].cast("d")
            for n in range(3)
        )
        self._counts = [
            words[n * num_rows * _WORD_BYTES : (n + 1) * num_rows * _WORD_BYTES].cast("q")
            for n in range(3, 3 + num_columns)
        ]
        self._own = self._counts[column]

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        with self._lock:
            if not self._depth:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1)

    def count(self, name: str) -> int:
        row = self._find(_digest(name))
        return 0 if row is None else self._sum(row)

    def add(self, name: str, number: int) -> None:
        self._own[self._row(name)] += number

    def bucket(self, name: str) -> TokenBucket | None:
        row = self._find(_digest(name))
        if row is None or not self._filled_s[row]:
            return None
        return TokenBucket(self._tokens[row], self._filled_s[row])

    def keep(self, name: str, bucket: TokenBucket) -> None:
        row = self._row(name)
        self._tokens[row], self._filled_s[row] = bucket.num_tokens, bucket.filled_s

    def publish(self, name: str, number: int) -> list[int]:
        """Set this process's part of a count; return the parts of all processes."""
        with self.locked():
            row = self._row(name)
            self._own[row] = number
            return [column[row] for column in self._counts]

    def clear_column(self, column: int) -> None:
        """Forget what a process has counted, which has ended."""
        counts = self._counts[column]
        with self.locked():
            counts[:] = memoryview(bytes(len(counts) * _WORD_BYTES)).cast("q")

    def _sum(self, row: int) -> int:
        return sum(column[row] for column in self._counts)

    def _find(self, digest: bytes) -> int | None:
        """Return the row of a name; rows are never emptied, so it stands before any unused one."""
        for row in self._rows(digest):
            found = self._digest_of(row)
            if found == digest:
                return row
            if found == _UNUSED:
                return None
        return None

    def _row(self, name: str) -> int:
        digest = _digest(name)
        row = self._find(digest)
        if row is None:
            row = self._free_row(digest)
            for column in self._counts:
                column[row] = 0
            self._tokens[row] = self._filled_s[row] = 0.0
            self._memory[row * _DIGEST_BYTES : (row + 1) * _DIGEST_BYTES] = digest
        self._seen_s[row] = time.monotonic()
        return row

    def _free_row(self, digest: bytes) -> int:
        """Return an unused row, or the one whose name was used longest ago and counts nothing."""
        oldest = None
        for row in self._rows(digest):
            if self._digest_of(row) == _UNUSED:
                return row
            if not self._sum(row) and (oldest is None or self._seen_s[row] < self._seen_s[oldest]):
                oldest = row
        if oldest is None:
            raise UnavailableError("Too many callers at once.", retry_after_s=1.0)
        return oldest

    def _rows(self, digest: bytes) -> Generator[int, None, None]:
        first = int.from_bytes(digest[:_WORD_BYTES], "little")
        for step in range(min(PROBED_ROWS, self._num_rows)):
            yield (first + step) % self._num_rows

    def _digest_of(self, row: int) -> bytes:
        return self._memory[row * _DIGEST_BYTES : (row + 1) * _DIGEST_BYTES]


def _digest(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _num_bytes(num_columns: int, num_rows: int) -> int:
    return num_rows * (_DIGEST_BYTES + (3 + num_columns) * _WORD_BYTES)
