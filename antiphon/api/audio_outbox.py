"""Plays what a conversation has opened to its client, one thing after another.

There is one task that sends audio. It ends each utterance with its end or its error, and when it
is stopped, nothing more of what it had to play is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeAlias

from antiphon.api.encoding import ChunkObserver, EncodedStream, FileEncoding
from antiphon.api.errors import WireError, failures_to
from antiphon.api.middleware import memory_budget
from antiphon.api.sockets import Socket
from antiphon.api.state import ServerState
from antiphon.audio.encode import with_header
from antiphon.contracts.types import Ended, SpeechRequest
from antiphon.errors import InputTooLongError, RateLimitError
from antiphon.formats import AudioFormat
from antiphon.pipeline.speech.text_stream import SpeechSession, Utterance

MAX_WAITING = 1024
"""Things that one client may have waiting to be played: files, and actions after them."""

Action: TypeAlias = Callable[[], Awaitable[None]]


class Listener(Protocol):
    """How a protocol sends one utterance: begin, pieces, then end; or fail, at any time."""

    async def begin(self) -> None:
        """The first piece is ready."""

    async def on_audio(self, piece: bytes) -> None:
        """Here is more of the file, or all of it."""

    async def end(self, ended: Ended) -> None:
        """The file is complete."""

    async def fail(self, error: WireError) -> None:
        """There will be no more of it."""


class AudioOutbox:
    """Playback queue of a client's utterances."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._held = memory_budget.Holding()
        self._session = SpeechSession(server.speech, self._held.add)
        self._waiting: asyncio.Queue[Action] = asyncio.Queue()
        self._playing: asyncio.Task[None] | None = asyncio.create_task(_play(self._waiting))
        self._freeing: set[asyncio.Task[None]] = set()

    @property
    def max_characters(self) -> int:
        """Of one text."""
        return self._server.settings.speech.max_input_characters

    def check_room(self, num_characters: int = 0) -> None:
        """Check that a client may ask for more; called before `open`.

        Raises:
            InputTooLongError: so many characters are too many for one text.
            RateLimitError: too much is waiting.
        """
        if num_characters > self.max_characters:
            raise InputTooLongError(num_characters, self.max_characters)
        num_waiting = self._session.num_characters + num_characters
        if self._waiting.qsize() >= MAX_WAITING or num_waiting > 2 * self.max_characters:
            raise RateLimitError(
                "Too much audio waits to be played. Send more when some of it was played.",
                retry_after_s=1.0,
            )

    def open(
        self,
        request: SpeechRequest,
        listener: Listener,
        format: AudioFormat,
        channels: int = 1,
        *,
        is_whole: bool = False,
        reads_late: bool = True,
        observers: Sequence[ChunkObserver] = (),
    ) -> Utterance:
        """Begin an utterance, played after everything that is waiting; raises InvalidRequestError.

        Args:
            channels: Channels of the file; 1 mixes several down.
            is_whole: Whether the file is sent at its end, in one piece whose header has its length.
            reads_late: whether text is spoken token by token, see `Speech.open`.
        """
        session = self._session
        utterance = session.open(request, reads_late=reads_late)
        rate_hz, encoders = utterance.synthesis.sample_rate_hz, self._server.encoders
        encoding = FileEncoding(format, rate_hz, encoders, channels, is_whole=is_whole)

        async def play() -> None:
            try:
                async with (
                    failures_to(listener.fail, self._server.guards.metrics),
                    aclosing(encoding.pieces(utterance.synthesis.events(), observers)) as pieces,
                ):
                    await _heard(pieces, listener, encoding)
            finally:
                await session.end(utterance)

        self._waiting.put_nowait(play)
        return utterance

    def then(self, action: Action) -> None:
        """Do something after everything that is waiting."""
        self._waiting.put_nowait(action)

    async def clear(self) -> None:
        """Drop all that is waiting or being played; not a byte of it is sent afterwards.

        What it held is freed without waiting for it, unless a client clears again and again.
        """
        if len(self._freeing) > 1:
            await asyncio.wait(self._freeing)
        assert self._playing is not None, "it was closed"
        self._playing.cancel()
        freeing = asyncio.create_task(_freed(self._playing, self._session))
        self._freeing.add(freeing)
        freeing.add_done_callback(self._freeing.discard)
        self._session = SpeechSession(self._server.speech, self._held.add)
        self._waiting = asyncio.Queue()
        self._playing = asyncio.create_task(_play(self._waiting))

    async def finish(self) -> None:
        """Return when all has been played."""
        await self._waiting.join()

    async def close(self) -> None:
        """Stop; returns when everything is free. May be called again."""
        if (playing := self._playing) is None:
            return
        playing.cancel()
        await asyncio.gather(_freed(playing, self._session), *self._freeing)
        # Queued items, and the traceback of played ones, refer to this object.
        self._waiting = asyncio.Queue()
        self._playing = None


async def _play(waiting: "asyncio.Queue[Action]") -> None:
    while True:
        action = await waiting.get()
        await action()
        waiting.task_done()


class SpokenConversation:
    """What conversations with one outbox share; see `antiphon.api.sockets.Conversation`."""

    def __init__(self, socket: Socket, outbox: AudioOutbox) -> None:
        self._socket = socket
        self._outbox = outbox

    async def finish(self) -> None:
        await self._outbox.finish()

    async def close(self) -> None:
        await self._outbox.close()


async def _heard(pieces: EncodedStream, listener: Listener, encoding: FileEncoding) -> None:
    has_begun = False
    whole: list[bytes] = []
    with memory_budget.reservation() as keep:
        async for piece in pieces:
            if not has_begun:
                await listener.begin()
                has_begun = True
            if isinstance(piece, Ended):
                if whole:
                    await listener.on_audio(b"".join(with_header(whole, encoding.header)))
                await listener.end(piece)
            elif encoding.is_whole:
                keep(len(piece))
                whole.append(piece)
            else:
                await listener.on_audio(piece)


async def _freed(playing: "asyncio.Task[None]", session: SpeechSession) -> None:
    await asyncio.wait([playing])
    if not playing.cancelled():
        playing.exception()  # retrieved: the client has left
    await session.clear()
