"""Pushes what stages publish to the processes that are connected, a few times a second."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace

from antiphon.fabric.base import StageHandle
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.rpc import RpcPeer
from antiphon.telemetry.stage_status import StageStatus

STATUS_S = 0.05
"""Between two looks at what stages have published: an engine does so twice a step."""


class StatusPusher:
    """Sends each status that has changed; statistics, which are large, only if they have too."""

    def __init__(self, fabric: LocalFabric, peers: Collection[RpcPeer]) -> None:
        """Begin with nothing sent; ``peers`` is looked at each time."""
        self._fabric = fabric
        self._peers = peers
        self._sent: dict[StageHandle, StageStatus] = {}

    async def run(self) -> None:
        """Push what changes, for ever."""
        while True:
            self.push()
            await asyncio.sleep(STATUS_S)

    def push(self) -> None:
        """Send to all what has changed since the last time."""
        handles = self._fabric.handles
        for gone in self._sent.keys() - set(handles):
            del self._sent[gone]
            self._send(gone, None)
        for handle in handles:
            status, sent = self._fabric.status(handle), self._sent.get(handle)
            if status is not sent:
                self._sent[handle] = status
                is_known = sent is not None and sent.stats is status.stats
                self._send(handle, replace(status, stats=None) if is_known else status)

    def greet(self, peer: RpcPeer) -> None:
        """Send all of it to a process that has just connected."""
        self.push()
        for handle, status in self._sent.items():
            peer.notify("status", handle.id, status, time.monotonic())
        peer.notify("greeted")

    def _send(self, handle: StageHandle, status: StageStatus | None) -> None:
        for peer in self._peers:
            peer.notify("status", handle.id, status, time.monotonic())
