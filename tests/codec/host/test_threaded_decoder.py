"""A decoder in a thread of its own makes the samples of the decoder itself, in the same order."""

import threading

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.codec.host.threaded_decoder import ThreadedDecoder
from antiphon.codec.protocol import RowDecoder
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk


class Summing(RowDecoder):
    """A sample is the sum of all numbers so far; a negative number is refused."""

    samples_per_frame = 1
    sample_rate_hz = 24_000

    def __init__(self) -> None:
        self.may_decode = threading.Event()
        self.may_decode.set()
        self.num_threads = 0

    def open(self, num_slots: int) -> NDArray[np.int64]:
        return np.zeros(num_slots, np.int64)

    def reset(self, state: NDArray[np.int64], slot: int, conditioning: None = None) -> None:
        state[slot] = 0

    def close(self) -> None:
        pass

    def decode_row(self, frames: NDArray[np.int64], state: NDArray[np.int64], slot: int) -> Samples:
        assert self.may_decode.wait(10)
        self.num_threads = torch.get_num_threads()
        if (frames < 0).any():
            raise ValueError("a negative number")
        sums = state[slot] + np.cumsum(frames)
        state[slot] = sums[-1]
        return np.asarray(sums, np.float32)


def test_calls_are_executed_in_order_while_the_caller_goes_on() -> None:
    inner = Summing()
    decoder = ThreadedDecoder(inner)
    state, store = decoder.open(2), torch.arange(1, 9).view(2, 4)
    inner.may_decode.clear()
    decoder.reset(state, 1)
    decoder.prime(state, 1, np.array([10]))
    first = decoder.launch([CodecChunk(0, 3, 2), CodecChunk(1, 0, 1)], store, state)
    store.zero_()  # the model goes on, and its frames come round in the store
    second = decoder.launch([CodecChunk(1, 1, 1)], store, state)
    assert not first.is_done
    inner.may_decode.set()
    second.wait()
    assert first.is_done
    assert {slot: each.tolist() for slot, each in first.result().items()} == {0: [4, 5], 1: [15]}
    assert second.result()[1].tolist() == [15]
    decoder.close()


def test_a_failure_is_raised_where_the_next_audio_is_taken() -> None:
    decoder = ThreadedDecoder(Summing())
    state = decoder.open(1)
    decoder.prime(state, 0, np.array([-1]))
    pending = decoder.launch([CodecChunk(0, 0, 1)], np.ones((1, 4), np.int64), state)
    with pytest.raises(ValueError, match="a negative number"):
        pending.result()
    decoder.close()


def test_products_of_the_codec_have_fewer_threads_than_those_of_the_model() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    try:
        inner = Summing()
        decoder = ThreadedDecoder(inner)
        chunks, store = [CodecChunk(0, 0, 1)], np.ones((1, 4), np.int64)
        decoder.launch(chunks, store, decoder.open(1)).result()
        decoder.close()
        assert (inner.num_threads, torch.get_num_threads()) == (2, 8)
    finally:
        torch.set_num_threads(before)
