"""A thread that waits for steps, so that the engine's thread can wait for commands."""

import queue
import threading
import time
from collections.abc import Callable

from antiphon.engine.faults import fault_of
from antiphon.engine.runner import PendingStep

_JOIN_S = 1.0


class StepWaiter:
    """Reports the end of the step that is watched; the thread starts with the first one."""

    def __init__(self, on_end: Callable[[PendingStep, float], None], name: str) -> None:
        """Prepare the thread, which calls ``on_end`` with a step and its monotonic end time."""
        self._on_end = on_end
        self._name = name
        self._steps: queue.SimpleQueue[PendingStep | None] = queue.SimpleQueue()
        self._step: PendingStep | None = None  # written by the engine's thread alone
        self._thread: threading.Thread | None = None

    def watch(self, step: PendingStep | None) -> None:
        """Watch a step instead of the one before; ``None``: none."""
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
        """End the thread; one that hangs in a device call is abandoned."""
        self._step = None
        self._steps.put(None)
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            if step is self._step:
                fault_of(step.wait)  # its result raises the fault again
                ended_s = time.monotonic()
                if step is self._step:
                    self._on_end(step, ended_s)
