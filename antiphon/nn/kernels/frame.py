"""Start and end of a decode step, one launch each: input embedding, first code, frame commit.

They read and write the state of slots, a row each; a row of the step names its slot. Slots are not
guarded against concurrent writes: a step has each slot once, except the last one, which is padding
and does not advance.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.fused_linear import PreNormState
from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.sampling import best_of


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Rules that adjust the probability of a code, beside its logit.

    Attributes:
        parameters: table of a `antiphon.nn.sampler.SamplingTable`.
        has_occurred: codes that a slot has drawn, bool ``[num_slots, vocab_size]``.
        is_forbidden: codes that are never drawn, bool ``[vocab_size]``.
        frames: number of frames so far, int64 ``[num_slots]``.
        min_frames: number of leading frames in which the end is forbidden, int64 ``[num_slots]``.
    """

    parameters: Tensor
    has_occurred: Tensor
    is_forbidden: Tensor
    frames: Tensor
    min_frames: Tensor
    end: int


def embed(
    index: Tensor,
    pending: Tensor,
    text: tuple[Tensor, Tensor],
    counts: tuple[Tensor, Tensor],
    norm: Tensor,
) -> tuple[PreNormState, Tensor, Tensor]:
    """Add the text of a frame to the pending embedding of its slot.

    Args:
        index: slots, int64 ``[num_rows]``.
        pending: ``[num_slots, width]``.
        text: ids beside each frame, int64 ``[num_slots, max_positions]``, and their embeddings.
        counts: positions and frames so far, int64 ``[num_slots]``.
        norm: weight of the first norm, ``[width]``.

    Returns:
        The sums, pre-normed; positions and frames of the rows, within bounds.
    """
    num_rows, width = len(index), pending.shape[1]
    ids, table = text
    states = pending.new_empty(num_rows, width)
    squares = torch.empty(num_rows, 1, device=pending.device)
    result = PreNormState(states, torch.empty_like(states), squares)
    positions, frames = torch.empty_like(index), torch.empty_like(index)
    _embed[(num_rows,)](
        index, pending, ids, table, *counts, norm, result.states, result.scaled, squares, positions,
        frames, ids.shape[1], width,
        BLOCK=triton.next_power_of_2(width), PDL=overlaps(pending),
        num_warps=4, launch_pdl=overlaps(pending),
    )  # fmt: skip
    return result, positions, frames


def begin(states: Tensor, codes: Tensor, table: Tensor, norm: Tensor) -> PreNormState:
    """Start the code predictor's run: the state of the first code, then that code.

    Args:
        states: ``[num_rows, width]``.
        codes: int64 ``[num_rows]``, of any stride.
        table: code embeddings, ``[vocab_size, width]``.
        norm: weight of the norm that comes next, ``[width]``.

    Returns:
        Two positions of each row, ready for the norm.
    """
    num_rows, width = states.shape
    pairs = states.new_empty(2 * num_rows, width)
    squares = torch.empty(2 * num_rows, 1, device=states.device)
    result = PreNormState(pairs, torch.empty_like(pairs), squares, num_positions=2)
    _begin[(num_rows, 2)](
        states, codes, table, norm, pairs, result.scaled, squares,
        states.stride(0), codes.stride(0), width,
        BLOCK=triton.next_power_of_2(width), PDL=overlaps(states),
        num_warps=4, launch_pdl=overlaps(states),
    )  # fmt: skip
    return result


