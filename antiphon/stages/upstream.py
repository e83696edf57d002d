"""Stages of whole prompts, and reading of the stage before until a request is aborted."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import Any, TypeAlias

from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.picture_types import Progress
from antiphon.contracts.prompt import Admitted, Piece
from antiphon.contracts.types import Ended, FrameReady, Latents
from antiphon.engine.thread import ThreadedEngine
from antiphon.stages.base import StageItem, StageStream

Consumed: TypeAlias = Admitted | Progress | Latents | Ended


class PromptStage:
    """Base of stages that are given all at once, and aborted while they wait for another one."""

    _engine: ThreadedEngine

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}

    @contextmanager
    def _opened(self, request_id: str) -> Generator[asyncio.Event, None, None]:
        """Return what is set when a request is aborted, for as long as the block lasts."""
        aborted = asyncio.Event()
        with self._lock:
            self._requests[request_id] = asyncio.get_running_loop(), aborted
        try:
            yield aborted
        finally:
            with self._lock:
                if self._requests[request_id][1] is aborted:
                    del self._requests[request_id]

    def append(self, request_id: str, piece: Piece) -> None:
        raise AssertionError("what is asked is complete when it begins")

    def abort(self, request_id: str) -> None:
        """Abort a request, from any event loop; does nothing if it is not open."""
        with self._lock:
            if (found := self._requests.get(request_id)) is not None:
                found[0].call_soon_threadsafe(found[1].set)

    async def close(self) -> None:
        await self._engine.close()


async def consumed(upstream: StageStream, aborted: asyncio.Event) -> AsyncGenerator[Consumed, None]:
    """Yield what a stage is conditioned on, admission and progress; exactly one `Ended`, last.

    Frames of an autoregressive stage are one `Latents`, whose data is the tuple of them, at the
    end. Closes ``upstream``.
    """
    frames: list[Any] = []
    async with aclosing(_until(upstream, aborted)) as items:
        async for item in items:
            match item:
                case FrameReady():
                    frames.append(item.frame)
                case Admitted() | Progress() | Latents():
                    yield item
                case Ended():
                    if frames and item.reason != "abort":
                        yield Latents(tuple(frames))
                    yield item
                    return
    yield Ended("abort")


async def reserved(
    place: StageStream, upstream: StageStream | None
) -> AsyncGenerator[StageItem, None]:
    """Reserve room at the stage before, if there is one, and then here; closes both."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing(place))
        if upstream is not None:
            await stack.enter_async_context(aclosing(upstream))
            await anext(upstream)
        async for admitted in place:
            yield admitted


async def _until(
    items: AsyncGenerator[Any, None], aborted: asyncio.Event
) -> AsyncGenerator[Any, None]:
    """Yield items until an event is set; closes them."""
    async with aclosing(items):
        is_aborted = asyncio.ensure_future(aborted.wait())
        next_item = asyncio.ensure_future(anext(items, None))
        try:
            while True:
                await asyncio.wait((is_aborted, next_item), return_when=asyncio.FIRST_COMPLETED)
                if is_aborted.done() or (item := next_item.result()) is None:
                    return
                yield item
                next_item = asyncio.ensure_future(anext(items, None))
        finally:
            await cancel_and_wait(is_aborted, next_item)
            del next_item  # the traceback of its error refers to this frame
