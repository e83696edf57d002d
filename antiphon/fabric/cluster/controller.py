"""Control loop of a cluster: a `ClusterState`, a clock, and a launcher of replicas."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from antiphon.fabric.cluster.base import Heartbeat, Hosting, ReplicaAction, StageView
from antiphon.fabric.cluster.state import ClusterState
from antiphon.telemetry.process_state import ProcessState

T = TypeVar("T")

TICK_S = 0.5
"""Period of the control loop."""


class Launcher(Protocol):
    """Starts, restarts and stops replicas: as child processes, or as Ray actors."""

    async def wait_until_reachable(self) -> None:
        """Return once replicas can be started and stopped; no lease ends meanwhile."""

    def beats(self) -> Sequence[Heartbeat]:
        """Return heartbeats of replicas that do not send their own."""

    async def launch(self, actions: Sequence[ReplicaAction]) -> None:
        """Begin what the state has decided; replicas report their progress by heartbeats."""


class ClusterController:
    """The `Controller` of a cluster, whatever launches its replicas.

    Methods raise what `ClusterState` raises.
    """

    def __init__(self, state: ClusterState, launcher: Launcher) -> None:
        """Begin without ticking; see `ensure_ticking`."""
        self._state = state
        self._launcher = launcher
        self._changed = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None

    async def host(self, owner: str, hosting: Hosting) -> str:
        return self._after(lambda: self._state.host(owner, hosting, time.monotonic()))

    async def release(self, owner: str, stage_id: str) -> None:
        self._after(lambda: self._state.release(owner, stage_id))

    async def renew(self, owner: str) -> frozenset[str]:
        return self._after(lambda: self._state.renew(owner, time.monotonic()))

    async def poll(self, stage_id: str, version: int, wait_s: float) -> StageView | None:
        self.ensure_ticking()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        while True:
            view = self._state.view(stage_id)
            left_s = end_s - loop.time()
            if view is None or view.version != version or left_s <= 0:
                return view
            changed = self._changed
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await changed.wait()

    async def lack(self, stage_id: str) -> str | None:
        return None

    async def report(self, stage_id: str, replica_id: str) -> None:
        self._after(lambda: self._state.report(stage_id, replica_id))

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        self._after(lambda: self._state.scale(stage_id, num_replicas))

    async def stages(self) -> tuple[StageView, ...]:
        return self._state.views()

    async def processes(self) -> tuple[ProcessState, ...]:
        return ()

    async def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()

    def record(self, beat: Heartbeat) -> int:
        """Record a replica's heartbeat; return the target number of replicas of its stage."""
        return self._after(lambda: self._state.beat(beat, time.monotonic()))

    async def tick(self) -> None:
        """Decide, and begin what was decided."""
        for beat in self._launcher.beats():
            self.record(beat)
        await self._launcher.launch(self._after(lambda: self._state.tick(time.monotonic())))

    def ensure_ticking(self) -> None:
        """Start the control loop in the running event loop, unless it runs."""
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().create_task(self._tick_forever())

    def _after(self, change: Callable[[], T]) -> T:
        """Make a change, and wake front ends if it concerns them."""
        self.ensure_ticking()
        before = self._state.num_changes
        result = change()
        if self._state.num_changes != before:
            self._changed.set()
            self._changed = asyncio.Event()
        return result

    async def _tick_forever(self) -> None:
        while True:
            await self._launcher.wait_until_reachable()
            await self.tick()
            await asyncio.sleep(TICK_S)
