"""Sampling: counter-based random numbers, and a draw with temperature and top-k in one launch."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_UNIFORM_BLOCK = 512


def uniform(seeds: Tensor, frames: Tensor, codebooks: Tensor, vocab_size: int) -> Tensor:
    """Return the random numbers of `antiphon.engine.sampler.gumbel_noise`, bit for bit."""
    num_rows, num_codebooks = len(seeds), len(codebooks)
    result = torch.empty(num_rows, num_codebooks, vocab_size, device=seeds.device)
    grid = (num_rows, num_codebooks, triton.cdiv(vocab_size, _UNIFORM_BLOCK))
    _uniform[grid](
        seeds, frames, codebooks, result, num_codebooks, vocab_size, BLOCK=_UNIFORM_BLOCK
    )
    return result


def draw(
    logits: Tensor, temperature: Tensor, top_k: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Draw one token a row, as `antiphon.engine.sampler.sample` does where no row uses top-p.

    Args:
        logits: ``[num_rows, vocab_size]``, of any type.
        temperature: f32 ``[num_rows]``.
        top_k: int64 ``[num_rows]``.
        noise: f32 ``[num_rows, vocab_size]``, rows of any stride.
    """
    logits, temperature = logits.contiguous(), temperature.contiguous()
    num_rows, vocab_size = logits.shape
    tokens = torch.empty(num_rows, dtype=torch.int64, device=logits.device)
    scores = torch.empty(num_rows, device=logits.device)
    block = triton.next_power_of_2(vocab_size)
    _draw[(num_rows,)](
        logits,
        temperature,
        top_k,
        noise,
        tokens,
        scores,
        vocab_size,
        noise.stride(0),
        BLOCK=block,
        num_warps=max(1, min(8, block // 256)),
    )
    return tokens, scores


@triton.jit
def _mixed(words):
    words = words ^ (words >> 16)
    words = words * 0x21F0AAAD
    words = words ^ (words >> 15)
    words = words * 0x735A2D97
    return words ^ (words >> 15)


@triton.jit
def _uniform(seeds, frames, codebooks, result, num_codebooks, vocab_size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    codebook = tl.program_id(1)
    low = _mixed(tl.load(seeds + row * 2).to(tl.uint32) ^ 0x9E3779B9)
    high = _mixed(tl.load(seeds + row * 2 + 1).to(tl.uint32) ^ low)
    low = _mixed(low ^ tl.load(frames + row).to(tl.uint32))
    high = _mixed(high ^ low)
    low = _mixed(low ^ tl.load(codebooks + codebook).to(tl.uint32))
    high = _mixed(high ^ low)
    tokens = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    bits = _mixed(_mixed(tokens.to(tl.uint32) ^ low) + high)
    number = ((bits >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
    start = (row.to(tl.int64) * num_codebooks + codebook) * vocab_size
    tl.store(result + start + tokens, number, mask=tokens < vocab_size)


@triton.jit
def _draw(
    logits,
    temperature,
    top_k,
    noise,
    tokens,
    scores,
    vocab_size,
    noise_stride,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < vocab_size
    score = tl.load(logits + row * vocab_size + columns, mask=inside, other=-float("inf"))
    score = score.to(tl.float32)
    heat = tl.load(temperature + row)
    is_greedy = heat == 0
    score = tl.div_rn(score, tl.zeros_like(score) + tl.where(is_greedy, 1.0, heat))
    is_bad = tl.max((score != score).to(tl.int32), axis=0) > 0
    # The top_k-th largest, found bit by bit among integers that are ordered as the scores are.
    bits = score.to(tl.uint32, bitcast=True)
    order = tl.where(bits >> 31 != 0, ~bits, bits | 0x80000000)
    order = tl.where(inside, order, 0)
    num_kept = tl.load(top_k + row).to(tl.int32)
    smallest = tl.zeros([], tl.uint32)
    for place in tl.static_range(32):
        candidate = smallest | (1 << (31 - place))
        is_below = tl.sum((order >= candidate).to(tl.int32), axis=0) >= num_kept
        smallest = tl.where(is_below, candidate, smallest)
    floor = tl.min(tl.where(order >= smallest, score, float("inf")), axis=0)
    kept = inside & (score >= floor)
    gumbel = tl.load(noise + row * noise_stride + columns, mask=inside, other=0.0)
    score = tl.where(kept, score + tl.where(is_greedy, 0.0, gumbel), -float("inf"))
    best = tl.max(score, axis=0)
    tl.store(tokens + row, tl.argmax(score, axis=0).to(tl.int64))
    tl.store(scores + row, tl.where(is_bad, float("nan"), best))
