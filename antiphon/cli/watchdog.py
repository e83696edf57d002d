"""Ends the process when it hangs, be it by a thread, the event loop or the interpreter's lock.

The timer is faulthandler's, which runs outside of the interpreter. When it fires it writes to
stderr where every thread was, and ends the process with status 1.
"""

import faulthandler
import time

_ARMS_A_PERIOD = 4


class Watchdog:
    """A timer that fires unless it is put off in time."""

    def __init__(self, unhealthy_s: float) -> None:
        """Fire after ``unhealthy_s`` without a healthy tick; 0: only after `end_within`."""
        self._unhealthy_s = unhealthy_s
        self._next_s = 0.0
        self._must_end = False

    def tick(self, *, is_healthy: bool) -> None:
        """Record that the event loop runs, and whether its models work."""
        now_s = time.monotonic()
        if not self._unhealthy_s or not is_healthy or self._must_end or now_s < self._next_s:
            return
        faulthandler.dump_traceback_later(self._unhealthy_s, exit=True)
        self._next_s = now_s + self._unhealthy_s / _ARMS_A_PERIOD

    def end_within(self, seconds: float) -> None:
        """Fire after so long, if the process has not ended by itself."""
        self._must_end = True
        faulthandler.dump_traceback_later(seconds, exit=True)

    def stop(self) -> None:
        """Never fire."""
        self._must_end = True
        faulthandler.cancel_dump_traceback_later()
