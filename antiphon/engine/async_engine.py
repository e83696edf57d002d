"""The engine's thread and its asyncio face: a request is a stream, and closing it aborts it."""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from antiphon.engine.core import EngineCore
from antiphon.engine.faults import fault_of
from antiphon.engine.heartbeat import Heartbeat
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import Runner
from antiphon.engine.scheduler import EngineEvent, SchedulerLimits
from antiphon.engine.scheduling_policy import PlaybackPolicy
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.models.base import Piece, Prompt
from antiphon.types import AudioChunk, Ended

_Item: TypeAlias = EngineEvent | AntiphonError

logger = logging.getLogger(__name__)

_QUIET_S = 0.5  # without work, after which there is time for more


@dataclass(frozen=True, slots=True)
class _Mailbox:
    """Where a request's events go: a queue that lives on the listener's event loop."""

    loop: asyncio.AbstractEventLoop
    items: "asyncio.Queue[_Item]"


@dataclass(frozen=True, slots=True)
class _Add:
    request: EngineRequest
    mailbox: _Mailbox


@dataclass(frozen=True, slots=True)
class _Append:
    request_id: str
    piece: Piece


@dataclass(frozen=True, slots=True)
class _Read:
    request_id: str
    num_frames: int


@dataclass(frozen=True, slots=True)
class _Abort:
    request_id: str


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Command: TypeAlias = _Add | _Append | _Read | _Abort | _Stop


