"""Encoding a stream: whatever ends it, the encoder and the source are closed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator

import numpy as np
import pytest

from antiphon.api import encoding
from antiphon.api.encoding import encoded
from antiphon.audio.encode import AudioFormat
from antiphon.concurrency import Workers
from antiphon.errors import EngineError, UnavailableError
from antiphon.types import AudioChunk, Ended, FinishReason, Samples, SpeechEvent

CHUNK = AudioChunk(np.ones(4, np.float32), 24_000)


class SpyEncoder:
    """Writes ``o`` first, a ``c`` for each chunk and ``f`` at the end; its opening can be held."""

    def __init__(self) -> None:
        self.is_open = False
        self.opening = threading.Event()
        self.may_open = threading.Event()
        self.may_open.set()

    def open(self, format: AudioFormat, sample_rate_hz: int) -> "SpyEncoder":
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
    """Encode to the end, whatever it is, by when all must be closed."""

    async def collect() -> list[bytes | Ended]:
        stream = encoded(source.stream(), AudioFormat.MP3, 24_000, workers)
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
def test_leaving_while_the_encoder_opens_closes_it_too(
    spy: SpyEncoder, workers: Workers, is_mute: bool
) -> None:
    source = Source(is_mute=is_mute)

    async def leave() -> None:
        spy.may_open.clear()
        stream = encoded(source.stream(), AudioFormat.MP3, 24_000, workers)
        first = asyncio.create_task(anext(stream))
        await asyncio.to_thread(spy.opening.wait)
        first.cancel()
        await asyncio.sleep(0)
        spy.may_open.set()
        await asyncio.wait([first])
        assert first.cancelled()
        await stream.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert source.is_closed
        assert not spy.is_open

    asyncio.run(leave())
