"""Repetition-aware draws from a nucleus among all tokens, in one launch and without sorting."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.sampling import gumbel_of, noise_key, order_of_kth


@dataclass(frozen=True, slots=True)
class DrawSlots:
    """State of slots, a row each.

    Attributes:
        parameters: columns of `antiphon.contracts.sampling.PARAMETERS`, f32.
        seeds: words of `antiphon.nn.sampler.seed_words`, int64 ``[num_slots, 2]``.
        min_frames: frames before which the end is not drawn, int64 ``[num_slots]``.
        frame_store: int64 ``[num_slots, num_kept, frame_size]``, frame k at ``k % num_kept``.
    """

    parameters: Tensor
    seeds: Tensor
    min_frames: Tensor
    frame_store: Tensor


def draw_nucleus(
    logits: Tensor,
    slots: Tensor,
    frames: Tensor,
    state: DrawSlots,
    drawn: tuple[Tensor, Tensor],
    *,
    first_end: int,
    window: int,
    max_share: float,
) -> None:
    """Draw as `draw_nucleus` of CosyVoice3 and `antiphon.nn.sampler.RepetitionAware`.

    Args:
        logits: ``[num_rows, vocab_size]``, rows of any stride.
        slots: slot of each row, int64 ``[num_rows]``.
        frames: number of each row's next frame, int64 ``[num_rows]``.
        drawn: output for tokens, int64, and scores, f32, ``[num_rows]`` of any stride; the score is
            NaN if one of the row's logits is.
        first_end: first of the tokens that end speech, which are the last ones.
        window: latest tokens that are searched for the drawn one.
        max_share: share of the window from which on a token is redrawn, among all others.
    """
    num_rows, vocab_size = logits.shape
    assert logits.stride(1) == 1
    tokens, scores = drawn
    block, is_early = triton.next_power_of_2(vocab_size), overlaps(logits)
    _draw_nucleus[(num_rows,)](
        logits, slots, frames, state.parameters, state.seeds, state.min_frames, state.frame_store,
        tokens, scores, vocab_size, first_end, logits.stride(0), tokens.stride(0), scores.stride(0),
        *state.frame_store.shape[1:], state.parameters.shape[1], max_share * window,
        WINDOW=window, RECENT=triton.next_power_of_2(window), BLOCK=block,
        BITS=32 if logits.dtype == torch.float32 else 16, IS_CUDA=logits.is_cuda, PDL=is_early,
        num_warps=max(1, min(16, block // 256)), launch_pdl=is_early,
    )  # fmt: skip


@triton.jit
def _draw_nucleus(
    logits, slots, frames, parameters, seeds, min_frames, frame_store, tokens, scores, vocab_size,
    first_end, logit_stride, token_stride, score_stride, num_kept, frame_size, num_columns, most,
    WINDOW: tl.constexpr, RECENT: tl.constexpr, BLOCK: tl.constexpr, BITS: tl.constexpr,
    IS_CUDA: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    row = tl.program_id(0).to(tl.int64)
    slot, frame = tl.load(slots + row), tl.load(frames + row)
    heat = tl.load(parameters + slot * num_columns)
    top_k = tl.load(parameters + slot * num_columns + 1).to(tl.int32)
    top_p = tl.load(parameters + slot * num_columns + 2)
    columns = tl.arange(0, BLOCK)
    inside = columns < vocab_size
    logit = tl.load(logits + row * logit_stride + columns, mask=inside, other=-float("inf"))
    logit = logit.to(tl.float32) + 0.0  # normalises negative zero
    is_bad = tl.max((logit != logit).to(tl.int32), axis=0) > 0
    is_early = frame < tl.load(min_frames + slot)
    logit = tl.where(is_early & (columns >= first_end), -float("inf"), logit)
    smallest, order = order_of_kth(logit, inside, top_k, BITS)
    is_greedy = heat == 0
    score = tl.div_rn(logit, tl.zeros_like(logit) + tl.where(is_greedy, 1.0, heat))
    if top_p < 1.0:
        smallest = tl.maximum(smallest, _order_of_nucleus(score, order, inside, top_p, BITS))
    noise = tl.zeros_like(score)
    if not is_greedy:
        low, high = noise_key(seeds + slot * 2, frame, 0)
        noise = gumbel_of(low, high, columns, IS_CUDA)
    kept = tl.where(inside & (order >= smallest), score + noise, -float("inf"))
    best, token = tl.max(kept, axis=0, return_indices=True)
    if not is_greedy:
        ages = tl.arange(0, RECENT) + 1
        is_recent = (ages <= WINDOW) & (ages <= frame)
        places = slot * num_kept + (frame + num_kept - ages) % num_kept
        recent = tl.load(frame_store + places * frame_size, mask=is_recent, other=-1)
        if tl.sum((recent == token).to(tl.int32), axis=0) >= most:
            low, high = noise_key(seeds + slot * 2, frame, 1)
            score += gumbel_of(low, high, columns, IS_CUDA)
            others = tl.where(inside & (columns != token), score, -float("inf"))
            best, token = tl.max(others, axis=0, return_indices=True)
    token = tl.minimum(token, vocab_size - 1)  # for NaN the index is arbitrary
    tl.store(tokens + row * token_stride, token.to(tl.int64))
    tl.store(scores + row * score_stride, tl.where(is_bad, float("nan"), best))


@triton.jit
def _order_of_nucleus(score, order, inside, share, BITS: tl.constexpr):
    """Find the largest order from which on tokens reach a share of the probability of all."""
    weight = tl.where(inside, tl.exp(score - tl.max(score, axis=0)), 0.0)
    wanted = share * tl.sum(weight, axis=0)
    found = tl.zeros([], tl.uint32)
    for step in tl.static_range(BITS // 2):
        unit = 1 << (BITS - 2 - 2 * step)
        base = found
        for steps in tl.static_range(1, 4):
            reached = tl.sum(tl.where(order >= base + steps * unit, weight, 0.0), axis=0)
            found += (reached >= wanted).to(tl.uint32) * unit
    return tl.minimum(found, tl.max(tl.where(inside, order, 0), axis=0))
