"""Writer of checkpoints with random weights in the official layout.

python -m tests.families.kokoro.random_checkpoint DIRECTORY 82M
"""

import json
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch

from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker, report_files
from antiphon.families.kokoro.checkpoint import MAX_PHONEMES, STYLE_SIZE, load_config
from antiphon.families.kokoro.model import KokoroModel
from tests.families.kokoro.random_vocabulary import VOCABULARY

Size: TypeAlias = Literal["tiny", "82M"]
Json: TypeAlias = dict[str, Any]

VOICES = ("af_heart", "af_sky", "am_adam", "bf_emma", "jf_alpha", "zf_xiaoxiao")
_CHANNELS: Mapping[Size, tuple[int, int]] = {"tiny": (24, 8), "82M": (1024, 64)}
_SHORT = -3.0  # of a sigmoid: a few frames a phoneme
_QUIET = -3.0  # of a logarithm
_STD_OF_INPUTS = 0.8


@checkpoint_maker(sizes=get_args(Size), vocabularies=(), dtypes=("float32",), is_sharded=False)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint in the official layout; neither task nor vocabulary has an effect."""
    seed = making.seed
    (path / "voices").mkdir(parents=True, exist_ok=True)
    config = json.dumps(_config(making.size), ensure_ascii=False, indent=2)
    (path / "config.json").write_text(config + "\n", encoding="utf-8")
    channels, skipped = _CHANNELS[making.size]
    with torch.device("meta"):
        model = KokoroModel(load_config(path), num_channels=channels, num_skipped=skipped)
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in model.state_dict().items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[f"module.{rest}"] = _random(name, tuple(tensor.shape), seed)
    torch.save(parts, path / "kokoro-v1_0.pth")
    for voice in VOICES:
        drawn = _numbers(voice, (MAX_PHONEMES, 1, STYLE_SIZE), seed) * np.float32(0.2)
        torch.save(torch.from_numpy(drawn), path / "voices" / f"{voice}.pt")
    report_files(path, making.progress)


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


def _config(size: Size) -> Json:
    is_tiny = size == "tiny"
    return {
        "istftnet": {
            "upsample_kernel_sizes": [20, 12],
            "upsample_rates": [10, 6],
            "gen_istft_hop_size": 5,
            "gen_istft_n_fft": 20,
            "resblock_dilation_sizes": [[1, 3, 5]] * (1 if is_tiny else 3),
            "resblock_kernel_sizes": [3] if is_tiny else [3, 7, 11],
            "upsample_initial_channel": 16 if is_tiny else 512,
        },
        "dim_in": 64,
        "dropout": 0.2,
        "hidden_dim": 16 if is_tiny else 512,
        "max_conv_dim": 512,
        "max_dur": 50,
        "multispeaker": True,
        "n_layer": 1 if is_tiny else 3,
        "n_mels": 80,
        "n_token": 178,
        "style_dim": STYLE_SIZE // 2,
        "text_encoder_kernel_size": 5,
        "plbert": {
            "hidden_size": 32 if is_tiny else 768,
            "num_attention_heads": 2 if is_tiny else 12,
            "intermediate_size": 64 if is_tiny else 2048,
            "max_position_embeddings": MAX_PHONEMES + 2,
            "num_hidden_layers": 2 if is_tiny else 12,
            "dropout": 0.1,
        },
        "vocab": dict(VOCABULARY),
    }


if __name__ == "__main__":
    make_checkpoint(Path(sys.argv[1]), size=sys.argv[2])
