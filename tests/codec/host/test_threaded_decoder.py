"""A decoder in a thread of its own makes the samples of the decoder itself, in the same order."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from itertools import chain

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.codec.host import threaded_decoder
from antiphon.codec.host.row_decoder import RowDecoder
from antiphon.codec.host.threaded_decoder import ThreadedDecoder
from antiphon.codec.runners import FusedRunner
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Samples, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CodecChunk
from antiphon.engine.request import EngineRequest
from antiphon.engine.runner import HostRunner
from tests.engine.turns import has_work


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
    first = decoder.launch([CodecChunk(0, 3, 2), CodecChunk(1, 4, 1)], store, state)
    store.zero_()  # the model goes on, and its frames come round in the store
    second = decoder.launch([CodecChunk(1, 1, 1)], store, state)
    assert not first.is_done
    inner.may_decode.set()
    second.wait()
    assert first.is_done
    assert {slot: each.tolist() for slot, each in first.result().items()} == {0: [4, 5], 1: [15]}
    assert second.result()[1].tolist() == [15]
    decoder.close()


class Counter(HostRunner[int]):
    def __init__(self, order: list[object]) -> None:
        super().__init__(1)
        self.order = order

    def start(self, prompt: Prompt, frames: Sequence[NDArray[np.int64]]) -> int:
        return 0

    def append(self, state: int, piece: Piece) -> None:
        pass

    def next_frame(self, state: int) -> NDArray[np.int64]:
        self._states[0] += 1
        self.order.append(self._states[0])
        return np.asarray(self._states[0])


def test_first_audio_is_delivered_before_the_next_frame_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[object] = []
    inner = Summing()
    core = EngineCore(FusedRunner(Counter(order), ThreadedDecoder(inner)))
    prompt = Prompt(data=None, num_tokens=1, seed=0, sampling=Sampling(max_frames=3))
    core.scheduler.add(EngineRequest("live", prompt))
    inner.may_decode.clear()  # until it is waited for

    def waits(futures: Sequence[Future[object]]) -> None:
        inner.may_decode.set()
        wait(futures)

    monkeypatch.setattr(threaded_decoder, "wait", waits)
    while has_work(core):
        order += [
            event.samples.tolist() for _, event in core.step() if isinstance(event, AudioChunk)
        ]
    core.runner.close()
    assert order[:3] == [1, [1.0], 2]
    chunks = [each for each in order if isinstance(each, list)]
    assert [*chain(*chunks)] == [1.0, 3.0, 6.0]


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
