"""Decode attention as a program: compilation and selection anywhere, results on a GPU."""

from dataclasses import replace
from functools import cache
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.nn.attention import HeadShape, PagedCache, QKVHeads, Tokens, cut_tiles
from antiphon.nn.attention_backends import TritonAttention
from antiphon.nn.cuda import compiler, decode_attention
from antiphon.nn.kernels import paged_attention, paged_prefill
from antiphon.nn.kernels.fused_linear import FusedLinear, scale
from antiphon.nn.kernels.paged_common import Projected
from antiphon.nn.layers import RMSNorm, Rotation
from tests.nn.cuda.test_packing import layout_of, needs_compiler

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
HEAD_DIM, MAX_POSITIONS, SPLIT = 128, 768, paged_attention._SPLIT_POSITIONS
TALKER = HeadShape(16, 8, HEAD_DIM)
SERVED = {  # both sizes of a family have the same heads
    "Qwen3-TTS": TALKER,
    "Fish Speech, MiMo": HeadShape(32, 8, HEAD_DIM),
    "VoxCPM2": HeadShape(16, 2, HEAD_DIM),
    "Qwen2.5 7B": HeadShape(28, 4, HEAD_DIM),
    "Qwen2.5-Omni's talker": HeadShape(12, 4, HEAD_DIM),
}
GROUPS = [(8, 1), (8, 2), (4, 4), (1, 5), (4, 7), (2, 8)]
POSITIONS = (0, 1, 15, 16, 17, 63, 64, 127, 200, 255, 256, 257, 300, 511, 512, 640, 700)
on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and compiler.runs_on(CUDA, 1)),
        reason="needs a Hopper GPU, and NVIDIA's run-time compiler",
    ),
]


@needs_compiler
@pytest.mark.parametrize("shape", SERVED.values(), ids=SERVED)
def test_heads_of_families_compile_and_have_the_structure_that_they_are_given(
    shape: HeadShape,
) -> None:
    claims = layout_of("Arguments", decode_attention._Arguments)
    claims += [f"NUM_THREADS == {decode_attention._NUM_THREADS}"]
    claims += [f"TILE == {decode_attention._TILE_POSITIONS}", "sizeof(Shared) <= 48 * 1024"]
    checks = "\n".join(f'static_assert({each}, "{each}");' for each in claims)
    source = compiler.source_of(decode_attention._FILES)
    macros = decode_attention.definitions_of(shape, 16, SPLIT)
    assert compiler.compiled(f"{source}\n{checks}", macros)


