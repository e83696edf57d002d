"""A stream that is cut after any of its chunks and goes on elsewhere is the undisturbed one."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Ended, Samples, SpeechRequest
from antiphon.families.toy.prompt import ToyPrompter
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.stages.base import StageRequest

TEXT = "la la la la la la"


def made_prompt(model: SpeechModel, *, is_late: bool) -> tuple[Prompt, list[Piece]]:
    """Return the prompt of a text, and what arrives of it later, letter by letter."""
    prompter, voice = model.prompter, model.capabilities.voices[0]
    assert isinstance(prompter, ToyPrompter)
    request = SpeechRequest(TEXT, sampling=model.task.sampling)
    if not is_late:
        return prompter.build(request, voice, 1), []
    prompt, feed = prompter.open(replace(request, input=TEXT[:1]), voice, 1)
    pieces = [feed.push(letter) for letter in TEXT[1:]]
    return prompt, [*(each for each in pieces if each is not None), feed.close()]


async def spoken(
    model: SpeechModel, request: StageRequest, pieces: Sequence[Piece], most: int | None = None
) -> list[AudioChunk]:
    """Return the chunks of a stream, ``most`` of them before it is closed."""

    async def text() -> AsyncGenerator[Piece, None]:
        for piece in pieces:
            yield piece

    chunks: list[AudioChunk] = []
    async with aclosing(model.open(request, text() if pieces else None)) as items:
        async for item in items:
            if not isinstance(item, AudioChunk):
                assert item == Ended("stop")
                return chunks
            chunks.append(item)
            if len(chunks) == most:
                break
    return chunks


def joined(chunks: Sequence[AudioChunk]) -> Samples:
    return np.concatenate([np.zeros(0, np.float32), *(each.samples for each in chunks)])


@pytest.mark.parametrize("is_late", [False, True], ids=["whole", "late"])
@pytest.mark.parametrize("is_colocated", [True, False], ids=["fused", "apart"])
async def test_frames_that_come_with_audio_are_enough_to_go_on(
    is_colocated: bool, is_late: bool
) -> None:
    settings = ModelSettings(source="toy", device="cpu", max_slots=2)
    if not is_colocated:
        settings = settings.model_copy(update={"decoder_device": "cpu"})
    model = await SpeechModel.load(settings)
    prompt, pieces = made_prompt(model, is_late=is_late)
    plain = await spoken(model, StageRequest("plain", prompt), pieces)
    assert not any(each.frames for each in plain), "none are asked for"
    whole = joined(plain)
    num_cut = 0
    for most in range(1, len(plain)):
        first = StageRequest(f"first-{most}", prompt, returns_frames=True)
        heard = await spoken(model, first, pieces, most)
        assert all(len(each.frames) == each.num_frames for each in heard)
        frames = tuple(frame for each in heard for frame in each.frames)
        num_cut += len(frames) < len(whole) // 960
        again = StageRequest(
            f"again-{most}", prompt, resume_frames=frames, returns_frames=True, buffered_s=0.1
        )
        rest = await spoken(model, again, pieces)
        np.testing.assert_array_equal(joined([*heard, *rest]), whole)
        assert sum(each.num_frames for each in (*heard, *rest)) == len(whole) // 960
    assert num_cut >= 1, "no stream was cut before its end"
    assert model.fabric.num_open == 0
    await model.close()
