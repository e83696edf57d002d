"""Input embeddings of a text id plus a code, a whole frame or a vector, in one launch."""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.id_columns import CODES_OF_WORD


@dataclass(frozen=True, slots=True)
class ColumnTables:
    """Tables of `embed_columns`.

    Attributes:
        text: ``[num_ids, width]``, contiguous; the other tables have the same type.
        frames: concatenated tables of all code groups, ``[num_codes, width]``.
        offsets: first row of each group, int64 ``[num_groups]``.
        vectors: float32, ``[num_rows, width]``.
        frame: id that marks a whole frame instead of a code.
        vector: id that marks a vector instead of a code.
    """

    text: Tensor
    frames: Tensor
    offsets: Tensor
    vectors: Tensor
    frame: int
    vector: int


def embed_columns(columns: Tensor, tables: ColumnTables) -> Tensor:
    """Look up and add embeddings.

    Args:
        columns: int64 ``[REST + words of a frame, num_positions]``; see `antiphon.nn.id_columns`.

    Returns:
        ``[num_positions, width]``; rounded after adding a code, a frame or a vector.
    """
    num_positions, width = columns.shape[1], tables.text.shape[1]
    states = tables.text.new_empty(num_positions, width)
    _embed_columns[(num_positions,)](
        columns, tables.text, tables.frames, tables.offsets, tables.vectors, states,
        num_positions, width,
        NUM_GROUPS=len(tables.offsets), FRAME=tables.frame, VECTOR=tables.vector,
        CODES_OF_WORD=CODES_OF_WORD, BLOCK=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip
    return states


def put_frames(rows_and_codes: Tensor, table: tuple[Tensor, Tensor], target: Tensor) -> None:
    """Write the embeddings of whole frames to rows.

    Args:
        rows_and_codes: row and codes of each frame, int64 ``[num_frames, 1 + num_groups]``.
        table: concatenated tables of all code groups, and the first row of each.
        target: contiguous, ``[num_rows, width]``.
    """
    rows, offsets = table
    _put_frames[(len(rows_and_codes),)](
        rows_and_codes, rows, offsets, target, target.shape[1],
        NUM_GROUPS=len(offsets), BLOCK=triton.next_power_of_2(target.shape[1]), num_warps=4,
    )  # fmt: skip


@triton.jit
def _embed_columns(
    columns, text, frames, offsets, vectors, states, num_positions, width,
    NUM_GROUPS: tl.constexpr, FRAME: tl.constexpr, VECTOR: tl.constexpr,
    CODES_OF_WORD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    position = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    is_one = places < width
    type = states.dtype.element_ty
    text_id, code = tl.load(columns + position), tl.load(columns + num_positions + position)
    rest = columns + 2 * num_positions + position
    one = tl.load(text + text_id * width + places, mask=is_one & (text_id >= 0), other=0.0)
    other = tl.load(frames + code * width + places, mask=is_one & (code >= 0), other=0.0)
    state = (one.to(tl.float32) + other.to(tl.float32)).to(type)
    if code == FRAME:
        frame = _frame(
            rest, num_positions, frames, offsets, width, places, is_one, NUM_GROUPS, CODES_OF_WORD
        )
        state = (state.to(tl.float32) + frame.to(type).to(tl.float32)).to(type)
    elif code == VECTOR:
        vector = tl.load(vectors + tl.load(rest) * width + places, mask=is_one, other=0.0)
        state = (state.to(tl.float32) + vector.to(type).to(tl.float32)).to(type)
    tl.store(states + position * width + places, state, mask=is_one)


@triton.jit
def _put_frames(
    rows_and_codes, frames, offsets, target, width, NUM_GROUPS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    places = tl.arange(0, BLOCK)
    is_one = places < width
    rows_and_codes += tl.program_id(0) * (1 + NUM_GROUPS)
    frame = _frame(rows_and_codes + 1, 1, frames, offsets, width, places, is_one, NUM_GROUPS, 1)
    to = target + tl.load(rows_and_codes) * width + places
    tl.store(to, frame.to(target.dtype.element_ty), mask=is_one)


@triton.jit
def _frame(
    words, stride, frames, offsets, width, places, is_one,
    NUM_GROUPS: tl.constexpr, CODES_OF_WORD: tl.constexpr,
):  # fmt: skip
    """Add group by group in f32, as a decode step does for a drawn frame."""
    sum = tl.zeros_like(places).to(tl.float32)
    for group in range(NUM_GROUPS):
        word = tl.load(words + group // CODES_OF_WORD * stride)
        code = (word >> (group % CODES_OF_WORD * 16)) & 0xFFFF
        row = (tl.load(offsets + group) + code) * width
        sum += tl.load(frames + row + places, mask=is_one, other=0.0).to(tl.float32)
    return sum
