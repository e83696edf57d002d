"""Whole checkpoints of random weights, made on top of the family's own files."""

import math
from pathlib import Path

from antiphon.families.causal_lm.checkpoint import layout_of
from antiphon.families.causal_lm.config import load_config
from antiphon.families.causal_lm.omni.checkpoint import talker_layout, token2wav_layout
from antiphon.families.causal_lm.omni.config import OmniConfig, has_voice, load_omni_config
from antiphon.families.causal_lm.sizes import make_checkpoint as without_weights
from antiphon.nn.safetensors_index import Shape
from tests.families.random_files import RandomTensor, write_tensors
from tests.families.whole_checkpoints import Whole, WholeCheckpoints


def write_weights(path: Path, making: Whole) -> None:
    layout = layout_of(load_config(path))
    tensors = {name: _tensor(name, shape) for name, shape in layout.items()}
    if has_voice(path):
        config = load_omni_config(path)
        spoken = talker_layout(config) | token2wav_layout(config)
        del spoken[f"{config.thinker}model.embed_tokens.weight"]  # part of the thinker
        tensors |= {name: _voice_tensor(name, shape, config) for name, shape in spoken.items()}
    write_tensors(path, tensors, making.seed, making.dtype, shards=making.shards)


make_checkpoint = WholeCheckpoints(without_weights, write_weights)


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


def _voice_tensor(name: str, shape: Shape, config: OmniConfig) -> RandomTensor:
    """Return a tensor that preserves the scale of its inputs; special ids are never likely."""
    if name.endswith("norm.weight"):
        return RandomTensor(shape, 0.1, 1.0)
    if name.endswith((".alpha", ".beta")):
        return RandomTensor(shape, 0.3)
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.1)
    if "embed_tokens" in name or "codec_embed" in name:
        return RandomTensor(shape, 0.5)
    if "codec_head" in name:
        tokens = config.talker.tokens
        silent = set(range(config.flow.num_embeds, shape[0])) - {tokens.codec_end}
        return RandomTensor(shape, 3.0 / math.sqrt(shape[1]), 0.0, dict.fromkeys(silent, 0.0))
    gain = 1.5 if name.startswith("talker") else 1.0
    return RandomTensor(shape, gain / math.sqrt(math.prod(shape[1:])))
