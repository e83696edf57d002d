"""End of a step whose frames are tokens, in one launch: commit frames and advance slots."""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps


@dataclass(frozen=True, slots=True)
class TokenSlots:
    """State of slots, a row each; the last one is for padding and does not advance.

    Attributes:
        next_ids: next input ids, int64 ``[num_slots]``.
        positions: positions of the next input, int64 ``[num_slots]``.
        frames: numbers of frames so far, int64 ``[num_slots]``.
        frame_store: int64 ``[num_slots, num_kept, frame_size]``, frame k at ``k % num_kept``.
    """

    next_ids: Tensor
    positions: Tensor
    frames: Tensor
    frame_store: Tensor


def end_step(
    slots: Tensor,
    counts: tuple[Tensor, Tensor],
    made: tuple[Tensor, Tensor],
    is_end: Tensor,
    state: TokenSlots,
    outcomes: tuple[int, int, int],
    *,
    is_replay: bool,
) -> None:
    """Store frames, make their tokens the next input, and advance their slots by one position.

    Args:
        slots: slot of each row, int64 ``[num_rows]``.
        counts: positions and numbers of their frames, int64 ``[num_rows]``.
        made: codes, int64 ``[num_rows, frame_size + 1]``, the token first, and scores, f32
            ``[num_rows, frame_size]``, whose first column is NaN if the row's logits had NaN.
        is_end: mask of tokens that end the answer, bool ``[vocab_size]``.
        outcomes: values of the last column of the codes: for a token, for the last one, and for
            NaN.
        is_replay: whether the frames are already stored.
    """
    codes, scores = made
    num_slots, num_kept, frame_size = state.frame_store.shape
    is_early = overlaps(codes)
    _end_token_step[(len(slots),)](
        slots, *(each.contiguous() for each in counts), codes, scores, is_end, state.next_ids,
        state.positions, state.frames, state.frame_store, num_slots, num_kept,
        FRAME_SIZE=frame_size, BLOCK=triton.next_power_of_2(frame_size), IS_REPLAY=is_replay,
        FRAME=outcomes[0], STOP=outcomes[1], FAULT=outcomes[2],
        PDL=is_early, num_warps=1, launch_pdl=is_early,
    )  # fmt: skip


@triton.jit
def _end_token_step(
    slots, positions, frames, codes, scores, is_end, next_ids, all_positions, all_frames,
    frame_store, num_slots, num_kept,
    FRAME_SIZE: tl.constexpr, BLOCK: tl.constexpr, IS_REPLAY: tl.constexpr,
    FRAME: tl.constexpr, STOP: tl.constexpr, FAULT: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    row = tl.program_id(0).to(tl.int64)
    slot, frame = tl.load(slots + row), tl.load(frames + row)
    own = codes + row * (FRAME_SIZE + 1)
    token = tl.load(own)
    tl.store(next_ids + slot, token)
    if not IS_REPLAY:
        columns = tl.arange(0, BLOCK)
        is_code = columns < FRAME_SIZE
        kept = frame_store + (slot * num_kept + frame % num_kept) * FRAME_SIZE + columns
        tl.store(kept, tl.load(own + columns, mask=is_code), mask=is_code)
    is_padding = slot == num_slots - 1
    position = tl.load(positions + row)
    tl.store(all_positions + slot, tl.where(is_padding, 0, position + 1))
    tl.store(all_frames + slot, tl.where(is_padding, 0, frame + 1))
    outcome = tl.where(tl.load(is_end + token) != 0, STOP, FRAME)
    is_finite = tl.abs(tl.load(scores + row * FRAME_SIZE)) < float("inf")
    tl.store(own + FRAME_SIZE, tl.where(is_finite, outcome, FAULT).to(tl.int64))