class AsyncEngine:
    """Runs an `EngineCore` in a thread of its own."""

    def __init__(
        self,
        runner: Runner,
        *,
        name: str = "engine",
        limits: SchedulerLimits | None = None,
        policy: PlaybackPolicy | None = None,
    ) -> None:
        """Start the thread.

        Args:
            runner: computes the steps; closed with the engine.
            name: of the thread.
            limits: of what is let in and worked on.
            policy: of whom a step serves.
        """
        self._core = EngineCore(runner, limits=limits, policy=policy)
        self.heartbeat = Heartbeat()
        self._inbox: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._mailboxes: dict[str, _Mailbox] = {}
        self._outbox: list[tuple[_Mailbox, _Item]] = []
        self._open_ids: set[str] = set()  # set operations are atomic: loops may share the engine
        self._failure: str | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """What broke the engine, or ``None`` while it works."""
        return self._failure

    async def generate(
        self, request_id: str, prompt: Prompt, *, is_live: bool = True
    ) -> AsyncGenerator[EngineEvent, None]:
        """Stream a request's audio, or its frames if they are decoded elsewhere; last its `Ended`.

        Args:
            request_id: names it.
            prompt: what it says.
            is_live: whether somebody listens meanwhile; else it is bulk work, which waits for those
                that somebody listens to.

        Raises:
            InvalidRequestError: a request of this id is open already, or it is too long.
            OverloadedError: one stream more would make others stutter.
            EngineError: the engine failed, and every open request is told; or the model failed
                on this request alone. The log says how.
        """
        if request_id in self._open_ids:
            raise InvalidRequestError(f"A request '{request_id}' is open already.", param="id")
        if not self._failure:
            self._core.scheduler.check(prompt, is_live=is_live)
        self._open_ids.add(request_id)
        mailbox = _Mailbox(asyncio.get_running_loop(), asyncio.Queue())
        self._inbox.put(_Add(EngineRequest(request_id, prompt, is_live), mailbox))
        is_over = False
        try:
            if self._is_closed:  # looked at after the letter is posted: else it may lie there
                raise EngineError("The engine has been closed.")
            while True:
                item = await mailbox.items.get()
                is_over = isinstance(item, Ended | AntiphonError)
                if isinstance(item, AntiphonError):
                    raise item
                if isinstance(item, Ended):
                    if item.reason == "error":
                        whole = "The model has failed." if self._failure else "The model failed."
                        raise EngineError(whole)
                    yield item
                    return
                num_frames = item.num_frames if isinstance(item, AudioChunk) else 1
                self._inbox.put(_Read(request_id, num_frames))
                yield item
        finally:
            if not is_over:
                self._inbox.put(_Abort(request_id))
            self._open_ids.discard(request_id)  # after it: the id may be another's at once

    def append(self, request_id: str, piece: Piece) -> None:
        """Give a request more text; does nothing if it has ended."""
        self._inbox.put(_Append(request_id, piece))

    async def close(self) -> None:
        """Abort everything and join the thread."""
        self._is_closed = True
        self._inbox.put(_Stop())
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        if (fault := fault_of(self._run_steps)) is not None:
            logger.error("the engine failed", exc_info=fault)
            self._failure = f"{type(fault).__name__}: {fault}"
        self._end_all()
        self._core.runner.close()

    def _run_steps(self) -> None:
        while self._take_commands():
            with self.heartbeat.step():
                events = self._core.step()
            for request_id, event in events:
                self._tell(request_id, event)
            self._deliver()

    def _take_commands(self) -> bool:
        """Carry out what arrives until it is time for a step; False means stop."""
        while True:
            wait_s = self._core.wait_s()
            if wait_s != 0.0:
                self._deliver()
            try:
                if wait_s is None:
                    command = self._next_command()
                else:
                    command = self._inbox.get(block=wait_s != 0.0, timeout=wait_s or None)
            except queue.Empty:
                return True
            if isinstance(command, _Stop):
                self._core.scheduler.check_integrity()
                return False
            self._carry_out(command)
            self._core.wake()

    def _next_command(self) -> _Command:
        """Wait for something to happen; look into the books when nobody has to wait for that."""
        try:
            return self._inbox.get(timeout=_QUIET_S)
        except queue.Empty:
            self._core.scheduler.check_integrity()
            return self._inbox.get()

    def _carry_out(self, command: _Add | _Append | _Read | _Abort) -> None:
        scheduler = self._core.scheduler
        if isinstance(command, _Read):
            scheduler.read(command.request_id, command.num_frames)
        elif isinstance(command, _Append):
            scheduler.append(command.request_id, command.piece)
        elif isinstance(command, _Add):
            request = command.request
            self._deliver()  # to one before of the same id, which may have just been aborted
            self._mailboxes[request.id] = command.mailbox
            try:
                scheduler.add(request)
            except AntiphonError as error:
                self._tell(request.id, error)
        elif scheduler.abort(command.request_id):
            self._tell(command.request_id, Ended("abort"))

    def _tell(self, request_id: str, item: _Item) -> None:
        mailbox = self._mailboxes[request_id]
        if isinstance(item, Ended | AntiphonError):
            del self._mailboxes[request_id]
        self._outbox.append((mailbox, item))

    def _deliver(self) -> None:
        """Hand out what there is to tell: one call for each event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Mailbox, _Item]]] = {}
        for mailbox, item in self._outbox:
            by_loop.setdefault(mailbox.loop, []).append((mailbox, item))
        self._outbox.clear()
        for loop, letters in by_loop.items():
            try:
                loop.call_soon_threadsafe(_put_all, letters)
            except RuntimeError:  # the listeners' loop is closed: nobody is left to tell
                self._forget(loop)

    def _forget(self, loop: asyncio.AbstractEventLoop) -> None:
        for request_id, mailbox in tuple(self._mailboxes.items()):
            if mailbox.loop is loop:
                del self._mailboxes[request_id]
                self._core.scheduler.abort(request_id)

    def _end_all(self) -> None:
        """Tell every request that it is over, and go on answering those that still arrive."""
        reason: Ended = Ended("error" if self._failure else "abort")
        for request_id in tuple(self._mailboxes):
            self._tell(request_id, reason)
        self._deliver()
        while self._failure:
            command = self._inbox.get()
            if isinstance(command, _Stop):
                return
            if isinstance(command, _Add):
                self._mailboxes[command.request.id] = command.mailbox
                self._tell(command.request.id, reason)
                self._deliver()


def _put_all(letters: Sequence[tuple[_Mailbox, _Item]]) -> None:
    for mailbox, item in letters:
        mailbox.items.put_nowait(item)
