"""What measurements make of random weights: speech that would end soon does not end at all."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
from safetensors.numpy import load_file

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.weight_edits import write_rows
from antiphon.families.qwen3_tts.bench_spec import make_endless
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.runner import load_runner
from tests.families.qwen3_tts.lm import hear, made_prompt

NUM_FRAMES, NUM_PROMPTS = 24, 4
HEAD = "talker.codec_head.weight"


def make_ending(path: Path) -> None:
    """Make the score of the end far from all others: above them after about half of all frames."""
    end = load_config(path).talker.tokens.eos
    row = load_file(path / "model.safetensors")[HEAD][end]
    write_rows(path, {HEAD: {end: row * np.float32(50.0)}})


def ends_of(path: Path) -> list[str | None]:
    config, context = load_config(path), LoadContext(path, "cpu", "float32", NUM_PROMPTS)
    runner = load_runner(context, max_positions=128, cache_bytes=2**22)
    prompts = {seed: made_prompt(config, seed=seed) for seed in range(NUM_PROMPTS)}
    return [each.end for each in hear(runner, prompts, max_frames=NUM_FRAMES).values()]


def test_speech_that_would_end_is_made_endless(
    checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "ending"
    copytree(checkpoint("tiny-0.6b", CheckpointTask.CUSTOM_VOICE), path)
    make_ending(path)
    assert ends_of(path) == ["stop"] * NUM_PROMPTS
    make_endless(path)
    assert ends_of(path) == [None] * NUM_PROMPTS
