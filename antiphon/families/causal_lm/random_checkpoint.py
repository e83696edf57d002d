"""Writer of checkpoints with random weights in published layouts, for tests and benchmarks."""

import math
from pathlib import Path
from typing import get_args

from antiphon.families.causal_lm import random_configs as configs
from antiphon.families.causal_lm.checkpoint import layout_of
from antiphon.families.causal_lm.config import load_config
from antiphon.families.causal_lm.omni.random_voice import make_voice
from antiphon.families.kit.random_checkpoint import (
    Making,
    RandomPart,
    checkpoint_maker,
    write_byte_tokenizer,
    write_json,
    write_parts,
)
from antiphon.families.kit.token_decoder import byte_letters
from antiphon.nn.random_weights import (
    RandomTensor,
)
from antiphon.nn.safetensors_index import Shape

TASKS = get_args(configs.Layout)


@checkpoint_maker(sizes=get_args(configs.Size), tasks=TASKS)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint; the task is its layout.

    ``"omni"`` is the thinker in the layout of a whole Qwen2.5-Omni, ``"omni_voice"`` also has the
    talker, and ``"thinker"`` is the thinker saved by itself.
    """
    write_json(path / "config.json", configs.main_config(making.size, making.task, making.dtype))
    write_json(path / "generation_config.json", configs.GENERATION)
    tokenizer = {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 4096,
        "chat_template": configs.TEMPLATE,
    }
    write_byte_tokenizer(path, configs.SPECIAL_TOKENS, tokenizer, byte_letters())
    layout = layout_of(load_config(path))
    tensors = {name: _tensor(name, shape) for name, shape in layout.items()}
    if making.task == "omni_voice":
        tensors |= make_voice(path, making.seed)
    part = RandomPart(
        directory=path,
        tensors=tensors,
        seed=making.seed,
        dtype=making.dtype,
        shards=making.shards,
    )
    write_parts([part], making.progress)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor that preserves the scale of its inputs, so that answers vary."""
    if "norm" in name:
        return RandomTensor(shape, 0.1, 1.0)
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.3)
    if "embed_tokens" in name:
        return RandomTensor(shape, 0.5)
    gain = 3.0 if "lm_head" in name else 1.5
    return RandomTensor(shape, gain / math.sqrt(shape[1]))
