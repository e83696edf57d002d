"""Drives a runner as the engine does, for many requests at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling
from antiphon.engine.plan import Start
from antiphon.engine.runner import Runner
from antiphon.families.fish_speech.checkpoint import PICKLED_FILE, s2_name
from antiphon.families.fish_speech.config import load_config
from antiphon.families.kit.mixed.prompt import MixedPrompt
from tests.engine.drive import Drive
from tests.families.weight_edits import write_rows

DRAWN = Sampling(temperature=1.0, top_k=30, top_p=0.9, min_frames=1)
NUM_CODEBOOKS = 10
_GAIN = 50.0
_TABLE = "embeddings.weight"


@dataclass(slots=True)
class Heard:
    """What came of one request."""

    frames: list[NDArray[np.int64]] = field(default_factory=list)
    end: str | None = None

    @property
    def codes(self) -> list[list[int]]:
        return [frame.tolist() for frame in self.frames]


def made_prompt(
    ids: NDArray[np.int64],
    reference: NDArray[np.int64] | None = None,
    *,
    seed: int = 1,
    sampling: Sampling = DRAWN,
    max_frames: int = 4000,
) -> Prompt:
    """Make a prompt of ids, and frames where they are -1."""
    nothing = np.empty((0, NUM_CODEBOOKS), np.int64)
    data = MixedPrompt(
        ids=ids, frames=nothing if reference is None else reference, max_frames=max_frames
    )
    return Prompt(
        data=data,
        num_tokens=len(ids),
        seed=seed,
        sampling=sampling,
        num_positions=len(ids) - 1,
        position_keys=data.position_keys,
    )


def hear(
    runner: Runner,
    prompts: Mapping[int, Prompt],
    *,
    max_frames: int = 25,
    made: Mapping[int, list[NDArray[np.int64]]] | None = None,
) -> dict[int, Heard]:
    """Start all prompts at once, in the slots that they are keyed by, and run each to its end.

    ``made`` are frames by slot that requests go on after.
    """
    drive, before = Drive(runner), made or {}
    heard = {slot: Heard(list(before.get(slot, []))) for slot in prompts}
    starts = tuple(
        Start(slot, prompt, tuple(before.get(slot, ()))) for slot, prompt in prompts.items()
    )
    while True:
        slots = tuple(
            slot
            for slot, each in heard.items()
            if each.end is None and len(each.frames) < max_frames
        )
        if not slots:
            break
        output = drive.step(slots, starts=starts)
        starts = ()
        for slot, frame in output.frames.items():
            heard[slot].frames.append(frame)
        for end, ended in (
            ("stop", output.stopped),
            ("length", output.lengths),
            ("error", drive.faults),
        ):
            for slot in ended:
                heard[slot].end = end
    drive.step(releases=tuple(prompts))
    return heard


def make_ending(path: Path) -> None:
    """Make the score of the end far from all others: above them after about half of all frames."""
    end, pickled = load_config(path).tokens.end, path / PICKLED_FILE
    if pickled.is_file():
        tensors = torch.load(pickled, weights_only=True)
        tensors[_TABLE][end] *= _GAIN
        torch.save(tensors, pickled)
        return
    rows = load_file(path / "model.safetensors")[s2_name(_TABLE)]
    write_rows(path, {s2_name(_TABLE): {end: rows[end] * np.float32(_GAIN)}})
