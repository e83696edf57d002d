"""The table of a pass: each frame has its stream and its place, and padding is no stream's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from antiphon.nn.codec_layers.frame_table import NUM_FIELDS, empty_table, fill

PADDING_SLOT = 99
CPU = torch.device("cpu")
rows_of_a_pass = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 16)), max_size=12)


@given(rows_of_a_pass, st.integers(0, 40), st.integers(1, 16))
def test_each_frame_is_that_of_its_row(
    rows: list[tuple[int, int]], num_padded: int, max_row_frames: int
) -> None:
    num_frames = sum(length for _, length in rows)
    size = num_frames + num_padded
    table = np.full((4, size + 7), -1, np.int32)
    fill(table, rows, size, PADDING_SLOT, max_row_frames)
    assert (table[:, size + 1 :] == -1).all()
    slots, places, offsets, counts = table[:, : size + 1]
    num_rows = counts[0]
    assert offsets[0] == 0
    assert (offsets[num_rows:] == size).all()
    lengths = np.diff(offsets)
    assert [*zip(slots[offsets[: len(rows)]], lengths, strict=False)] == rows
    assert (lengths[len(rows) : num_rows] <= max_row_frames).all()
    assert (lengths[:num_rows] > 0).all()
    assert (slots[num_frames:size] == PADDING_SLOT).all()
    for row in range(num_rows):
        frames = slice(offsets[row], offsets[row + 1])
        assert (slots[frames] == slots[offsets[row]]).all()
        assert places[frames].tolist() == [*range(lengths[row])]


def test_a_table_has_room_for_the_end_of_its_last_row() -> None:
    for max_frames in (1, 31, 32, 33):
        table = empty_table(max_frames, CPU)
        fill(table.numpy(), [(3, 1)], max_frames, PADDING_SLOT, 16)
        assert table.shape[0] == NUM_FIELDS
        assert table[2].tolist()[max_frames] == max_frames


def test_more_frames_than_the_pass_has_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="more frames"):
        fill(empty_table(4, CPU).numpy(), [(0, 5)], 4, PADDING_SLOT, 16)
