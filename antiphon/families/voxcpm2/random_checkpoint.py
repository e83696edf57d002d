"""Makes checkpoints of random weights in the published layout, for tests and measurements."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from antiphon.families.voxcpm2 import random_configs as configs
from antiphon.families.voxcpm2.checkpoint import VAE_STEM, model_layout, vae_layout
from antiphon.families.voxcpm2.config import load_config
from antiphon.nn.random_weights import (
    Dtype,
    RandomTensor,
    check_arguments,
    num_bytes,
    write_sharded,
)
from antiphon.nn.safetensors_index import Shape

_SPACE = "\u2581"


def make_checkpoint(
    path: Path,
    *,
    size: configs.Size = "tiny",
    task: str = "custom_voice",
    vocabulary: Literal["byte"] = "byte",
    seed: int = 0,
    dtype: Dtype = "float32",
    shards: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a checkpoint's directory; it may exist, and what it holds is replaced file by file.

    Args:
        path: the directory.
        size: ``"tiny"`` runs in seconds on a CPU, ``"2b"`` has the published size.
        task: any; there is one kind of checkpoint.
        vocabulary: ``"byte"``: one that reads any text.
        seed: of all weights.
        dtype: of the model; the AudioVAE is float32, as published.
        shards: files that the model is spread over.
        progress: called with the bytes written so far and the bytes in all.

    Raises:
        ModelLoadError: an argument is none of these.
    """
    check_arguments(
        size=(size, get_args(configs.Size)),
        vocabulary=(vocabulary, ("byte",)),
        dtype=(dtype, get_args(Dtype)),
    )
    path.mkdir(parents=True, exist_ok=True)
    _write_json(path / "config.json", configs.main_config(size, dtype))
    _write_tokenizer(path)
    config = load_config(path)
    model = {name: _tensor(name, shape) for name, shape in model_layout(config).items()}
    vae = {name: _vae_tensor(name, shape) for name, shape in vae_layout(config.vae).items()}
    total, done = num_bytes(model, dtype) + num_bytes(vae, "float32"), 0

    def written(num_written: int) -> None:
        nonlocal done
        done += num_written
        if progress is not None:
            progress(done, total)

    write_sharded(path, model, seed, dtype, shards, written)
    write_sharded(path, vae, seed, "float32", 1, written, stem=VAE_STEM)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor that keeps its inputs' size, so that frames differ from each other."""
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
    if name.endswith("weight_g"):  # the length of each output's weights
        gain = 0.3 if shape[0] == 1 or name.endswith(".block.3.weight_g") else 1.2
        return RandomTensor(shape, 0.05, gain)
    if name.endswith("weight_v"):
        return RandomTensor(shape, 1.0)
    return RandomTensor(shape, 0.1)


def _write_tokenizer(path: Path) -> None:
    """Write a tokenizer of letters and bytes, of the kind that Llama's are."""
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
    _write_json(path / "tokenizer_config.json", content)


def _write_json(file: Path, content: configs.Json) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
