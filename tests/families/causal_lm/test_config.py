"""Configurations, as published files write them, and what is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.config import CausalLMConfig, load_config
from antiphon.families.causal_lm.sizes import TASKS, config_of
from antiphon.nn.layer_configs import LinearScaling, Llama3Scaling, YarnScaling

EOS_ID = 258  # <|im_end|>, after 256 bytes and two other special tokens


def read(path: Path, layout: str = "qwen3", size: str = "tiny", **changes: Any) -> CausalLMConfig:
    (path / "config.json").write_text(json.dumps(config_of(size, layout) | changes))
    return load_config(path)


@pytest.mark.parametrize("layout", TASKS)
def test_layouts_are_told_apart(tmp_path: Path, layout: str) -> None:
    config = read(tmp_path, layout)
    assert config.biased == ("" if layout in ("qwen3", "llama") else "qkv")
    assert config.has_head_norms == (layout == "qwen3")
    assert config.is_tied == (layout == "qwen2")
    assert config.prefix == ("thinker." if layout.startswith("omni") else "")
    assert config.eos_ids == (EOS_ID,)


def test_biases_are_where_a_llama_says(tmp_path: Path) -> None:
    config = read(tmp_path, "llama", attention_bias=True, mlp_bias=True)
    assert (config.biased, config.has_mlp_bias) == ("qkvo", True)


def test_what_a_file_does_not_say_of_sampling_is_off(tmp_path: Path) -> None:
    sampling = read(tmp_path).sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 1.0, 0)
    (tmp_path / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [1, 2], "min_p": 0.1, "top_k": None})
    )
    config = load_config(tmp_path)
    assert config.eos_ids == (1, 2)
    assert config.sampling.min_p == 0.1


def test_rotary_embeddings_are_read_in_old_and_new_files(tmp_path: Path) -> None:
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    config = read(tmp_path, rope_scaling=yarn).transformer
    assert config.rope_scaling == YarnScaling(factor=4.0, original_positions=32768)
    linear = {"rope_type": "linear", "factor": 2, "rope_theta": 7.0}
    config = read(tmp_path, rope_parameters=linear).transformer
    assert config.rope_scaling == LinearScaling(factor=2.0)
    assert config.rope_theta == 7.0
    assert isinstance(read(tmp_path, "llama").transformer.rope_scaling, Llama3Scaling)
    assert read(tmp_path, "omni").transformer.rope_scaling is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "'architectures' must begin with"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "'rope_scaling.rope_type' is 'longrope'"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0, "mscale": 1.0}}, "'rope_scaling.mscale'"),
        ({"use_sliding_window": True}, "'use_sliding_window'"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "'layer_types'"),
        ({"hidden_act": "gelu"}, "'hidden_act'"),
        ({"quantization_config": {"quant_method": "hqq"}}, "HQQ weights"),
        ({"num_key_value_heads": 4}, "'num_key_value_heads' must divide 6"),
        ({"hidden_size": None}, "'hidden_size' is missing"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelLoadError, match=message):
        read(tmp_path, **changes)


def test_a_context_fits_into_the_cache(tmp_path: Path) -> None:
    from antiphon.contracts.family import LoadContext

    config = read(tmp_path, "llama", "1b")
    assert config.position_size == 2 * 16 * 8 * 64
    assert config.max_positions(LoadContext()) == 131072
    assert config.max_positions(LoadContext(cache_bytes=2**20)) == 32
