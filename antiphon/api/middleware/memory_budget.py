"""Limits of the memory that requests hold, in all and per caller.

Bodies count, answers that are whole, what WebSockets keep between two messages, and files that are
kept for requests to come.

Bytes are counted as they arrive or are collected, never ahead: a slow sender holds no more than it
has sent. A request over the budget is refused, and all that it held is released.
"""

import asyncio
import ctypes
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from weakref import WeakValueDictionary

from antiphon.api.middleware.limit_table import LimitTable
from antiphon.config import LimitSettings
from antiphon.errors import MemoryFullError, MemoryShareError, RequestTooLargeError

REFUSALS = (RequestTooLargeError, MemoryShareError, MemoryFullError)
LEASE = "antiphon.lease"
"""Where a connection's scope has what counts for it."""
RETRY_AFTER_S = 1.0
_MIB = 1024 * 1024
_ALL = "memory"


MAX_KEPT_BYTES = 32 * _MIB
KEPT_S = 600.0
MIN_FREED_BYTES = 32 * 1024 * 1024
TRIM_DELAY_S = 1.0
"""What has just been given back is still being freed."""


class MemoryBudget:
    """Counts what all requests hold; for one event loop's thread.

    Attributes:
        kept_files: finished files, for requests that ask for parts of them.
    """

    def __init__(
        self, limits: LimitSettings, table: LimitTable, *observers: Callable[[int], None]
    ) -> None:
        """Admit requests by ``limits``.

        Args:
            observers: called with each new sum of this process, in bytes.
        """
        self._table = table
        self._max_bytes = limits.max_memory_mib * _MIB
        self._max_of_one = limits.caller_memory_mib * _MIB
        self._observers = observers
        self.num_bytes = 0
        self.kept_files = KeptFiles(self)

    @contextmanager
    def lease(self, caller: str) -> Generator["Lease", None, None]:
        """Give a request what counts for it; it holds nothing any more when the block ends."""
        lease = Lease(self, caller)
        try:
            yield lease
        finally:
            lease.close()

    def check(self, caller: str, num_held: int, num_more: int) -> None:
        """See whether a request that holds ``num_held`` bytes may have more.

        Raises:
            RequestTooLargeError: not even if there were no others.
            MemoryShareError: the caller's requests hold as much as one caller may.
            MemoryFullError: all requests hold as much as there is.
        """
        for setting, most in (
            ("limits.caller_memory_mib", self._max_of_one),
            ("limits.max_memory_mib", self._max_bytes),
        ):
            if most and num_held + num_more > most:
                raise RequestTooLargeError(
                    f"The request needs more memory than the {most // _MIB} MiB of {setting}."
                    " Send less at once, and let long audio stream or choose a compressed format."
                )
        with self._table.locked():
            num_own, num_all = self._table.count(f"{_ALL} {caller}"), self._table.count(_ALL)
        if self._max_of_one and num_own + num_more > self._max_of_one:
            raise MemoryShareError(
                "Your requests under way hold as much memory as is allowed:"
                f" {self._max_of_one // _MIB} MiB. Let some of them end first.",
                retry_after_s=RETRY_AFTER_S,
            )
        if self._max_bytes and num_all + num_more > self._max_bytes:
            raise MemoryFullError(
                "The requests under way hold all memory that there is for them.",
                retry_after_s=RETRY_AFTER_S,
            )

    def reserve(self, caller: str, num_held: int, num_more: int) -> None:
        """Count more for a caller's request, if it may have more; raises what `check` does."""
        with self._table.locked():
            self.check(caller, num_held, num_more)
            self._count(caller, num_more)
        self._tell()

    def release(self, caller: str, num_bytes: int) -> None:
        """Count less for a caller; callers that hold nothing are not remembered."""
        with self._table.locked():
            self._count(caller, -num_bytes)
        self._tell()

    def _count(self, caller: str, num_bytes: int) -> None:
        self.num_bytes += num_bytes
        self._table.add(f"{_ALL} {caller}", num_bytes)
        self._table.add(_ALL, num_bytes)

    def _tell(self) -> None:
        for observer in self._observers:
            observer(self.num_bytes)


