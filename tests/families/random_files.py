"""Safetensors files of random numbers, for checkpoints of tests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from antiphon.nn.random_weights import Dtype, random_values
from antiphon.nn.safetensors_index import STEM


@dataclass(frozen=True, slots=True)
class RandomTensor:
    """Description of a tensor of uniform values around a mean.

    Attributes:
        shape: row-major.
        std: standard deviation; 0 makes every value the mean.
        row_gains: factors for single rows of the first axis.
        row_means: offsets of single rows of the first axis, added after their factors.
    """

    shape: tuple[int, ...]
    std: float
    mean: float = 0.0
    row_gains: Mapping[int, float] = field(default_factory=dict)
    row_means: Mapping[int, float] = field(default_factory=dict)

    def values(self, name: str, seed: int) -> NDArray[np.float32]:
        values = random_values(name, self.shape, self.std, seed) + np.float32(self.mean)
        for row, gain in self.row_gains.items():
            values[row] *= np.float32(gain)
        for row, mean in self.row_means.items():
            values[row] += np.float32(mean)
        return values


def write_tensors(
    directory: Path,
    tensors: Mapping[str, RandomTensor],
    seed: int,
    dtype: Dtype,
    *,
    shards: int = 1,
    stem: str = STEM,
) -> None:
    """Write one file, or shards with their index, in place of those of an earlier call."""
    for stale in directory.glob(f"{stem}*.safetensors*"):
        stale.unlink()
    weight_map: dict[str, str] = {}
    for number, names in enumerate(np.array_split([*tensors], shards), 1):
        part = f"-{number:05}-of-{shards:05}" if shards > 1 else ""
        file = f"{stem}{part}.safetensors"
        drawn = {name: torch.from_numpy(tensors[name].values(name, seed)) for name in names}
        typed = {name: each.to(getattr(torch, dtype)) for name, each in drawn.items()}
        save_file(typed, directory / file, {"format": "pt"})
        weight_map |= dict.fromkeys(map(str, names), file)
    if shards > 1:
        index = json.dumps({"metadata": {}, "weight_map": weight_map})
        (directory / f"{stem}.safetensors.index.json").write_text(index, encoding="utf-8")
