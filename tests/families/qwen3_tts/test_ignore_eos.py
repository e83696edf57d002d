"""Speech that would end soon, whose end is ignored or put off."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from safetensors.numpy import load_file

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.families.qwen3_tts.stopping import LoopDetectors
from tests.families.qwen3_tts.lm import DRAWN, Heard, hear, made_prompt
from tests.families.weight_edits import write_rows

NUM_FRAMES, NUM_PROMPTS = 24, 4
HEAD = "talker.codec_head.weight"


def make_ending(path: Path) -> None:
    """Make the score of the end far from all others: above them after about half of all frames."""
    end = load_config(path).talker.tokens.eos
    row = load_file(path / "model.safetensors")[HEAD][end]
    write_rows(path, {HEAD: {end: row * np.float32(50.0)}})


def ends_of(path: Path, sampling: Sampling = DRAWN) -> dict[int, Heard]:
    config, context = load_config(path), LoadContext(path, "cpu", "float32", NUM_PROMPTS, 2**22)
    runner = load_runner(context, max_positions=128)
    prompts = {
        seed: made_prompt(config, seed=seed, sampling=sampling) for seed in range(NUM_PROMPTS)
    }
    return hear(runner, prompts, max_frames=NUM_FRAMES)


def test_speech_that_would_end_soon_goes_on(
    checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "ending"
    copytree(checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE), path)
    make_ending(path)
    usual = ends_of(path)
    assert [each.end for each in usual.values()] == ["stop"] * NUM_PROMPTS
    endless = ends_of(path, replace(DRAWN, ignore_eos=True))
    assert [each.end for each in endless.values()] == [None] * NUM_PROMPTS
    least = max(len(each.frames) for each in usual.values()) + 1
    late = ends_of(path, replace(DRAWN, min_frames=least))
    for slot, each in late.items():
        assert len(each.frames) >= least
        assert each.codes == endless[slot].codes[: len(each.codes)]


def test_a_loop_ends_speech_unless_its_end_is_ignored(
    checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoopDetectors, "observe", lambda *_: np.ones(1, np.bool_))
    path = checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE)
    runner = load_runner(LoadContext(path, "cpu", "float32", 1), max_positions=128)
    lengths = []
    for sampling in (DRAWN, replace(DRAWN, min_frames=5), replace(DRAWN, ignore_eos=True)):
        prompt = made_prompt(load_config(path), seed=1, sampling=sampling)
        lengths.append(len(hear(runner, {0: prompt}, max_frames=NUM_FRAMES)[0].frames))
    assert lengths == [2, 5, NUM_FRAMES]
