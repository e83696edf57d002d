"""Speech that would end soon, whose end is ignored or put off."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.fish_speech.language_model import load_runner
from tests.families.fish_speech.spoken import DRAWN, Heard, hear, made_prompt, make_ending

NUM_FRAMES, NUM_PROMPTS = 24, 4


def ends_of(path: Path, sampling: Sampling = DRAWN) -> dict[int, Heard]:
    runner = load_runner(LoadContext(path, "cpu", max_slots=NUM_PROMPTS), max_positions=64)
    ids = [np.random.default_rng(seed).integers(0, 256, 9) for seed in range(NUM_PROMPTS)]
    prompts = {
        seed: made_prompt(each, seed=seed, sampling=sampling) for seed, each in enumerate(ids)
    }
    return hear(runner, prompts, max_frames=NUM_FRAMES)


S1 = pytest.param("s1", marks=pytest.mark.slow)  # another kind of file


@pytest.mark.parametrize("task", ["s2", S1])
def test_speech_that_would_end_soon_goes_on(
    task: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / task
    copytree(made(task), path)
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
