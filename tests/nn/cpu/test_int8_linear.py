"""int8 products: close to float32, equal for a row whatever is computed beside it, or refused."""

import logging
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.kit.loading import weights_for
from antiphon.nn.cpu import int8_linear
from antiphon.nn.cpu.int8_linear import Int8Linear, check_quantize, packed, to_pack
from antiphon.nn.layers import Linear
from antiphon.nn.weights import open_weights

OUTPUTS, INPUTS = 96, 64


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def linear() -> Linear:
    return Linear(made(OUTPUTS, INPUTS) / math.sqrt(INPUTS), made(OUTPUTS, seed=1))


def test_products_are_close_and_take_a_quarter_of_the_memory(linear: Linear) -> None:
    quantized, states = Int8Linear.pack(linear), made(5, 7, INPUTS, seed=2)
    exact, ours = linear(states), quantized(states)
    assert linear.bias is not None
    assert ours.shape == exact.shape
    error = (ours - exact).square().sum() / (exact - linear.bias).square().sum()
    assert -10 * math.log10(error) > 33
    assert quantized.weight.shape == linear.weight.shape
    assert quantized.weight.is_meta


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_layers_are_packed_from_what_is_stored_without_a_float32_copy(
    quantize: str | None, tmp_path: Path
) -> None:
    stored = {"a.weight": made(OUTPUTS, INPUTS).bfloat16(), "a.bias": made(OUTPUTS).bfloat16()}
    save_file(stored, tmp_path / "model.safetensors")
    layout = {name: tuple(tensor.shape) for name, tensor in stored.items()}
    with open_weights(tmp_path, layout, like=torch.empty(0), quantize=quantize) as weights:
        layers = to_pack(weights)
        assert ("a.bias" in layers, "b" in layers, {*layers}) == (True, False, {*stored})
        read = Linear.of(layers, "a")
        assert read.weight.dtype == (torch.bfloat16 if quantize else torch.float32)
        layer = packed(read, layers)
    exact = Linear(stored["a.weight"].float(), stored["a.bias"].float())
    expected = Int8Linear.pack(exact) if quantize else exact
    states = made(3, INPUTS, seed=2)
    assert torch.equal(layer(states), expected(states))


def test_a_row_does_not_depend_on_the_rows_beside_it(linear: Linear) -> None:
    quantized = Int8Linear.pack(linear)
    rows = made(40, INPUTS, seed=3) * torch.logspace(-3, 3, 40)[:, None]
    together = quantized(rows)
    for size in (1, 3, 16):
        parts = [quantized(part) for part in torch.split(rows, size)]
        assert torch.equal(torch.cat(parts), together)
    wide = made(40, 2 * INPUTS, seed=3)
    assert torch.equal(quantized(wide[:, ::2]), quantized(wide[:, ::2].contiguous()))


def test_zeros_give_the_bias_and_what_is_not_a_number_stays_so(linear: Linear) -> None:
    rows = torch.zeros(3, INPUTS)
    rows[1, 5] = math.nan
    results = Int8Linear.pack(linear)(rows)
    assert linear.bias is not None
    assert torch.equal(results[0], linear.bias)
    assert torch.equal(results[2], linear.bias)
    assert results[1].isnan().all()


def test_what_to_expect_is_logged_once_and_only_on_a_cpu(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    int8_linear._log_expectation.cache_clear()
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
    with pytest.raises(ModelLoadError, match=r"On 'meta' it must be unset; use 'cpu'"):
        check_quantize("int8", torch.empty(0, device="meta"))
    with pytest.raises(ModelLoadError, match=r"'model\.dtype' = 'auto' or 'float32'"):
        weights_for(LoadContext(Path(), "cpu", "bfloat16", quantize="int8"))
