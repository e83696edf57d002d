"""Encoding a stream: whatever ends it, the encoder and the source are closed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TypeVar

import numpy as np
import pytest

from antiphon.api import encoding
from antiphon.api.encoding import MAX_SAMPLES_AT_ONCE, FileEncoding
from antiphon.audio.encode import open_encoder
from antiphon.concurrency import Workers
from antiphon.contracts.types import AudioChunk, Ended, FinishReason, Samples, SpeechEvent
from antiphon.errors import EngineError, UnavailableError
from antiphon.formats import AudioFormat

T = TypeVar("T")
CHUNK = AudioChunk(np.ones(4, np.float32), 24_000)


class SpyEncoder:
    """Writes ``o`` first, a ``c`` for each chunk and ``f`` at the end; its opening can be held."""

    def __init__(self) -> None:
        self.is_open = False
        self.opening = threading.Event()
        self.may_open = threading.Event()
        self.may_open.set()

    def open(
        self, format: AudioFormat, sample_rate_hz: int, channels: int, *, is_whole: bool = False
    ) -> "SpyEncoder":
        self.opening.set()
        self.may_open.wait()
        self.is_open = True
        return self

    def encode(self, samples: Samples) -> bytes:
        assert self.is_open
        return b"c" * len(samples)

    def finish(self) -> bytes:
        assert self.is_open
        return b"f"

    def close(self) -> None:
        self.is_open = False


class Source:
    """A speech stream that knows whether it was closed."""

    def __init__(self, reason: FinishReason = "stop", *, is_mute: bool = False) -> None:
        self.reason = reason
        self.is_mute = is_mute
        self.is_closed = False

    async def stream(self) -> AsyncGenerator[SpeechEvent, None]:
        try:
            if self.is_mute:
                await asyncio.Event().wait()
            for _ in range(2):
                yield CHUNK
            if self.reason == "error":
                raise EngineError("broken")
            yield Ended(self.reason)
        finally:
            self.is_closed = True


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> SpyEncoder:
    spy = SpyEncoder()
    monkeypatch.setattr(encoding, "open_encoder", spy.open)
    return spy


@pytest.fixture
def workers() -> Generator[Workers, None, None]:
    workers = Workers("test", 2)
    yield workers
    workers.close()


def run(source: Source, spy: SpyEncoder, workers: Workers) -> list[bytes | Ended]:

    async def collect() -> list[bytes | Ended]:
        stream = FileEncoding(AudioFormat.MP3, 24_000, workers).pieces(source.stream())
        try:
            return [item async for item in stream]
        finally:
            assert source.is_closed
            assert not spy.is_open

    return asyncio.run(collect())


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_pieces_then_the_end(spy: SpyEncoder, workers: Workers, reason: FinishReason) -> None:
    assert run(Source(reason), spy, workers) == [b"cccc", b"cccc", b"f", Ended(reason)]


@pytest.mark.parametrize(("reason", "error"), [("abort", UnavailableError), ("error", EngineError)])
def test_a_cut_stream_is_an_error(
    spy: SpyEncoder, workers: Workers, reason: FinishReason, error: type[Exception]
) -> None:
    with pytest.raises(error):
        run(Source(reason), spy, workers)


def test_pieces_without_a_byte_are_left_out(spy: SpyEncoder, workers: Workers) -> None:
    spy.encode = lambda samples: b""  # type: ignore[method-assign]
    assert run(Source(), spy, workers) == [b"f", Ended("stop")]


@pytest.mark.parametrize("is_mute", [True, False])
async def test_leaving_while_the_encoder_opens_closes_it_too(
    spy: SpyEncoder, workers: Workers, is_mute: bool
) -> None:
    before = asyncio.all_tasks()
    source = Source(is_mute=is_mute)
    spy.may_open.clear()
    stream = FileEncoding(AudioFormat.MP3, 24_000, workers).pieces(source.stream())
    first = asyncio.create_task(anext(stream))
    await asyncio.to_thread(spy.opening.wait)
    first.cancel()
    await asyncio.sleep(0)
    spy.may_open.set()
    await asyncio.wait([first])
    assert first.cancelled()
    await stream.aclose()
    assert asyncio.all_tasks() == before
    assert source.is_closed
    assert not spy.is_open


@pytest.mark.parametrize("format", [AudioFormat.PCM, AudioFormat.WAV])
def test_plain_samples_wait_for_no_thread(format: AudioFormat) -> None:
    async def collect() -> bytes:
        busy = Workers("busy", 1)
        busy.close()  # whatever is handed to it is refused
        stream = FileEncoding(format, 24_000, busy).pieces(Source().stream())
        return b"".join([item async for item in stream if not isinstance(item, Ended)])

    encoder = open_encoder(format, 24_000)
    expected = encoder.encode(CHUNK.samples) + encoder.encode(CHUNK.samples) + encoder.finish()
    assert asyncio.run(collect()) == expected


def test_a_chunk_too_long_for_the_event_loop_goes_to_a_thread(workers: Workers) -> None:
    handed_on: list[object] = []

    class Noted(Workers):
        async def run(self, function: Callable[..., T], *args: object) -> T:
            handed_on.append(function)
            return await workers.run(function, *args)

    async def source() -> AsyncGenerator[SpeechEvent, None]:
        yield AudioChunk(np.zeros(MAX_SAMPLES_AT_ONCE, np.float32), 24_000)
        assert not handed_on
        yield AudioChunk(np.zeros(MAX_SAMPLES_AT_ONCE + 1, np.float32), 24_000)
        assert handed_on
        yield Ended("stop")

    async def num_bytes() -> int:
        stream = FileEncoding(AudioFormat.PCM, 24_000, Noted("noted", 1)).pieces(source())
        return sum([len(item) async for item in stream if not isinstance(item, Ended)])

    assert asyncio.run(num_bytes()) == 2 * (2 * MAX_SAMPLES_AT_ONCE + 1)
