"""Layers are packed from what is stored, in the type that is asked for; or that is refused."""

import logging
import platform
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.kit.loading import weights_for
from antiphon.nn import kernels
from antiphon.nn.cpu import packed_layers
from antiphon.nn.cpu.int8_weight_linear import Int8WeightLinear
from antiphon.nn.cpu.packed_layers import check_quantize, kinds, packed, to_pack
from antiphon.nn.layers import Linear
from antiphon.nn.safetensors_index import WeightsPart
from antiphon.nn.weights import open_weights

OUTPUTS, INPUTS = 96, 64


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("quantize", [None, *kinds()])
def test_layers_are_packed_from_what_is_stored_without_a_float32_copy(
    quantize: str | None, tmp_path: Path
) -> None:
    stored = {"a.weight": made(OUTPUTS, INPUTS).bfloat16(), "a.bias": made(OUTPUTS).bfloat16()}
    save_file(stored, tmp_path / "model.safetensors")
    layout = {name: tuple(tensor.shape) for name, tensor in stored.items()}
    part = WeightsPart(directory=tmp_path, layout=layout)
    with open_weights(part, like=torch.empty(0), quantize=quantize) as weights:
        layers = to_pack(weights)
        assert ("a.bias" in layers, "b" in layers, {*layers}) == (True, False, {*stored})
        read = Linear.of(layers, "a")
        assert read.weight.dtype == (torch.bfloat16 if quantize else torch.float32)
        layer = packed(read, layers)
    exact = Linear(stored["a.weight"].float(), stored["a.bias"].float())
    expected = kinds()[quantize][1].pack(exact) if quantize else exact
    states = made(3, INPUTS, seed=2)
    assert torch.equal(layer(states), expected(states))


def test_a_gpu_has_int8_weights_with_their_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "run_on", lambda like: True)
    like = torch.empty(0, dtype=torch.bfloat16, device="meta")
    check_quantize("int8", like)
    with pytest.raises(ModelLoadError, match="or int8"):
        check_quantize("fp16", like)
    part = WeightsPart(directory=Path(), layout={"a.weight": (OUTPUTS, INPUTS)})
    drawn = torch.empty(0, dtype=torch.bfloat16)
    with open_weights(part, like=drawn, is_dummy=True, quantize="int8") as weights:
        layers = to_pack(weights)
        monkeypatch.setattr(layers, "like", like)
        layer = packed(Linear.of(layers, "a"), layers)
    assert layer.scales is not None
    assert (layer.weight.dtype, layer.scales.dtype) == (torch.int8, torch.float32)
    assert layer.weight.device == layer.scales.device == like.device
    assert layer(torch.empty(3, INPUTS, dtype=like.dtype, device="meta")).dtype == like.dtype


@pytest.mark.parametrize("machine", ["arm64", "aarch64"])  # of macOS, Linux
def test_fbgemm_is_not_used_on_arm_although_pytorch_lists_it(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert kinds() == {"int8": ("int8pack_mm", Int8WeightLinear)}


def test_what_to_expect_is_logged_once_and_only_on_a_cpu(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    packed_layers._log_expectation.cache_clear()
    check_quantize(None, torch.empty(0, device="meta"))
    check_quantize("int8", torch.empty(0))
    assert not caplog.messages
    for _ in range(2):
        check_quantize(None, torch.empty(0))
    (message,) = caplog.messages
    assert "slower than real time" in message


def test_other_types_and_devices_are_refused() -> None:
    check_quantize(None, torch.empty(0, dtype=torch.bfloat16))
    check_quantize("int8", torch.empty(0))
    with pytest.raises(ModelLoadError, match=r"Invalid 'model\.quantize': 'int8'\..*dtype"):
        check_quantize("int8", torch.empty(0, dtype=torch.bfloat16))
    with pytest.raises(ModelLoadError, match=r"On 'meta' .* unset, or int8 with Triton"):
        check_quantize("int8", torch.empty(0, device="meta"))
    with pytest.raises(ModelLoadError, match=r"'model\.dtype' = 'auto' or 'float32'"):
        weights_for(LoadContext(Path(), "cpu", "bfloat16", quantize="int8"))
