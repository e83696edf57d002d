"""Connections that have bytes for their protocols, one of which is fed in each turn of the loop.

A thousand clients that connect in one instant would otherwise all be parsed, and their requests
begun, before the event loop does anything else: the engine would be idle until then, and have all
of them at once afterwards. Probes are not queued (see `Connection`); so that they are not behind
all those in the listening socket, connections are accepted first, until very many wait here: then
the others wait in the kernel, which holds less of each.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

MAX_DELAY_S = 2e-3
"""For which accepting delays all feeding."""
MAX_WAITING = 1024
"""Connections that wait to be fed, from which on none is accepted."""


class FeedQueue:
    """Makes calls in order of arrival, one in each turn of the event loop."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin empty; ``clock`` gives seconds."""
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = self._is_accepting = False
        self._fed_s = 0.0

    def add(self, feed: Callable[[], None]) -> None:
        """Call ``feed`` in one of the next turns of the loop."""
        if not self._waiting:
            self._fed_s = self._clock()
        self._waiting.append(feed)
        self._schedule()

    def is_full(self) -> bool:
        """Whether so many wait that no connection is to be accepted now."""
        return len(self._waiting) >= MAX_WAITING

    def yield_to_accepts(self) -> None:
        """Note that a connection was accepted: there may be more."""
        self._is_accepting = True

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_turn)

    def _run_turn(self) -> None:
        self._is_scheduled = False
        was_accepting, self._is_accepting = self._is_accepting, False
        if not was_accepting or self._clock() - self._fed_s > MAX_DELAY_S:
            self._waiting.popleft()()
            self._fed_s = self._clock()
        if self._waiting:
            self._schedule()
