"""An operator's door to a cluster of this host: a socket that its server keeps in its folder."""

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from antiphon.errors import ReplicaLostError
from antiphon.fabric.cluster import ClusterControl, StageSummary
from antiphon.fabric.runtime_folder import FOLDER_PREFIX
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, connect

_SOCKET = "control.sock"
_NO_TOKEN = ""
"""Nobody but the server's own user can enter the folder of the socket."""


class ControlServer:
    """Serves what `antiphon scale` does."""

    def __init__(self, cluster: ClusterControl) -> None:
        """Begin without an address."""
        self._cluster = cluster
        self._server = RpcServer(self._welcome, _NO_TOKEN)

    async def serve(self, folder: Path) -> None:
        """Listen in a folder that nobody else can enter."""
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
        """Connect to all servers of this user that run stages in processes of their own."""
        found = []
        for path in sorted(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*/{_SOCKET}")):
            with suppress(ReplicaLostError):  # another user's, or of a server that was killed
                found.append(cls(await connect(f"unix:{path}", _NO_TOKEN)))
        return tuple(found)

    async def stages(self) -> tuple[StageSummary, ...]:
        """Return all stages of the server."""
        found: tuple[StageSummary, ...] = await self._peer.call("stages")
        return found

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Set how many replicas a stage has; returns when those that leave have been drained.

        Raises:
            InvalidRequestError: there is no such stage, or its bounds do not allow so many.
        """
        await self._peer.call("scale", stage_id, num_replicas)

    def close(self) -> None:
        """End the connection."""
        self._peer.close()
