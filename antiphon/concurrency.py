"""Worker threads for whatever must not run on the event loop."""

import asyncio
import contextvars
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Workers:
    """A pool of threads that coroutines hand blocking calls to, served in order of arrival."""

    def __init__(self, name: str, num_threads: int | None = None) -> None:
        """Create a pool; ``num_threads`` defaults to the number of cores that we may use."""
        self._pool = ThreadPoolExecutor(num_threads or num_usable_cores(), name)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function(*args)`` in a thread, in the caller's context.

        If the caller is cancelled, the call is waited for (or never begun) before the
        cancellation goes on: whoever frees what the call works on may do so at once.
        """
        context = contextvars.copy_context()
        future = self._pool.submit(context.run, function, *args)
        waiting = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not future.cancel():
                await _settled(waiting)
            raise

    def close(self) -> None:
        """Refuse further calls; those under way run to their end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def _settled(waiting: "asyncio.Future[T]") -> None:
    """Wait for a future's end whatever it is, through further cancellations too."""
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
    if not waiting.cancelled():
        waiting.exception()  # retrieved, so that the loop does not report it as lost


def num_usable_cores() -> int:
    """Return how many cores this process may run on, at least one."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
