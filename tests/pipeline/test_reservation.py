"""Room that is asked for early is free again however its stream is left."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.prompt import Admitted
from antiphon.contracts.types import Ended, SpeechRequest
from antiphon.errors import EngineError, OverloadedError
from antiphon.pipeline.reservation import Reservation
from antiphon.stages.base import StageItem
from antiphon.telemetry.metrics import Metrics

DEADLINE_S = 60.0


class Model:
    """Admits, refuses, or takes its time; what closing takes too."""

    name = "slow"

    def __init__(self, answer: StageItem | Exception | None) -> None:
        self.num_kept = 0
        self._answer = answer

    async def reserve(self, speech: SpeechRequest) -> AsyncGenerator[StageItem, None]:
        self.num_kept += 1
        try:
            if self._answer is None:
                await asyncio.Event().wait()
            elif isinstance(self._answer, Exception):
                raise self._answer
            else:
                yield self._answer
        finally:
            await asyncio.sleep(0.01)
            self.num_kept -= 1


def reserving(answer: StageItem | Exception | None) -> tuple[Any, Reservation]:
    model: Any = Model(answer)
    return model, Reservation(model, SpeechRequest(""), Metrics())


async def test_room_is_kept_until_it_is_released() -> None:
    model, place = reserving(Admitted())
    assert not place.is_taken
    await place.take()
    assert place.is_taken
    assert model.num_kept == 1
    await asyncio.gather(place.release(), place.release())
    assert not place.is_taken
    assert model.num_kept == 0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (OverloadedError("full", retry_after_s=1.0), OverloadedError),
        (Ended("abort"), EngineError),
    ],
)
async def test_a_refusal_is_raised_and_leaves_nothing(
    answer: StageItem | Exception, expected: type[Exception]
) -> None:
    model, place = reserving(answer)
    with pytest.raises(expected):
        await place.take()
    assert not place.is_taken
    await place.release()
    assert model.num_kept == 0


async def test_leaving_while_it_is_asked_for_leaves_nothing() -> None:
    model, place = reserving(None)
    taking = asyncio.create_task(place.take())
    while not model.num_kept:
        await asyncio.sleep(0)
    releasing = asyncio.create_task(place.release())
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait_for(releasing, DEADLINE_S)
    await cancel_and_wait(taking)
    assert model.num_kept == 0
