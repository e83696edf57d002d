"""Operator access to a cluster of this host: a socket and its token in the server's folder."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Self

from antiphon.errors import ReplicaLostError
from antiphon.fabric.cluster.base import ClusterControl, StageSummary
from antiphon.fabric.cluster.runtime_folder import runtime_folders
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, connect

_SOCKET = "control.sock"
_TOKEN = "control.token"


class ControlServer:
    """RPC server of `antiphon scale`."""

    def __init__(self, cluster: ClusterControl) -> None:
        """Begin without an address, and with a token of its own."""
        self._cluster = cluster
        self._token = secrets.token_hex(32)
        self._server = RpcServer(self._welcome, self._token)

    async def serve(self, folder: Path) -> None:
        """Listen in a folder that only this user can enter, with the token in a file beside it."""
        file = os.open(folder / _TOKEN, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "w", encoding="ascii") as token:
            token.write(self._token)
        await self._server.serve(f"unix:{folder / _SOCKET}")

    async def close(self) -> None:
        """Stop listening."""
        await self._server.close()

    def _welcome(self, peer: RpcPeer) -> RpcHandlers:
        return RpcHandlers(calls={"stages": self._cluster.stages, "scale": self._cluster.scale})


class ControlClient:
    """The `ClusterControl` of a server of this host."""

    def __init__(self, peer: RpcPeer) -> None:
        """Use a connection to a `ControlServer`."""
        self._peer = peer

    @classmethod
    async def connect_all(cls) -> tuple[Self, ...]:
        """Connect to all servers of this user that run stages in child processes."""
        found = []
        for folder in runtime_folders():
            with suppress(OSError, ReplicaLostError):  # of a server that was killed, or is starting
                token = (folder / _TOKEN).read_text(encoding="ascii")
                found.append(cls(await connect(f"unix:{folder / _SOCKET}", token)))
        return tuple(found)

    async def stages(self) -> tuple[StageSummary, ...]:
        """Return all stages of the server."""
        found: tuple[StageSummary, ...] = await self._peer.call("stages")
        return found

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Set the number of replicas of a stage; return when the removed ones have been drained.

        Raises:
            InvalidRequestError: there is no such stage, or its bounds do not allow so many.
        """
        await self._peer.call("scale", stage_id, num_replicas)

    def close(self) -> None:
        """End the connection."""
        self._peer.close()
