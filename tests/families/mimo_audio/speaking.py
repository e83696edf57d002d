"""Prompts, and the frames that a runner makes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling
from antiphon.engine.plan import Start
from antiphon.engine.runner import Runner
from antiphon.families.mimo_audio.config import load_config
from antiphon.families.mimo_audio.prompt import MiMoAudioPrompt, text_groups
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from tests.engine.drive import Drive
from tests.families.weight_edits import head_row, leaning_rows, write_rows

Frames = list[NDArray[np.int64]]

GREEDY = Sampling(temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0)
DRAWN = Sampling(temperature=0.9, top_k=30, top_p=0.95, repetition_penalty=1.0)


def make_all_audio(path: Path) -> None:
    """Change a random checkpoint so that every group contains audio."""
    config = load_config(path)
    empty_id = load_text_tokenizer(path, config.vocab_size).empty_id
    head = {empty_id: head_row(config.transformer)}
    write_rows(path, {**leaning_rows("model", config.transformer), "lm_head.weight": head})


def prompt_of(
    checkpoint: Path, text: str, sampling: Sampling = GREEDY, seed: int = 1, **more: Any
) -> Prompt:
    """Return a prompt of plain text."""
    config = load_config(checkpoint)
    ids = load_text_tokenizer(checkpoint, config.vocab_size).encode([text])
    return Prompt(
        data=MiMoAudioPrompt(text_groups(config, ids), sampling),
        num_tokens=len(ids),
        seed=seed,
        sampling=sampling,
        num_positions=len(ids) - 1,
        **more,
    )


def frames_of(
    runner: Runner,
    prompts: Mapping[int, Prompt],
    num_frames: int,
    made: Mapping[int, Frames] | None = None,
) -> dict[int, Frames]:
    """Make frames of prompts by slot, together, after those that are ``made``."""
    drive = Drive(runner, piece_positions=16)
    frames = {slot: [*(made or {}).get(slot, ())] for slot in prompts}
    starts = tuple(Start(slot, each, tuple(frames[slot])) for slot, each in prompts.items())
    while waiting := [slot for slot in sorted(prompts) if len(frames[slot]) < num_frames]:
        output = drive.step(waiting, starts=starts)
        starts = ()
        assert not drive.faults
        for slot in waiting:
            if slot in output.stopped:
                return frames
            frames[slot].append(output.frames[slot])
    return frames