def projected_of(shape: HeadShape, num_rows: int, device: torch.device) -> Projected:
    """Return numbers for rows, the same ones of any number, with norms; all rows turn alike."""
    width = (shape.num_heads + 2 * shape.num_kv_heads) * HEAD_DIM
    norms = [random(HEAD_DIM, seed=seed, device=device).abs() + 0.5 for seed in (2, 3)]
    angles = random(1, HEAD_DIM // 2, seed=4, device=device).repeat(1, 2)
    joined = random(len(POSITIONS), width, seed=5, device=device)[:num_rows]
    return Projected(joined, shape, (norms[0], norms[1], 1e-6), (angles.cos(), angles.sin()))


def random(*shape: int, seed: int, device: torch.device = CUDA) -> Tensor:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return numbers.to(device, torch.bfloat16)


def test_other_heads_and_numbers_have_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    projected, kept = projected_of(TALKER, 2, CPU), torch.zeros(2, 3, 16, 8, HEAD_DIM).bfloat16()
    find = decode_attention.decode_program
    assert find(projected, kept, SPLIT) is None, "a CPU"
    monkeypatch.setattr(decode_attention, "runs_on", lambda *_: True)
    monkeypatch.setattr(decode_attention, "_attention", lambda *_: Mock())
    assert find(projected, kept, SPLIT) is not None
    assert find(replace(projected, norms=(None, None, 0.0)), kept, SPLIT) is not None
    for shape in (HeadShape(16, 8, 64), HeadShape(32, 2, HEAD_DIM)):
        assert find(replace(projected, shape=shape), kept, SPLIT) is None
    assert find(projected, kept[:, :, :8], SPLIT) is None, "a tile would be in two blocks"
    assert find(projected, kept.half(), SPLIT) is None
    weight, _, epsilon = projected.norms
    assert find(replace(projected, norms=(weight, torch.ones(128), epsilon)), kept, SPLIT) is None


def test_what_was_written_directly_before_is_not_read_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of a mixed pass was; that of a step was not."""
    decode = Mock(return_value=torch.zeros(2, 16 * HEAD_DIM))
    monkeypatch.setattr(paged_attention, "decode", decode)
    monkeypatch.setattr(paged_prefill, "keep", lambda *_: torch.zeros(3, 16, HEAD_DIM))
    monkeypatch.setattr(paged_prefill, "attend_tiles", lambda *_: None)
    places = torch.zeros(2).long(), torch.zeros(2).long()
    cache = PagedCache(torch.zeros(1, 2, 3, 16, 8, HEAD_DIM), torch.zeros(2, 2).int())
    new = (0, torch.zeros(1, 3, 4096), QKVHeads(TALKER), Rotation(*torch.zeros(2, 1, 3, 1, 128)))
    tokens = Tokens(torch.zeros(3).long(), torch.zeros(3).long(), torch.zeros(1, 4).long())
    TritonAttention().mixed(cache, tokens, (places, 9), *new)
    assert not decode.call_args.kwargs.get("loads_early", False)
    decode.return_value = torch.zeros(3, 16 * HEAD_DIM)
    TritonAttention().decode(cache, (places, 9), *new)
    assert decode.call_args.kwargs["loads_early"]


@cache
def new_cache(shape: HeadShape, block_positions: int = 16) -> tuple[Tensor, Tensor]:
    """Return a layer whose positions from those of the rows on are no numbers, and the table."""
    max_blocks = MAX_POSITIONS // block_positions
    num_blocks = len(POSITIONS) * max_blocks
    size = (2, num_blocks + 1, block_positions, shape.num_kv_heads, HEAD_DIM)
    table = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(7))
    table = table.view(-1, max_blocks).to(CUDA)
    kept = random(*size, seed=8)
    for row, position in enumerate(POSITIONS):
        places = torch.arange(position, MAX_POSITIONS, device=CUDA)
        blocks = table[row, places // block_positions]
        kept[:, blocks, places % block_positions] = torch.nan
    return kept, table.int()


def decoded(
    projected: Projected,
    rows: slice = slice(None),
    *,
    block_positions: int = 16,
    loads_early: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the result of rows, and the layer afterwards; no more splits than they need."""
    kept, table = (each.clone() for each in new_cache(projected.shape, block_positions))
    slots, positions = torch.arange(len(POSITIONS), device=CUDA), torch.tensor(POSITIONS)
    places, num_visible = (slots[rows], positions[rows].to(CUDA)), int(positions[rows].max()) + 1
    projected = replace(projected, joined=projected.joined[rows])
    result = paged_attention.decode(
        projected, kept, table, places, num_visible, loads_early=loads_early
    )
    return result, kept


def assert_is_attention(projected: Projected, *, block_positions: int = 16) -> None:
    """Compare with PyTorch in float64 from the normed and rotated numbers on."""
    result, kept = decoded(projected, block_positions=block_positions)
    before, table = (each.clone() for each in new_cache(projected.shape, block_positions))
    shape, (cosines, sines) = projected.shape, projected.rotation
    query_weight, key_weight, epsilon = projected.norms
    norms = [
        None if each is None else RMSNorm(each, epsilon) for each in (query_weight, key_weight)
    ]
    turned = Rotation(cosines[:, None], sines[:, None])
    queries, keys, values = QKVHeads(shape, *norms)(projected.joined, turned)
    for row, position in enumerate(POSITIONS):
        places = torch.arange(position + 1, device=CUDA)
        blocks, offsets = table[row, places // block_positions], places % block_positions
        past = before[:, blocks, offsets]
        past[:, -1] = torch.stack((keys[row], values[row]))
        torch.testing.assert_close(kept[:, blocks, offsets], past, atol=0.05, rtol=0.01)
        assert torch.equal(kept[:, blocks, offsets][:, :-1], past[:, :-1])
        before[:, blocks[-1], offsets[-1]] = kept[:, blocks[-1], offsets[-1]]
        query = queries[row].double().view(shape.num_kv_heads, shape.group, HEAD_DIM)
        scores = torch.einsum("kgd,pkd->kgp", query, past[0].double()) * HEAD_DIM**-0.5
        expected = torch.einsum("kgp,pkd->kgd", scores.softmax(2), past[1].double()).flatten()
        difference = (result[row].double() - expected).norm() / expected.norm()
        assert difference < 0.01, f"position {position}"
    assert torch.equal(before.view(torch.int16), kept.view(torch.int16)), "others are as they were"


class TestOnGPU:
    pytestmark = on_gpu

    @pytest.mark.parametrize(("num_kv_heads", "group"), GROUPS)
    @torch.inference_mode()
    def test_rows_of_any_length_attend_to_what_was_written(
        self, num_kv_heads: int, group: int
    ) -> None:
        shape = HeadShape(num_kv_heads * group, num_kv_heads, HEAD_DIM)
        projected = projected_of(shape, len(POSITIONS), CUDA)
        kept, _ = new_cache(shape)
        assert decode_attention.decode_program(projected, kept, SPLIT) is not None
        assert_is_attention(projected)

    @torch.inference_mode()
    def test_without_norms_in_larger_blocks_and_with_a_turn_of_each_row(self) -> None:
        projected = projected_of(HeadShape(28, 4, HEAD_DIM), len(POSITIONS), CUDA)
        angles = random(len(POSITIONS), HEAD_DIM // 2, seed=9).repeat(1, 2)
        rotation = (angles.cos(), angles.sin())
        projected = replace(projected, norms=(None, None, 0.0), rotation=rotation)
        assert_is_attention(projected, block_positions=64)

    @pytest.mark.parametrize(("num_kv_heads", "group"), GROUPS)
    @torch.inference_mode()
    def test_bits_depend_on_neither_company_nor_early_loads(
        self, num_kv_heads: int, group: int
    ) -> None:
        shape = HeadShape(num_kv_heads * group, num_kv_heads, HEAD_DIM)
        projected = projected_of(shape, len(POSITIONS), CUDA)
        result, kept = decoded(projected)
        for loads_early in (True, False):
            again, kept_again = decoded(projected, loads_early=loads_early)
            assert torch.equal(result, again)
            assert torch.equal(kept.view(torch.int16), kept_again.view(torch.int16))
        for row in range(len(POSITIONS)):
            alone, _ = decoded(projected, slice(row, row + 1), loads_early=bool(row % 2))
            assert torch.equal(alone[0], result[row]), "a row's result depends on its company"

    @torch.inference_mode()
    def test_it_computes_what_the_kernel_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        projected = projected_of(TALKER, len(POSITIONS), CUDA)
        result, kept = decoded(projected)
        monkeypatch.setattr(paged_attention, "decode_program", lambda *_: None)
        expected, expected_kept = decoded(projected)
        assert (result - expected).norm() / expected.norm() < 0.01
        torch.testing.assert_close(kept, expected_kept, atol=0.05, rtol=0.01, equal_nan=True)

    @torch.inference_mode()
    def test_steps_read_what_those_before_have_just_written(self) -> None:
        """Of a layer alone, so that two products are all that is between two attentions."""
        sizes, num_steps, start = ((4096, 1024), (1024, 2048)), 40, 240
        weights = [random(*size, seed=index) * 0.03 for index, size in enumerate(sizes)]
        norm, states = random(1024, seed=5), random(64, 1024, seed=6)
        table = torch.arange(64 * 20, device=CUDA, dtype=torch.int32).view(64, 20)
        slots = torch.arange(64, device=CUDA)
        positions = torch.arange(start, start + num_steps, device=CUDA)[:, None].repeat(1, 64)
        base, product = projected_of(TALKER, 1, CUDA), FusedLinear()
        before = random(2, 64 * 20, 16, 8, HEAD_DIM, seed=7)

        def run(num_rows: int, loads_early: bool) -> Tensor:
            kept, now = before.clone(), scale(states[:num_rows], norm)
            for step in range(num_steps):
                projected = replace(base, joined=product.normed(now, weights[0], 1e-6))
                places = (slots[:num_rows], positions[step, :num_rows])
                attended = paged_attention.decode(
                    projected, kept, table, places, start + step + 1, loads_early=loads_early
                )
                now = product.added(now.states, attended, weights[1], norm)
            return now.states

        expected = run(64, False)
        assert expected.isfinite().all()
        differences = torch.zeros((), dtype=torch.int64, device=CUDA)
        for num_rows, loads_early in ((64, True), (24, True), (3, True), (64, False)):
            run(num_rows, loads_early)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # or launches are too far apart for kernels to overlap
                result = run(num_rows, loads_early)
            reference = expected if num_rows > 8 else run(num_rows, False)  # of other products
            for _ in range(20):
                graph.replay()
                differences += (result != reference[:num_rows]).sum()
        assert not differences

    @torch.inference_mode()
    def test_rows_beside_prompts_are_as_in_a_step(self) -> None:
        """The second row's prompt is written in the same pass, directly before."""
        rows, pieces = [(2, 300), (1, 33)], [(0, 70, 40), (1, 0, 33)]
        written = [(slot, start + at) for slot, start, count in pieces for at in range(count)]
        slots, positions = torch.tensor(rows, device=CUDA).T.contiguous()
        prompt = torch.tensor(written, device=CUDA).T.contiguous()
        tiles = [torch.from_numpy(cut_tiles(pieces, first)).to(CUDA) for first in (len(rows), 0)]
        passes = [Tokens(prompt[0], prompt[1], each) for each in tiles]
        mixed = replace(
            passes[0],
            slots=torch.cat((slots, passes[0].slots)),
            positions=torch.cat((positions, passes[0].positions)),
        )
        kept, table = new_cache(TALKER)
        joined = random(1, len(mixed.slots), 4096, seed=1)
        angles = random(1, len(mixed.slots), 1, HEAD_DIM // 2, seed=2).repeat(1, 1, 1, 2)
        heads, cosines, sines = QKVHeads(TALKER), angles.cos(), angles.sin()
        attention, places = TritonAttention(), ((slots, positions), 301)

        def cache_of_rows() -> PagedCache:
            return PagedCache(kept.nan_to_num(9.0)[None], table)

        together = attention.mixed(
            cache_of_rows(), mixed, places, 0, joined, heads, Rotation(cosines, sines)
        )
        apart, num_rows = cache_of_rows(), len(rows)
        turned = Rotation(cosines[:, num_rows:], sines[:, num_rows:])
        read = attention.prefill(apart, passes[1], 0, joined[:, num_rows:], heads, turned)
        turned = Rotation(cosines[0, :num_rows, None], sines[0, :num_rows, None])
        made = attention.decode(apart, places, 0, joined[0, :num_rows, None], heads, turned)
        assert torch.equal(together, torch.cat((made.transpose(0, 1), read), dim=1))
