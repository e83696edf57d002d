"""What measurements make of random weights: speech that would end soon does not end at all."""

from pathlib import Path
from shutil import copytree

import numpy as np

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.weight_edits import write_rows
from antiphon.families.voxcpm2.bench_spec import make_endless
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from antiphon.families.voxcpm2.runner import load_runner
from tests.families.voxcpm2.conftest import context_of
from tests.families.voxcpm2.speaking import ask, speak

NUM_STEPS = 12


def make_ending(path: Path) -> None:
    """Make the end far likelier or unlikelier than another frame, by turns of the state."""
    values = np.random.default_rng(0).standard_normal(load_config(path).base.hidden_size)
    row = (50 * values).astype(np.float32)
    write_rows(path, {"stop_head.weight": {0: -row, 1: row}})


def ends_of(context: LoadContext, prompter: VoxCPM2Prompter) -> list[str | None]:
    runner = load_runner(context, max_positions=64)
    prompts = {seed: ask(prompter, f"Text {seed}.", seed) for seed in range(3)}
    return [each.end for each in speak(runner, prompts, num_steps=NUM_STEPS).values()]


def test_speech_that_would_end_is_made_endless(
    checkpoint: Path, prompter: VoxCPM2Prompter, tmp_path: Path
) -> None:
    path = tmp_path / "ending"
    copytree(checkpoint, path)
    make_ending(path)
    assert ends_of(context_of(path), prompter) == ["stopped"] * 3
    make_endless(path)
    assert ends_of(context_of(path), prompter) == [None] * 3
