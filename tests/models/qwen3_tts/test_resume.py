"""A stream that another replica takes over after any frame is the undisturbed one, to the bit."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.codec.fused_runner import FusedRunner
from antiphon.engine.core import EngineCore
from antiphon.engine.request import EngineRequest
from antiphon.models.base import Piece, Prompt
from antiphon.models.qwen3_tts.codec_stage import load_codec
from antiphon.models.qwen3_tts.config import CheckpointTask
from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.qwen3_tts.runner import load_runner
from antiphon.models.spec import LoadContext
from antiphon.types import AudioChunk, Samples
from tests.models.qwen3_tts.lm import DRAWN, made_prompt, opened

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
        while core.scheduler.open_ids and (most is None or len(self.frames) < most):
            if late and request.is_text_used_up:
                core.scheduler.append("heard", late.popleft())
            for _, event in core.step():
                if isinstance(event, AudioChunk):
                    assert len(event.frames) == event.num_frames
                    self.frames += event.frames
                    self.samples.append(event.samples)
                    core.scheduler.read("heard", event.num_frames)
            core.wake()
        core.scheduler.abort("heard")
        while core.has_work:  # slots are free for the next
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
    for cut in range(1, len(whole.frames) - 4, 3):
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
