"""Rows that advance together: however frames are grouped and whatever is beside them, the same."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.codec.lockstep_decoder import LockstepDecoder
from antiphon.engine.plan import CodecChunk
from antiphon.nn.codec_layers.state import DecoderState

NUM_FRAMES, NUM_SLOTS = 11, 3
SIZES = [(11,), (1,) * 11, (4, 1, 2, 4), (2, 8, 1)]


class Adding:
    """Three samples a frame: its number, the sum of all so far, how many there were."""

    def open(self, num_slots: int) -> DecoderState:
        return DecoderState(torch.zeros(num_slots, 1), torch.zeros(num_slots, dtype=torch.int64))

    def decode(self, frames: Tensor, rows: DecoderState) -> Tensor:
        number = frames[:, 1:].float()
        rows.memory.add_(number)
        rows.position.add_(1)
        return torch.cat((number, rows.memory, rows.position[:, None].float()), dim=1)


@pytest.fixture
def decoder() -> LockstepDecoder:
    return LockstepDecoder(Adding(), frame_size=2, sample_rate_hz=10, samples_per_frame=3)


@pytest.fixture(scope="module")
def store() -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, 100, (NUM_SLOTS, NUM_FRAMES, 2))


def wanted(frames: NDArray[np.int64]) -> NDArray[np.float32]:
    numbers = frames[:, 1]
    counts = np.arange(1, len(numbers) + 1)
    return np.stack((numbers, numbers.cumsum(), counts), 1).astype(np.float32).ravel()


@pytest.mark.parametrize("is_on_device", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_chunks_of_any_size_beside_others(
    decoder: LockstepDecoder, store: NDArray[np.int64], sizes: tuple[int, ...], is_on_device: bool
) -> None:
    state, start = decoder.open(NUM_SLOTS), 0
    frames = torch.from_numpy(store) if is_on_device else store
    parts: dict[int, list[NDArray[np.float32]]] = {0: [], 2: []}
    for size in sizes:
        chunks = [CodecChunk(0, start, size), CodecChunk(2, start, 1)]
        if start:
            chunks = chunks[:1]
        made = decoder.launch(chunks, frames, state).result()
        assert made.keys() == {chunk.slot for chunk in chunks}
        for slot, samples in made.items():
            parts[slot].append(samples)
        start += size
    np.testing.assert_array_equal(np.concatenate(parts[0]), wanted(store[0]))
    np.testing.assert_array_equal(np.concatenate(parts[2]), wanted(store[2, :1]))


def test_what_was_heard_before_counts_until_a_row_is_fresh(
    decoder: LockstepDecoder, store: NDArray[np.int64]
) -> None:
    state, whole = decoder.open(NUM_SLOTS), wanted(store[1])
    decoder.prime(state, 1, store[1, :2])
    decoder.replay(state, 1, store[1, 2:5])
    made = decoder.launch([CodecChunk(1, 5, 6)], store, state).result()[1]
    np.testing.assert_array_equal(made, whole[15:])
    decoder.reset(state, 1)
    made = decoder.launch([CodecChunk(1, 0, NUM_FRAMES)], store, state).result()[1]
    np.testing.assert_array_equal(made, whole)


def test_frames_are_read_where_they_are_kept(
    decoder: LockstepDecoder, store: NDArray[np.int64]
) -> None:
    state = decoder.open(NUM_SLOTS)
    made = decoder.launch([CodecChunk(0, 9, 4)], store, state).result()[0]
    np.testing.assert_array_equal(made, wanted(store[0, [9, 10, 0, 1]]))
