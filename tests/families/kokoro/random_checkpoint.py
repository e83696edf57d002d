"""Whole checkpoints of random weights, made on top of the family's own files.

A command, too: ``python -m tests.families.kokoro.random_checkpoint DIRECTORY 82M``.
"""

import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from antiphon.families.kokoro.checkpoint import MAX_PHONEMES, STYLE_SIZE, load_config
from antiphon.families.kokoro.model import KokoroModel
from antiphon.families.kokoro.sizes import VOICES
from antiphon.families.kokoro.sizes import make_checkpoint as without_weights
from tests.families.whole_checkpoints import Whole, WholeCheckpoints

_SHORT = -3.0  # of a sigmoid: a few frames a phoneme
_QUIET = -3.0  # of a logarithm
_STD_OF_INPUTS = 0.8


def write_weights(path: Path, making: Whole) -> None:
    config, seed = load_config(path), making.seed
    channels, skipped = config.decoder_channels
    with torch.device("meta"):
        model = KokoroModel(config, num_channels=channels, num_skipped=skipped)
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in model.state_dict().items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[f"module.{rest}"] = _random(name, tuple(tensor.shape), seed)
    torch.save(parts, path / "kokoro-v1_0.pth")
    for voice in VOICES:
        drawn = _numbers(voice, (MAX_PHONEMES, 1, STYLE_SIZE), seed) * np.float32(0.2)
        torch.save(torch.from_numpy(drawn), path / "voices" / f"{voice}.pt")


make_checkpoint = WholeCheckpoints(without_weights, write_weights)


def _random(name: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return values that keep signals about as large as they are."""
    if name.endswith((".gamma", ".weight")) and len(shape) == 1:
        return torch.ones(shape)
    if ".alpha" in name:
        return torch.ones(shape)
    if "linear_layer.bias" in name:
        return torch.full(shape, _SHORT)
    if name.endswith("conv_post.bias"):
        return torch.tensor([_QUIET] * (shape[0] // 2) + [0.0] * (shape[0] - shape[0] // 2))
    if name.endswith(("bias", ".beta")) or ".bias_" in name:
        level = 150.0 if name.endswith("F0_proj.bias") else 0.0  # Hz: some of it has a voice
        return torch.full(shape, level)
    num_inputs = int(np.prod(shape[1:]))
    scale = _STD_OF_INPUTS / num_inputs**0.5 * (50.0 if "F0_proj" in name else 1.0)
    return torch.from_numpy(_numbers(name, shape, seed) * np.float32(scale))


def _numbers(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return normal numbers that depend on a name and a seed only."""
    drawn = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return drawn.standard_normal(shape, np.float32)


if __name__ == "__main__":
    make_checkpoint(Path(sys.argv[1]), size=sys.argv[2])
