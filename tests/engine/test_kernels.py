"""Every kernel against the PyTorch lines it stands for, on a GPU or in Triton's interpreter."""

import os

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton comes with PyTorch for GPUs")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1 from the start", allow_module_level=True)

from antiphon.engine import kernels
from antiphon.engine.attention import DecodeAttention, PrefillAttention, SlotCache
from antiphon.engine.heads import Heads, NormedHeads
from antiphon.engine.kernels import drawing, pointwise, slot_attention
from antiphon.engine.layers import RMSNorm, Rope
from antiphon.engine.sampler import SamplingRows, gumbel_noise, sample, seed_words

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HEADS = Heads(num_heads=4, num_kv_heads=2, head_dim=16)
MAX_POSITIONS = 1024


@pytest.fixture(autouse=True)
def _plain_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the references run as PyTorch lines on a GPU too."""
    monkeypatch.setattr(kernels, "_HAS_TRITON", False)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("width", [48, 64])
def test_norm_and_sum(width: int) -> None:
    states, branch, weight = random(5, width), random(5, width, seed=1), random(width, seed=2)
    norm = RMSNorm(weight, 1e-6)
    torch.testing.assert_close(pointwise.rms_norm(states, weight, 1e-6), norm(states))
    sums, normed = pointwise.add_rms_norm(states, branch, weight, 1e-6)
    assert torch.equal(sums, states + branch)
    torch.testing.assert_close(normed, norm(states + branch))


def test_gate() -> None:
    gate_up = random(3, 2, 96)
    gate, up = gate_up.chunk(2, dim=-1)
    product = pointwise.silu_product(gate_up)
    torch.testing.assert_close(product, torch.nn.functional.silu(gate) * up)


def test_snake() -> None:
    states, frequency, amplitude = random(2, 7, 12), random(12, seed=1).exp(), random(12, seed=2)
    expected = states + amplitude * (states * frequency).sin() ** 2
    torch.testing.assert_close(pointwise.snake(states, frequency, amplitude), expected)


def new_cache() -> SlotCache:
    shape = (4, MAX_POSITIONS, HEADS.num_kv_heads, HEADS.head_dim)
    return SlotCache(random(1, 2, *shape, seed=7))


def normed_heads() -> NormedHeads:
    norms = (RMSNorm(random(HEADS.head_dim, seed=seed), 1e-6) for seed in (3, 4))
    return NormedHeads(HEADS, *norms)


def attend(
    joined: Tensor, cache: SlotCache, rope: Rope, places: tuple[Tensor, Tensor], num_visible: int
) -> Tensor:
    """Do by kernels what an attention class does; rotations by position."""
    heads = normed_heads()
    rotation = rope.at(places[1].flatten())
    queries = slot_attention.norm_rotate_keep(
        joined.flatten(0, 1),
        slot_attention.HeadShape(HEADS.num_heads, HEADS.num_kv_heads, HEADS.head_dim),
        (heads.query_norm.weight, heads.key_norm.weight, 1e-6),
        (rotation.cosines.flatten(0, 1), rotation.sines.flatten(0, 1)),
        cache.tensor[0],
        places,
    )
    attended = slot_attention.attend(queries, cache.tensor[0], places, num_visible)
    return attended.view(*joined.shape[:2], -1)


WIDTH = (HEADS.num_heads + 2 * HEADS.num_kv_heads) * HEADS.head_dim


def test_attention_over_slots_of_any_length() -> None:
    rope = Rope.build(HEADS.head_dim, 1e4, MAX_POSITIONS, torch.zeros((), device=DEVICE))
    slots = torch.tensor([2, 0, 3], device=DEVICE)
    positions = torch.tensor([600, 30, 255], device=DEVICE)
    joined, ours, theirs = random(3, 1, WIDTH), new_cache(), new_cache()
    reference = DecodeAttention(theirs, slots, positions, 601)
    expected = reference(0, joined, normed_heads(), rope.at(positions[:, None]))
    result = attend(joined, ours, rope, (slots, positions), 601)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.tensor, theirs.tensor)
    assert torch.equal(result, attend(joined, ours, rope, (slots, positions), MAX_POSITIONS))
    alone = attend(joined[1:2], ours, rope, (slots[1:2], positions[1:2]), 31)
    assert torch.equal(alone, result[1:2]), "a row's result depends on its company"


def test_attention_among_new_positions() -> None:
    rope = Rope.build(HEADS.head_dim, 1e4, MAX_POSITIONS, torch.zeros((), device=DEVICE))
    slots = torch.tensor([1, 3], device=DEVICE)
    joined, ours, theirs = random(2, 5, WIDTH), new_cache(), new_cache()
    reference = PrefillAttention(theirs, slots, 5)
    expected = reference(0, joined, normed_heads(), rope.between(0, 5))
    places = (
        slots[:, None].expand(2, 5).contiguous(),
        torch.arange(5, device=DEVICE).expand(2, 5).contiguous(),
    )
    torch.testing.assert_close(attend(joined, ours, rope, places, 5), expected)
    torch.testing.assert_close(ours.tensor, theirs.tensor)


def test_noise_is_the_same_to_the_bit() -> None:
    seeds = torch.tensor([seed_words(2**60 + 12345), seed_words(7)], device=DEVICE)
    frames, codebooks = torch.tensor([5, 4000], device=DEVICE), torch.arange(4, device=DEVICE)
    uniform = drawing.uniform(seeds, frames, codebooks, 100)
    assert torch.equal(-torch.log(-torch.log(uniform)), gumbel_noise(seeds, frames, codebooks, 100))


@pytest.mark.parametrize("top_k", [1, 2, 50, 300])
def test_draws_are_the_same_to_the_bit(top_k: int) -> None:
    logits = random(4, 300).bfloat16()  # with ties
    logits[:, 10] = -torch.inf
    logits[3, 5] = torch.nan
    rows = SamplingRows(
        temperature=torch.tensor([0.0, 0.9, 0.3, 1.1], device=DEVICE),
        top_k=torch.tensor([top_k, top_k, 1, 7], device=DEVICE),
        top_p=torch.ones(4, device=DEVICE),
        repetition_penalty=torch.ones(4, device=DEVICE),
        max_top_k=300,
        uses_top_p=False,
    )
    noise = random(4, 3, 300, seed=1)[:, 1]
    tokens, scores = drawing.draw(logits, rows.temperature, rows.top_k, noise)
    expected_tokens, expected_scores = sample(logits, rows, noise)
    assert torch.equal(tokens[:3], expected_tokens[:3])
    assert torch.equal(scores[:3], expected_scores[:3])
    assert scores[3].isnan()
