"""Replica of a stage as a Ray actor, which Ray places and restarts.

Ray carries no data: the actor's process listens like any other stage process, and sends a heartbeat
to the controller every second.
"""

import asyncio
import logging
import os
import threading
import uuid
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError

from antiphon.concurrency import set_interpreter_for_streams, settle_heap
from antiphon.errors import EngineError, ModelLoadError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Heartbeat, Replica
from antiphon.fabric.cluster.ray_client import end_with_raylet
from antiphon.fabric.cluster.ray_placement import own_context
from antiphon.fabric.cluster.ray_plan import ReplicaTask
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.stage_server import StageServer
from antiphon.stages.base import StageHandle
from antiphon.telemetry.stage_status import StageStatus

logger = logging.getLogger(__name__)

_ANSWER_S = 5.0
BEAT_S = 1.0
"""Period of heartbeats; changes of a replica are reported after half of it on average."""


class RayReplica:
    """Actor with its own event loop in a thread, so that no Ray call waits for it."""

    def __init__(self, task: ReplicaTask, controller: Any) -> None:
        """Begin to load; called by Ray, in a fresh process each time."""
        self._task = task
        self._controller = controller
        self._process = f"{task.name}/{uuid.uuid4().hex[:12]}"
        self._node = ray.get_runtime_context().get_node_id()
        self._host = ray.util.get_node_ip_address()
        end_with_raylet()
        self._num_wanted = task.hosting.placement.num_replicas
        self._replica: Replica | None = None
        self._failure: str | None = None
        self._fabric = LocalFabric(task.plan.build.resolve())
        self._handle: StageHandle | None = None
        threading.Thread(target=self._run, name="stage", daemon=True).start()

    def ping(self) -> tuple[str, int]:
        """Return Ray's id of the node and the process id, also while stages are loaded."""
        return self._node, os.getpid()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            logger.error("%s ends", self._task.name, exc_info=True)
            os._exit(1)  # Ray starts another process; a half-dead one would keep its streams

    async def _serve(self) -> None:
        set_interpreter_for_streams()
        beating = asyncio.create_task(self._beat_forever())
        server = StageServer(self._fabric, self._task.plan.token, tls=self._task.plan.tls)
        address = await server.serve(f"tcp:{self._host}:0")
        hosting = self._task.hosting
        try:
            handle = await self._fabric.host(hosting.specs, own_context(hosting), Placement())
        except ModelLoadError as error:
            self._failure = error.message
        else:
            settle_heap()
            self._handle = handle
            self._replica = Replica(self._process, address, handle.id, self._host)
        await beating

    async def _beat_forever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_ANSWER_S):  # calls block while Ray restarts it
                    self._num_wanted = await self._controller.beat.remote(self._beat())
            except (RayError, TimeoutError) as error:
                logger.warning("%s cannot reach the controller: %s", self._task.name, error)
            await asyncio.sleep(BEAT_S)
            self._check_engine()

    def _check_engine(self) -> None:
        """End the process if its engine has failed or hangs; raises EngineError."""
        if self._handle is not None:
            fault = self._fabric.status(self._handle).fault(self._task.plan.limits.stall_s)
            if fault is not None:
                raise EngineError(f"The engine has failed: {fault}")

    def _beat(self) -> Heartbeat:
        handle = self._handle
        status = StageStatus() if handle is None else self._fabric.status(handle)
        return Heartbeat(
            name=self._task.name,
            hosting=self._task.hosting,
            process=self._process,
            num_wanted=self._num_wanted,
            node=self._node,
            bundle=self._task.bundle,
            replica=self._replica,
            status=replace(status, stats=None),  # front ends get them from the stage itself
            failure=self._failure,
        )
