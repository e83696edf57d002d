"""Products of few and of many rows as programs: compilation anywhere, results on a GPU."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.nn.cuda import compiler, few_rows, many_rows
from antiphon.nn.cuda.resident_limits import NUM_BLOCKS
from antiphon.nn.kernels.fused_linear import FusedLinear, PreNormState, scale
from antiphon.nn.kernels.product_tiles import Fused, ProductShape
from tests.nn.cuda.test_packing import SHARED_BYTES, layout_of, needs_compiler

CUDA = torch.device("cuda")
EPSILON = 1e-6
MOST_ROWS = 200
on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and compiler.runs_on(CUDA, NUM_BLOCKS)),
        reason="needs an H100 or H200, and NVIDIA's run-time compiler",
    ),
]
FEW = tuple(ProductShape(*sizes, itemsize=2) for sizes in few_rows._CONFIGS)
MANY = tuple(ProductShape(*sizes, itemsize=2) for sizes in many_rows._CONFIGS)
BIASED = (6144, 4096), (3072, 1024)
"""Outputs and inputs of products with a bias."""

CHAINS = (
    ((4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072)),
    ((3072, 1024), (1024, 1024), (8192, 1024), (1024, 4096)),
    ((4096, 2048), (2048, 2048), (12288, 2048), (2048, 6144)),
)
"""Outputs and inputs of a layer's products, in layers with a program for each."""
NUM_LAYERS, NUM_REPLAYS = 8, 5000
"""Their weights do not fit in the L2 cache; an error of one product in 30,000 was to be found."""


def fused_of(shape: ProductShape) -> Fused:
    """Return what a layer does with a product: those that it adds are not wider than its states."""
    is_gated = shape.num_halves == 2
    is_sum = not is_gated and shape.num_outputs <= shape.num_inputs
    is_biased = not is_gated and (shape.num_outputs, shape.num_inputs) in BIASED
    return Fused(is_normed=not is_sum, is_added=is_sum, is_biased=is_biased)


def program_of(kind: str, shape: ProductShape) -> tuple[str, dict[str, int], list[str]]:
    """Return source, macros and what must be true of the structure, of few or many rows."""
    key = shape.num_outputs, shape.num_inputs, shape.num_halves
    if kind == "few_rows":
        macros = few_rows.definitions_of(shape, fused_of(shape), few_rows._CONFIGS[key])
        source, arguments = compiler.source_of(few_rows._FILES), few_rows._Arguments
        return source, macros, layout_of("Arguments", arguments)
    config = many_rows._CONFIGS[key]
    macros = many_rows.definitions_of(shape, fused_of(shape), config)
    return many_rows.source(config.n), macros, layout_of("Arguments", many_rows._Arguments)


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "shape"),
    [*(("few_rows", shape) for shape in FEW), *(("many_rows", shape) for shape in MANY)],
    ids=str,
)
def test_products_compile_fit_and_have_the_structure_that_they_are_given(
    kind: str, shape: ProductShape
) -> None:
    source, macros, claims = program_of(kind, shape)
    claims = [*claims, f"{kind}_shared_bytes <= {SHARED_BYTES}"]
    checks = "\n".join(f'static_assert({claim}, "{claim}");' for claim in claims)
    assert compiler.compiled(f"{source}\n{checks}", macros)


@needs_compiler
@pytest.mark.parametrize("stages", ["weight_stages", "row_stages"])
def test_a_stage_is_of_one_warpgroup(stages: str) -> None:
    """One that meets it in every other turn could take the bytes of two turns before."""
    shape = ProductShape(6144, 2048, num_halves=2, itemsize=2)
    config = replace(many_rows._CONFIGS[6144, 2048, 2], **{stages: 7})
    with pytest.raises(compiler.CompilationError, match="turns"):
        compiler.compiled(
            many_rows.source(config.n), many_rows.definitions_of(shape, fused_of(shape), config)
        )


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(
        CUDA, torch.bfloat16
    )


def assert_near(result: Tensor, expected: Tensor) -> None:
    difference = (result.float() - expected).norm() / expected.norm()
    assert difference < 0.004, "as far as bfloat16 rounds"


