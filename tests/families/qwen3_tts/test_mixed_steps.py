"""Requests arrive while others speak: their prompts are in the talker's pass over the rows."""

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner import model_runner
from antiphon.engine.plan import Start
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import LanguageModel, Qwen3TTSRunner, load_runner
from antiphon.nn import kernels
from tests.engine.drive import Drive
from tests.families.qwen3_tts.lm import made_prompt
from tests.families.qwen3_tts.test_blocks import CalledGraphs
from tests.kernels import why_not_here

NUM_SLOTS = 3


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.CUSTOM_VOICE)


def new_runner(path: Path, device: str = "cpu", *, is_batched: bool = True) -> Qwen3TTSRunner:
    context = LoadContext(path, device, "float32", NUM_SLOTS)
    return load_runner(context, max_positions=64, is_batched=is_batched)


def codes_of_arrivals(runner: Qwen3TTSRunner, path: Path, num_arrivals: int) -> list[list[int]]:
    """Let a request arrive in every step; return all frames that are made."""
    drive, config, frames = Drive(runner), load_config(path), []
    for slot in range(num_arrivals):
        starts = [Start(slot, made_prompt(config, seed=slot, num_tokens=5))]
        made = drive.step(range(slot + 1), starts=starts).frames
        frames += [[int(code) for code in made[each]] for each in sorted(made)]
    assert len(frames) == num_arrivals * (num_arrivals + 1) // 2
    return frames


def test_a_step_with_an_arrival_is_one_pass_of_the_talker(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = codes_of_arrivals(new_runner(path, is_batched=False), path, NUM_SLOTS)
    forward, passes = LanguageModel.forward, list[int]()

    def counted(model: LanguageModel, states: Tensor, *others: Any) -> Tensor:
        passes.append(states.shape[0] * states.shape[1])
        return forward(model, states, *others)

    monkeypatch.setattr(LanguageModel, "forward", counted)
    assert codes_of_arrivals(new_runner(path), path, NUM_SLOTS) == expected
    num_positions = made_prompt(load_config(path), seed=0, num_tokens=5).num_positions
    assert len(passes) == NUM_SLOTS
    assert min(passes) > num_positions


class PaddedGraphs(CalledGraphs):
    """They pad as graphs do; nothing is run before the first step."""

    def capture(self, key: Hashable, function: Callable[[], Tensor]) -> None:
        self.keys.add(key)


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "kernels can run")
def test_kernels_make_the_same_frames(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = codes_of_arrivals(new_runner(path), path, 2)
    is_gpu = torch.cuda.is_available()
    if not is_gpu:  # in Triton's interpreter
        monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
        monkeypatch.setattr(model_runner, "Graphs", PaddedGraphs)
    runner = new_runner(path, "cuda" if is_gpu else "cpu")
    assert codes_of_arrivals(runner, path, 2) == expected
    runner.close()