def sample(
    logits: Tensor,
    index: Tensor,
    rules: SamplingRules,
    noise: Tensor,
    codes: Tensor,
    scores: Tensor,
) -> None:
    """Draw the first code of each row's frame, as `antiphon.nn.sampler.sample` does.

    Args:
        logits: ``[num_rows, vocab_size]``.
        index: slots, int64 ``[num_rows]``.
        rules: parameters and limits; a drawn code is added to its history.
        noise: f32 ``[num_rows, vocab_size]``, rows of any stride.
        codes: output for the codes, int64 ``[num_rows]``, of any stride.
        scores: output for the scores, f32 ``[num_rows]``, of any stride.
    """
    vocab_size = logits.shape[1]
    block = triton.next_power_of_2(vocab_size)
    _sample[(len(index),)](
        logits.contiguous(), index, rules.parameters, rules.has_occurred, rules.is_forbidden,
        rules.frames, rules.min_frames, noise, codes, scores, vocab_size, noise.stride(0),
        codes.stride(0), scores.stride(0), rules.end,
        BLOCK=block, PDL=overlaps(logits),
        num_warps=max(1, min(8, block // 512)), launch_pdl=overlaps(logits),
    )  # fmt: skip


def commit(
    index: Tensor,
    frames: tuple[Tensor, Tensor],
    end: int,
    table: tuple[Tensor, Tensor],
    counts: tuple[Tensor, Tensor],
    pending: Tensor,
    frame_store: Tensor,
) -> None:
    """Commit frames: store them, make their embeddings pending, and advance their slots.

    Args:
        index: slots, int64 ``[num_rows]``.
        frames: codes, int64 ``[num_rows, num_groups + 1]``, and their scores, f32 ``[num_rows,
            num_groups]``; the last column of the codes is set to 1 if the first code ends the
            speech, 2 if a score is NaN, and 0 otherwise.
        end: first code that ends the speech.
        table: embeddings of all groups, and the first row of each, int64 ``[num_groups]``.
        counts: positions and frames so far, int64 ``[num_slots]``.
        pending: ``[num_slots, width]``.
        frame_store: int64 ``[num_slots, num_kept, num_groups]``, frame k at ``k % num_kept``.
    """
    codes, scores = frames
    num_rows, num_groups = scores.shape
    num_slots, width = pending.shape
    block = min(1024, triton.next_power_of_2(width))
    _commit[(num_rows, triton.cdiv(width, block))](
        index, codes, scores, end, *table, *counts, pending, frame_store, num_slots, width,
        frame_store.shape[1],
        NUM_GROUPS=num_groups, GROUPS=triton.next_power_of_2(num_groups), BLOCK=block,
        PDL=overlaps(pending),
        num_warps=4, launch_pdl=overlaps(pending),
    )  # fmt: skip


@triton.jit
def _embed(
    index, pending, text, table, all_positions, all_frames, norm, states, scaled, squares,
    positions, frames, max_positions, width,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    weight = tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)
    await_others(PDL)
    slot = tl.load(index + row)
    frame = tl.minimum(tl.load(all_frames + slot), max_positions - 1)
    position = tl.minimum(tl.load(all_positions + slot), max_positions - 1)
    token = tl.load(text + slot * max_positions + frame)
    before = tl.load(pending + slot * width + columns, mask=inside, other=0.0)
    beside = tl.load(table + token * width + columns, mask=inside, other=0.0)
    value = (before.to(tl.float32) + beside.to(tl.float32)).to(before.dtype)
    wide = value.to(tl.float32)
    tl.store(states + row * width + columns, value, mask=inside)
    tl.store(scaled + row * width + columns, wide * weight, mask=inside)
    tl.store(squares + row, tl.sum(wide * wide, axis=0))
    tl.store(positions + row, position)
    tl.store(frames + row, frame)


@triton.jit
def _begin(
    states, codes, table, norm, pairs, scaled, squares, state_stride, code_stride, width,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row, position = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    weight = tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)
    await_others(PDL)
    embedding = table + tl.load(codes + row * code_stride) * width
    source = tl.where(position == 0, states + row * state_stride, embedding)
    value = tl.load(source + columns, mask=inside, other=0.0)
    wide = value.to(tl.float32)
    target = row * 2 + position
    tl.store(pairs + target * width + columns, value, mask=inside)
    tl.store(scaled + target * width + columns, wide * weight, mask=inside)
    tl.store(squares + target, tl.sum(wide * wide, axis=0))


@triton.jit
def _sample(
    logits, index, parameters, has_occurred, is_forbidden, frames, min_frames, noise, codes, scores,
    vocab_size, noise_stride, code_stride, score_stride, end,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < vocab_size
    forbidden = tl.load(is_forbidden + columns, mask=inside, other=1) != 0
    await_others(PDL)
    slot = tl.load(index + row)
    logit = tl.load(logits + row * vocab_size + columns, mask=inside, other=0.0).to(tl.float32)
    occurred = tl.load(has_occurred + slot * vocab_size + columns, mask=inside, other=0) != 0
    gumbel = tl.load(noise + row * noise_stride + columns, mask=inside, other=0.0)
    own = parameters + slot * 8
    heat, num_kept = tl.load(own), tl.load(own + 1).to(tl.int32)
    share, penalty = tl.load(own + 2), tl.load(own + 3)
    is_early = tl.load(frames + slot) < tl.load(min_frames + slot)
    is_bad = tl.max(((logit != logit) & ~forbidden).to(tl.int32), axis=0) > 0
    divided = tl.div_rn(logit, tl.zeros_like(logit) + penalty)
    penalized = tl.where(logit < 0, logit * penalty, divided)
    logit = tl.where(occurred, penalized, logit) + 0.0  # normalises negative zero
    allowed = inside & ~forbidden & ~((columns == end) & is_early)
    logit = tl.where(allowed, logit, -float("inf"))
    best, token = best_of(logit, inside, heat, num_kept, share, gumbel, 32)
    token = tl.minimum(token, vocab_size - 1)
    tl.store(codes + row * code_stride, token.to(tl.int64))
    tl.store(scores + row * score_stride, tl.where(is_bad, float("nan"), best))
    tl.store(has_occurred + slot * vocab_size + token, 1)


@triton.jit
def _commit(
    index, codes, scores, end, table, offsets, all_positions, all_frames, pending, frame_store,
    num_slots, width, num_kept,
    NUM_GROUPS: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    slot = tl.load(index + row)
    total = tl.zeros([BLOCK], tl.float32)
    for group in tl.static_range(NUM_GROUPS):
        place = tl.load(codes + row * (NUM_GROUPS + 1) + group) + tl.load(offsets + group)
        total += tl.load(table + place * width + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(pending + slot * width + columns, total, mask=inside)
    if tl.program_id(1) == 0:
        groups = tl.arange(0, GROUPS)
        is_group = groups < NUM_GROUPS
        code = tl.load(codes + row * (NUM_GROUPS + 1) + groups, mask=is_group, other=0)
        score = tl.load(scores + row * NUM_GROUPS + groups, mask=is_group, other=0.0)
        is_bad = tl.max((tl.abs(score) < float("inf")).to(tl.int32) ^ 1, axis=0)
        has_ended = (tl.load(codes + row * (NUM_GROUPS + 1)) == end).to(tl.int32)
        outcome = tl.where(is_bad != 0, 2, has_ended)
        tl.store(codes + row * (NUM_GROUPS + 1) + NUM_GROUPS, outcome.to(tl.int64))
        frame = tl.load(all_frames + slot)
        kept = (slot * num_kept + frame % num_kept) * NUM_GROUPS + groups
        tl.store(frame_store + kept, code, mask=is_group)
        step = tl.where(slot == num_slots - 1, 0, 1)  # padding stays where it costs least
        tl.store(all_positions + slot, tl.load(all_positions + slot) + step)
        tl.store(all_frames + slot, frame + step)
