"""An encoder that takes batches is a stage like any other: one item, one end, and abortable."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.contracts.prompt import EncodingBatch, Prompt
from antiphon.contracts.types import Ended, Latents
from antiphon.errors import InvalidRequestError
from antiphon.stages.base import StageItem, StageRequest
from antiphon.stages.build import EncoderStage, build_stage
from antiphon.telemetry.stage_status import StageStatus
from tests.loops import until

DEADLINE_S = 30.0
GATE = threading.Event()


class Upper:
    """Makes letters large, all that waits at once; the letter "." waits for the gate."""

    def __init__(self, context: LoadContext) -> None:
        GATE.clear()

    def batch_of(self, data: str) -> EncodingBatch:
        if not data:
            raise InvalidRequestError("It is empty.")
        return EncodingBatch(None, max_size=8)

    def encode_batch(self, batch: Sequence[str]) -> list[Latents]:
        if "." in batch:
            assert GATE.wait(DEADLINE_S)
        return [Latents(each.upper()) for each in batch]

    def close(self) -> None:
        """Nothing to free."""


SPEC = StageSpec(
    "upper", StageKind.ENCODER, ItemKind.AUDIO, ItemKind.LATENTS, Ref(f"{__name__}:Upper")
)


def request(data: str) -> StageRequest:
    return StageRequest(f"of {data}", Prompt(data=data, num_tokens=1, seed=0))


async def test_a_request_is_encoded_refused_or_aborted() -> None:
    statuses: list[StageStatus] = []
    stage = build_stage([SPEC], LoadContext(), statuses.append)
    assert isinstance(stage, EncoderStage)

    async def ask(data: str) -> list[StageItem]:
        async with aclosing(stage.open(request(data), None)) as items:
            return [item async for item in items]

    assert await ask("a") == [Latents("A"), Ended("stop")]
    with pytest.raises(InvalidRequestError):
        await ask("")
    hanging = asyncio.create_task(ask("."))
    await until(lambda: statuses[-1].step_began_s is not None)
    waiting = asyncio.create_task(ask("b"))
    await until(lambda: statuses[-1].num_open >= 2)
    for data in ("b", "."):
        stage.abort(f"of {data}")
    assert await hanging == await waiting == [Ended("abort")]
    assert statuses[-1].num_open == 0
    GATE.set()
    await stage.close()
