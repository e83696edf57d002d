"""Connections that have bytes for their protocols, which are fed a little in each turn of the loop.

A thousand clients that connect in one instant would otherwise all be parsed, and their requests
begun, before the event loop does anything else. Probes are not queued (see `Connection`); so that
they are not behind all those in the listening socket, connections are accepted first, until very
many wait here: then the others wait in the kernel, which holds less of each.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

BUDGET_S = 2e-3
"""For feeding, in one turn of the event loop."""
MAX_DELAY_S = 20e-3
"""For which accepting delays all feeding."""
MAX_WAITING = 1024
"""Connections that wait to be fed, from which on none is accepted."""
MAX_TURN_S = 10e-3
"""Of everything else in a turn: if that takes longer, one call is made in the next."""


class FeedQueue:
    """Makes calls in order of arrival, for a limited time in each turn of the event loop."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin empty; ``clock`` gives seconds."""
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = self._is_accepting = False
        self._fed_s = self._turn_ended_s = 0.0

    def add(self, feed: Callable[[], None]) -> None:
        """Call ``feed`` in one of the next turns of the loop."""
        if not self._waiting:
            self._fed_s = self._turn_ended_s = self._clock()
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
        now_s = self._clock()
        was_accepting, self._is_accepting = self._is_accepting, False
        if not was_accepting or now_s - self._fed_s > MAX_DELAY_S:
            is_late = now_s - self._turn_ended_s > MAX_TURN_S
            # What is added meanwhile waits for the next turn.
            for _ in range(1 if is_late else len(self._waiting)):
                self._waiting.popleft()()
                self._fed_s = self._clock()
                if self._fed_s - now_s >= BUDGET_S:
                    break
        self._turn_ended_s = self._clock()
        if self._waiting:
            self._schedule()
