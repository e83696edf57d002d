"""Writer of checkpoints with random weights in the published layout, for tests and benchmarks."""

import math
from pathlib import Path
from typing import get_args

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from antiphon.families.kit.random_checkpoint import (
    Making,
    RandomPart,
    checkpoint_maker,
    write_json,
    write_parts,
)
from antiphon.families.voxcpm2 import random_configs as configs
from antiphon.families.voxcpm2.checkpoint import VAE_STEM, model_layout, vae_layout
from antiphon.families.voxcpm2.config import load_config
from antiphon.nn.random_weights import (
    RandomTensor,
)
from antiphon.nn.safetensors_index import Shape

_SPACE = "\u2581"


@checkpoint_maker(sizes=get_args(configs.Size))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint in the published layout; its AudioVAE is always float32."""
    write_json(path / "config.json", configs.main_config(making.size, making.dtype))
    _write_tokenizer(path)
    config = load_config(path)
    model = {name: _tensor(name, shape) for name, shape in model_layout(config).items()}
    vae = {name: _vae_tensor(name, shape) for name, shape in vae_layout(config.vae).items()}
    seed, dtype = making.seed, making.dtype
    parts = [
        RandomPart(directory=path, tensors=model, seed=seed, dtype=dtype, shards=making.shards),
        RandomPart(directory=path, tensors=vae, seed=seed, dtype="float32", stem=VAE_STEM),
    ]
    write_parts(parts, making.progress)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor that preserves the scale of its inputs, so that frames differ."""
    if "norm" in name:
        return RandomTensor(shape, 0.1, 1.0)
    if name.endswith("special_token"):
        return RandomTensor(shape, 1.0)
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.1)
    if "embed_tokens" in name:
        return RandomTensor(shape, 0.1)
    return RandomTensor(shape, 1.2 / math.sqrt(shape[1]))


def _vae_tensor(name: str, shape: Shape) -> RandomTensor:
    if name.endswith(".alpha"):
        return RandomTensor(shape, 0.2, 1.0)
    if name.endswith("scale_embed.weight"):
        return RandomTensor(shape, 0.1, 1.0)
    if name.endswith("weight_g"):  # the norm of each output's weights
        gain = 0.3 if shape[0] == 1 or name.endswith(".block.3.weight_g") else 1.2
        return RandomTensor(shape, 0.05, gain)
    if name.endswith("weight_v"):
        return RandomTensor(shape, 1.0)
    return RandomTensor(shape, 0.1)


def _write_tokenizer(path: Path) -> None:
    """Write a tokenizer of letters and bytes in Llama's format."""
    model = models.BPE(
        vocab=configs.vocabulary(),
        merges=[configs.MERGED],
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in configs.specials()]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    content = {
        "tokenizer_class": "LlamaTokenizerFast",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": 8192,
    }
    write_json(path / "tokenizer_config.json", content)
