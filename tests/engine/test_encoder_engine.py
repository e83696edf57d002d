"""What waits is encoded in batches; whoever leaves or fails leaves the others alone."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Latents
from antiphon.engine.encoder_engine import EncoderEngine
from antiphon.errors import EngineFailedError, InvalidRequestError, OverloadedError
from antiphon.telemetry.stage_status import StageStatus

DEADLINE_S = 30.0
"""For what must happen at all; how soon is nowhere asserted."""


class Gated:
    """Doubles numbers, tens apart from others; a batch ends when the gate is open."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()
        self.is_closed = False

    def batch_of(self, data: int) -> EncodingBatch:
        if data < 0:
            raise InvalidRequestError("It is negative.")
        return EncodingBatch(data >= 10, max_size=3)

    def encode_batch(self, batch: Sequence[int]) -> list[Latents]:
        self.batches.append(list(batch))
        self.begun.release()
        assert self.gate.wait(DEADLINE_S)
        if 7 in batch:
            raise RuntimeError("seven")
        return [Latents(2 * each) for each in batch]

    def close(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def on_engine(max_waiting: int = 64) -> AsyncGenerator[tuple[Gated, EncoderEngine], None]:
    encoder = Gated()
    engine = EncoderEngine(encoder, limits=AdmissionLimits(max_waiting=max_waiting))
    yield encoder, engine
    assert engine._status.status.num_open == 0
    await engine.close()
    assert encoder.is_closed


async def held(encoder: Gated, engine: EncoderEngine) -> "asyncio.Task[Latents]":
    """Return a task whose batch is under way until the gate is opened."""
    encoder.gate.clear()
    task = asyncio.create_task(engine.encode(0))
    await asyncio.to_thread(encoder.begun.acquire)
    return task


async def begun(engine: EncoderEngine, *numbers: int) -> list["asyncio.Task[Latents]"]:
    tasks = [asyncio.create_task(engine.encode(each)) for each in numbers]
    await asyncio.sleep(0)
    return tasks


async def results(tasks: Sequence["asyncio.Task[Latents]"]) -> list[Any]:
    made = await asyncio.gather(*tasks, return_exceptions=True)
    return [each if isinstance(each, BaseException) else each.data for each in made]


async def test_what_waits_is_encoded_together_in_order() -> None:
    async with on_engine() as (encoder, engine):
        first = await held(encoder, engine)
        tasks = await begun(engine, 1, 11, 2, 3, 12, 4)
        encoder.gate.set()
        assert await results([first, *tasks]) == [0, 2, 22, 4, 6, 24, 8]
    assert encoder.batches == [[0], [1, 2, 3], [11, 12], [4]]


async def test_who_leaves_is_not_encoded_and_others_are() -> None:
    async with on_engine() as (encoder, engine):
        first = await held(encoder, engine)
        waiting = await begun(engine, 1, 2, 3)
        first.cancel()  # its batch is under way
        waiting[1].cancel()
        await asyncio.sleep(0)
        encoder.gate.set()
        left, *others = await results([first, *waiting])
        assert isinstance(left, asyncio.CancelledError)
        assert isinstance(others.pop(1), asyncio.CancelledError)
        assert others == [2, 6]
    assert encoder.batches == [[0], [1, 3]]


async def test_data_that_fails_fails_alone() -> None:
    async with on_engine() as (encoder, engine):
        first = await held(encoder, engine)
        tasks = await begun(engine, 1, 7, 2)
        encoder.gate.set()
        assert await first == Latents(0)
        one, failed, two = await results(tasks)
        assert (one, two) == (2, 4)
        assert isinstance(failed, RuntimeError)
        assert (await engine.encode(5)).data == 10


async def test_data_that_will_not_do_joins_no_batch() -> None:
    async with on_engine() as (encoder, engine):
        with pytest.raises(InvalidRequestError):
            await engine.encode(-1)
    assert encoder.batches == []


async def test_too_much_is_refused_but_not_what_was_admitted() -> None:
    async with on_engine(max_waiting=1) as (encoder, engine):
        first = await held(encoder, engine)
        (second,) = await begun(engine, 1)
        with pytest.raises(OverloadedError):
            await engine.encode(2)
        later = asyncio.create_task(engine.encode(3, is_later=True))
        await asyncio.sleep(0)
        encoder.gate.set()
        assert await results([first, second, later]) == [0, 2, 6]


async def test_batches_are_counted() -> None:
    statuses: list[StageStatus] = []
    encoder = Gated()
    engine = EncoderEngine(encoder, publish=statuses.append)
    first = await held(encoder, engine)
    tasks = await begun(engine, 1, 2)
    assert statuses[-1].num_open == 3
    assert statuses[-1].step_began_s is not None
    encoder.gate.set()
    await results([first, *tasks])
    await engine.close()
    assert statuses[-1].num_open == 0
    assert statuses[-1].step_began_s is None
    counted = [each.stats for each in statuses if each.stats is not None][-1]
    assert sum(counted.step_rows["encode"].counts) == 2
    assert counted.step_rows["encode"].total == 3


async def test_closing_ends_what_waits() -> None:
    async with on_engine() as (encoder, engine):
        first = await held(encoder, engine)
        (second,) = await begun(engine, 1)
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0)
        encoder.gate.set()
        ended, failed = await results([first, second])
        assert ended == 0
        assert isinstance(failed, EngineFailedError)
        await closing
        with pytest.raises(EngineFailedError):
            await engine.encode(2)
