"""A speech stream as a file's bytes: one chunk is pulled, encoded and handed on, then the next.

PCM is encoded on the event loop, where it takes a tenth of the time that handing it to a thread
would. Other formats are encoded in worker threads.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np

from antiphon.api.middleware import memory_budget
from antiphon.audio.encode import Encoder, open_encoder, with_header
from antiphon.concurrency import Workers, cancel_and_wait
from antiphon.contracts.types import AudioChunk, Ended, Samples, SpeechEvent, SpeechStream
from antiphon.errors import UnavailableError
from antiphon.formats import AudioFormat
from antiphon.telemetry.logs import audio_format

EncodedStream: TypeAlias = AsyncGenerator[bytes | Ended, None]
"""Pieces of a file, never empty, then one `Ended`; its opener closes it."""

ChunkObserver: TypeAlias = Callable[[AudioChunk], None]

MAX_SAMPLES_AT_ONCE = 48_000
"""Longest chunk that is made PCM on the event loop: some 50 microseconds."""

UNSPOKEN_HEADER = "X-Unspoken-Text"
UNSPOKEN_OMITTED_HEADER = "X-Unspoken-Text-Omitted"
MAX_UNSPOKEN_BYTES = 1024


class FileEncoding:
    """Makes one file of one stream.

    Attributes:
        is_whole: the pieces are delivered when all are there, with `header` in its place.
    """

    def __init__(
        self,
        format: AudioFormat,
        sample_rate_hz: int,
        workers: Workers,
        channels: int = 1,
        *,
        is_whole: bool = False,
    ) -> None:
        """Arguments as of `open_encoder`; what takes time is done in ``workers``.

        With one channel, audio of several is mixed down.
        """
        self.is_whole = is_whole
        self._format = format
        self._workers = workers
        self._sample_rate_hz, self._channels = sample_rate_hz, channels
        self._encoder: Encoder | None = None

    @property
    def header(self) -> bytes:
        """See `Encoder.header`; known at the end of `pieces`."""
        return self._opened.header

    @property
    def _opened(self) -> Encoder:
        assert self._encoder is not None
        return self._encoder

    def _open(self) -> None:
        self._encoder = open_encoder(
            self._format, self._sample_rate_hz, self._channels, is_whole=self.is_whole
        )

    def _encode(self, samples: Samples) -> bytes:
        if samples.ndim > self._channels:  # the client gets one channel of several
            samples = samples.mean(axis=1, dtype=np.float32)
        return self._opened.encode(samples)

    async def pieces(
        self, events: SpeechStream, observers: Sequence[ChunkObserver] = ()
    ) -> EncodedStream:
        """Encode a stream; slow encoders open while the model starts; raises UnavailableError.

        Args:
            events: closed with the pieces.
            observers: called with each chunk before it is encoded.
        """
        audio_format.set(self._format.value)
        opening: asyncio.Task[None] | None = None
        if self._format.is_compressed:
            opening = asyncio.create_task(self._workers.run(self._open))
        else:
            self._open()
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, AudioChunk):
                        for observe in observers:
                            observe(event)
                    if opening is not None:
                        await opening
                    if piece := await self._encoded(event):
                        yield piece
                    if isinstance(event, Ended):
                        yield event
        finally:
            if opening is not None:
                await cancel_and_wait(opening)
            if self._encoder is not None:
                self._encoder.close()  # quick, and the workers may have been closed by now

    async def _encoded(self, event: SpeechEvent) -> bytes:
        max_at_once = 0 if self._format.is_compressed else MAX_SAMPLES_AT_ONCE
        if isinstance(event, AudioChunk):
            if event.samples.size <= max_at_once:
                return self._encode(event.samples)
            return await self._workers.run(self._encode, event.samples)
        if event.reason not in ("stop", "length"):
            raise UnavailableError("The server is stopping.")
        finish = self._opened.finish
        return finish() if max_at_once else await self._workers.run(finish)

    async def collected(
        self, events: SpeechStream, observers: Sequence[ChunkObserver] = ()
    ) -> tuple[list[bytes], Ended]:
        """Return the pieces of a whole file, whose header has its true length, and how it ended.

        What is collected counts for the request until it ends, or until it is given back.

        Raises:
            UnavailableError: the server stopped the stream.
            RequestTooLargeError: the file is larger than what one request may hold.
            MemoryShareError: the caller's requests hold too much.
            MemoryFullError: all requests together do.
        """
        assert self.is_whole, "a header is written with the length of its file"
        pieces: list[bytes] = []
        ended: Ended | None = None
        num_bytes = 0
        try:
            async with aclosing(self.pieces(events, observers)) as stream:
                async for item in stream:
                    if isinstance(item, Ended):
                        ended = item
                    else:
                        memory_budget.reserve(len(item))
                        num_bytes += len(item)
                        pieces.append(item)
        finally:
            if ended is None:
                memory_budget.release(num_bytes)
        assert ended is not None, "a stream ends with one Ended"
        return with_header(pieces, self.header), ended


def unspoken_headers(words: Sequence[str]) -> dict[str, str]:
    """Return words in a header, percent-encoded, with commas between; none without words.

    Those that find no place in `MAX_UNSPOKEN_BYTES` are counted in another header.
    """
    listed: list[str] = []
    num_bytes = 0
    for word in words:
        coded = quote(word, safe="", errors="replace")
        num_bytes += len(coded) + 1
        if num_bytes > MAX_UNSPOKEN_BYTES:
            num_omitted = str(len(words) - len(listed))
            return {UNSPOKEN_HEADER: ",".join(listed), UNSPOKEN_OMITTED_HEADER: num_omitted}
        listed.append(coded)
    return {UNSPOKEN_HEADER: ",".join(listed)} if listed else {}


def unspoken_member(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the member of an event that lists them; none without words."""
    return {"unspoken": list(words)} if words else {}
