"""Client of the stages of another process, over one connection."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Self

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.prompt import Piece
from antiphon.errors import ReplicaLostError
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import WireTls, connect
from antiphon.stages.base import StageHandle, StageRequest, StageStream
from antiphon.telemetry.stage_status import StageStatus


def remote_handle(address: str, stage: str) -> StageHandle:
    """Return the handle by which any stage process finds a stage of another, as an upstream."""
    return StageHandle(f"{address}#{stage}")


def split_handle(handle: StageHandle) -> tuple[str, str]:
    """Return the address in a handle ("" if there is none) and the id of the stage."""
    address, _, stage = handle.id.rpartition("#")
    return address, stage


class StageConnection:
    """One process's connection to a `StageServer`; used in the event loop that has connected.

    When it has ended, for any reason, every open stream of it raises `ReplicaLostError` after the
    items that were received; its owner connects again.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._peer: RpcPeer
        self._statuses: dict[str, StageStatus] = {}
        self._greeted = asyncio.Event()

    @classmethod
    async def connect(cls, address: str, token: str, *, tls: WireTls | None = None) -> Self:
        """Connect to ``unix:PATH`` or ``tcp:HOST:PORT``; raises SettingsError or ReplicaLostError.

        Args:
            tls: TLS of a TCP address; ``None``: unencrypted.
        """
        made = cls(address)
        handlers = RpcHandlers(
            notices={"status": made._note_status, "greeted": made._greeted.set},
            on_lost=made._greeted.set,
        )
        made._peer = await connect(address, token, handlers, tls=tls)
        await made._greeted.wait()  # all statuses have come
        if made.lost is not None:
            raise made.lost
        return made

    @property
    def closed(self) -> asyncio.Event:
        """Set when the connection has ended."""
        return self._peer.closed

    @property
    def lost(self) -> ReplicaLostError | None:
        """Why the connection has ended; ``None`` while it is open."""
        return self._peer.lost

    async def host(self, specs: Sequence[StageSpec], context: LoadContext) -> str:
        """Load stages into the process with a context; return the id by which it knows them.

        The progress of loading is reported to ``context.progress``, in this event loop.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
            ReplicaLostError: the connection has ended.
        """
        sent = replace(context, progress=None)
        async with aclosing(self._peer.stream("host", tuple(specs), sent)) as news:
            async for item in news:
                match item:
                    case (part, done, total):
                        if context.progress is not None:
                            context.progress(part, done, total)
                    case str():
                        return item
        raise ReplicaLostError("The process has ended the loading.")

    async def release(self, stage: str) -> None:
        """Unload stages; does nothing if the process does not have them."""
        await self._peer.call("release", stage)

    def open(self, stage: str, request: StageRequest) -> StageStream:
        """Open a request at a stage; see `Fabric.open`; raises AntiphonError or ReplicaLostError.

        ``request.upstream`` names stages of that process by their ids, and those of others by
        `remote_handle`. An id that is opened again after its stream was closed, with text that
        arrives, should be a new one: text for the former may still be on its way.
        """
        return self._peer.stream("open", stage, request, order=request.id)

    def append(self, stage: str, request_id: str, piece: Piece) -> None:
        """Append text to a request, whether it is opened by this connection or by another.

        Does nothing if it, or the connection, has ended.
        """
        self._peer.notify("append", stage, request_id, piece, order=request_id)

    def abort(self, stage: str, request_id: str) -> None:
        """End an open request by `Ended` with the reason "abort"."""
        self._peer.notify("abort", stage, request_id, order=request_id)

    def status(self, stage: str) -> StageStatus:
        """Return the last status that the stage has published; the empty status before the first.

        The beginning of a step under way is on this host's clock.
        """
        return self._statuses.get(stage, _NO_STATUS)

    def close(self) -> None:
        """End the connection, and every stream of it."""
        self._peer.close()

    def _note_status(self, stage: str, status: StageStatus | None, now_s: float) -> None:
        if status is None:
            self._statuses.pop(stage, None)
            return
        if status.stats is None:  # unchanged
            status = replace(status, stats=self.status(stage).stats)
        if status.step_began_s is not None:
            ago_s = now_s - status.step_began_s
            status = replace(status, step_began_s=time.monotonic() - ago_s)
        self._statuses[stage] = status


_NO_STATUS = StageStatus()


class StageConnections:
    """Connections by address, each made when it is first needed and again when it was lost."""

    def __init__(self, token: str, *, tls: WireTls | None = None) -> None:
        """Begin without a connection; the arguments are those of `StageConnection.connect`."""
        self._token = token
        self._tls = tls
        self._connections: dict[str, StageConnection] = {}
        self._dialling: dict[str, asyncio.Task[StageConnection]] = {}

    async def get(self, address: str) -> StageConnection:
        """Return a connection to an address that is open; raises ReplicaLostError."""
        found = self._connections.get(address)
        if found is not None and found.lost is None:
            return found
        if (dialling := self._dialling.get(address)) is None:
            dialling = asyncio.create_task(self._dial(address), name=f"connect to {address}")
            self._dialling[address] = dialling
            dialling.add_done_callback(partial(self._dialled, address))
        return await asyncio.shield(dialling)

    async def open(self, handle: StageHandle, request: StageRequest) -> StageStream:
        """Open a request at a stage that `remote_handle` names."""
        address, stage = split_handle(handle)
        connection = await self.get(address)
        async with aclosing(connection.open(stage, request)) as items:
            async for item in items:
                yield item

    def close(self) -> None:
        for dialling in self._dialling.values():
            dialling.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _dialled(self, address: str, dialling: "asyncio.Task[StageConnection]") -> None:
        self._dialling.pop(address, None)
        if not dialling.cancelled():
            dialling.exception()  # retrieved: the waiters may have given up

    async def _dial(self, address: str) -> StageConnection:
        made = await StageConnection.connect(address, self._token, tls=self._tls)
        self._connections[address] = made
        return made
