"""A batched decoder serves streams as if each had it alone, and survives leavers and faults."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codec.rows import RowDecoder
from antiphon.codec.runner import BatchedDecoder
from antiphon.codec.slots import DecoderStream
from antiphon.errors import EngineError
from antiphon.types import Samples

T = TypeVar("T")
DEADLINE_S = 20.0
"""For what must happen at all; how soon is nowhere asserted."""


class Echo(RowDecoder):
    """Two samples per frame, each half the one before plus the frame's number."""

    sample_rate_hz = 100
    samples_per_frame = 2

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.fault: Exception | None = None
        self.is_closed = False
        self.may_run = threading.Event()
        self.may_run.set()

    def open(self, num_slots: int) -> Samples:
        return np.full(num_slots, np.nan, np.float32)  # never reset means never right

    def reset(self, state: Samples, slot: int) -> None:
        state[slot] = 0

    def decode(self, frames: NDArray[Any], state: Samples, active: NDArray[np.bool_]) -> Samples:
        assert self.may_run.wait(DEADLINE_S)
        self.calls.append([int(slot) for slot in np.flatnonzero(active)])
        if self.fault is not None:
            raise self.fault
        return super().decode(frames, state, active)

    def decode_row(self, frames: NDArray[Any], state: Samples, slot: int) -> Samples:
        samples = []
        for number in np.repeat(frames[:, 0], 2):
            state[slot] = state[slot] / 2 + number
            samples.append(state[slot])
        return np.array(samples)

    def close(self) -> None:
        self.is_closed = True


def whole(frames: list[list[int]]) -> list[float]:
    """Return what a stream must become, alone and in one piece."""
    echo = Echo()
    state = echo.open(1)
    echo.reset(state, 0)
    samples = echo.decode(np.array([frames]), state, np.ones(1, np.bool_))
    return [float(sample) for sample in samples[0]]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, DEADLINE_S))


async def speak(decoder: BatchedDecoder, pieces: list[list[list[int]]]) -> list[float]:
    stream = decoder.open()
    samples: list[float] = []
    try:
        for piece in pieces:
            samples += (await decoder.decode(stream, piece)).tolist()
    finally:
        decoder.close(stream)
    return samples


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


frame = st.lists(st.integers(0, 99), min_size=1, max_size=1)
piece = st.lists(frame, min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(piece, max_size=5), min_size=1, max_size=6), st.integers(1, 4))
def test_each_stream_gets_what_it_would_get_alone_and_in_one_piece(
    streams: list[list[list[list[int]]]], num_slots: int
) -> None:
    async def scenario() -> None:
        decoder = BatchedDecoder(Echo(), num_slots)
        heard = await asyncio.gather(*(speak(decoder, pieces) for pieces in streams))
        for samples, pieces in zip(heard, streams, strict=True):
            frames = [frame for piece in pieces for frame in piece]
            assert samples == (whole(frames) if frames else [])
        assert decoder.num_free_slots == num_slots
        decoder.check_integrity()
        await decoder.shut_down()

    run(scenario())


def test_what_arrives_together_is_decoded_together() -> None:
    async def scenario() -> None:
        echo = Echo()
        decoder = BatchedDecoder(echo, 4)
        streams = [decoder.open() for _ in range(4)]
        lengths = (1, 2, 1, 1)
        await asyncio.gather(
            *(
                decoder.decode(stream, [[7]] * length)
                for stream, length in zip(streams, lengths, strict=True)
            )
        )
        assert sorted(len(call) for call in echo.calls) == [1, 3]
        await decoder.shut_down()

    run(scenario())


def test_a_stream_waits_for_a_slot_and_finds_it_fresh() -> None:
    async def scenario() -> None:
        decoder = BatchedDecoder(Echo(), 1)
        first, second = decoder.open(), decoder.open()
        await decoder.decode(first, [[50]])
        waiting = asyncio.ensure_future(decoder.decode(second, [[3]]))
        await settle()
        assert not waiting.done()
        decoder.check_integrity()
        decoder.close(first)
        assert (await waiting).tolist() == whole([[3]])
        decoder.close(second)
        assert decoder.num_free_slots == 1
        await decoder.shut_down()

    run(scenario())


def test_leaving_while_waiting_or_while_being_decoded_frees_the_slot() -> None:
    async def scenario() -> None:
        echo = Echo()
        decoder = BatchedDecoder(echo, 1)
        echo.may_run.clear()
        tasks = [asyncio.ensure_future(speak(decoder, [[[1]], [[2]]])) for _ in range(3)]
        await settle()
        for task in tasks[:2]:  # the first is being decoded, the second waits
            task.cancel()
        await settle()
        echo.may_run.set()
        assert await tasks[2] == whole([[1], [2]])
        assert all(task.cancelled() for task in tasks[:2])
        assert decoder.num_free_slots == 1
        decoder.check_integrity()
        await decoder.shut_down()

    run(scenario())


def test_closing_twice_is_closing_once() -> None:
    async def scenario() -> None:
        decoder = BatchedDecoder(Echo(), 2)
        stream = decoder.open()
        await decoder.decode(stream, [[1]])
        decoder.close(stream)
        decoder.close(stream)
        assert decoder.num_free_slots == 2
        await decoder.shut_down()

    run(scenario())


def test_a_fault_reaches_all_who_wait_and_all_who_come() -> None:
    async def scenario() -> None:
        echo = Echo()
        echo.fault = ValueError("no such code")
        decoder = BatchedDecoder(echo, 2)
        streams = [decoder.open() for _ in range(4)]  # two of them wait for a slot
        results = await asyncio.gather(
            *(decoder.decode(stream, [[1]]) for stream in streams), return_exceptions=True
        )
        for result in results:
            assert isinstance(result, EngineError)
            assert "no such code" in result.message
        assert decoder.failure is not None
        assert "no such code" in decoder.failure
        with pytest.raises(EngineError):
            await decoder.decode(streams[0], [[1]])
        for stream in streams:
            decoder.close(stream)
        assert decoder.num_free_slots == 2
        decoder.check_integrity()
        await decoder.shut_down()
        assert echo.is_closed

    run(scenario())


def test_shutting_down_ends_the_batch_under_way_and_fails_those_who_wait() -> None:
    async def scenario() -> None:
        echo = Echo()
        decoder = BatchedDecoder(echo, 1)
        echo.may_run.clear()
        streams = [decoder.open() for _ in range(2)]
        running, waiting = (
            asyncio.ensure_future(decoder.decode(stream, [[5]])) for stream in streams
        )
        await settle()
        stopping = asyncio.ensure_future(decoder.shut_down())
        with pytest.raises(EngineError):
            await waiting
        echo.may_run.set()
        await stopping
        assert (await running).tolist() == whole([[5]])
        assert echo.calls == [[0]]
        assert echo.is_closed
        with pytest.raises(EngineError):
            await decoder.decode(DecoderStream(), [[1]])

    run(scenario())
