"""Server of a process's stages to front ends and to stages that pull from them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.prompt import Piece
from antiphon.errors import InvalidRequestError, ReplicaLostError
from antiphon.fabric.base import Placement
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.loading import ProgressNews, ProgressRelay
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, WireTls
from antiphon.fabric.wire.stage_client import StageConnections, split_handle
from antiphon.fabric.wire.status_push import StatusPusher
from antiphon.fabric.wire.text_buffer import PendingText, RequestKey
from antiphon.stages.base import StageHandle, StageRequest, StageStream

logger = logging.getLogger(__name__)


class StageServer:
    """Serves what a `LocalFabric` does over connections; see `StageConnection`, the other side.

    A request's upstream may be a stage of this process, by its id, or one of another, by
    ``ADDRESS#ID``, which is dialled. Text for a request may arrive before the request, if another
    process opens it: it is kept for a while. The end of a connection, for any reason, aborts all
    requests that were opened over it; stages that it has hosted stay.
    """

    def __init__(
        self,
        fabric: LocalFabric,
        token: str,
        *,
        tls: WireTls | None = None,
        on_change: Callable[[], object] | None = None,
    ) -> None:
        """Begin without an address.

        Args:
            fabric: fabric that hosts the stages; stages that it has already are served too.
            tls: TLS of TCP addresses and of outgoing connections; ``None``: unencrypted.
            on_change: callback when stages were loaded or released, before it is reported.
        """
        self._fabric = fabric
        self._on_change = on_change
        self._server = RpcServer(self._welcome, token, tls=tls)
        self._others = StageConnections(token, tls=tls)
        self._statuses = StatusPusher(fabric, self._server.peers)
        self._addresses: set[str] = set()
        self._texts = PendingText()
        self._opened: dict[RequestKey, asyncio.Task[object]] = {}
        self._begun: set[RequestKey] = set()
        self._releasing: set[asyncio.Task[None]] = set()
        self._pushing: asyncio.Task[None] | None = None
        fabric.open_remote = self._others.open

    async def serve(self, address: str) -> str:
        """Listen at ``unix:PATH`` or ``tcp:HOST:PORT`` until `close`; return the bound address.

        Raises:
            SettingsError: it is no address, its folder is open to others, or there is no token.
            OSError: it is taken, or not ours.
        """
        if self._pushing is None:
            self._pushing = asyncio.create_task(self._statuses.run(), name="push statuses")
        bound = await self._server.serve(address)
        self._addresses.add(bound)
        return bound

    async def close(self) -> None:
        """Stop listening, end every connection, and with them all requests; stages stay loaded."""
        if self._pushing is not None:
            self._pushing.cancel()
            self._pushing = None
        await self._server.close()
        self._others.close()
        if self._opened:
            await asyncio.wait(self._opened.values())

    def _welcome(self, peer: RpcPeer) -> RpcHandlers:
        self._statuses.greet(peer)
        return RpcHandlers(
            calls={"release": self._release},
            streams={"host": self._host, "open": self._open},
            notices={"append": self._append, "abort": self._abort},
        )

    async def _host(
        self, specs: Sequence[StageSpec], context: LoadContext
    ) -> AsyncGenerator[ProgressNews | str, None]:
        progress = ProgressRelay()
        context = replace(context, progress=progress.note)
        loading = asyncio.create_task(self._fabric.host(specs, context, Placement()))
        is_wanted = False
        try:
            async for news in progress.news(loading):
                yield news
            handle = loading.result()
            self._note_change()
            self._statuses.push()  # before the answer, so that it is known by then
            is_wanted = True
            yield handle.id
        finally:
            if not is_wanted:  # loading cannot be interrupted: its stages are unloaded afterwards
                releasing = asyncio.create_task(self._release_when_loaded(loading))
                self._releasing.add(releasing)
                releasing.add_done_callback(self._releasing.discard)

    async def _release_when_loaded(self, loading: "asyncio.Task[StageHandle]") -> None:
        await asyncio.wait([loading])
        if not loading.cancelled() and loading.exception() is None:
            await self._fabric.release(loading.result())
            self._note_change()

    async def _release(self, stage: str) -> None:
        if (handle := StageHandle(stage)) in self._fabric.handles:
            await self._fabric.release(handle)
            self._note_change()
            self._statuses.push()

    def _note_change(self) -> None:
        if self._on_change is not None:
            self._on_change()

    async def _open(self, stage: str, request: StageRequest) -> StageStream:
        if StageHandle(stage) not in self._fabric.handles:
            raise ReplicaLostError(f"There is no stage '{stage}' here.")
        if request.upstream:
            request = replace(request, upstream=self._resolved(request.upstream))
        names = (stage, *(each.id for each in request.upstream if not split_handle(each)[0]))
        keys = [(name, request.id) for name in names]
        await self._wait_until_closed(keys)
        task = asyncio.current_task()
        assert task is not None
        self._opened.update(dict.fromkeys(keys, task))
        try:
            async with aclosing(self._fabric.open(StageHandle(stage), request)) as items:
                # Runs as soon as the stream waits for its first item: its stage knows it by then.
                asyncio.get_running_loop().call_soon(self._begin, keys)
                async for item in items:
                    yield item
        finally:
            for key in keys:
                del self._opened[key]
                self._begun.discard(key)
                self._texts.end(key)

    async def _wait_until_closed(self, keys: Sequence[RequestKey]) -> None:
        """Wait for streams of the same id that their reader has closed: they free what they hold.

        Raises:
            InvalidRequestError: one of them is still wanted.
        """
        for key in keys:
            while (task := self._opened.get(key)) is not None:
                if not task.cancelling():
                    raise InvalidRequestError(f"A request '{key[1]}' is open already.", param="id")
                await asyncio.wait([task])

    def _begin(self, keys: Sequence[RequestKey]) -> None:
        """Hand over text that came before its request."""
        for key in keys:
            if key in self._opened:
                self._begun.add(key)
                for piece in self._texts.take(key):
                    self._fabric.append(StageHandle(key[0]), key[1], piece)

    def _append(self, stage: str, request_id: str, piece: Piece) -> None:
        key = stage, request_id
        if key in self._begun:
            self._fabric.append(StageHandle(stage), request_id, piece)
        else:
            self._texts.add(key, piece)

    def _abort(self, stage: str, request_id: str) -> None:
        if (stage, request_id) in self._begun:
            self._fabric.abort(StageHandle(stage), request_id)

    def _resolved(self, upstream: Sequence[StageHandle]) -> tuple[StageHandle, ...]:
        """Return handles as this process knows them; its own stages need no address.

        Of stages before one of another process it is that one which opens them: they keep theirs.
        """
        resolved = list(upstream)
        for number, handle in reversed([*enumerate(upstream)]):
            address, stage = split_handle(handle)
            if address and address not in self._addresses:
                break
            resolved[number] = StageHandle(stage)
        return tuple(resolved)
