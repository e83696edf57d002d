"""Random voice tensors of random checkpoints, and a file of speakers."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon.families.causal_lm.omni.checkpoint import talker_layout, token2wav_layout
from antiphon.families.causal_lm.omni.config import SPEAKERS, OmniConfig, load_omni_config
from antiphon.families.causal_lm.omni.random_configs import bos_tokens
from antiphon.nn.random_weights import RandomTensor, random_values
from antiphon.nn.safetensors_index import Shape

_TINY_IDS = 1000
_REF_FRAMES = 30


def make_voice(path: Path, seed: int) -> Mapping[str, RandomTensor]:
    """Write the file of speakers beside config.json; return the tensors of the voice."""
    (path / SPEAKERS).touch()
    config = load_omni_config(path)
    is_tiny = config.thinker_vocab < _TINY_IDS
    speakers = {
        name: _speaker(name, token, config, seed)
        for name, token in bos_tokens(is_tiny=is_tiny).items()
    }
    torch.save(speakers, path / SPEAKERS)
    layout = talker_layout(config) | token2wav_layout(config)
    del layout[f"{config.thinker}model.embed_tokens.weight"]  # part of the thinker
    return {name: _tensor(name, shape, config) for name, shape in layout.items()}


def _speaker(name: str, token: int, config: OmniConfig, seed: int) -> dict[str, Any]:
    def numbers(what: str, *shape: int) -> Tensor:
        values = [*random_values(f"{name}.{what}", RandomTensor(shape, 1.0), seed)]
        return torch.from_numpy(np.concatenate(values)).view(shape)

    flow = config.flow
    return {
        "bos_token": token,
        "cond": numbers("cond", 1, flow.enc_emb_dim),
        "ref_mel": numbers("ref_mel", 1, _REF_FRAMES, flow.mel_dim),
    }


def _tensor(name: str, shape: Shape, config: OmniConfig) -> RandomTensor:
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
