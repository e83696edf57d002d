"""Writer of checkpoints with random weights in the official layouts, for tests and benchmarks."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.families.fish_speech.checkpoint import (
    CODEC_FILE,
    PICKLED_FILE,
    layout_of,
    s2_name,
)
from antiphon.families.fish_speech.codec_schema import codec_layout
from antiphon.families.fish_speech.config import Layout, load_config
from antiphon.families.fish_speech.random_configs import (
    Size,
    codec_sizes,
    main_config,
    num_semantic,
)
from antiphon.families.fish_speech.random_tokenizer import write_s1_tokenizer, write_s2_tokenizer
from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker
from antiphon.nn.random_weights import (
    Dtype,
    RandomTensor,
    check_arguments,
    counted,
    num_bytes,
    random_values,
    write_sharded,
)
from antiphon.nn.safetensors_index import Shape

TASKS: Mapping[str, Layout] = {"s2": Layout.S2, "s1": Layout.S1}
_EITHER = ("custom_voice", "base")
"""Task names of other families: checkpoints of this one have voices and clone them."""
_CODEC_SEED_OFFSET = 1
# The first match applies. A gain of 1 preserves the variance of random inputs.
_GAINS = (
    (r"(fast_)?layers\..*\.(wo|w2)\.weight", 1.5),
    (r"fast_output\.weight", 3.0),
    (r"decoder\.model\.\d+\.block\.[234]\..*conv\.weight", 0.6),
    (r"decoder\.model\.\d+\.block\.1\.conv\.weight", 0.8),
    (r"decoder\.model\.6\.conv\.weight", 0.1),
    (r"encoder\.block\.0\.conv\.weight", 8.0),
    (r"encoder\..*\.weight", 1.3),
)
_NEAR = (  # mean, standard deviation
    (r".*\.alpha", 1.0, 0.2),
    (r".*\.gamma", 0.3, 0.05),
    (r".*[qk]_norm\.weight", 1.5, 0.1),
    (r".*norm\.weight", 1.0, 0.1),
    (r".*\.bias", 0.0, 0.05),
    (r"embeddings\.weight", 0.0, 0.4),
    (r"fast_embeddings\.weight", 0.0, 1.0),
    (r"codebook_embeddings\.weight", 0.0, 0.35),
    (r".*\.codebook\.weight", 0.0, 1.0),
)
_NORMED = re.compile(r"(encoder|decoder)\..*\.conv\.weight")
_NORMED_AS_BEFORE = re.compile(r".*\.(in|out)_proj\.weight")


@checkpoint_maker(
    sizes=get_args(Size),
    tasks=(),
)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint; the task is its format, and the codec is always float32.

    ``"s2"`` has safetensors files, ``"s1"`` model.pth and tokenizer.tiktoken. ``None``,
    ``"custom_voice"`` and ``"base"`` select the format by the size, and S2 for ``"tiny"``.
    """
    size, task, seed, dtype = making.size, making.task, making.seed, making.dtype
    if task is None or task in _EITHER:
        task = "s1" if size == "s1-mini" else "s2"
    check_arguments(task=(task, [*TASKS, *_EITHER]))
    layout = TASKS[task]
    if layout is Layout.S1 and making.shards != 1:
        raise ModelLoadError("S1's weights are one file.")
    main = _write_all_but_weights(path, size, layout, dtype)
    codec = {name: _tensor(name, shape) for name, shape in codec_layout(codec_sizes(size)).items()}
    total = num_bytes(main, dtype) + num_bytes(codec, "float32")
    written = counted(making.progress, total)
    if layout is Layout.S2:
        named = {s2_name(name): tensor for name, tensor in main.items()}
        write_sharded(path, named, seed, dtype, making.shards, written)
    else:
        kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
        pickled = {name: _values(name, each, seed).to(kind) for name, each in main.items()}
        torch.save(pickled, path / PICKLED_FILE)
        written(num_bytes(main, dtype))
    torch.save(dict(_codec_parts(codec, seed + _CODEC_SEED_OFFSET)), path / CODEC_FILE)
    written(num_bytes(codec, "float32"))


def codec_tensor(name: str, shape: Shape, seed: int) -> Tensor:
    """Return a tensor of a random codec, in float32."""
    return _values(name, _tensor(name, shape), seed)


def _write_all_but_weights(
    path: Path, size: Size, layout: Layout, dtype: Dtype
) -> dict[str, RandomTensor]:
    """Write tokenizer and configuration; return the language model's tensors."""
    write = write_s2_tokenizer if layout is Layout.S2 else write_s1_tokenizer
    vocab_size = write(path, num_semantic(size))
    content = json.dumps(main_config(size, layout, vocab_size, dtype), indent=2)
    (path / "config.json").write_text(content + "\n", encoding="utf-8")
    return {name: _tensor(name, shape) for name, shape in layout_of(load_config(path)).items()}


def _tensor(name: str, shape: Shape) -> RandomTensor:
    for pattern, mean, std in _NEAR:
        if re.fullmatch(pattern, name):
            return RandomTensor(shape, std, mean)
    gain = next((gain for pattern, gain in _GAINS if re.fullmatch(pattern, name)), 1.0)
    return RandomTensor(shape, gain / math.sqrt(_fan_in(name, shape)))


def _fan_in(name: str, shape: Shape) -> int:
    """Return the number of products per output value."""
    if re.fullmatch(r"quantizer\.upsample\.\d+\.0\.conv\.weight", name):
        return shape[0]  # transposed, kernel as wide as its stride
    if re.fullmatch(r"decoder\.model\.\d+\.block\.1\.conv\.weight", name):
        return 2 * shape[0]  # transposed, kernel twice as wide as its stride
    return math.prod(shape[1:])


def _values(name: str, tensor: RandomTensor, seed: int) -> Tensor:
    parts = [*random_values(name, tensor, seed)]
    return torch.from_numpy(np.concatenate(parts)).view(tensor.shape)


def _codec_parts(tensors: Mapping[str, RandomTensor], seed: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the codec's tensors, with weight normalisation stored as in the official files."""
    for name, tensor in tensors.items():
        values = _values(name, tensor, seed)
        prefix = name.removesuffix("weight")
        if _NORMED.fullmatch(name):
            length = torch.norm_except_dim(values, 2, 0)
            yield f"{prefix}parametrizations.weight.original0", length
            yield f"{prefix}parametrizations.weight.original1", values
        elif _NORMED_AS_BEFORE.fullmatch(name):
            yield f"{prefix}weight_g", torch.norm_except_dim(values, 2, 0)
            yield f"{prefix}weight_v", values
        else:
            yield name, values
