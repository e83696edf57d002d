"""asyncio interface of the engine: a request is a stream, and closing it aborts it."""

import asyncio
import queue
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.prompt import Admitted, Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, FrameReady, Latents
from antiphon.engine.core import EngineCore
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import PendingStep, Runner
from antiphon.engine.scheduler import EngineEvent, SchedulerLimits
from antiphon.engine.thread import Outbox, StepWaiter, ThreadedEngine, put_all
from antiphon.errors import AntiphonError, EngineError, EngineFailedError, InvalidRequestError
from antiphon.telemetry.stage_status import EngineStats, Publish

_Command: TypeAlias = Callable[[], object] | None
"""Runs in the engine's thread; ``None`` stops the engine."""

_IDLE_S = 0.5  # time without work before integrity is checked
_HAND_OVER_S = 500e-6  # without the interpreter: turns of an event loop until first audio is sent


class AsyncEngine(ThreadedEngine):
    """Runs an `EngineCore` in a thread of its own."""

    def __init__(
        self,
        runner: Runner,
        *,
        name: str = "engine",
        limits: SchedulerLimits | None = None,
        policy: PlaybackPolicy | None = None,
        publish: Publish | None = None,
    ) -> None:
        """Start the thread; it closes ``runner``. ``publish`` receives each change of status."""
        super().__init__(name=name, publish=publish)
        self._core = EngineCore(runner, limits=limits, policy=policy)
        self._admission = self._core.scheduler.admission
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        # Frames that consumers have read since the last step was planned.
        self._reads: deque[tuple[EngineRequest, int]] = deque()
        self._awaits_reads = False
        self._outboxes: dict[str, Outbox[EngineEvent]] = {}
        self._pending: list[tuple[Outbox[EngineEvent], EngineEvent | AntiphonError]] = []
        self._has_unheard = False  # whether the latest request has had no event
        self._open_ids: set[str] = set()  # set operations are atomic: loops may share the engine
        self._has_stopped = False  # the thread has seen that, and waits for no command any more
        self._waiter = StepWaiter(self._note_end, f"{name}-waiter")
        self._start(capacity=self._admission.forecast.num_streams)

    async def generate(
        self,
        request_id: str,
        prompt: Prompt,
        *,
        is_live: bool = True,
        is_later: bool = False,
        pieces: Sequence[Piece] = (),
        resume_frames: Sequence[Any] = (),
        buffered_s: float | None = None,
        returns_frames: bool = False,
    ) -> AsyncGenerator[EngineEvent, None]:
        """Stream a request's audio, or frames that are decoded elsewhere; last its `Ended`.

        Args:
            is_live: whether a client plays the stream while it is made; otherwise it is offline.
            is_later: whether it continues a stream that was admitted, and is not refused.
            pieces: text that has arrived already.
            resume_frames: frames made by another engine; the stream continues after them.
            buffered_s: audio that the client has buffered, in seconds; ``None``: unknown.
            returns_frames: whether audio includes the frames that it was made of.

        Raises:
            InvalidRequestError: a request of this id is open already, or it is too long.
            OverloadedError: one more stream would cause gaps in others.
            EngineFailedError: the engine failed, which ends every open request.
            EngineError: the model failed on this request alone. The log has the cause.
        """
        request = EngineRequest(request_id, prompt, is_live, is_admitted=is_later)
        request.pieces, request.returns_frames = [*pieces], returns_frames
        request.resume(resume_frames, buffered_s)
        if request_id in self._open_ids:
            raise InvalidRequestError(f"A request '{request_id}' is open already.", param="id")
        if not self.failure:
            self._core.scheduler.check(prompt, is_live=is_live, is_admitted=request.is_admitted)
        with self._opened(request) as outbox:
            if self._is_closed:  # read after the command is queued, or it may never be seen
                raise EngineFailedError("The engine has been closed.")
            while not isinstance(item := await outbox.get(), Ended):
                self._note_read(request, item)
                yield item
            if item.reason == "error":
                if self.failure:
                    raise EngineFailedError("The model has failed.")
                raise EngineError("The model failed.")
        yield item

    @contextmanager
    def _opened(self, request: EngineRequest) -> Generator[Outbox[EngineEvent], None, None]:
        """Open a request for as long as the block lasts; abort one that is left before its end."""
        outbox: Outbox[EngineEvent] = Outbox()
        self._open_ids.add(request.id)
        self._publish_open(1)
        self._commands.put(partial(self._add, request, outbox))
        is_over = False
        try:
            yield outbox
            is_over = True
        except AntiphonError:
            is_over = True
            raise
        finally:
            if not is_over:  # a request that the same client sends next finds room at once
                self._admission.leaving.add(request.id, is_live=request.is_live)
                self.abort(request.id)
            self._open_ids.discard(request.id)  # after the abort: the id may be used again at once
            self._publish_open(-1)

    async def reserve(
        self, stream_id: str, *, is_live: bool = True
    ) -> AsyncGenerator[Admitted, None]:
        """Keep room for a stream until `release`, or until this is closed; it has no end.

        Raises:
            OverloadedError: one more stream would cause gaps in others.
            EngineFailedError: the engine failed, or has been closed.
        """
        if self.failure or self._is_closed:
            raise EngineFailedError("The model has failed, or was closed.")
        self._core.scheduler.reserve(stream_id, is_live=is_live)
        self._publish_open(1)
        try:
            yield Admitted()
            await asyncio.Event().wait()
        finally:
            self.release(stream_id)

    def release(self, stream_id: str) -> None:
        """Free the reservation of a stream, if there is one, before a request of it."""
        if self._admission.reserved.remove(stream_id):
            self._publish_open(-1)

    def append(self, request_id: str, piece: Piece) -> None:
        """Add text to a request; does nothing if it has ended."""
        self._commands.put(partial(self._core.scheduler.append, request_id, piece))

    def abort(self, request_id: str) -> None:
        """End a request by an `Ended` with the reason "abort"; does nothing if it has ended."""
        self._commands.put(partial(self._abort, request_id))

    async def close(self) -> None:
        """Abort everything and join the thread."""
        self._is_closed = True
        self._commands.put(None)
        await self._join()

    def _note_end(self, step: PendingStep, ended_s: float) -> None:
        self._commands.put(partial(self._core.note_end, step, ended_s))

    def _note_read(self, request: EngineRequest, item: FrameReady | AudioChunk | Latents) -> None:
        """Record what a consumer has read; wake the engine only if it waits for that."""
        if isinstance(item, Latents):
            return  # the frame beside it is counted
        self._reads.append((request, item.num_frames if isinstance(item, AudioChunk) else 1))
        # Read after the append: the engine sets it before it looks for reads.
        if self._awaits_reads and request.is_unread:
            self._awaits_reads = False
            self._commands.put(self._take_reads)

    def _take_reads(self) -> bool:
        """Pass what consumers have read to the requests; return whether it was anything."""
        has_reads = bool(self._reads)
        while self._reads:
            request, num_frames = self._reads.popleft()
            request.read(num_frames)
        return has_reads

    def _publish_open(self, num_opened: int) -> None:
        capacity = self._admission.forecast.num_streams
        self._status.update(opened=num_opened, capacity=capacity)

    def _snapshot(self) -> EngineStats:
        return self._core.scheduler.snapshot()

    def _work(self) -> None:
        while self._take_commands():
            self._take_reads()
            with self._status.step():
                events = self._core.step()
            for request_id, event in events:
                self._emit(request_id, event)
            self._flush()
            if events and self._has_unheard:
                self._has_unheard = False
                if len(self._outboxes) == 1:  # beside others, the device could run dry
                    time.sleep(_HAND_OVER_S)
            self._publish_stats()

    def _take_commands(self) -> bool:
        """Execute commands until it is time for a step; False means stop."""
        while True:
            wait_s = self._core.wait_s()
            self._awaits_reads = wait_s != 0.0 and self._core.waits_for_readers
            if wait_s != 0.0:
                self._flush()
                self._waiter.watch(self._core.awaited)
                if self._awaits_reads and self._take_reads():
                    continue
            try:
                if wait_s is None:
                    command = self._next_command()
                else:
                    command = self._commands.get(block=wait_s != 0.0, timeout=wait_s or None)
            except queue.Empty:
                return True
            if command is None:
                self._has_stopped = True
                self._core.scheduler.check_integrity()
                return False
            command()
            self._core.wake()

    def _next_command(self) -> _Command:
        """Wait for a command, or a step's end; check integrity once while the engine is idle."""
        if self._core.awaited is not None:
            with self._status.step():  # a device that hangs in its last step is noticed too
                return self._commands.get()
        self._publish_stats(is_idle=True)
        try:
            return self._commands.get(timeout=_IDLE_S)
        except queue.Empty:
            self._core.scheduler.check_integrity()
            return self._commands.get()

    def _add(self, request: EngineRequest, outbox: Outbox[EngineEvent]) -> None:
        self._flush()  # events of an earlier request of this id, which may be aborted by now
        self._outboxes[request.id], self._has_unheard = outbox, True
        if self.failure:
            self._emit(request.id, Ended("error"))
            return
        try:
            self._core.scheduler.add(request)
        except AntiphonError as error:
            self._emit(request.id, error)
            return
        if request.is_last_frame_planned:  # it was resumed with all its frames
            self._core.scheduler.abort(request.id)
            self._emit(request.id, Ended("length"))

    def _abort(self, request_id: str) -> None:
        self._admission.leaving.remove(request_id)
        if not self.failure and self._core.scheduler.abort(request_id):
            self._emit(request_id, Ended("abort"))

    def _emit(self, request_id: str, item: EngineEvent | AntiphonError) -> None:
        outbox = self._outboxes[request_id]
        if isinstance(item, Ended | AntiphonError):
            del self._outboxes[request_id]
        self._pending.append((outbox, item))

    def _flush(self) -> None:
        if not self._pending:
            return
        closed = put_all(self._pending)
        self._pending.clear()
        for request_id, outbox in tuple(self._outboxes.items()) if closed else ():
            if outbox.loop in closed:
                del self._outboxes[request_id]
                self._core.scheduler.abort(request_id)

    def _end_all(self) -> None:
        """End every request; after a failure also those that still arrive, until it is closed."""
        reason: Ended = Ended("error" if self.failure else "abort")
        for request_id in tuple(self._outboxes):
            self._emit(request_id, reason)
        self._flush()
        while not self._has_stopped and (command := self._commands.get()) is not None:
            command()
            self._flush()
        self._waiter.close()
        self._core.runner.close()
