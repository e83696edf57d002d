"""A request that brings a recording for a model that is not loaded keeps no other waiting."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from antiphon.concurrency import num_usable_cores
from antiphon.config import ModelSettings, ModelsSettings, SpeechSettings
from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.types import AudioChunk, SpeechRequest
from antiphon.fabric.base import Placement
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.pool import ModelPool
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from antiphon.stages.base import StageHandle
from antiphon.stages.build import build_stage

DEADLINE_S = 60.0


class WaitingFabric(LocalFabric):
    """Loads when it is told to."""

    def __init__(self) -> None:
        super().__init__(build_stage)
        self.is_asked, self.may_load = asyncio.Event(), asyncio.Event()

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> StageHandle:
        self.is_asked.set()
        await self.may_load.wait()
        return await super().host(specs, context, placement)


async def test_no_worker_waits_while_the_model_of_a_recording_loads(
    checkpoint: Callable[..., Path],
) -> None:
    recording = np.random.default_rng(0).normal(0, 0.1, 24_000).astype(np.float32)
    options = {"ref_audio": recording, "x_vector_only_mode": True}

    async def first_chunk(speech: Speech, index: int) -> object:
        stream = speech.stream(SpeechRequest("Hello.", id=str(index), options=options))
        try:
            return await anext(stream)
        finally:
            await stream.aclose()

    fabric = WaitingFabric()
    settings = ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu", max_slots=4)
    model = await SpeechModel.load(
        settings, pool=ModelPool(fabric, ModelsSettings(wait_s=DEADLINE_S))
    )
    speech = Speech({model.name: model}, SpeechSettings())
    waiting = [
        asyncio.create_task(first_chunk(speech, index)) for index in range(num_usable_cores())
    ]
    await fabric.is_asked.wait()
    assert await speech._workers.run(int) == 0
    fabric.may_load.set()
    assert all(isinstance(each, AudioChunk) for each in await asyncio.gather(*waiting))
    speech.close()
    await model.close()