def products_of(
    shape: ProductShape, num_rows: int, *, is_batch_invariant: bool = False
) -> tuple[Tensor, ...]:
    """Return what the programs write for rows, the same ones of any number."""
    num_outputs, num_inputs, num_halves = shape.num_outputs, shape.num_inputs, shape.num_halves
    inputs = random(MOST_ROWS, num_inputs, seed=1)[:num_rows]
    weight = random(num_outputs * num_halves, num_inputs, seed=2)
    norm = random(max(num_inputs, num_outputs), seed=3)
    before = random(MOST_ROWS, num_outputs, seed=4)[:num_rows]
    product = FusedLinear(is_batch_invariant)
    find = few_rows.few_rows_tile if num_rows <= 8 else many_rows.many_rows_tile
    fused = fused_of(shape)
    assert is_batch_invariant or find(shape, num_rows, weight, fused) is not None
    if fused.is_normed:
        scaled: PreNormState = scale(inputs, norm[:num_inputs])
        bias = random(num_outputs, seed=5) * 10 if fused.is_biased else None
        normed = product.normed(scaled, weight, EPSILON, bias, is_gated=num_halves == 2)
        wide = F.linear(scaled.scaled.float(), weight.float())
        wide *= torch.rsqrt(inputs.float().square().mean(1, keepdim=True) + EPSILON)
        if num_halves == 2:
            wide = F.silu(wide[:, :num_outputs]) * wide[:, num_outputs:]
        assert_near(normed, wide if bias is None else wide + bias.float())
        return (normed,)
    after = product.added(before, inputs, weight, norm[:num_outputs])
    expected = before.float() + F.linear(inputs.float(), weight.float())
    assert_near(after.states, expected)
    assert_near(after.scaled, expected * norm[:num_outputs].float())
    assert_near(after.squares.sum(1), expected.square().sum(1))
    return after.states, after.scaled, after.squares


def assert_same_rows(some: tuple[Tensor, ...], others: tuple[Tensor, ...]) -> None:
    for each, other in zip(some, others, strict=True):
        assert torch.equal(each, other[: len(each)])


class TestOnGPU:
    pytestmark = on_gpu

    @pytest.mark.parametrize("shape", FEW, ids=str)
    @torch.inference_mode()
    def test_few_rows_are_what_they_stand_for_in_any_company(self, shape: ProductShape) -> None:
        alone = products_of(shape, 1)
        for num_rows in (3, 8):
            assert_same_rows(alone, products_of(shape, num_rows))

    @pytest.mark.parametrize("shape", MANY, ids=str)
    @torch.inference_mode()
    def test_many_rows_are_what_they_stand_for_in_any_company(self, shape: ProductShape) -> None:
        nine = products_of(shape, 9)
        for num_rows in (16, 33, 64):
            assert_same_rows(nine, products_of(shape, num_rows))
        for num_rows in (1, 8, 64, 65, MOST_ROWS):
            any_number = products_of(shape, num_rows, is_batch_invariant=True)
            few, many = sorted((nine, any_number), key=lambda written: len(written[0]))
            assert_same_rows(few, many)

    @pytest.mark.parametrize("sizes", CHAINS, ids=str)
    @torch.inference_mode()
    def test_a_chain_of_many_rows_has_the_same_bits_at_each_repetition(
        self, sizes: tuple[tuple[int, int], ...]
    ) -> None:
        """Programs overlap with those before and after them; copies of one run into another."""
        weights = [random(*size, seed=index) * 0.03 for index, size in enumerate(sizes)]
        layers = [[each.roll(layer, 0) for each in weights] for layer in range(NUM_LAYERS)]
        (width, _), (num_joined, _) = sizes[1], sizes[0]
        norm, start = random(width, seed=5), random(64, width, seed=6)
        bias = random(num_joined, seed=7) if sizes[0] in BIASED else None
        product = FusedLinear()

        def run(num_rows: int) -> Tensor:
            states = scale(start[:num_rows], norm)
            for qkv, output, gate_up, down in layers:
                joined = product.normed(states, qkv, EPSILON, bias)
                states = product.added(states.states, joined[:, : sizes[1][1]], output, norm)
                gated = product.normed(states, gate_up, EPSILON, is_gated=True)
                states = product.added(states.states, gated, down, norm)
            return states.states

        expected = run(64)
        assert expected.isfinite().all()
        differences = torch.zeros((), dtype=torch.int64, device=CUDA)
        for repetition in range(60):
            num_rows = 9 + repetition * 7 % 56
            differences += (run(num_rows) != expected[:num_rows]).sum()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            differences += (run(64) != expected).sum()
        for _ in range(NUM_REPLAYS):
            graph.replay()
        assert not differences
