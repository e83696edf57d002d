"""Models as settings and placements ask for them: the same audio wherever their stages run."""

import asyncio
from contextlib import AsyncExitStack, aclosing

import numpy as np
import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from antiphon.contracts.types import AudioChunk, Samples, SpeechRequest
from antiphon.errors import SettingsError
from antiphon.pipeline.model_loading import load_models
from antiphon.placement.settings_placement import resolved
from antiphon.stages.base import StageRequest
from tests.loops import on_a_loop

DEADLINE_S = 60.0


@on_a_loop
async def spoken(*placement: str) -> list[Samples]:
    """Return the audio of some requests at once, with the toy model placed like this."""
    server = ServerSettings(placement=placement)
    settings = resolved(Settings(model=ModelSettings(source="toy", device="cpu"), server=server))
    async with asyncio.timeout(DEADLINE_S), AsyncExitStack() as stack:
        [model] = (await load_models(settings, None, stack)).speech.values()

        async def say(number: int) -> Samples:
            request = SpeechRequest(f"la {'la ' * number}", sampling=model.task.sampling)
            prompt = model.prompter.build(request, model.capabilities.voices[0], number)
            async with aclosing(model.open(StageRequest(str(number), prompt))) as items:
                chunks = [each.samples async for each in items if isinstance(each, AudioChunk)]
            return np.concatenate(chunks)

        return await asyncio.gather(*(say(number) for number in range(8)))


@pytest.mark.parametrize(
    "text",
    [
        "{stages: {codec: {apart: true, codec_chunk_frames: 2}}}",
        "{fabric: process, stages: {talker: {replicas: 2, environment: {A: b}}}}",
        "{fabric: process, stages: {talker: {replicas: 2}, codec: {replicas: 1}}}",
    ],
)
def test_audio_does_not_depend_on_the_placement(text: str) -> None:
    for alone, placed in zip(spoken(), spoken(text), strict=True):
        assert np.array_equal(alone, placed)


def test_a_placement_that_does_not_fit_the_model_is_refused_before_it_is_loaded() -> None:
    with pytest.raises(SettingsError, match="there is no stage 'taker'"):
        spoken("{stages: {taker: {max_batch: 1}}}")
    with pytest.raises(SettingsError, match="2 replicas need the fabric"):
        spoken("{stages: {talker: {replicas: 2}}}")
