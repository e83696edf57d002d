"""Measures how late the event loop comes to what is due: one slow callback delays every stream."""

import asyncio

from prometheus_client import Histogram

INTERVAL_S = 0.1


class LoopLag:
    """Asks to be called ten times a second, and notes how late that happens."""

    def __init__(self, lag_s: Histogram) -> None:
        """Begin, on the running loop; ``lag_s`` gets the seconds."""
        self._lag_s = lag_s
        self._loop = asyncio.get_running_loop()
        self._ask()

    def _ask(self) -> None:
        due_s = self._loop.time() + INTERVAL_S
        self._timer = self._loop.call_at(due_s, self._note, due_s)

    def _note(self, due_s: float) -> None:
        self._lag_s.observe(max(0.0, self._loop.time() - due_s))
        self._ask()

    def stop(self) -> None:
        self._timer.cancel()
