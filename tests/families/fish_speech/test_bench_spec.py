"""What measurements make of random weights: speech that would end soon does not end at all."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.families.fish_speech.bench_spec import make_endless
from antiphon.families.fish_speech.runner import load_runner
from tests.families.fish_speech.spoken import hear, made_prompt, make_ending

NUM_FRAMES, NUM_PROMPTS = 24, 4


def ends_of(path: Path) -> list[str | None]:
    runner = load_runner(LoadContext(path, "cpu", max_slots=NUM_PROMPTS), max_positions=64)
    ids = [np.random.default_rng(seed).integers(0, 256, 9) for seed in range(NUM_PROMPTS)]
    prompts = {seed: made_prompt(each, seed=seed) for seed, each in enumerate(ids)}
    return [each.end for each in hear(runner, prompts, max_frames=NUM_FRAMES).values()]


S1 = pytest.param("s1", marks=pytest.mark.slow)  # another kind of file


@pytest.mark.parametrize("task", ["s2", S1])
def test_speech_that_would_end_is_made_endless(
    task: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / task
    copytree(made(task), path)
    make_ending(path)
    assert ends_of(path) == ["stop"] * NUM_PROMPTS
    make_endless(path)
    assert ends_of(path) == [None] * NUM_PROMPTS
