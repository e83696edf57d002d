"""Quantized weights are loaded to within the step of their format, or refused by what is wrong."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.quantized.directory import read_directory
from antiphon.nn.safetensors_index import WeightsPart
from antiphon.nn.weights import open_weights
from tests.nn.quantized.packers import Packer, Parts, awq, block_fp8, fp8, gptq, int8, packed, write

SIZE = (80, 96)
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
BLOCKS = {**FP8, "weight_block_size": [64, 48]}


def compressed(format: str, type: str = "int", bits: int = 8, **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": type, "strategy": "group"}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None}
    groups = {"config_groups": {"group_0": group}, "ignore": ["lm_head"]}
    return {"quant_method": "compressed-tensors", "format": format, **groups, **more}


FORMATS: dict[str, tuple[Packer, dict[str, Any], float]] = {
    "awq": (awq, AWQ, 15),
    "gptq": (gptq, GPTQ, 15),
    "gptq act order": (partial(gptq, acts=True), GPTQ, 15),
    "gptq v2": (partial(gptq, second=True), {**GPTQ, "checkpoint_format": "gptq_v2"}, 15),
    "gptq 8 bits": (partial(gptq, bits=8, acts=True), {**GPTQ, "bits": 8}, 255),
    "words of 4 bits": (packed, compressed("pack-quantized", bits=4), 14),
    "words of 8 bits": (partial(packed, bits=8), compressed("pack-quantized"), 254),
    "zero points": (partial(packed, has_zeros=True), compressed("pack-quantized", bits=4), 15),
    "int8": (int8, compressed("int-quantized"), 254),
    "fp8 rows": (fp8, compressed("float-quantized", "float"), 28),
    "fp8 tensor": (partial(fp8, per_tensor=True), FP8, 28),
    "fp8 blocks": (block_fp8, BLOCKS, 28),
}
"""Packer, configuration, and the smallest number of steps between the extremes of a group."""


@pytest.fixture
def weight() -> Tensor:
    return torch.randn(SIZE, generator=torch.Generator().manual_seed(0))


def loaded(folder: Path, shape: tuple[int, ...] = SIZE, **how: Any) -> Tensor:
    part = WeightsPart(directory=folder, layout={"layer.weight": shape})
    with open_weights(part, like=torch.empty(0), **how) as weights:
        return weights["layer.weight"]


def stored(parts: Parts) -> dict[str, Tensor]:
    return {f"layer.{name}": each for name, each in parts.items()}


@pytest.mark.parametrize("name", FORMATS)
def test_weights_are_within_a_step(name: str, weight: Tensor, tmp_path: Path) -> None:
    packer, config, steps = FORMATS[name]
    parts = stored(packer(weight))
    parts |= {f"layer.{kind}_scale": torch.ones(()) for kind in ("input", "k")}  # of activations
    found = loaded(write(tmp_path, parts, config))
    step = 2 * weight.abs().max() / steps
    assert found.dtype == torch.float32
    assert (found - weight).abs().max() <= step * 0.51
    assert (found - weight).abs().max() > 0
    (_, header) = read_directory(tmp_path)["layer.weight"]
    assert header.shape == SIZE
    assert header.num_bytes < weight.nbytes / 2
    assert header.dtype.lower().replace(" ", "").startswith(("int4", "int8", "fp8"))


def test_columns_that_fill_no_word_are_kept(tmp_path: Path) -> None:
    weight = torch.randn(10, 30)
    write(tmp_path, stored(packed(weight, has_zeros=True)), compressed("pack-quantized", bits=4))
    assert (loaded(tmp_path, (10, 30)) - weight).abs().max() < 0.25


def test_large_weights_are_converted_in_parts(
    weight: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, stored(block_fp8(weight)), BLOCKS)
    whole = loaded(tmp_path)
    monkeypatch.setattr("antiphon.nn.quantized.packed_tensors._MAX_VALUES", 1000)
    assert torch.equal(loaded(tmp_path), whole)


def test_progress_counts_the_stored_bytes(weight: Tensor, tmp_path: Path) -> None:
    parts = awq(weight)
    write(tmp_path, stored(parts), AWQ)
    counts: list[tuple[int, int]] = []
    loaded(tmp_path, progress=lambda *count: counts.append(count))
    num_bytes = sum(each.nbytes for each in parts.values())
    assert counts == [(num_bytes, num_bytes)]


def test_biases_of_zeros_that_gptq_adds_are_left_out(weight: Tensor, tmp_path: Path) -> None:
    parts = stored(gptq(weight)) | {"layer.bias": torch.zeros(80).half()}
    assert read_directory(write(tmp_path, parts, GPTQ)).keys() == {"layer.weight"}
    parts["layer.bias"][3] = 1
    assert read_directory(write(tmp_path, parts, GPTQ)).keys() == {"layer.weight", "layer.bias"}


def test_old_gptq_has_its_configuration_in_a_file_of_its_own(
    weight: Tensor, tmp_path: Path
) -> None:
    write(tmp_path, stored(gptq(weight)), None)
    described = {"bits": 4, "group_size": 32, "desc_act": False, "sym": True}
    (tmp_path / "quantize_config.json").write_text(json.dumps(described))
    assert (loaded(tmp_path) - weight).abs().max() < 0.3


def without(name: str) -> Packer:
    return lambda weight: {part: each for part, each in gptq(weight).items() if part != name}


def changed(packer: Packer, name: str, change: Any) -> Packer:
    return lambda weight: {
        part: change(each) if part == name else each for part, each in packer(weight).items()
    }


WORDS = compressed("pack-quantized", bits=4)
REFUSED: dict[str, tuple[Packer, dict[str, Any], str]] = {
    "bits": (gptq, {**GPTQ, "bits": 3}, r"config.json: 'quantization_config.bits' is 3; only 4 or"),
    "awq bits": (awq, {**AWQ, "bits": 8}, "'quantization_config.bits' is 8; only 4"),
    "gemv": (awq, {**AWQ, "version": "gemv"}, r"version' is 'gemv'; only \"gemm\""),
    "marlin": (gptq, {**GPTQ, "checkpoint_format": "marlin"}, "checkpoint_format' is 'marlin'"),
    "group size": (gptq, {**GPTQ, "group_size": 16}, "scales' has 3 groups of 96 inputs"),
    "one group": (gptq, {**GPTQ, "group_size": -1}, "has 3 groups, but 'group_size' is -1"),
    "no zeros": (without("qzeros"), GPTQ, r"lacks layer\.qzeros"),
    "no scales": (without("scales"), GPTQ, r"lacks layer\.scales"),
    "cut scales": (
        changed(gptq, "scales", lambda each: each[:, :40]),
        GPTQ,
        r"scales' is \[3, 40\]",
    ),
    "groups": (changed(gptq, "g_idx", lambda each: each + 1), GPTQ, "groups that have no scale"),
    "words": (changed(awq, "qweight", lambda each: each.long()), AWQ, "qweight' is I64, not I32"),
    "shape": (
        changed(packed, "weight_shape", lambda each: each * 2),
        WORDS,
        r"is \[80, 12\] for 160 x 192 values, not of 4 or 8 bits",
    ),
    "few scales": (
        changed(fp8, "weight_scale", lambda each: each[:7]),
        FP8,
        r"weight_scale' is \[7, 1\] for a weight of \[80, 96\]",
    ),
    "blocks": (block_fp8, {**FP8, "weight_block_size": [32, 32]}, r"is \[2, 2\] for a weight of"),
    "block": (block_fp8, {**FP8, "weight_block_size": [0, 32]}, "must be two sizes"),
    "not quantized": (
        changed(int8, "weight", Tensor.float),
        compressed("int-quantized"),
        "is F32,",
    ),
    "nvfp4": (
        packed,
        compressed("nvfp4-pack-quantized"),
        "format' is 'nvfp4-pack-quantized'; only",
    ),
    "sparse": (
        packed,
        {**WORDS, "sparsity_config": {"format": "sparse-24-bitmask"}},
        "sparsity_config.format' is 'sparse-24-bitmask'",
    ),
    "rotated": (packed, {**WORDS, "transform_config": {"R1": {}}}, "transform_config' is set"),
    "other": (packed, {"quant_method": "hqq"}, "HQQ weights are not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_unpacked_is_refused(name: str, weight: Tensor, tmp_path: Path) -> None:
    packer, config, message = REFUSED[name]
    write(tmp_path, stored(packer(weight)), config)
    with pytest.raises(ModelLoadError, match=message):
        loaded(tmp_path)


def test_truncated_files_and_other_shapes_are_refused(weight: Tensor, tmp_path: Path) -> None:
    write(tmp_path, stored(awq(weight)), AWQ)
    with pytest.raises(ModelLoadError, match=r"of another shape: layer.weight is \[80, 96\]"):
        loaded(tmp_path, (96, 80))
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(ModelLoadError, match="by its header"):
        loaded(tmp_path)
