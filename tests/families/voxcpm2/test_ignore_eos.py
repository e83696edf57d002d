"""Speech that would end soon, whose end is ignored or put off."""

from pathlib import Path
from shutil import copytree

import numpy as np

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.language_model import load_runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from tests.families.voxcpm2.conftest import context_of
from tests.families.voxcpm2.speaking import DEFAULT, Spoken, ask, speak
from tests.families.weight_edits import write_rows

NUM_STEPS = 12


def make_ending(path: Path) -> None:
    """Make the end far likelier or unlikelier than another frame, by turns of the state."""
    values = np.random.default_rng(0).standard_normal(load_config(path).base.hidden_size)
    row = (50 * values).astype(np.float32)
    write_rows(path, {"stop_head.weight": {0: -row, 1: row}})


def ends_of(
    context: LoadContext, prompter: VoxCPM2Prompter, sampling: Sampling = DEFAULT
) -> dict[int, Spoken]:
    runner = load_runner(context, max_positions=64)
    prompts = {seed: ask(prompter, f"Text {seed}.", seed, sampling=sampling) for seed in range(3)}
    return speak(runner, prompts, num_steps=NUM_STEPS)


def test_speech_that_would_end_soon_goes_on(
    checkpoint: Path, prompter: VoxCPM2Prompter, tmp_path: Path
) -> None:
    path = tmp_path / "ending"
    copytree(checkpoint, path)
    make_ending(path)
    context = context_of(path)
    usual = ends_of(context, prompter)
    assert [each.end for each in usual.values()] == ["stopped"] * 3
    endless = ends_of(context, prompter, Sampling(ignore_eos=True))
    assert [each.end for each in endless.values()] == [None] * 3
    least = max(len(each.frames) for each in usual.values()) + 1
    for each in ends_of(context, prompter, Sampling(min_frames=least)).values():
        assert len(each.frames) >= least
