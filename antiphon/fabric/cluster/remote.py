"""RPC of a cluster's controller, which several processes use."""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from antiphon.errors import ReplicaLostError
from antiphon.fabric.cluster.base import Controller, Hosting, StageView
from antiphon.fabric.cluster.client import RELEASE_S, ClusterClient
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.runtime_folder import runtime_folders
from antiphon.fabric.wire.frames import WireLimits
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, connect
from antiphon.telemetry.process_state import ProcessState

Call: TypeAlias = Callable[..., Awaitable[Any]]
_SOCKET = "control.sock"  # of operators, in the server's folder
_TOKEN = "control.token"


class RemoteController:
    """The `Controller` of another process, by a function that calls its methods by name."""

    def __init__(self, call: Call) -> None:
        """Use ``call(method, *arguments)``."""
        self.call = call

    async def host(self, owner: str, hosting: Hosting) -> str:
        stage_id: str = await self.call("host", owner, hosting)
        return stage_id

    async def release(self, owner: str, stage_id: str) -> None:
        await self.call("release", owner, stage_id)

    async def renew(self, owner: str) -> frozenset[str]:
        known: frozenset[str] = await self.call("renew", owner)
        return known

    async def poll(self, stage_id: str, version: int, wait_s: float) -> StageView | None:
        view: StageView | None = await self.call("poll", stage_id, version, wait_s)
        return view

    async def lack(self, stage_id: str) -> str | None:
        found: str | None = await self.call("lack", stage_id)
        return found

    async def report(self, stage_id: str, replica_id: str) -> None:
        await self.call("report", stage_id, replica_id)

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        await self.call("scale", stage_id, num_replicas)

    async def stages(self) -> tuple[StageView, ...]:
        views: tuple[StageView, ...] = await self.call("stages")
        return views

    async def processes(self) -> tuple[ProcessState, ...]:
        states: tuple[ProcessState, ...] = await self.call("processes")
        return states

    async def close(self) -> None:
        """Do nothing: there is no connection of its own."""


class WireController(RemoteController):
    """The `Controller` behind an `RpcServer`, over a connection that is made again if it is lost,
    such as after one of the processes was suspended."""

    def __init__(self, connect: Callable[[], Awaitable[RpcPeer]]) -> None:
        """Begin without a connection."""
        super().__init__(self._call_peer)
        self._connect = connect
        self._turn = asyncio.Lock()
        self._peer: RpcPeer | None = None
        self._is_closed = False

    async def open(self) -> RpcPeer:
        """Return an open connection; raises ReplicaLostError."""
        async with self._turn:
            if self._peer is None or (self._peer.lost is not None and not self._is_closed):
                self._peer = await self._connect()
            return self._peer

    async def close(self) -> None:
        self._is_closed = True
        if self._peer is not None:
            self._peer.close()

    async def _call_peer(self, method: str, *arguments: Any) -> Any:
        return await (await self.open()).call(method, *arguments)


def calls_of(controller: Controller) -> dict[str, Call]:
    return {
        "host": controller.host,
        "release": controller.release,
        "renew": controller.renew,
        "poll": controller.poll,
        "lack": controller.lack,
        "report": controller.report,
        "scale": controller.scale,
        "stages": controller.stages,
        "processes": controller.processes,
    }


@asynccontextmanager
async def served_to_front_ends(
    cluster: ClusterClient,
    address: str,
    token: str,
    *,
    keeps: bool,
    others: Callable[[], Sequence[ProcessState]] = tuple,
    on_silent: Callable[[int], None],
    limits: WireLimits | None = None,
) -> AsyncGenerator[None, None]:
    """Serve a cluster to the front ends of this process until the block ends.

    Args:
        keeps: whether stages stay loaded for the successor of a front end, even if they are
            released: this process hosts them too.
        others: callback that returns the states of the server's other processes.
        on_silent: callback with the id of a process that no longer answers.
    """
    controller = cluster.controller

    async def host(owner: str, hosting: Hosting) -> str:
        stage_id = await controller.host(owner, hosting)
        if keeps:
            cluster.keep(hosting)
        return stage_id

    async def processes() -> tuple[ProcessState, ...]:
        return (*others(), *await controller.processes())

    def welcome(peer: RpcPeer) -> RpcHandlers:
        pids: list[int] = []

        def on_lost() -> None:
            if peer.connection.is_silent and pids:
                on_silent(pids[0])

        return RpcHandlers(
            calls={**calls_of(controller), "host": host, "processes": processes},
            notices={"introduce": pids.append},
            on_lost=on_lost,
        )

    server = RpcServer(welcome, token, limits=limits)
    await server.serve(address)
    try:
        yield
    finally:
        await server.close()


async def connected_to_parent(
    address: str, token: str, limits: ClusterLimits | None = None
) -> ClusterClient:
    """Return a front end's access to its parent's cluster; raises ReplicaLostError."""

    async def introduced() -> RpcPeer:
        peer = await connect(address, token)
        peer.notify("introduce", os.getpid())
        return peer

    controller = WireController(introduced)
    await controller.open()
    return ClusterClient(controller, limits, release_s=RELEASE_S)


@asynccontextmanager
async def served_to_operators(controller: Controller, folder: Path) -> AsyncGenerator[None, None]:
    """Serve `antiphon scale` until the block ends, in a folder that only this user can enter."""
    token = secrets.token_hex(32)
    with open(os.open(folder / _TOKEN, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token)
    handlers = RpcHandlers(calls={"stages": controller.stages, "scale": controller.scale})
    server = RpcServer(lambda _: handlers, token)
    await server.serve(f"unix:{folder / _SOCKET}")
    try:
        yield
    finally:
        await server.close()


async def connected_to_servers() -> tuple[WireController, ...]:
    """Return the controllers of all servers of this user that run stages in child processes."""
    found = []
    for folder in runtime_folders():
        with suppress(OSError, ReplicaLostError):  # of a server that was killed, or is starting
            token = (folder / _TOKEN).read_text(encoding="ascii")
            controller = WireController(partial(connect, f"unix:{folder / _SOCKET}", token))
            await controller.open()
            found.append(controller)
    return tuple(found)
