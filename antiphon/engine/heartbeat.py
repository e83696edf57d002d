"""Tells from outside whether a thread that works step by step still gets on."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Heartbeat:
    """Notes when a step begins and ends; one thread steps, any thread looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin between two steps; ``clock`` gives seconds."""
        self._clock = clock
        self._began_s: float | None = None

    @contextmanager
    def step(self) -> Generator[None, None, None]:
        """Take a step for as long as the block lasts."""
        self._began_s = self._clock()
        try:
            yield
        finally:
            self._began_s = None

    @property
    def stalled_s(self) -> float:
        """Seconds that the step under way has taken so far, 0 between steps."""
        began_s = self._began_s
        return 0.0 if began_s is None else self._clock() - began_s
