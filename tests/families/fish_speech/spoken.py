"""Drives a runner as the engine does, for many requests at once."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling
from antiphon.families.fish_speech.checkpoint import PICKLED_FILE, s2_name
from antiphon.families.fish_speech.config import load_config
from antiphon.families.fish_speech.language_model import load_runner
from antiphon.families.kit.mixed.prompt import FRAME, MixedPrompt
from tests.families.language_models import LanguageModel
from tests.families.weight_edits import write_rows

DRAWN = Sampling(temperature=1.0, top_k=30, top_p=0.9, min_frames=1)
NUM_CODEBOOKS = 10
_GAIN = 50.0
_TABLE = "embeddings.weight"


def made_prompt(
    ids: NDArray[np.int64],
    reference: NDArray[np.int64] | None = None,
    *,
    seed: int = 1,
    sampling: Sampling = DRAWN,
    max_frames: int = 4000,
) -> Prompt:
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


def ids_of(seed: int, count: int = 9) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 256, count)


def reference_of(seed: int, count: int = 5) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 160, (count, NUM_CODEBOOKS))


def cloning_ids(seed: int, num_frames: int = 5) -> NDArray[np.int64]:
    return np.concatenate((ids_of(seed, 4), np.full(num_frames, FRAME), ids_of(seed + 1, 6)))


def _prompts(path: Path) -> dict[int, Prompt]:
    cold = Sampling(temperature=0.4, top_k=0, top_p=1.0)
    return {
        0: made_prompt(ids_of(1), seed=1),
        1: made_prompt(cloning_ids(2), reference_of(2), seed=2),
        3: made_prompt(ids_of(3, 40), seed=3, sampling=cold),
    }


LANGUAGE_MODEL = LanguageModel(load_runner, _prompts, make_ending)
