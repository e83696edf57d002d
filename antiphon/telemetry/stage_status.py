"""Status that a stage publishes on each change: load, failure and the step under way."""

import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from antiphon.telemetry.engine_stats import EngineStats


@dataclass(frozen=True, slots=True)
class StageStatus:
    """The state of a stage; data, which can be pickled.

    Attributes:
        num_open: requests that are open.
        capacity: live requests that it can serve at once without gaps.
        failure: Error that stopped it for good; ``None`` while it works.
        step_began_s: Start of the longest step under way on the host's monotonic clock; ``None``
            between steps.
        num_bytes: Memory estimated at load time, in bytes.
        stats: Engine statistics, a few times a second; ``None`` without an engine.
        num_replicas: Reachable replicas; 0 while none runs, or is being started again.
    """

    num_open: int = 0
    capacity: int = 0
    failure: str | None = None
    step_began_s: float | None = None
    num_bytes: int = 0
    stats: EngineStats | None = None
    num_replicas: int = 1

    @property
    def load(self) -> float:
        """Open requests as a share of the capacity."""
        return self.num_open / max(self.capacity, 1)

    @property
    def slack(self) -> int:
        """Requests more that fit into the capacity; negative if requests wait."""
        return self.capacity - self.num_open

    def stalled_s(self, now_s: float | None = None) -> float:
        """Return the seconds that the longest step under way has taken so far, 0 between steps."""
        if self.step_began_s is None:
            return 0.0
        return (time.monotonic() if now_s is None else now_s) - self.step_began_s

    def fault(self, stall_s: float) -> str | None:
        """Return the failure, or that a step hangs for longer than ``stall_s``; ``None``: none."""
        if self.failure is None and (stalled_s := self.stalled_s()) > stall_s:
            return f"a step has taken {stalled_s:.0f} seconds"
        return self.failure

    @classmethod
    def merged(cls, statuses: Iterable["StageStatus"]) -> "StageStatus":
        """Return the status of a chain of stages, whose capacity is that of its narrowest."""
        found = tuple(statuses)
        began_s = [each.step_began_s for each in found if each.step_began_s is not None]
        return cls(
            num_open=sum(each.num_open for each in found),
            capacity=min((each.capacity for each in found), default=0),
            failure=next((each.failure for each in found if each.failure), None),
            step_began_s=min(began_s, default=None),
            num_bytes=sum(each.num_bytes for each in found),
            num_replicas=min((each.num_replicas for each in found), default=1),
        )


Publish: TypeAlias = Callable[[StageStatus], None]
"""Called with each new status, in the thread that changed it; returns at once."""


class StatusPublisher:
    """Keeps the status of one engine and publishes its changes; safe for threads."""

    def __init__(
        self, publish: Publish | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start idle; ``publish`` takes each change."""
        self.status = StageStatus()
        self._fields: dict[str, Any] = {}
        self._publish = publish
        self._clock = clock
        self._lock = threading.Lock()
        self._steps_began_s: dict[int, float] = {}

    def update(self, *, opened: int = 0, **changes: Any) -> None:
        """Change fields of the status; ``opened`` is added to its open requests."""
        with self._lock:
            self._fields |= changes
            self._fields["num_open"] = self.status.num_open + opened
            self.status = StageStatus(**self._fields)  # a third of the time of `replace`
            if self._publish is not None:
                self._publish(self.status)

    @contextmanager
    def step(self) -> Generator[None, None, None]:
        """Publish that the calling thread computes a step, for as long as the block lasts."""
        thread = threading.get_ident()
        self._steps_began_s[thread] = self._clock()
        self._update_step()
        try:
            yield
        finally:
            del self._steps_began_s[thread]
            self._update_step()

    def _update_step(self) -> None:
        self.update(step_began_s=min(tuple(self._steps_began_s.values()), default=None))
