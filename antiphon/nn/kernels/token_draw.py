"""Draws of tokens from a large vocabulary, in three launches of partial programs.

The vocabulary is cut into groups of tokens that lie far apart, and groups into parts of one program
each. The k-th largest of the groups' maxima is a bound that at least k tokens reach and few others
do; the last launch, one program per row, reads only the tokens that reach it.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.sampling import gumbel_of, noise_key, order_of

MAX_TOP_K = 256
_NUM_GROUPS = 1024  # or up to twice as many
_PART_TOKENS = 4096
_FEW = 32  # candidates of a part, as nearly all parts have


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Rules that adjust the probability of tokens, beside their logits.

    Attributes:
        parameters: columns of `antiphon.contracts.sampling.PARAMETERS`, and an unused one; f32
            ``[num_slots, 8]``. A row with a top-p below 1 has a top-k, and none is above
            `MAX_TOP_K`; 0: all.
        history: mask of tokens that a slot has read, bool ``[num_slots, vocab_size]``, and counts
            of those it has written, int32 of the same shape, which draws increment.
        biases: tokens, int64 ``[num_slots, num_biases]``, and their logit biases, f32.
    """

    parameters: Tensor
    history: tuple[Tensor, Tensor]
    biases: tuple[Tensor, Tensor]


