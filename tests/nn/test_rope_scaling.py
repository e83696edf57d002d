"""Stretched rotary embeddings against those of transformers."""

import math
from typing import Any

import pytest
import torch

from antiphon.nn.layer_configs import (
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RopeScaling,
    TransformerConfig,
    YarnScaling,
)
from antiphon.nn.layers import Rope

THETA, HEAD_DIM, ORIGINAL = 10000.0, 64, 512

YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
FACTORS = [1.0 + 0.1 * index for index in range(HEAD_DIM // 2)]
LONG = {"rope_type": "longrope", "factor": 4.0, "long_factor": FACTORS, "short_factor": FACTORS}
CASES: list[tuple[RopeScaling, dict[str, Any]]] = [
    (LinearScaling(factor=3.0), {"rope_type": "linear", "factor": 3.0}),
    (
        Llama3Scaling(factor=8.0, low_factor=1.0, high_factor=4.0, original_positions=ORIGINAL),
        LLAMA3,
    ),
    (YarnScaling(factor=4.0, original_positions=ORIGINAL), YARN),
    (
        LongRopeScaling(
            factors=tuple(FACTORS), amplitude=math.sqrt(1 + math.log(4) / math.log(ORIGINAL))
        ),
        LONG,
    ),
    (
        YarnScaling(
            factor=4.0,
            original_positions=ORIGINAL,
            beta_fast=16.0,
            beta_slow=2.0,
            attention_factor=1.5,
        ),
        YARN | {"beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.5},
    ),
]


@pytest.mark.parametrize(("scaling", "parameters"), CASES)
def test_it_turns_as_in_transformers(scaling: RopeScaling, parameters: dict[str, Any]) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    more = {"rope_theta": THETA, "original_max_position_embeddings": ORIGINAL}
    kind: Any = LlamaConfig
    config = kind(
        hidden_size=HEAD_DIM,
        num_attention_heads=1,
        max_position_embeddings=ORIGINAL * 4,
        rope_parameters=parameters | more,
    )
    rotary: Any = LlamaRotaryEmbedding(config)
    positions = torch.arange(ORIGINAL * 4)
    cosines, sines = rotary(torch.zeros(1), positions[None])
    ours = Rope.build(
        TransformerConfig(
            hidden_size=HEAD_DIM,
            intermediate_size=1,
            num_layers=1,
            num_heads=1,
            num_kv_heads=1,
            head_dim=HEAD_DIM,
            norm_eps=1e-6,
            rope_theta=THETA,
            max_positions=ORIGINAL * 4,
            rope_scaling=scaling,
        ),
        ORIGINAL * 4,
        like=torch.zeros(1),
    )
    torch.testing.assert_close(ours.cosines, cosines[0], atol=1e-3, rtol=0)
    torch.testing.assert_close(ours.sines, sines[0], atol=1e-3, rtol=0)
