"""A thread that waits for steps to end, so that an engine's thread can wait for commands too."""

import queue
import threading
import time
from collections.abc import Callable

from antiphon.engine.faults import fault_of
from antiphon.engine.runner import PendingStep

_JOIN_S = 1.0


class StepWaiter:
    """Tells when the step that it was given last is over; the thread starts with the first one."""

    def __init__(self, on_end: Callable[[PendingStep, float], None], name: str) -> None:
        """Take what is told.

        Args:
            on_end: called in the thread with a step that is over, and the time at which it was, in
                seconds of `time.monotonic`. A step that failed is over too.
            name: of the thread.
        """
        self._on_end = on_end
        self._name = name
        self._steps: queue.SimpleQueue[PendingStep | None] = queue.SimpleQueue()
        self._step: PendingStep | None = None  # written by the engine's thread alone
        self._thread: threading.Thread | None = None

    def watch(self, step: PendingStep | None) -> None:
        """Wait for a step instead of any before; ``None``: for none."""
        if step is self._step:
            return
        self._step = step
        if step is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._steps.put(step)

    def close(self) -> None:
        """End the thread; one that a device does not answer is left behind."""
        self._step = None
        self._steps.put(None)
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            if step is self._step:
                fault_of(step.wait)  # whoever takes the step's result meets the fault again
                ended_s = time.monotonic()
                if step is self._step:
                    self._on_end(step, ended_s)
