"""Sampling: counter-based random numbers, and a draw with temperature and top-k in one launch."""

from typing import TypeAlias

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import libdevice

from antiphon.nn.kernels.fused_linear import PreNormState
from antiphon.nn.kernels.pdl import await_others, overlaps

_UNIFORM_BLOCK = 512


def uniform(seeds: Tensor, frames: Tensor, codebooks: Tensor, vocab_size: int) -> Tensor:
    """Return the random numbers behind `antiphon.nn.sampler.gumbel_noise`, bit for bit."""
    return _launch_noise(seeds, frames, codebooks, vocab_size, False)


def gumbel(seeds: Tensor, frames: Tensor, codebooks: Tensor, vocab_size: int) -> Tensor:
    """Return the noise of `antiphon.nn.sampler.gumbel_noise`."""
    return _launch_noise(seeds, frames, codebooks, vocab_size, True)


def _launch_noise(
    seeds: Tensor, frames: Tensor, codebooks: Tensor, vocab_size: int, is_gumbel: bool
) -> Tensor:
    num_rows, num_codebooks = len(seeds), len(codebooks)
    result = torch.empty(num_rows, num_codebooks, vocab_size, device=seeds.device)
    grid = (num_rows, num_codebooks, triton.cdiv(vocab_size, _UNIFORM_BLOCK))
    _noise[grid](
        seeds, frames, codebooks, result, num_codebooks, vocab_size,
        BLOCK=_UNIFORM_BLOCK, IS_GUMBEL=is_gumbel, IS_CUDA=seeds.is_cuda, PDL=overlaps(seeds),
        launch_pdl=overlaps(seeds),
    )  # fmt: skip
    return result


Parameters: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Temperature, top-k and top-p of each row: f32, int64, f32, all ``[num_rows]`` of any stride."""


def draw(logits: Tensor, parameters: Parameters, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token a row, as `antiphon.nn.sampler.sample` does.

    Args:
        logits: ``[num_rows, vocab_size]``, of any type.
        parameters: parameters of each row, see `Parameters`.
        noise: f32 ``[num_rows, vocab_size]``, rows of any stride.
    """
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    scores = torch.empty(len(logits), device=logits.device)
    _launch_draw(logits, parameters, noise, (tokens, scores), None)
    return tokens, scores


def draw_and_embed(
    logits: Tensor,
    parameters: Parameters,
    noise: Tensor,
    drawn: tuple[Tensor, Tensor],
    table: Tensor,
    norm: Tensor,
) -> PreNormState:
    """Draw as `draw` does, and embed the drawn tokens.

    Args:
        logits: ``[num_rows, vocab_size]``.
        parameters: parameters of each row, see `Parameters`.
        noise: f32 ``[num_rows, vocab_size]``, rows of any stride.
        drawn: output for tokens and scores, ``[num_rows]`` of any stride.
        table: token embeddings, ``[vocab_size, width]``.
        norm: weight of the next norm, ``[width]``.

    Returns:
        The embeddings, pre-normed.
    """
    num_rows, width = len(logits), table.shape[1]
    states = table.new_empty(num_rows, width)
    squares = torch.empty(num_rows, 1, device=table.device)
    embedded = PreNormState(states, torch.empty_like(states), squares)
    _launch_draw(logits, parameters, noise, drawn, (table, norm, embedded))
    return embedded


