"""What the resident program reads of a weight is what its matrix instructions multiply."""

import pytest
import torch
from torch import Tensor

from antiphon.nn.cuda import compiler
from antiphon.nn.cuda.inner_codes import InnerCodes, definitions_of, is_served, packed, source
from tests.nn.cuda.predictors import predictor_of

NUM_BLOCKS, NUM_WARPS = 128, 16


def multiplied(words: Tensor, inputs: Tensor, num_outputs: int) -> Tensor:
    """Multiply as the lanes do: "mma.m16n8k16" of PTX, all of a warp's inputs in turn."""
    own, steps = num_outputs // NUM_BLOCKS, len(inputs) // 16 // NUM_WARPS
    stages = words.view(NUM_BLOCKS, -1, NUM_WARPS, 2, 8, 4, 4, 2)  # g, q, word, pair
    result = torch.zeros(NUM_BLOCKS, max(own, 16), inputs.shape[1])
    for warp in range(NUM_WARPS):
        quadruples = stages[:, :, warp].flatten(1, 2)
        for index in range(quadruples.shape[1]):
            word = quadruples[:, index]
            if own == 8:
                parts = [(2 * index + i, 0, (2 * i, 2 * i + 1)) for i in range(2)]
            else:
                step, tile = divmod(index, own // 16)
                parts = [(step, tile * 16 + 8 * i, (i, 2 + i)) for i in range(2)]
            for step, first, (low, high) in parts:
                operand = torch.stack((word[..., low, :], word[..., high, :]), dim=2)
                start = (warp * steps + step) * 16
                operand = operand.reshape(NUM_BLOCKS, 8, 16)
                result[:, first : first + 8] += operand @ inputs[start : start + 16]
    return result[:, :own].reshape(num_outputs, -1)


@pytest.mark.parametrize(
    ("num_outputs", "num_inputs"), [(4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072)]
)
def test_lanes_hold_what_they_multiply(num_outputs: int, num_inputs: int) -> None:
    generator = torch.Generator().manual_seed(num_outputs)
    weight = torch.randn(num_outputs, num_inputs, generator=generator)
    inputs = torch.randn(num_inputs, 3, generator=generator)
    torch.testing.assert_close(
        multiplied(packed(weight), inputs, num_outputs), weight @ inputs, atol=2e-3, rtol=1e-4
    )


def test_a_cpu_is_not_served() -> None:
    predictor = predictor_of(torch.device("cpu"), num_layers=1, num_groups=2)
    assert not is_served(predictor.transformer, predictor.heads)
    assert predictor.with_resident() is predictor


def test_where_it_does_not_compile_kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise compiler.CompilationError("an old compiler")

    predictor = predictor_of(torch.device("cpu"), num_layers=1, num_groups=2)
    monkeypatch.setattr("antiphon.nn.cuda.inner_codes.is_served", lambda *_: True)
    monkeypatch.setattr(InnerCodes, "of", fails)
    assert predictor.with_resident() is predictor


def test_the_program_compiles() -> None:
    if not compiler.has_compiler():
        pytest.skip("NVIDIA's compiler is not installed")
    binary = compiler.compiled(source(), definitions_of(num_layers=5, num_groups=15))
    assert binary.startswith(b"\x7fELF")


def test_a_program_that_does_not_compile_says_why() -> None:
    if not compiler.has_compiler():
        pytest.skip("NVIDIA's compiler is not installed")
    with pytest.raises(compiler.CompilationError, match="nothing_like_it"):
        compiler.compiled("int number = nothing_like_it;", {})


def test_its_rows_are_columns_of_an_instruction() -> None:
    assert InnerCodes.max_rows == 8
