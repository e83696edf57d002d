"""A speech stream as a file's bytes: one chunk is pulled, encoded and handed on, then the next."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from antiphon.audio.encode import AudioFormat, Encoder, open_encoder
from antiphon.concurrency import Workers
from antiphon.errors import UnavailableError
from antiphon.types import AudioChunk, Ended, Samples, SpeechStream

EncodedStream: TypeAlias = AsyncGenerator[bytes | Ended, None]
"""Pieces of a file, never empty, then one `Ended`; whoever opened it closes it."""


class _LateEncoder:
    """An encoder that may be closed at any time, whether or not it was ever opened."""

    def __init__(self, format: AudioFormat, sample_rate_hz: int) -> None:
        self._format = format
        self._sample_rate_hz = sample_rate_hz
        self._encoder: Encoder | None = None

    def open(self) -> None:
        self._encoder = open_encoder(self._format, self._sample_rate_hz)

    def encode(self, samples: Samples) -> bytes:
        assert self._encoder is not None
        return self._encoder.encode(samples)

    def finish(self) -> bytes:
        assert self._encoder is not None
        return self._encoder.finish()

    def close(self) -> None:
        if self._encoder is not None:
            self._encoder.close()


async def encoded(
    events: SpeechStream, format: AudioFormat, sample_rate_hz: int, workers: Workers
) -> EncodedStream:
    """Encode a stream in worker threads; the encoder opens while the model starts.

    Raises:
        UnavailableError: the server stopped the stream.
    """
    encoder = _LateEncoder(format, sample_rate_hz)
    opening = asyncio.create_task(workers.run(encoder.open))
    try:
        async with aclosing(events):
            async for event in events:
                await opening
                if isinstance(event, AudioChunk):
                    piece = await workers.run(encoder.encode, event.samples)
                elif event.reason in ("stop", "length"):
                    piece = await workers.run(encoder.finish)
                else:
                    raise UnavailableError("The server is stopping.")
                if piece:
                    yield piece
                if isinstance(event, Ended):
                    yield event
    finally:
        opening.cancel()
        await asyncio.wait([opening])
        encoder.close()  # quick, and the workers may have been closed by now
