"""The resident program on a GPU: it draws what PyTorch's lines make likely, in any company."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.code_predictor import CodePredictor
from antiphon.nn.cuda.compiler import runs_on
from antiphon.nn.cuda.inner_codes import InnerCodes
from antiphon.nn.layers import RMSNorm
from tests.nn.cuda.predictors import VOCAB, WIDTH, noise_of, predictor_of, rows_of

CUDA = torch.device("cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and runs_on(CUDA, 128)),
        reason="needs an H100 SXM or H200, and NVIDIA's run-time compiler",
    ),
]

NUM_GROUPS, MAX_ROWS = 15, 8
TEMPERATURE = [0.9, 0.0, 1.0, 0.7, 0.0, 0.9, 1.0, 0.8]
TOP_K = [50, 50, VOCAB, 20, 1, 50, 100, 1]
TOP_P = [1.0, 1.0, 0.5, 1.0, 1.0, 0.3, 1.0, 1.0]
TOLERANCE = 0.3  # of a score; those of bfloat16 kernels are as far from float32


@pytest.fixture(scope="module")
def predictor() -> Iterator[CodePredictor]:
    with torch.inference_mode():
        yield predictor_of(CUDA, num_groups=NUM_GROUPS).with_resident()


@pytest.fixture(scope="module")
def resident(predictor: CodePredictor) -> InnerCodes:
    assert predictor.resident is not None
    return predictor.resident


def states_of(num_rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(num_rows, WIDTH, generator=generator).to(CUDA, torch.bfloat16)


@torch.inference_mode()
def drawn_of(
    predictor: CodePredictor | InnerCodes, states: Tensor, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Return codes ``[rows, 16]`` and scores of rows that have the parameters from ``first`` on."""
    num_rows = len(states)
    rows = slice(first, first + num_rows)
    codes = torch.full((num_rows, NUM_GROUPS + 2), -1, device=CUDA)
    codes[:, 0] = torch.arange(first, first + num_rows, device=CUDA) * 31 % VOCAB
    scores = torch.zeros(num_rows, NUM_GROUPS + 1, device=CUDA)
    parameters = rows_of((TEMPERATURE * 2)[rows], (TOP_K * 2)[rows], (TOP_P * 2)[rows], CUDA)
    noise = noise_of(num_rows, NUM_GROUPS, CUDA, first)
    if isinstance(predictor, InnerCodes):
        predictor.complete(states, (codes, scores), parameters, noise)
    else:
        cache = predictor.new_cache(num_rows)
        predictor.complete(states, (codes, scores), parameters, noise, cache)
    torch.cuda.synchronize()
    return codes[:, : NUM_GROUPS + 1], scores[:, 1:]


@torch.inference_mode()
def logits_of(predictor: CodePredictor, states: Tensor, codes: Tensor) -> Tensor:
    """Return f32 logits of all groups, ``[rows, groups, codes]``, given the codes before each."""
    embedded = [F.embedding(codes[:, i], predictor.tables[i]) for i in range(NUM_GROUPS)]
    x = torch.stack((states, *embedded), dim=1).float()

    def norm(some: Tensor, weight: RMSNorm) -> Tensor:
        scale = torch.rsqrt(some.square().mean(-1, keepdim=True) + weight.epsilon)
        return some * scale * weight.weight.float()

    rotation = predictor.transformer.rope.between(0, NUM_GROUPS + 1)
    for layer in predictor.transformer.layers:
        joined = norm(x, layer.attention_norm) @ layer.query_key_value.weight.float().T
        shape = layer.heads.shape
        sizes = [shape.num_heads, shape.num_kv_heads, shape.num_kv_heads]
        parts = torch.split(joined.view(*joined.shape[:-1], -1, shape.head_dim), sizes, dim=-2)
        queries, keys, values = parts
        assert layer.heads.query_norm is not None
        assert layer.heads.key_norm is not None
        queries = rotation(norm(queries, layer.heads.query_norm))
        keys = rotation(norm(keys, layer.heads.key_norm))
        queries, keys, values = (each.transpose(1, 2) for each in (queries, keys, values))
        attended = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=True
        )
        x = x + attended.transpose(1, 2).flatten(2) @ layer.output.weight.float().T
        gate_up = norm(x, layer.feed_forward_norm) @ layer.feed_forward.gate_up.weight.float().T
        gate, up = gate_up.chunk(2, dim=-1)
        x = x + (F.silu(gate) * up) @ layer.feed_forward.down.weight.float().T
    x = norm(x, predictor.transformer.norm)[:, 1:]
    heads_weight = torch.stack([each.weight.float() for each in predictor.heads])
    return torch.einsum("rgw,gvw->rgv", x, heads_weight)


