"""Control loop of a cluster: a `ClusterState`, a clock, and a launcher of replicas."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from antiphon.fabric.cluster.base import StageSummary
from antiphon.fabric.cluster.hosting import Beat, Hosting, ReplicaAction, StageView
from antiphon.fabric.cluster.state import ClusterState

T = TypeVar("T")

TICK_S = 0.5
"""Period of the control loop."""


class Launcher(Protocol):
    """Starts, restarts and stops replicas: as child processes, or as Ray actors."""

    async def wait_until_reachable(self) -> None:
        """Return once replicas can be started and stopped; no lease ends meanwhile."""
        ...

    def beats(self) -> Sequence[Beat]:
        """Return heartbeats of replicas that do not send their own."""
        ...

    async def launch(self, actions: Sequence[ReplicaAction]) -> None:
        """Begin what the state has decided; replicas report their progress by heartbeats."""
        ...


class ClusterController:
    """Decides which replicas run, whatever launches them.

    Methods raise what `ClusterState` raises.
    """

    def __init__(self, state: ClusterState, launcher: Launcher) -> None:
        """Begin without ticking; see `ensure_ticking`.

        Args:
            state: stages, replicas and leases.
        """
        self._state = state
        self._launcher = launcher
        self._changed = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None

    async def host(self, owner: str, hosting: Hosting) -> str:
        """Record that a front end uses stages, and start them; return their id."""
        return self._after(lambda: self._state.host(owner, hosting, time.monotonic()))

    async def release(self, owner: str, stage_id: str) -> None:
        """Record that a front end no longer uses a stage."""
        self._after(lambda: self._state.release(owner, stage_id))

    async def renew(self, owner: str) -> frozenset[str]:
        """Renew a front end's lease; return the ids of its stages."""
        return self._after(lambda: self._state.renew(owner, time.monotonic()))

    async def poll(self, stage_id: str, version: int, wait_s: float) -> StageView | None:
        """Return a stage's view when it is not ``version``, at the latest after ``wait_s``.

        ``None``: the stage is not hosted.
        """
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

    async def report(self, stage_id: str, replica_id: str) -> None:
        """Leave out a replica that does not answer a front end, until its next heartbeats."""
        self._after(lambda: self._state.report(stage_id, replica_id))

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Set the number of replicas of a stage.

        Raises:
            InvalidRequestError: there is no such stage, or its bounds do not allow so many.
        """
        self._after(lambda: self._state.scale(stage_id, num_replicas))

    async def summaries(self) -> tuple[StageSummary, ...]:
        """Return all stages, for operators."""
        return self._state.summaries()

    async def beat(self, beat: Beat) -> int:
        """Record a replica's heartbeat; return the number of replicas that its stage is to have."""
        return self.record(beat)

    def record(self, beat: Beat) -> int:
        """Record a heartbeat, as `beat` does."""
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

    def stop_ticking(self) -> None:
        """End the control loop."""
        if self._ticking is not None:
            self._ticking.cancel()

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
