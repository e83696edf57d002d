"""What can be said of the resident program without a GPU: its weights, its structures, its use."""

import ctypes
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from antiphon.nn.code_predictor import CodePredictor
from antiphon.nn.cuda import compiler
from antiphon.nn.cuda.inner_codes import (
    InnerCodes,
    _Model,
    _Rows,
    definitions_of,
    is_served,
    packed,
    packed_layers,
    source,
)
from antiphon.nn.layers import Linear, Rope
from tests.nn.cuda.predictors import VOCAB, WIDTH, noise_of, predictor_of, rows_of

CPU = torch.device("cpu")
NUM_BLOCKS, NUM_WARPS = 128, 16
SHARED_BYTES = 227 * 1024  # that a block may have on compute capability 9.0

needs_compiler = pytest.mark.skipif(
    not compiler.has_compiler(), reason="NVIDIA's run-time compiler is not installed"
)


@pytest.fixture(scope="module")
def predictor() -> CodePredictor:
    return predictor_of(CPU, num_layers=1, num_groups=2)


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
    ("num_outputs", "num_inputs"),
    [(4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072), (2048, 1024)],
)
def test_lanes_hold_what_they_multiply(num_outputs: int, num_inputs: int) -> None:
    generator = torch.Generator().manual_seed(num_outputs)
    weight = torch.randn(num_outputs, num_inputs, generator=generator)
    inputs = torch.randn(num_inputs, 3, generator=generator)
    torch.testing.assert_close(
        multiplied(packed(weight), inputs, num_outputs), weight @ inputs, atol=2e-3, rtol=1e-4
    )


