"""Pushes what stages publish to the processes that are connected, a few times a second."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace

from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.rpc import RpcPeer
from antiphon.stages.base import StageHandle
from antiphon.telemetry.stage_status import StageStatus

STATUS_S = 0.05
"""Between two looks at what stages have published: an engine does so twice a step."""

DETAILS_S = 0.25
"""Between two pushes of a status whose load has not changed."""


class StatusPusher:
    """Sends each status that has changed, and statistics, which are large, only if they have."""

    def __init__(self, fabric: LocalFabric, peers: Collection[RpcPeer]) -> None:
        """Begin with nothing sent; ``peers`` is looked at each time."""
        self._fabric = fabric
        self._peers = peers
        self._sent: dict[StageHandle, StageStatus] = {}
        self._sent_s: dict[StageHandle, float] = {}

    async def run(self) -> None:
        """Push what changes, for ever."""
        while True:
            self.push()
            await asyncio.sleep(STATUS_S)

    def push(self) -> None:
        """Send to all what has changed since the last time: at once if it is their load."""
        handles = self._fabric.handles
        for gone in self._sent.keys() - set(handles):
            del self._sent[gone], self._sent_s[gone]
            self._send(gone, None)
        now_s = time.monotonic()
        for handle in handles:
            status, sent = self._fabric.status(handle), self._sent.get(handle)
            if status is sent:
                continue
            if sent is None:
                self._note(handle, status, now_s)
                self._send(handle, status)
            elif _load(status) != _load(sent) or now_s >= self._sent_s[handle] + DETAILS_S:
                self._note(handle, status, now_s)
                is_known = sent.stats is status.stats
                self._send(handle, replace(status, stats=None) if is_known else status)

    def greet(self, peer: RpcPeer) -> None:
        """Send all of it to a process that has just connected."""
        self.push()
        for handle, status in self._sent.items():
            peer.notify("status", handle.id, status, time.monotonic())
        peer.notify("greeted")

    def _note(self, handle: StageHandle, status: StageStatus, now_s: float) -> None:
        self._sent[handle], self._sent_s[handle] = status, now_s

    def _send(self, handle: StageHandle, status: StageStatus | None) -> None:
        for peer in self._peers:
            peer.notify("status", handle.id, status, time.monotonic())


def _load(status: StageStatus) -> tuple[int, int, str | None]:
    """Return what requests are distributed by."""
    return status.num_open, status.capacity, status.failure
