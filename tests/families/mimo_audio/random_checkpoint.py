"""Writer of checkpoints with random weights in the published layout."""

import math
from pathlib import Path

from antiphon.families.mimo_audio.checkpoint import layout_of, tokenizer_layout_of
from antiphon.families.mimo_audio.config import TOKENIZER_NAME, load_config, load_tokenizer_config
from antiphon.families.mimo_audio.sizes import SPECIAL_TOKENS
from antiphon.families.mimo_audio.sizes import make_checkpoint as without_weights
from antiphon.nn.safetensors_index import Shape
from tests.families.random_files import RandomTensor, write_tensors
from tests.families.whole_checkpoints import Whole, WholeCheckpoints


def write_weights(path: Path, making: Whole) -> None:
    config, beside = load_config(path), path / TOKENIZER_NAME
    main = {name: _tensor(name, shape) for name, shape in layout_of(config).items()}
    layout = tokenizer_layout_of(load_tokenizer_config(beside, config))
    audio = {name: _audio_tensor(name, shape) for name, shape in layout.items()}
    write_tensors(path, main, making.seed, making.dtype, shards=making.shards)
    write_tensors(beside, audio, making.seed, making.dtype)


make_checkpoint = WholeCheckpoints(without_weights, write_weights)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor of the language model.

    Values of the first attention layer have a non-zero mean, which makes the head predict audio
    groups after most inputs, and text now and then.
    """
    if "norm" in name:
        return RandomTensor(shape, 0.1, 1.0)
    if name == "model.layers.0.self_attn.v_proj.bias":
        return RandomTensor(shape, 0.1, 1.0)
    if name == "model.layers.0.self_attn.o_proj.weight":
        return RandomTensor(shape, 0.5 / math.sqrt(shape[1]), 2.0 / shape[1])
    if name == "lm_head.weight":
        empty = 256 + SPECIAL_TOKENS.index("<|empty|>")
        return RandomTensor(shape, 1.0 / math.sqrt(shape[1]), row_means={empty: 7.0 / shape[1]})
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.3)
    if "embed" in name and "to_local" not in name:
        return RandomTensor(shape, 0.5)
    return RandomTensor(shape, (3.0 if "lm_heads" in name else 1.5) / math.sqrt(shape[1]))


def _audio_tensor(name: str, shape: Shape) -> RandomTensor:
    if "norm" in name:
        return RandomTensor(shape, 0.1, 0.0 if name.endswith("bias") else 1.0)
    if name.endswith("window"):
        return RandomTensor(shape, 0.0, 0.5)
    if name.endswith((".inited", ".cluster_size")):
        return RandomTensor(shape, 0.0, 1.0)
    if "_codebook" in name:
        return RandomTensor(shape, 0.5)
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.1)
    return RandomTensor(shape, 1.0 / math.sqrt(math.prod(shape[1:])))
