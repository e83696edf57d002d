"""Configurations, as published files write them, and what is refused by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.checkpoint import frame_products, inspect, layout_of
from antiphon.families.causal_lm.config import CausalLMConfig, load_config
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.causal_lm.sizes import SIZES, TASKS, config_of
from antiphon.families.registry import checkpoint_family
from antiphon.nn.layer_configs import LinearScaling, Llama3Scaling, YarnScaling
from tests.families.causal_lm.random_checkpoint import make_checkpoint

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


def written(path: Path, size: str, layout: str) -> Path:
    (path / "config.json").write_text(json.dumps(config_of(size, layout)), encoding="utf-8")
    return path


@pytest.mark.parametrize("layout", TASKS)
@pytest.mark.parametrize("size", SIZES)
def test_a_token_reads_every_matrix_once(size: str, layout: str, tmp_path: Path) -> None:
    path = written(tmp_path, size, layout)
    config = load_config(path)
    matrices = [each for each in layout_of(config).values() if len(each) == 2]
    numbers = sum(rows * columns for rows, columns in matrices)
    if not config.is_tied:
        numbers -= config.vocab_size * config.transformer.hidden_size
    products = frame_products(path)
    assert sum(each.num_outputs * each.num_inputs for each in products) == numbers
    assert len({each.weight for each in products}) == len(products)


def test_a_thinker_of_7b_reads_fourteen_gigabytes(tmp_path: Path) -> None:
    products = frame_products(written(tmp_path, "7b", "thinker"))
    num_bytes = sum(2 * each.num_outputs * each.num_inputs for each in products)
    assert round(num_bytes / 1e9, 2) == 14.14


def test_a_whole_checkpoint_has_no_problems(checkpoint_of: Callable[[str], Path]) -> None:
    for layout in ("llama", "omni"):
        path = checkpoint_of(layout)
        found = inspect(path)
        assert not found.problems
        assert "chat" in str(found.facts["Task"])
        assert found.tables[0].rows[0][1] == found.facts["Parameters"]
        assert checkpoint_family(path).name == "causal_lm"


def test_what_is_missing_or_strange_is_told_and_refused(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    shutil.copytree(checkpoint, path)
    make_checkpoint(tmp_path / "other", task="qwen2")
    shutil.copy(tmp_path / "other" / "model.safetensors", path)
    (path / "tokenizer.json").unlink()
    problems = " ".join(inspect(path).problems)
    assert "missing: lm_head.weight" in problems
    assert "self_attn.q_norm.weight" in problems
    assert "not part of such a model" in problems
    assert "no tokenizer.json" in problems
    shutil.copy(checkpoint / "tokenizer.json", path)
    with pytest.raises(ModelLoadError, match=r"missing: lm_head\.weight"):
        load_runner(LoadContext(path=path, device="cpu", max_slots=1))


def test_a_checkpoint_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_checkpoint(tmp_path / name, task="llama", seed=seed)
    one, same, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert one == same != other
    with pytest.raises(ModelLoadError, match="no task 'gpt'"):
        make_checkpoint(tmp_path, task="gpt")
