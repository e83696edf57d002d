"""Quantized checkpoints are refused by their method, at any level and in any layout."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from antiphon.contracts.config_file import ConfigSection
from antiphon.diffusion.model_index import ModelIndex
from antiphon.errors import ModelLoadError
from antiphon.families.registry import resolve
from antiphon.nn.quantized.directory import read_directory

FILE = "model.safetensors"

AWQ = {"quantization_config": {"bits": 4, "quant_method": "awq"}}


@pytest.mark.parametrize(
    ("values", "method"),
    [
        (AWQ, "AWQ"),
        ({"thinker_config": {"text_config": AWQ}}, "AWQ"),
        ({"quantization_config": {"quant_method": "gptq"}}, "GPTQ"),
        ({"quantization_config": {"quant_method": "compressed-tensors"}}, "compressed-tensors"),
        ({"quantization_config": {"load_in_4bit": True}}, "bitsandbytes"),
        ({"quantization_config": {"bits": 3}}, "Quantized"),
        ({"compression_config": {"quant_method": "compressed-tensors"}}, "compressed-tensors"),
        ({"quantization": {"bits": 4, "group_size": 64}}, "MLX"),
    ],
)
def test_the_method_and_the_next_step_are_named(
    tmp_path: Path, values: dict[str, Any], method: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ModelLoadError, match=rf": {method} weights are not supported\. Use the"):
        ConfigSection.read(tmp_path / "config.json")


def test_plain_weights_are_not_taken_for_quantized(tmp_path: Path) -> None:
    plain = {
        "quantization_config": None,
        "quantization": {"codebooks": 8},
        "compression_config": {},
    }
    (tmp_path / "config.json").write_text(json.dumps(plain))
    assert ConfigSection.read(tmp_path / "config.json").values == plain


@pytest.mark.parametrize(
    ("name", "method"), [("quantize_config.json", "GPTQ"), ("hf_quant_config.json", "ModelOpt")]
)
def test_files_beside_the_configuration_count(tmp_path: Path, name: str, method: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).write_text("{}")
    with pytest.raises(ModelLoadError, match=f"{method} weights"):
        ConfigSection.read(tmp_path / "config.json")


def test_each_component_of_a_pipeline_is_checked(tmp_path: Path) -> None:
    index = {"_class_name": "X", "text_encoder": ["transformers", "Y"]}
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    (tmp_path / "text_encoder").mkdir()
    (tmp_path / "text_encoder" / "config.json").write_text(json.dumps(AWQ))
    with pytest.raises(ModelLoadError, match="AWQ weights"):
        ModelIndex.read(tmp_path)


@pytest.mark.parametrize(
    ("tensor", "method"),
    [
        ("layer.qweight", "AWQ or GPTQ"),
        ("layer.weight_packed", "compressed-tensors"),
        ("layer.weight.absmax", "bitsandbytes"),
        ("layer.SCB", "bitsandbytes"),
        ("layer.weight_scale_inv", "FP8"),
        ("layer.weight_scale", "FP8 or int8"),
    ],
)
def test_tensors_tell_the_method_that_no_configuration_names(
    tmp_path: Path, tensor: str, method: str
) -> None:
    save_file({"other.weight": torch.zeros(1), tensor: torch.zeros(1)}, tmp_path / FILE)
    with pytest.raises(ModelLoadError, match=rf": {method} weights .*--quantize int8"):
        read_directory(tmp_path)
    save_file({"other.weight_g": torch.zeros(1), "scale": torch.zeros(1)}, tmp_path / FILE)
    assert len(read_directory(tmp_path)) == 2


def test_gguf_files_are_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "some-q8_0.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelLoadError, match="GGUF weights are not supported"):
        read_directory(tmp_path)
    with pytest.raises(ModelLoadError, match=r"some-q8_0\.gguf: the header is damaged or cut off"):
        resolve(str(tmp_path / "some-q8_0.gguf"))
    with pytest.raises(ModelLoadError, match=r"other\.gguf: cannot be read: No such file"):
        resolve("other.gguf")
