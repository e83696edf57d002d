"""Writes of numbers, from one buffer or other tensors, into rows of any tensors: one launch."""

import triton
import triton.language as tl
from torch import Tensor

FIELDS = 5
"""Fields of a table row, as `antiphon.nn.device_writes.write_table` fills them."""
_BLOCK = 512


def write_rows(table: Tensor, words: Tensor) -> None:
    """Write disjoint rows.

    Args:
        table: description of each row, int64 ``[num_rows * FIELDS]``: address of its first number;
            start of the source, as an address, or as ``-1 - offset`` in bytes of ``words``; count
            of numbers; bytes per number, 1, 2, 4 or 8; and stride of the source: 0 repeats the
            first number, 1 is contiguous.
        words: int64.
    """
    _write_rows[(len(table) // FIELDS,)](table, words, NUM_FIELDS=FIELDS, BLOCK=_BLOCK, num_warps=4)


def write_counted_rows(words: Tensor, first: int, max_rows: int) -> None:
    """Write a number of rows stored in a word, so that a graph serves any number.

    Args:
        words: words as for `write_rows`.
        first: index of the word that holds the number of rows; their table follows.
    """
    _write_counted_rows[(max_rows,)](words, first, NUM_FIELDS=FIELDS, BLOCK=_BLOCK, num_warps=4)


@triton.jit
def _write_counted_rows(words, first, NUM_FIELDS: tl.constexpr, BLOCK: tl.constexpr):
    if tl.program_id(0) < tl.load(words + first):
        _write_row(words + first + 1 + tl.program_id(0) * NUM_FIELDS, words, BLOCK)


@triton.jit(do_not_specialize_on_alignment=["table"])  # it starts at any word
def _write_rows(table, words, NUM_FIELDS: tl.constexpr, BLOCK: tl.constexpr):
    _write_row(table + tl.program_id(0) * NUM_FIELDS, words, BLOCK)


@triton.jit
def _write_row(write, words, BLOCK: tl.constexpr):
    target, source, num_values = tl.load(write), tl.load(write + 1), tl.load(write + 2)
    size, step = tl.load(write + 3), tl.load(write + 4)
    if source < 0:
        source = words.to(tl.int64) - 1 - source
    if size == 8:
        _copy(target, source, num_values, step, tl.int64, BLOCK)
    elif size == 4:
        _copy(target, source, num_values, step, tl.int32, BLOCK)
    elif size == 2:
        _copy(target, source, num_values, step, tl.int16, BLOCK)
    else:
        _copy(target, source, num_values, step, tl.int8, BLOCK)


@triton.jit
def _copy(target, source, num_values, step, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    to, of = target.to(tl.pointer_type(TYPE)), source.to(tl.pointer_type(TYPE))
    for first in range(0, num_values, BLOCK):
        places = first + tl.arange(0, BLOCK)
        is_one = places < num_values
        tl.store(to + places, tl.load(of + places * step, mask=is_one), mask=is_one)
