"""Products of few rows as programs: compilation anywhere, results on a GPU."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.nn.cuda import compiler
from antiphon.nn.cuda.few_rows import (
    _CONFIGS,
    _FILES,
    FewRowsTile,
    _Arguments,
    definitions_of,
    few_rows_tile,
)
from antiphon.nn.kernels.fused_linear import FusedLinear, PreNormState, scale
from antiphon.nn.kernels.product_tiles import ProductShape
from tests.nn.cuda.test_packing import SHARED_BYTES, layout_of, needs_compiler

CUDA = torch.device("cuda")
EPSILON = 1e-6
on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and compiler.runs_on(CUDA, 1)),
        reason="needs an H100 or H200, and NVIDIA's run-time compiler",
    ),
]
SHAPES = tuple(ProductShape(*sizes, itemsize=2) for sizes in _CONFIGS)


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_compile_fit_and_have_the_structure_that_they_are_given(
    shape: ProductShape,
) -> None:
    claims = (*layout_of("Arguments", _Arguments), f"few_rows_shared_bytes <= {SHARED_BYTES}")
    checks = "\n".join(f'static_assert({claim}, "{claim}");' for claim in claims)
    config = _CONFIGS[shape.num_outputs, shape.num_inputs, shape.num_halves]
    is_sum = shape.num_halves == 1 and shape.num_outputs < 4096
    macros = definitions_of(shape, (int(not is_sum), int(is_sum)), config)
    assert compiler.compiled(f"{compiler.source_of(_FILES)}\n{checks}", macros)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(
        CUDA, torch.bfloat16
    )


def assert_near(result: Tensor, expected: Tensor) -> None:
    difference = (result.float() - expected).norm() / expected.norm()
    assert difference < 0.004, "as far as bfloat16 rounds"


def product_of(shape: ProductShape, num_rows: int) -> tuple[Tensor, ...]:
    """Return what the program writes for rows, the same ones of any number."""
    num_outputs, num_inputs, num_halves = shape.num_outputs, shape.num_inputs, shape.num_halves
    inputs = random(8, num_inputs, seed=1)[:num_rows]
    weight = random(num_outputs * num_halves, num_inputs, seed=2)
    norm, before = random(max(num_inputs, num_outputs), seed=3), random(8, num_outputs, seed=4)
    before, product = before[:num_rows], FusedLinear()
    for is_sum in (False, True):
        tile = few_rows_tile(shape, num_rows, weight, is_normed=not is_sum, is_added=is_sum)
        assert isinstance(tile, FewRowsTile)
    scaled: PreNormState = scale(inputs, norm[:num_inputs])
    normed = product.normed(scaled, weight, EPSILON, is_gated=num_halves == 2)
    wide = F.linear(scaled.scaled.float(), weight.float())
    wide *= torch.rsqrt(inputs.float().square().mean(1, keepdim=True) + EPSILON)
    if num_halves == 2:
        assert_near(normed, F.silu(wide[:, :num_outputs]) * wide[:, num_outputs:])
        return (normed,)
    assert_near(normed, wide)
    after = product.added(before, inputs, weight, norm[:num_outputs])
    expected = before.float() + F.linear(inputs.float(), weight.float())
    assert_near(after.states, expected)
    assert_near(after.scaled, expected * norm[:num_outputs].float())
    assert_near(after.squares.sum(1), expected.square().sum(1))
    return normed, after.states, after.scaled, after.squares


class TestOnGPU:
    pytestmark = on_gpu

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    @torch.inference_mode()
    def test_products_are_what_they_stand_for_in_any_company(self, shape: ProductShape) -> None:
        alone = product_of(shape, 1)
        for num_rows in (3, 8):
            for one, all_rows in zip(alone, product_of(shape, num_rows), strict=True):
                assert torch.equal(one[0], all_rows[0])