def draw_tokens(
    logits: Tensor,
    slots: Tensor,
    rules: TokenRules,
    draws: tuple[Tensor, Tensor],
    *,
    is_adjusted: bool,
) -> tuple[Tensor, Tensor]:
    """Draw tokens as `antiphon.nn.token_sampler.TokenSampler.sample`.

    Among more than `MAX_TOP_K` equal logits in a part of the vocabulary only the first may be
    drawn.

    Args:
        logits: ``[num_rows, vocab_size]``, of any type.
        slots: slot of each row, int64 ``[num_rows]``.
        draws: seeds and numbers of the tokens, see `antiphon.nn.sampler.gumbel_noise`.
        is_adjusted: whether any row has penalties or biases; otherwise no history is kept.

    Returns:
        Tokens, int64, and their scores, f32, both ``[num_rows]``; a score is NaN if one of the
        row's logits is.
    """
    num_rows, vocab_size = logits.shape
    depth = 1 << (max(1, vocab_size // _NUM_GROUPS).bit_length() - 1)  # tokens per group
    width = max(1, min(_PART_TOKENS // depth, _NUM_GROUPS))  # groups per part
    num_parts = triton.cdiv(triton.cdiv(vocab_size, depth), width)
    num_groups = num_parts * width
    scores = torch.empty(num_rows, vocab_size, device=logits.device)
    peaks = torch.empty(num_rows, num_groups, device=logits.device)
    faults = torch.empty(num_rows, num_parts, dtype=torch.int32, device=logits.device)
    counts = torch.empty_like(faults)
    candidates = torch.empty(num_rows, num_parts, MAX_TOP_K, device=logits.device)
    ids = torch.empty_like(candidates, dtype=torch.int32)
    tokens = torch.empty_like(slots)
    best = torch.empty(num_rows, device=logits.device)
    is_early = overlaps(logits)
    sizes = {"NUM_PARTS": num_parts, "PDL": is_early, "launch_pdl": is_early, "num_warps": 8}
    part = {"DEPTH": depth, "WIDTH": width, **sizes}
    chance = {"IS_CUDA": logits.is_cuda, **sizes}
    grid = (num_rows, num_parts)
    _score_tokens[grid](
        *(logits.contiguous(), slots, rules.parameters, *rules.history, *rules.biases),
        *(scores, peaks, faults, vocab_size, rules.biases[0].shape[1]),
        IS_ADJUSTED=is_adjusted, BIASES=triton.next_power_of_2(rules.biases[0].shape[1]),
        enable_fp_fusion=False, **part,
    )  # fmt: skip
    _find_candidates[grid](
        *(scores, peaks, slots, rules.parameters, *draws, counts, candidates, ids, vocab_size),
        GROUPS=triton.next_power_of_2(num_groups), KEPT=MAX_TOP_K, **{**part, **chance},
    )  # fmt: skip
    _draw_candidate[(num_rows,)](
        *(counts, candidates, ids, faults, slots, rules.parameters, *draws, rules.history[1]),
        *(tokens, best, vocab_size),
        PARTS=triton.next_power_of_2(num_parts), KEPT=MAX_TOP_K, FEW=_FEW,
        IS_ADJUSTED=is_adjusted, **chance,
    )  # fmt: skip
    return tokens, best


@triton.jit
def _tokens_of(part, NUM_PARTS: tl.constexpr, DEPTH: tl.constexpr, WIDTH: tl.constexpr):
    """Return the tokens of a part, ``[DEPTH * WIDTH]``, group by group at each depth."""
    places = tl.arange(0, DEPTH * WIDTH)
    return (places // WIDTH) * (NUM_PARTS * WIDTH) + part * WIDTH + places % WIDTH


@triton.jit
def _score_tokens(
    logits, slots, parameters, is_read, num_written, biased, biases, scores, peaks, faults,
    vocab_size, num_biases,
    NUM_PARTS: tl.constexpr, DEPTH: tl.constexpr, WIDTH: tl.constexpr, BIASES: tl.constexpr,
    IS_ADJUSTED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Write scores after penalties and temperature, and the largest of each group."""
    await_others(PDL)
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    tokens = _tokens_of(part, NUM_PARTS, DEPTH, WIDTH)
    inside = tokens < vocab_size
    slot = tl.load(slots + row)
    own = parameters + slot * 8
    score = tl.load(logits + row * vocab_size + tokens, mask=inside, other=0.0).to(tl.float32)
    if IS_ADJUSTED:
        history = slot * vocab_size + tokens
        has_read = tl.load(is_read + history, mask=inside, other=0) != 0
        written = tl.load(num_written + history, mask=inside, other=0)
        penalty = tl.zeros_like(score) + tl.load(own + 3)
        penalized = tl.where(score < 0, score * penalty, tl.div_rn(score, penalty))
        score = tl.where(has_read | (written > 0), penalized, score)
        score = score - tl.load(own + 6) * written.to(tl.float32)
        score = score - tl.where(written > 0, tl.load(own + 5), 0.0)
        places = tl.arange(0, BIASES)
        there = places < num_biases
        given = tl.load(biases + slot * num_biases + places, mask=there, other=0.0) != 0
        for place in range(0, tl.max(tl.where(given, places + 1, 0), axis=0)):
            token = tl.load(biased + slot * num_biases + place)
            score += tl.where(tokens == token, tl.load(biases + slot * num_biases + place), 0.0)
    heat = tl.load(own)
    score = tl.div_rn(score, tl.zeros_like(score) + tl.where(heat == 0, 1.0, heat))
    score = score + 0.0  # normalises negative zero
    tl.store(scores + row * vocab_size + tokens, score, mask=inside)
    is_bad = inside & (score != score)
    score = tl.where(inside & (score == score), score, -float("inf"))
    groups = part * WIDTH + tl.arange(0, WIDTH)
    peak = tl.max(tl.reshape(score, [DEPTH, WIDTH]), axis=0)
    tl.store(peaks + row * NUM_PARTS * WIDTH + groups, peak)
    tl.store(faults + row * NUM_PARTS + part, tl.max(is_bad.to(tl.int32), axis=0))


@triton.jit
def _find_candidates(
    scores, peaks, slots, parameters, seeds, frames, counts, candidates, ids, vocab_size,
    NUM_PARTS: tl.constexpr, DEPTH: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr,
    KEPT: tl.constexpr, IS_CUDA: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Write the tokens of a part that may be among the top k; without top-k, draw from the part.

    For a greedy row the most likely token is drawn.
    """
    await_others(PDL)
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    own = parameters + tl.load(slots + row) * 8
    heat, num_kept = tl.load(own), tl.load(own + 1).to(tl.int32)
    groups = tl.arange(0, GROUPS)
    there = groups < NUM_PARTS * WIDTH
    peak = tl.load(peaks + row * NUM_PARTS * WIDTH + groups, mask=there, other=-float("inf"))
    tokens = _tokens_of(part, NUM_PARTS, DEPTH, WIDTH)
    inside = tokens < vocab_size
    score = tl.load(scores + row * vocab_size + tokens, mask=inside, other=-float("inf"))
    inside = inside & (score == score)
    segment = (row * NUM_PARTS + part) * KEPT
    if (heat == 0) | (num_kept == 0):
        largest = tl.max(peak, axis=0)
        is_likely = inside & (score >= _least_likely(largest, tl.load(own + 4)))
        noise = _noise_of(seeds, frames, row, tokens, IS_CUDA)
        best, token = _best(score + tl.where(heat == 0, 0.0, noise), tokens, is_likely, vocab_size)
        tl.store(candidates + segment, best)
        tl.store(ids + segment, token)
        tl.store(counts + row * NUM_PARTS + part, 1)
    else:
        bound = _order_with(there.to(tl.float32), order_of(peak), num_kept.to(tl.float32))
        order = order_of(score)
        is_near = (inside & (order >= bound)).to(tl.float32)
        if tl.sum(is_near, axis=0) > KEPT:
            bound = _order_with(is_near, order, KEPT * 1.0)
        is_above = inside & (order > bound)
        is_equal = inside & (order == bound)
        # Two counts in one sum, each below 2**16. Larger scores precede equal ones.
        numbers = tl.cumsum(is_above.to(tl.int32) + (is_equal.to(tl.int32) << 16), axis=0)
        num_above = tl.sum(is_above.to(tl.int32), axis=0)
        num_equal = tl.sum(is_equal.to(tl.int32), axis=0)
        place = tl.where(is_above, numbers & 0xFFFF, num_above + (numbers >> 16)) - 1
        is_kept = (is_above | is_equal) & (place < KEPT)
        tl.store(candidates + segment + place, score, mask=is_kept)
        tl.store(ids + segment + place, tokens, mask=is_kept)
        tl.store(counts + row * NUM_PARTS + part, tl.minimum(num_above + num_equal, KEPT))


@triton.jit
def _draw_candidate(
    counts, candidates, ids, faults, slots, parameters, seeds, frames, num_written, tokens, scores,
    vocab_size,
    NUM_PARTS: tl.constexpr, PARTS: tl.constexpr, KEPT: tl.constexpr, FEW: tl.constexpr,
    IS_ADJUSTED: tl.constexpr, IS_CUDA: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row)
    own = parameters + slot * 8
    heat, num_kept = tl.load(own), tl.load(own + 1).to(tl.int32)
    parts = tl.arange(0, PARTS)
    there = parts < NUM_PARTS
    is_bad = tl.max(tl.load(faults + row * NUM_PARTS + parts, mask=there, other=0), axis=0) > 0
    first = row * NUM_PARTS
    if (heat == 0) | (num_kept == 0):
        segments = (first + parts) * KEPT
        score = tl.load(candidates + segments, mask=there, other=-float("inf"))
        token = tl.load(ids + segments, mask=there, other=vocab_size)
        best, drawn = _best(score, token, there, vocab_size)
    else:
        most = tl.max(tl.load(counts + first + parts, mask=there, other=0), axis=0)
        if most <= FEW:
            best, drawn = _drawn(
                counts, candidates, ids, own, seeds, frames, row, vocab_size,
                NUM_PARTS, PARTS, KEPT, FEW, IS_CUDA,
            )  # fmt: skip
        else:
            best, drawn = _drawn(
                counts, candidates, ids, own, seeds, frames, row, vocab_size,
                NUM_PARTS, PARTS, KEPT, KEPT, IS_CUDA,
            )  # fmt: skip
    tl.store(tokens + row, drawn.to(tl.int64))
    tl.store(scores + row, tl.where(is_bad, float("nan"), best))
    if IS_ADJUSTED:
        place = num_written + slot * vocab_size + drawn
        tl.store(place, tl.load(place) + 1)


@triton.jit
def _drawn(
    counts, candidates, ids, own, seeds, frames, row, vocab_size,
    NUM_PARTS: tl.constexpr, PARTS: tl.constexpr, KEPT: tl.constexpr, EACH: tl.constexpr,
    IS_CUDA: tl.constexpr,
):  # fmt: skip
    """Draw among candidates of which no part has more than ``EACH``."""
    places = tl.arange(0, PARTS * EACH)
    part, place = places // EACH, places % EACH
    count = tl.load(counts + row * NUM_PARTS + part, mask=part < NUM_PARTS, other=0)
    there = place < count
    source = (row * NUM_PARTS + part) * KEPT + place
    score = tl.load(candidates + source, mask=there, other=-float("inf"))
    token = tl.load(ids + source, mask=there, other=vocab_size)
    order = tl.where(there, order_of(score), 0)
    smallest = _order_with(there.to(tl.float32), order, tl.load(own + 1))
    share = tl.load(own + 2)
    if share < 1.0:
        weight = tl.exp(score - tl.max(score, axis=0))
        weight = tl.where(there & (order >= smallest), weight, 0.0)
        smallest = _order_with(weight, order, share * tl.sum(weight, axis=0))
        smallest = tl.minimum(smallest, tl.max(order, axis=0))
    least = _least_likely(tl.max(score, axis=0), tl.load(own + 4))
    is_kept = there & (order >= smallest) & (score >= least)
    noise = _noise_of(seeds, frames, row, token, IS_CUDA)
    best, drawn = _best(score + noise, token, is_kept, vocab_size)
    return best, drawn


@triton.jit
def _order_with(weight, order, wanted):
    """Return the largest order from which on weights reach the wanted sum, 0 if none do."""
    found = tl.zeros([], tl.uint32)
    unit = tl.full([], 1 << 30, tl.uint32)
    for _ in range(16):  # two bits at a time
        one = tl.sum(tl.where(order >= found + unit, weight, 0.0), axis=0) >= wanted
        two = tl.sum(tl.where(order >= found + 2 * unit, weight, 0.0), axis=0) >= wanted
        three = tl.sum(tl.where(order >= found + 3 * unit, weight, 0.0), axis=0) >= wanted
        found += unit * (one.to(tl.uint32) + two.to(tl.uint32) + three.to(tl.uint32))
        unit = unit >> 2
    return found


@triton.jit
def _least_likely(largest, min_p):
    """Return the smallest score that min-p keeps."""
    below = tl.where(min_p > 0, tl.log(tl.maximum(min_p, 1e-37)), -float("inf"))
    return tl.minimum(largest + below, largest)


@triton.jit
def _noise_of(seeds, frames, row, tokens, IS_CUDA: tl.constexpr):
    low, high = noise_key(seeds + row * 2, tl.load(frames + row), 0)
    return gumbel_of(low, high, tokens, IS_CUDA)


@triton.jit
def _best(score, token, is_kept, vocab_size):
    """Return the highest score and its token; for equal scores the first in the vocabulary."""
    score = tl.where(is_kept, score, -float("inf"))
    best = tl.max(score, axis=0)
    token = tl.min(tl.where(is_kept & (score == best), token, vocab_size - 1), axis=0)
    return best, token