def test_a_layer_is_read_in_the_order_of_its_products(predictor: CodePredictor) -> None:
    """Norms are in the weights after them; two gates are followed by what they are for."""
    transformer = predictor.transformer
    (layer,) = transformer.layers
    sizes = [num_numbers * 1024 // NUM_BLOCKS for num_numbers in (4096, 2048, 6144, 3072)]
    parts = torch.split(packed_layers(transformer)[:, 0].float(), sizes, dim=1)
    generator = torch.Generator().manual_seed(1)

    def check(part: int, linear: Linear, norm: Tensor | None = None) -> None:
        weight = linear.weight
        if norm is not None:
            weight = (weight.float() * norm.float()).bfloat16()
        inputs = torch.randn(weight.shape[1], 2, generator=generator)
        found = multiplied(parts[part], inputs, len(weight))
        if linear is layer.feed_forward.gate_up:
            found = found.view(-1, 2, 2, 2).transpose(0, 1).reshape(len(weight), 2)
        torch.testing.assert_close(found, weight.float() @ inputs, atol=1e-3, rtol=1e-4)

    check(0, layer.query_key_value, layer.attention_norm.weight)
    check(1, layer.output)
    check(2, layer.feed_forward.gate_up, layer.feed_forward_norm.weight)
    check(3, layer.feed_forward.down)


def test_a_cpu_is_not_served(predictor: CodePredictor) -> None:
    assert not is_served(predictor.transformer, predictor.heads, predictor.tables)
    assert predictor.with_resident() is predictor


def test_other_models_are_not_served(
    predictor: CodePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.nn.cuda.inner_codes.runs_on", lambda *_: True)
    transformer, heads = predictor.transformer, predictor.heads
    (layer,) = transformer.layers
    tables, rope = predictor.tables, predictor.transformer.rope
    longer = Rope(rope.cosines.repeat(6, 1), rope.sines.repeat(6, 1))
    assert is_served(transformer, heads, tables)
    most = replace(transformer, layers=(layer,) * 5, rope=longer)
    assert is_served(most, heads[:1] * 15, tables[:1] * 15)
    assert not is_served(replace(most, layers=(layer,) * 6), heads, tables)
    assert not is_served(most, heads[:1] * 16, tables[:1] * 16)
    assert not is_served(transformer, heads[:1] * 3, tables[:1] * 3), "too few positions"
    assert not is_served(replace(transformer, is_batch_invariant=True), heads, tables)
    assert not is_served(transformer, (Linear(heads[0].weight.float()),), tables)
    assert not is_served(transformer, (heads[0], Linear(heads[0].weight[:-1])), tables)
    assert not is_served(transformer, heads, tables[:1])
    for table in (tables[0].float(), tables[0][:-1], tables[0][:, :-1], tables[0].T):
        assert not is_served(transformer, heads, (tables[0], table))
    biased = replace(layer.query_key_value, bias=torch.zeros(4096))
    others = (
        replace(layer, query_key_value=biased),
        replace(layer, output=replace(layer.output, bias=torch.zeros(WIDTH))),
        replace(layer, attention_output_norm=layer.attention_norm),
        replace(layer, heads=replace(layer.heads, query_norm=None)),
        replace(layer, heads=replace(layer.heads, key_norm=None)),
    )
    for other in others:
        assert not is_served(replace(transformer, layers=(layer, other)), heads, tables)
    filtered = replace(predictor, filter=lambda logits, _: logits)
    assert filtered.with_resident() is filtered


def test_few_rows_go_to_the_program_and_more_do_not(predictor: CodePredictor) -> None:
    resident = Mock(spec=InnerCodes, max_rows=2)
    served = replace(predictor, resident=resident)
    for num_rows in (2, 3):
        codes, scores = torch.zeros(num_rows, 4).long(), torch.zeros(num_rows, 3)
        states = torch.zeros(num_rows, WIDTH, dtype=torch.bfloat16)
        rows = rows_of([0.9] * num_rows, [VOCAB] * num_rows, [1.0] * num_rows, CPU)
        noise, cache = noise_of(num_rows, 2, CPU), served.new_cache(num_rows)
        served.complete(states, (codes, scores), rows, noise, cache)
        assert bool(scores[:, 1:].all()) == (num_rows == 3)
    (call,) = resident.complete.mock_calls
    assert len(call.args[0]) == 2


def test_where_it_does_not_compile_kernels_run(
    predictor: CodePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise compiler.CompilationError("an old compiler")

    monkeypatch.setattr("antiphon.nn.cuda.inner_codes.is_served", lambda *_: True)
    monkeypatch.setattr(InnerCodes, "of", fails)
    assert predictor.with_resident() is predictor


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_what_cannot_be_loaded_is_told_as_what_cannot_be_compiled(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error("the driver is older")

    monkeypatch.setattr(compiler, "compiled", lambda *_: b"")
    monkeypatch.setattr(compiler, "_loaded", fails)
    with pytest.raises(compiler.CompilationError, match="the driver is older"):
        compiler.load_program("", "kernel", {"BLOCKS": 1}, 32, CPU)


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_without_a_compiler_nothing_is_compiled(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: str) -> None:
        raise error

    monkeypatch.setattr(compiler, "import_module", fails)
    assert not compiler.has_compiler.__wrapped__()


@needs_compiler
def test_a_program_that_does_not_compile_says_why() -> None:
    with pytest.raises(compiler.CompilationError, match="nothing_like_it"):
        compiler.compiled("int number = nothing_like_it;", {})


def place_of(structure: str, field: str) -> str:
    return f"__INTADDR__(&(({structure}*)0)->{field})"  # what the compiler makes of offsetof


def layout_of(name: str, structure: type[ctypes.Structure]) -> list[str]:
    """Return what must be true of a structure that Python fills and the program reads."""
    fields = [field[0] for field in structure._fields_]
    places = [f"{place_of(name, each)} == {getattr(structure, each).offset}" for each in fields]
    return [f"sizeof({name}) == {ctypes.sizeof(structure)}", *places]


@needs_compiler
@pytest.mark.parametrize("num_layers", [1, 5])
def test_the_program_compiles_and_has_the_structures_that_it_is_given(num_layers: int) -> None:
    """It has room for its own, too, marks that do not meet, and stages for its largest product."""
    claims = (
        *layout_of("Model", _Model),
        *layout_of("Rows", _Rows),
        f"MAX_ROWS == {InnerCodes.max_rows}",
        f"NUM_STAGES * STAGE_BYTES + sizeof(Shared) <= {SHARED_BYTES}",
        *(f"{place_of('Shared', each)} % 8 == 0" for each in ("kept", "many", "few", "full")),
        f"{place_of('KeptHeads', 'queries')} % 4 == 0",
        "NUM_GROUPS < MAX_POSITIONS",
        "(NUM_GROUPS + 1) * (LAYERS + 1) < 128",
        "STAGES_OF_GATED <= NUM_STAGES",
    )
    checks = "\n".join(f'static_assert({each}, "{each}");' for each in claims)
    binary = compiler.compiled(f"{source()}\n{checks}", definitions_of(num_layers, num_groups=15))
    assert binary.startswith(b"\x7fELF")