def check_draws(predictor: CodePredictor, states: Tensor, codes: Tensor, scores: Tensor) -> None:
    """Compare codes that were drawn with what float32 makes of the codes before each."""
    logits, noise = logits_of(predictor, states, codes), noise_of(len(states), NUM_GROUPS, CUDA)
    for row in range(len(states)):
        heat, top_k = TEMPERATURE[row], TOP_K[row]
        scaled = logits[row] / (heat or 1.0)
        code = codes[row, 1:, None]
        kept = scaled >= scaled.topk(top_k, dim=-1).values[:, -1:] - TOLERANCE
        assert kept.gather(1, code).all(), "a code beyond top-k"
        noisy = scaled + (noise[row] if heat else 0.0)
        own = noisy.gather(1, code)[:, 0]
        torch.testing.assert_close(scores[row], own, atol=TOLERANCE, rtol=0)
        if TOP_P[row] == 1.0:
            surely = scaled >= scaled.topk(top_k, dim=-1).values[:, -1:] + TOLERANCE
            best = noisy.masked_fill(~surely, -torch.inf).amax(-1)
            assert (own >= best - 2 * TOLERANCE).all(), "not the highest score"
        else:
            kth = scaled.topk(top_k, dim=-1).values[:, -1:]
            check_share(scaled, kth, noisy, code, TOP_P[row])


def check_share(scaled: Tensor, kth: Tensor, noisy: Tensor, code: Tensor, share: float) -> None:
    """Hold codes to top-p: within it, and the best of those that are surely within it."""
    shares = scaled.masked_fill(scaled < kth, -torch.inf).softmax(-1)
    above = (shares * (scaled > scaled.gather(1, code) + 2 * TOLERANCE)).sum(-1)
    assert (above < share + 0.05).all(), "a code beyond top-p"
    ranked, order = scaled.sort(descending=True)
    reached = shares.gather(1, order).cumsum(-1)
    # However near scores are mistaken, so many codes come before each.
    near = torch.searchsorted(-ranked, -(ranked - 2 * TOLERANCE), right=True) - 1
    surely = (reached.gather(1, near) < share - 0.05) & (ranked >= kth + TOLERANCE)
    best = noisy.gather(1, order).masked_fill(~surely, -torch.inf).amax(-1)
    assert (noisy.gather(1, code)[:, 0] >= best - 2 * TOLERANCE).all(), "not the best within top-p"


@pytest.mark.parametrize("num_rows", [1, 5, MAX_ROWS])
def test_codes_are_drawn_of_what_float32_makes(
    predictor: CodePredictor, resident: InnerCodes, num_rows: int
) -> None:
    states = states_of(num_rows)
    check_draws(predictor, states, *drawn_of(resident, states))


def test_kernels_draw_as_likely_codes(predictor: CodePredictor) -> None:
    """The bound holds the kernels that it stands in for, too."""
    states = states_of(MAX_ROWS)
    with torch.inference_mode():
        kernels = predictor_of(CUDA, num_groups=NUM_GROUPS)
    check_draws(predictor, states, *drawn_of(kernels, states))


def test_a_row_is_the_same_in_any_company(resident: InnerCodes) -> None:
    states = states_of(MAX_ROWS)
    codes, scores = drawn_of(resident, states)
    for first in range(MAX_ROWS):
        for end in {first + 1, MAX_ROWS}:
            some, their_scores = drawn_of(resident, states[first:end], first)
            assert torch.equal(some, codes[first:end])
            assert torch.equal(their_scores, scores[first:end])