def _launch_draw(
    logits: Tensor,
    parameters: Parameters,
    noise: Tensor,
    drawn: tuple[Tensor, Tensor],
    embedding: tuple[Tensor, Tensor, PreNormState] | None,
) -> None:
    logits = logits.contiguous()
    num_rows, vocab_size = logits.shape
    temperature, top_k, top_p = parameters
    tokens, scores = drawn
    table, norm, target = embedding or (logits, logits, PreNormState(logits, logits, scores))
    width = table.shape[1]
    block = triton.next_power_of_2(vocab_size)
    _draw[(num_rows,)](
        logits, temperature, top_k, top_p, noise, tokens, scores, table, norm, target.states,
        target.scaled, target.squares, vocab_size, temperature.stride(0), top_k.stride(0),
        top_p.stride(0), noise.stride(0), tokens.stride(0), scores.stride(0), width,
        BLOCK=block, BITS=32 if logits.dtype == torch.float32 else 16,
        IS_EMBEDDING=embedding is not None, WIDTH=triton.next_power_of_2(width),
        PDL=overlaps(logits),
        num_warps=max(1, min(8, block // 256)), launch_pdl=overlaps(logits),
    )  # fmt: skip


@triton.jit
def _mixed(words):
    words = words ^ (words >> 16)
    words = words * 0x21F0AAAD
    words = words ^ (words >> 15)
    words = words * 0x735A2D97
    return words ^ (words >> 15)


@triton.jit
def noise_key(seed, frame, codebook):
    """Return the key of the noise of all tokens; ``seed`` points to two words."""
    low = _mixed(tl.load(seed).to(tl.uint32) ^ 0x9E3779B9)
    high = _mixed(tl.load(seed + 1).to(tl.uint32) ^ low)
    low = _mixed(low ^ frame.to(tl.uint32))
    high = _mixed(high ^ low)
    low = _mixed(low ^ codebook)
    return low, _mixed(high ^ low)


@triton.jit
def uniform_of(low, high, tokens):
    bits = _mixed(_mixed(tokens.to(tl.uint32) ^ low) + high)
    return ((bits >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07


@triton.jit
def gumbel_of(low, high, tokens, IS_CUDA: tl.constexpr):
    number = uniform_of(low, high, tokens)
    if IS_CUDA:  # Triton's own logarithm is too coarse near 1
        number = -libdevice.log(-libdevice.log(number))
    else:
        number = -tl.log(-tl.log(number))
    return number


@triton.jit
def _noise(
    seeds, frames, codebooks, result, num_codebooks, vocab_size,
    BLOCK: tl.constexpr, IS_GUMBEL: tl.constexpr, IS_CUDA: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    row = tl.program_id(0)
    codebook = tl.program_id(1)
    low, high = noise_key(
        seeds + row * 2, tl.load(frames + row), tl.load(codebooks + codebook).to(tl.uint32)
    )
    tokens = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    if IS_GUMBEL:
        number = gumbel_of(low, high, tokens, IS_CUDA)
    else:
        number = uniform_of(low, high, tokens)
    start = (row.to(tl.int64) * num_codebooks + codebook) * vocab_size
    tl.store(result + start + tokens, number, mask=tokens < vocab_size)


@triton.jit
def _draw(
    logits, temperature, top_k, top_p, noise, tokens, scores, table, norm, states, scaled, squares,
    vocab_size, heat_stride, count_stride, share_stride, noise_stride, token_stride, score_stride,
    width,
    BLOCK: tl.constexpr, BITS: tl.constexpr, IS_EMBEDDING: tl.constexpr, WIDTH: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    places = tl.arange(0, WIDTH)
    there = places < width
    if IS_EMBEDDING:
        weight = tl.load(norm + places, mask=there, other=0.0).to(tl.float32)
    await_others(PDL)
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < vocab_size
    logit = tl.load(logits + row * vocab_size + columns, mask=inside, other=-float("inf"))
    logit = logit.to(tl.float32) + 0.0  # normalises negative zero
    gumbel = tl.load(noise + row * noise_stride + columns, mask=inside, other=0.0)
    heat = tl.load(temperature + row * heat_stride)
    num_kept = tl.load(top_k + row * count_stride).to(tl.int32)
    share = tl.load(top_p + row * share_stride)
    is_bad = tl.max((logit != logit).to(tl.int32), axis=0) > 0
    best, token = best_of(logit, inside, heat, num_kept, share, gumbel, BITS)
    token = tl.minimum(token, vocab_size - 1)  # for NaN the index is arbitrary
    tl.store(tokens + row * token_stride, token.to(tl.int64))
    tl.store(scores + row * score_stride, tl.where(is_bad, float("nan"), best))
    if IS_EMBEDDING:
        value = tl.load(table + token.to(tl.int64) * width + places, mask=there, other=0.0)
        wide = value.to(tl.float32)
        tl.store(states + row * width + places, value, mask=there)
        tl.store(scaled + row * width + places, wide * weight, mask=there)
        tl.store(squares + row, tl.sum(wide * wide, axis=0))


@triton.jit
def best_of(logit, inside, heat, num_kept, share, gumbel, BITS: tl.constexpr):
    """Return the highest score with its noise, and its token, among the kept tokens."""
    smallest, order = order_of_kth(logit, inside, num_kept, BITS)
    is_greedy = heat == 0
    score = tl.div_rn(logit, tl.zeros_like(logit) + tl.where(is_greedy, 1.0, heat))
    if share < 1.0:
        smallest = order_of_share(score, order, inside & (order >= smallest), share, BITS)
    score = score + tl.where(is_greedy, 0.0, gumbel)
    score = tl.where(inside & (order >= smallest), score, -float("inf"))
    return tl.max(score, axis=0, return_indices=True)


@triton.jit
def order_of(number):
    """Return integers ordered like f32 numbers."""
    bits = number.to(tl.uint32, bitcast=True)
    return tl.where(bits >> 31 != 0, bits ^ 0xFFFFFFFF, bits | 0x80000000)


@triton.jit
def order_of_kth(logit, inside, num_kept, BITS: tl.constexpr):
    """Find the num_kept-th largest, two bits at a time, among integers ordered like the logits."""
    order = tl.where(inside, order_of(logit) >> (32 - BITS), 0)
    smallest = tl.zeros([], tl.uint32)
    for step in tl.static_range(BITS // 2):
        unit = 1 << (BITS - 2 - 2 * step)
        # Three counts in one sum: each is below 2**16.
        counts = (order >= smallest + unit).to(tl.int64)
        counts += (order >= smallest + 2 * unit).to(tl.int64) << 16
        counts += (order >= smallest + 3 * unit).to(tl.int64) << 32
        counts = tl.sum(counts, axis=0)
        steps = (counts & 0xFFFF >= num_kept).to(tl.uint32)
        steps += (counts >> 16 & 0xFFFF >= num_kept).to(tl.uint32)
        steps += (counts >> 32 >= num_kept).to(tl.uint32)
        smallest += steps * unit
    return smallest, order


@triton.jit
def order_of_share(score, order, kept, share, BITS: tl.constexpr):
    """Find the order from which on tokens hold a share of the probability of the kept tokens.

    The most likely of them is always included.
    """
    score = tl.where(kept, score, -float("inf"))
    weight = tl.exp(score - tl.max(score, axis=0))
    dropped = (1.0 - share) * tl.sum(weight, axis=0)
    smallest = tl.zeros([], tl.uint32)
    for step in tl.static_range(BITS // 2):
        unit = 1 << (BITS - 2 - 2 * step)
        base = smallest
        for steps in tl.static_range(1, 4):
            below = tl.sum(tl.where(order < base + steps * unit, weight, 0.0), axis=0)
            smallest += (below <= dropped).to(tl.uint32) * unit
    return tl.minimum(smallest, tl.max(tl.where(kept, order, 0), axis=0))
