"""A request that loses its slot and comes back sounds as if it had kept it, to the last bit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.codec.runners import FusedRunner
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Ended, Samples, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.families.qwen3_tts.codec import load_codec
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from tests.engine.turns import has_work, read_frames
from tests.families.qwen3_tts.lm import DRAWN, made_prompt

NUM_SLOTS = 4
MAX_POSITIONS = 128
MAX_FRAMES = 70
ROOM = 2**30
"""More memory than all requests together need."""

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_gpu])]


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


class NotingRunner(FusedRunner):
    """Notes how many frames each request had, and how many of them were heard, that came back."""

    resumed: list[tuple[int, int]]

    def launch(self, plan: StepPlan) -> object:  # type: ignore[override]
        self.resumed += [
            (len(each.frames), each.num_frames_decoded) for each in plan.starts if each.frames
        ]
        return super().launch(plan)


def loaded(path: Path, device: str, cache_bytes: int) -> NotingRunner:
    """Load model and codec; on a GPU in the types that are used there, and deterministic."""
    dtype = "float32" if device == "cpu" else "bfloat16"
    context = LoadContext(path, device, dtype, NUM_SLOTS, is_deterministic=device != "cpu")
    context = replace(context, cache_bytes=cache_bytes)
    runner = load_runner(context, max_positions=MAX_POSITIONS)
    noting = NotingRunner(runner, load_codec(context))
    noting.resumed = []
    return noting


@dataclass(slots=True)
class Heard:
    chunks: list[Samples]
    reason: str | None = None

    @property
    def samples(self) -> Samples:
        return np.concatenate(self.chunks)


def speak(runner: FusedRunner, prompts: Sequence[Prompt]) -> list[Heard]:
    """Speak all prompts at once, to listeners who take everything as it comes."""
    core = EngineCore(runner)
    heard = {str(number): Heard([]) for number in range(len(prompts))}
    for name, prompt in zip(heard, prompts, strict=True):
        core.scheduler.add(EngineRequest(name, prompt))
    while has_work(core):
        for name, event in core.step():
            if isinstance(event, AudioChunk):
                heard[name].chunks.append(event.samples)
                read_frames(core.scheduler, name, event.num_frames)
            elif isinstance(event, Ended):
                heard[name].reason = event.reason
        core.wake()
    core.scheduler.check_integrity()
    return [*heard.values()]


def prompts_of(path: Path) -> list[Prompt]:
    """Return prompts of all layouts: their lengths lie beside and between the borders of blocks."""
    config = load_config(path)
    sampling: Sampling = replace(DRAWN, max_frames=MAX_FRAMES, ignore_eos=True)
    return [
        made_prompt(config, seed=1, sampling=sampling),
        made_prompt(config, seed=2, num_tokens=30, streams_text=False, sampling=sampling),
        made_prompt(config, seed=3, num_reference_frames=20, sampling=sampling),
        made_prompt(config, seed=4, num_reference_frames=0, num_tokens=3, sampling=sampling),
        made_prompt(config, seed=5, num_reference_frames=7, num_tokens=19, sampling=sampling),
    ]


def with_context(prompt: Prompt) -> Prompt:
    return replace(prompt, context_frames=prompt.data.reference)


@pytest.fixture(scope="module")
def alone(path: Path) -> Callable[[str], list[Heard]]:
    """Return what each prompt gives without any other, computed once on a device."""

    @cache
    def of(device: str) -> list[Heard]:
        roomy = loaded(path, device, ROOM)
        heard = [speak(roomy, [with_context(each)])[0] for each in prompts_of(path)]
        assert not roomy.resumed
        roomy.close()
        return heard

    return of


@pytest.mark.slow  # minutes of audio on a CPU, again and again
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_scarce", [True, False])
def test_company_and_preemptions_change_nothing(
    path: Path, device: str, is_scarce: bool, alone: Callable[[str], list[Heard]]
) -> None:
    # As many blocks as one request may take, or enough for all.
    runner = loaded(path, device, 1 if is_scarce else ROOM)
    together = speak(runner, [with_context(each) for each in prompts_of(path)])
    if is_scarce:
        assert len(runner.resumed) >= 3, "there was room for all, so this has tested nothing"
        assert any(num_heard > 1 for _, num_heard in runner.resumed)
        assert any(num_made > 16 for num_made, _ in runner.resumed)
    runner.close()
    for one, other in zip(together, alone(device), strict=True):
        assert len(other.samples) > 1920 * 20
        np.testing.assert_array_equal(one.samples, other.samples)
        assert one.reason == other.reason
