"""A decoder of rows finds its frames wherever they are, and advances no other row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codec.host.row_decoder import RowDecoder
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk

NUM_KEPT = 8


class Summing(RowDecoder):
    """A sample is the sum of all numbers so far."""

    samples_per_frame = 1

    def decode_row(self, frames: NDArray[np.int64], state: NDArray[np.int64], slot: int) -> Samples:
        sums = state[slot] + np.cumsum(frames)
        state[slot] = sums[-1]
        return np.asarray(sums, np.float32)


@given(st.lists(st.integers(1, NUM_KEPT), min_size=1, max_size=8), st.integers(0, 2))
def test_chunks_are_read_where_the_store_has_come_round(sizes: list[int], slot: int) -> None:
    numbers = np.arange(1, sum(sizes) + 1)
    store = np.full((3, NUM_KEPT), -1)
    state = np.zeros(3, np.int64)
    heard: list[float] = []
    for size in sizes:
        made = np.arange(len(heard), len(heard) + size)
        store[slot, made % NUM_KEPT] = numbers[made]
        pending = Summing().launch((CodecChunk(slot, len(heard), size),), store, state)
        assert pending.is_done
        heard += pending.result()[slot].tolist()
    assert heard == np.cumsum(numbers).tolist()
    assert np.flatnonzero(state).tolist() == [slot]


def test_a_primed_row_goes_on_from_there_and_the_others_stay() -> None:
    state = np.zeros(2, np.int64)
    Summing().prime(state, 1, np.array([5, 6]))
    chunk = CodecChunk(1, 0, 2)
    audio = Summing().launch((chunk,), np.ones((2, 2), np.int64), state).result()
    assert audio[1].tolist() == [12, 13]
    assert state.tolist() == [0, 13]