class Lease:
    """What one request, or one WebSocket, holds; ``num_bytes``: counted now."""

    def __init__(self, budget: MemoryBudget, caller: str) -> None:
        self._budget = budget
        self._caller = caller
        self._is_closed = False
        self.num_bytes = 0

    def check(self, num_bytes: int) -> None:
        """See whether there would be room; see `MemoryBudget.check` for what is raised."""
        self._budget.check(self._caller, self.num_bytes, num_bytes)

    def reserve(self, num_bytes: int) -> None:
        """Reserve bytes; see `MemoryBudget.check` for what is raised."""
        if num_bytes and not self._is_closed:  # what outlives its request is on its way out
            self._budget.reserve(self._caller, self.num_bytes, num_bytes)
            self.num_bytes += num_bytes

    def release(self, num_bytes: int) -> None:
        if num_bytes and not self._is_closed:
            assert num_bytes <= self.num_bytes, "more is released than was reserved"
            self._budget.release(self._caller, num_bytes)
            self.num_bytes -= num_bytes

    def close(self) -> None:
        """Hold nothing, for good."""
        self.release(self.num_bytes)
        self._is_closed = True


@dataclass(frozen=True, slots=True)
class FinishedFile:
    """A finished file.

    Attributes:
        headers: those that came with it.
        etag: tag of its content, without quotes.
    """

    content: bytes
    headers: dict[str, str]
    etag: str


class KeptFiles:
    """Files of the last minutes by key, the least recently used forgotten first.

    They count for the budget; where it has no room, nothing is kept.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._files: OrderedDict[Hashable, tuple[FinishedFile, Lease]] = OrderedDict()
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def get(self, key: Hashable, make: Callable[[], Awaitable[FinishedFile]]) -> FinishedFile:
        """Return the file of a key; of several requests at once, the first makes it."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            if key in self._files:
                self._files.move_to_end(key)
                return self._files[key][0]
            file = await make()
            self._keep(key, file)
            return file

    def _keep(self, key: Hashable, file: FinishedFile) -> None:
        if len(file.content) > MAX_KEPT_BYTES:
            return
        lease = Lease(self._budget, "kept files")
        while self._num_bytes + len(file.content) > MAX_KEPT_BYTES:
            self._forget(next(iter(self._files)))
        try:
            lease.reserve(len(file.content))
        except REFUSALS:
            return
        self._files[key] = file, lease
        asyncio.get_running_loop().call_later(KEPT_S, self._forget, key, file)

    @property
    def _num_bytes(self) -> int:
        return sum(len(file.content) for file, _ in self._files.values())

    def _forget(self, key: Hashable, only: FinishedFile | None = None) -> None:
        """Forget a file, unless another one has its key by now."""
        file, lease = self._files.get(key, (None, None))
        if lease is not None and only in (None, file):
            del self._files[key]
            lease.close()


class Holding:
    """A part of what a request, or a WebSocket, keeps, counted by its present size.

    It counts for what the running task works for when it is made, whichever task changes it. A
    lease that is closed releases it too.
    """

    def __init__(self) -> None:
        self._lease = _lease.get()
        self.num_bytes = 0

    def set(self, num_bytes: int) -> None:
        """Count so much in place of what was counted; raises as `reserve` does, unchanged then."""
        if self._lease is not None:
            if num_bytes > self.num_bytes:
                self._lease.reserve(num_bytes - self.num_bytes)
            else:
                self._lease.release(self.num_bytes - num_bytes)
        self.num_bytes = num_bytes

    def add(self, num_bytes: int) -> None:
        """Count more, or less; raises as `reserve` does."""
        self.set(self.num_bytes + num_bytes)


_lease: ContextVar[Lease | None] = ContextVar("lease", default=None)


def reserve(num_bytes: int) -> None:
    """Count more for the request that the running task works for, if it works for one.

    Raises:
        RequestTooLargeError: the request needs more than it could ever have.
        MemoryShareError: its caller holds too much.
        MemoryFullError: all requests together do.
    """
    if (lease := _lease.get()) is not None:
        lease.reserve(num_bytes)


def release(num_bytes: int) -> None:
    """Count less for the request that the running task works for."""
    if (lease := _lease.get()) is not None:
        lease.release(num_bytes)


def count_as_base64(num_bytes: int) -> None:
    """Count the base64 of what was collected in its place; raises as `reserve` does."""
    reserve(4 * -(-num_bytes // 3))
    release(num_bytes)


@contextmanager
def use_lease(lease: Lease) -> Generator[None, None, None]:
    """Let `reserve` count for a request in all tasks that the block begins."""
    outer = _lease.set(lease)
    try:
        yield
    finally:
        _lease.reset(outer)


@contextmanager
def reservation() -> Generator[Callable[[int], None], None, None]:
    """Yield a `reserve` whose bytes are released when the block ends."""
    num_reserved = 0

    def reserve_more(num_bytes: int) -> None:
        nonlocal num_reserved
        reserve(num_bytes)
        num_reserved += num_bytes

    try:
        yield reserve_more
    finally:
        release(num_reserved)


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
