"""The engine's thread and its asyncio face: a request is a stream, and closing it aborts it."""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TypeAlias

from antiphon.engine.core import EngineCore
from antiphon.engine.heartbeat import Heartbeat
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import Runner
from antiphon.engine.scheduler import EngineEvent
from antiphon.errors import EngineError, InvalidRequestError
from antiphon.models.base import Piece, Prompt
from antiphon.types import Ended

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Mailbox:
    """Where a request's events go: a queue that lives on the listener's event loop."""

    loop: asyncio.AbstractEventLoop
    events: "asyncio.Queue[EngineEvent]"


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


@dataclass(frozen=True, slots=True)
class _Abort:
    request_id: str


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Command: TypeAlias = _Add | _Append | _Read | _Abort | _Stop


class AsyncEngine:
    """Runs an `EngineCore` in a thread of its own."""

    def __init__(self, runner: Runner, *, name: str = "engine") -> None:
        self._core = EngineCore(runner)
        self.heartbeat = Heartbeat()
        self._inbox: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._mailboxes: dict[str, _Mailbox] = {}
        self._open_ids: set[str] = set()  # set operations are atomic: loops may share the engine
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """What broke the engine, or ``None`` while it works."""
        return self._failure

    async def generate(self, request_id: str, prompt: Prompt) -> AsyncGenerator[EngineEvent, None]:
        """Stream a request's frames and, last, its `Ended`.

        Raises:
            InvalidRequestError: a request of this id is open already.
            EngineError: the engine failed, and every open request is told; or the model failed
                on this request alone. The log says how.
        """
        if not self._thread.is_alive():
            raise EngineError("The engine has been closed.")
        if request_id in self._open_ids:
            raise InvalidRequestError(f"A request '{request_id}' is open already.", param="id")
        self._open_ids.add(request_id)
        mailbox = _Mailbox(asyncio.get_running_loop(), asyncio.Queue())
        self._inbox.put(_Add(EngineRequest(request_id, prompt), mailbox))
        try:
            while True:
                event = await mailbox.events.get()
                if not isinstance(event, Ended):
                    self._inbox.put(_Read(request_id))
                elif event.reason == "error":
                    whole = "The model has failed." if self._failure else "The model failed."
                    raise EngineError(whole)
                yield event
                if isinstance(event, Ended):
                    return
        finally:
            self._open_ids.discard(request_id)
            self._inbox.put(_Abort(request_id))  # no-op for a request that has ended

    def append(self, request_id: str, piece: Piece) -> None:
        """Give a request more text; does nothing if it has ended."""
        self._inbox.put(_Append(request_id, piece))

    async def close(self) -> None:
        """Abort everything and join the thread."""
        self._inbox.put(_Stop())
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            while self._take_commands():
                if self._core.has_work:
                    with self.heartbeat.step():
                        events = self._core.step()
                    self._deliver(events)
                else:
                    self._core.scheduler.check_integrity()
        except Exception as error:  # the engine's one door for faults
            logger.exception("the engine failed")
            self._failure = f"{type(error).__name__}: {error}"
        self._end_all()
        self._core.runner.close()

    def _take_commands(self) -> bool:
        """Carry out what has arrived, waiting for it if there is no work; False means stop."""
        block = not self._core.has_work
        while True:
            try:
                command = self._inbox.get(block=block)
            except queue.Empty:
                return True
            if isinstance(command, _Stop):
                return False
            self._carry_out(command)
            block = False

    def _carry_out(self, command: _Add | _Append | _Read | _Abort) -> None:
        scheduler = self._core.scheduler
        if isinstance(command, _Add):
            self._mailboxes[command.request.id] = command.mailbox
            scheduler.add(command.request)
        elif isinstance(command, _Append):
            scheduler.append(command.request_id, command.piece)
        elif isinstance(command, _Read):
            scheduler.read(command.request_id)
        elif scheduler.abort(command.request_id):
            self._post(command.request_id, Ended("abort"))

    def _deliver(self, events: list[tuple[str, EngineEvent]]) -> None:
        for request_id, event in events:
            self._post(request_id, event)

    def _post(self, request_id: str, event: EngineEvent) -> None:
        mailbox = self._mailboxes[request_id]
        if isinstance(event, Ended):
            del self._mailboxes[request_id]
        try:
            mailbox.loop.call_soon_threadsafe(mailbox.events.put_nowait, event)
        except RuntimeError:  # the listener's loop is closed: nobody is left to tell
            self._mailboxes.pop(request_id, None)
            self._core.scheduler.abort(request_id)

    def _end_all(self) -> None:
        """Tell every request that it is over, and go on answering those that still arrive."""
        reason: Ended = Ended("error" if self._failure else "abort")
        for request_id in tuple(self._mailboxes):
            self._post(request_id, reason)
        while self._failure:
            command = self._inbox.get()
            if isinstance(command, _Stop):
                return
            if isinstance(command, _Add):
                self._mailboxes[command.request.id] = command.mailbox
                self._post(command.request.id, reason)