def test_launches_repeat(resident: InnerCodes) -> None:
    states = states_of(MAX_ROWS)
    codes, scores = drawn_of(resident, states)
    for _ in range(200):
        again, their_scores = drawn_of(resident, states)
        assert torch.equal(again, codes)
        assert torch.equal(their_scores, scores)


def test_marks_may_come_again(resident: InnerCodes) -> None:
    """They do after 2**25 launches; buffers then hold marks of a launch long ago."""
    states, launches = states_of(MAX_ROWS), resident.held[-1 - NUM_GROUPS]
    assert launches.numel() == 1
    codes, _ = drawn_of(resident, states)
    for number in (-2, 2**25 - 2):
        launches.fill_(number)
        for _ in range(3):
            assert torch.equal(drawn_of(resident, states)[0], codes)
    drawn_of(resident, states.flip(0))
    launches.sub_(1)  # the next launch has the marks that all buffers hold
    assert torch.equal(drawn_of(resident, states)[0], codes)


def test_a_graph_repeats_beside_other_work(resident: InnerCodes) -> None:
    states = states_of(MAX_ROWS)
    wanted, _ = drawn_of(resident, states)
    with torch.inference_mode():
        stream, others = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        codes = torch.full((MAX_ROWS, NUM_GROUPS + 2), -1, device=CUDA)
        codes[:, 0] = wanted[:, 0]
        scores = torch.zeros(MAX_ROWS, NUM_GROUPS + 1, device=CUDA)
        parameters = rows_of(TEMPERATURE, TOP_K, TOP_P, CUDA)
        noise, found = noise_of(MAX_ROWS, NUM_GROUPS, CUDA), []
        room = torch.zeros(2, 2**26, device=CUDA)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            graph.capture_begin()
            resident.complete(states, (codes, scores), parameters, noise)
            graph.capture_end()
            for _ in range(200):
                with torch.cuda.stream(others):
                    room[0].copy_(room[1])
                graph.replay()
                found.append(codes[:, 1:].clone())
                codes[:, 1:] = -1
        torch.cuda.synchronize()
    for each in found:
        assert torch.equal(each[:, :-1], wanted[:, 1:])
        assert (each[:, -1] == -1).all(), "a column beyond the codes was written"


def test_a_row_that_is_no_number_says_so(resident: InnerCodes) -> None:
    states = states_of(4)
    codes, scores = drawn_of(resident, states)
    states[2] = torch.nan
    some, their_scores = drawn_of(resident, states)
    assert their_scores[2].isnan().all()
    assert ((some[2] >= 0) & (some[2] < VOCAB)).all()
    others = [0, 1, 3]
    assert torch.equal(some[others], codes[others])
    assert torch.equal(their_scores[others], scores[others])


def test_two_programs_may_run_at_a_time(predictor: CodePredictor, resident: InnerCodes) -> None:
    """Each wants the whole device: they take turns, and neither waits for ever."""
    states = states_of(MAX_ROWS)
    wanted, _ = drawn_of(resident, states)
    with torch.inference_mode():
        other = InnerCodes.of(predictor.transformer, predictor.heads, predictor.tables)
        streams = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        codes = [torch.full((MAX_ROWS, NUM_GROUPS + 2), -1, device=CUDA) for _ in streams]
        scores = [torch.zeros(MAX_ROWS, NUM_GROUPS + 1, device=CUDA) for _ in streams]
        parameters = rows_of(TEMPERATURE, TOP_K, TOP_P, CUDA)
        noise = noise_of(MAX_ROWS, NUM_GROUPS, CUDA)
        for each in codes:
            each[:, 0] = wanted[:, 0]
        torch.cuda.synchronize()
        for _ in range(50):
            for index, program in enumerate((resident, other)):
                with torch.cuda.stream(streams[index]):
                    program.complete(states, (codes[index], scores[index]), parameters, noise)
        torch.cuda.synchronize()
    for each in codes:
        assert torch.equal(each[:, : NUM_GROUPS + 1], wanted)
