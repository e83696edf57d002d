"""Streams of a model over replicas, and those that nothing disturbs."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import numpy as np

from antiphon.config import ModelSettings
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, Samples, SpeechRequest
from antiphon.fabric.pool import ModelPool
from antiphon.fabric.replicas.fabric import ReplicaFabric
from antiphon.fabric.replicas.link import ReplicaLimits
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.stages.base import StageRequest
from tests.fabric.replicas.local_cluster import LIMITS, InProcessCluster, replicated

DEADLINE_S = 120.0
TEXT = "a text of some words that is spoken in several chunks, one after the other, until its end"


def toy(*, is_colocated: bool = True, max_slots: int = 32) -> ModelSettings:
    decoder = None if is_colocated else "cpu"
    return ModelSettings(source="toy", device="cpu", max_slots=max_slots, decoder_device=decoder)


@asynccontextmanager
async def served(
    folder: Path,
    settings: ModelSettings | None = None,
    num_replicas: int = 2,
    limits: ReplicaLimits = LIMITS,
) -> AsyncGenerator[tuple[SpeechModel, ReplicaFabric, InProcessCluster], None]:
    async with replicated(folder, num_replicas, limits) as (fabric, cluster):
        pool = ModelPool(fabric)
        model = await SpeechModel.load(settings or toy(), pool=pool)
        await pool.preload()
        yield model, fabric, cluster


def prompt_of(model: SpeechModel, seed: int, text: str = TEXT) -> Prompt:
    request = SpeechRequest(text, sampling=model.task.sampling)
    prompt: Prompt = model.prompter.build(request, model.capabilities.voices[0], seed)
    return prompt


async def heard(
    model: SpeechModel,
    request: StageRequest,
    pieces: Sequence[Piece] = (),
    on_item: Callable[[int], None] = lambda number: None,
) -> Samples:
    """Return the samples of a stream; ``on_item`` is called before and after each item."""

    async def text() -> AsyncGenerator[Piece, None]:
        for piece in pieces:
            await asyncio.sleep(0)
            yield piece

    chunks: list[AudioChunk] = []
    opening = asyncio.get_running_loop().call_later(0.002, on_item, 0)
    async with aclosing(model.open(request, text() if pieces else None)) as items:
        async for item in items:
            if isinstance(item, Ended):
                assert item.reason == "stop"
                break
            assert isinstance(item, AudioChunk)
            assert not item.frames, "nobody has asked for them"
            chunks.append(item)
            on_item(len(chunks))
    opening.cancel()
    return np.concatenate([np.zeros(0, np.float32), *(each.samples for each in chunks)])


async def undisturbed(seeds: Sequence[int], text: str = TEXT) -> dict[int, Samples]:
    model = await SpeechModel.load(toy())
    found = {
        seed: await heard(model, StageRequest("r", prompt_of(model, seed, text))) for seed in seeds
    }
    await model.close()
    return found
