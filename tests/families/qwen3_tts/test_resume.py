"""A stream that another replica takes over after any frame is the undisturbed one, to the bit."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.codec.runners import CodecRunner, FusedRunner
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Samples
from antiphon.engine.core import EngineCore
from antiphon.engine.request import EngineRequest
from antiphon.families.qwen3_tts.codec import load_codec
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.stages.base import StageRequest
from antiphon.stages.build import EngineStage
from tests.engine.turns import has_work, read_frames
from tests.families.qwen3_tts.lm import DRAWN, made_prompt, opened

pytestmark = pytest.mark.slow  # minutes: every cut computes the stream again
MAX_FRAMES = 24


class Listener:
    """Hears one request, and keeps what its audio was made of."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.samples: list[Samples] = []

    def hear(
        self, runner: FusedRunner, prompt: Prompt, pieces: Sequence[Piece], most: int | None = None
    ) -> None:
        """Hear a request from the last frame on, until it ends or ``most`` frames were heard.

        Its text arrives piece by piece, as late as can be.
        """
        late = deque(pieces)
        core = EngineCore(runner)
        request = EngineRequest("heard", prompt, returns_frames=True)
        request.resume(self.frames)
        core.scheduler.add(request)
        while core.scheduler.num_live and (most is None or len(self.frames) < most):
            if late and request.is_text_used_up:
                core.scheduler.append("heard", late.popleft())
            for _, event in core.step():
                if isinstance(event, AudioChunk):
                    assert len(event.frames) == event.num_frames
                    self.frames += event.frames
                    self.samples.append(event.samples)
                    read_frames(core.scheduler, "heard", event.num_frames)
            core.wake()
        core.scheduler.abort("heard")
        while has_work(core):  # slots are free for the next
            core.step()


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


def loaded(path: Path) -> FusedRunner:
    context = LoadContext(path, "cpu", "float32", 2)
    return FusedRunner(load_runner(context, max_positions=128), load_codec(context))


@pytest.mark.parametrize("kind", ["whole", "cloned", "late"])
def test_a_replica_goes_on_exactly_after_any_number_of_frames(path: Path, kind: str) -> None:
    config, sampling = load_config(path), replace(DRAWN, max_frames=MAX_FRAMES)
    num_reference = 11 if kind == "cloned" else 0
    prompt = made_prompt(config, seed=4, sampling=sampling, num_reference_frames=num_reference)
    pieces: list[Piece] = []
    if kind == "late":
        prompt, pieces = opened(prompt, 7, range(1, 7))
    if num_reference:
        prompt = replace(prompt, context_frames=prompt.data.reference)
    first, second = loaded(path), loaded(path)
    whole = Listener()
    whole.hear(first, prompt, pieces)
    assert len(whole.frames) > 4, "it stopped so early that this tests nothing"
    for cut in (1, 6, len(whole.frames) - 5):
        listener = Listener()
        listener.hear(first, prompt, pieces, cut)
        if len(listener.frames) < MAX_FRAMES:
            listener.hear(second, prompt, pieces)
        np.testing.assert_array_equal(
            np.concatenate(listener.samples), np.concatenate(whole.samples)
        )
        np.testing.assert_array_equal(np.stack(listener.frames), np.stack(whole.frames))
    first.close()
    second.close()


def test_a_codec_of_its_own_goes_on_exactly_too(path: Path) -> None:
    sampling = replace(DRAWN, max_frames=MAX_FRAMES)
    prompt = made_prompt(load_config(path), seed=4, sampling=sampling, num_reference_frames=11)
    prompt = replace(prompt, context_frames=prompt.data.reference)
    whole, fused = Listener(), loaded(path)
    whole.hear(fused, prompt, [])
    fused.close()
    context = LoadContext(path, "cpu", "float32", 2)

    def stages() -> tuple[EngineStage, EngineStage]:
        runner = load_runner(context, max_positions=128)
        codec = CodecRunner(load_codec(context), 2)
        talker = EngineStage(runner, "talker", context, lambda status: None)
        return talker, EngineStage(codec, "codec", context, lambda status: None)

    async def hear(listener: Listener, request: StageRequest, most: int | None = None) -> None:
        talker, codec = stages()
        async with aclosing(codec.open(request, talker.open(request, None))) as items:
            async for item in items:
                if isinstance(item, AudioChunk):
                    listener.frames += item.frames
                    listener.samples.append(item.samples)
                if most is not None and len(listener.frames) >= most:
                    break
        await codec.close()
        await talker.close()

    async def main(cut: int) -> None:
        listener = Listener()
        request = StageRequest("r", prompt, returns_frames=True)
        await hear(listener, request, cut)
        if len(listener.frames) < MAX_FRAMES:
            await hear(listener, replace(request, resume_frames=tuple(listener.frames)))
        np.testing.assert_array_equal(
            np.concatenate(listener.samples), np.concatenate(whole.samples)
        )

    for cut in (1, 5, 9):
        asyncio.run(main(cut))
