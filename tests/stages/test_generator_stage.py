"""A generator that declares a limit of concurrency never works on more requests than that."""

import asyncio
from collections.abc import Generator
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.contracts.prompt import Admitted, Prompt
from antiphon.contracts.types import AudioChunk, Ended
from antiphon.errors import OverloadedError
from antiphon.stages.base import StageItem, StageRequest, StageStream
from antiphon.stages.build import build_stage

NUM_CHUNKS = 3


class Alone:
    """Makes a few chunks of each prompt; fails if it works on two at once."""

    def __init__(self, context: LoadContext) -> None:
        self._num_open = 0

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        assert self._num_open == 0, "it was asked for two requests at once"
        self._num_open += 1
        try:
            for _ in range(NUM_CHUNKS):
                yield AudioChunk(np.zeros(240, np.float32), 24_000, 1)
        finally:
            self._num_open -= 1

    def close(self) -> None:
        """Nothing to free."""


SPEC = StageSpec(
    "alone",
    StageKind.GENERATOR,
    ItemKind.TEXT,
    ItemKind.AUDIO,
    Ref(f"{__name__}:Alone"),
    max_concurrency=1,
)
PROMPT = Prompt(data=None, num_tokens=1, seed=0)


async def test_requests_take_turns_and_those_that_leave_give_theirs_back() -> None:
    stage = build_stage([SPEC], LoadContext(), lambda status: None)

    async def listen(number: int) -> list[StageItem]:
        request = StageRequest(f"{number}", PROMPT, is_live=number % 2 > 0)
        async with aclosing(stage.open(request, None)) as items:
            return [await anext(items)] if number == 3 else [item async for item in items]

    heard = await asyncio.gather(*map(listen, range(8)))
    assert [len(items) for items in heard] == [1 if n == 3 else NUM_CHUNKS + 1 for n in range(8)]
    assert heard[0][-1] == Ended("stop")
    await stage.close()


async def test_room_that_is_kept_is_a_place_in_the_line() -> None:
    context = LoadContext(admission=AdmissionLimits(max_waiting=1))
    stage = build_stage([SPEC], context, lambda status: None)

    def asked(number: int, *, is_reservation: bool = True) -> StageStream:
        id = f"{number}-place" if is_reservation else f"{number}"
        request = StageRequest(id, PROMPT, stream_id=f"{number}", is_later=not is_reservation)
        return stage.open(replace(request, is_reservation=is_reservation), None)

    async with aclosing(asked(0)) as first, aclosing(asked(1)) as second:
        assert isinstance(await anext(first), Admitted)
        with pytest.raises(OverloadedError):
            await anext(second)
        async with aclosing(asked(0, is_reservation=False)) as items:
            await anext(items)
            async with aclosing(asked(2)) as third:
                assert isinstance(await anext(third), Admitted)
    async with aclosing(asked(3)) as last:
        assert isinstance(await anext(last), Admitted)
    await stage.close()


async def test_requests_are_refused_if_too_many_wait() -> None:
    context = LoadContext(admission=AdmissionLimits(max_waiting=1))
    stage = build_stage([SPEC], context, lambda status: None)
    first, second, third = (stage.open(StageRequest(f"{n}", PROMPT), None) for n in range(3))
    async with aclosing(first), aclosing(second), aclosing(third):
        await anext(first)
        waiting = asyncio.ensure_future(anext(second))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError):
            await anext(third)
        await first.aclose()
        assert isinstance(await waiting, AudioChunk)
    await stage.close()


async def test_a_reader_who_stops_keeps_nobody_waiting() -> None:
    stage = build_stage([SPEC], LoadContext(), lambda status: None)
    async with aclosing(stage.open(StageRequest("slow", PROMPT), None)) as slow:
        await anext(slow)
        async with aclosing(stage.open(StageRequest("quick", PROMPT), None)) as quick:
            heard = [item async for item in quick]
        assert heard[-1] == Ended("stop")
        assert len([item async for item in slow]) == NUM_CHUNKS
    await stage.close()
