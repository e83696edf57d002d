"""The codec's decoder: a stream is the whole, bit by bit, however it is cut, in any company."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.codec.host.grouped_decoder import GroupedDecoder
from antiphon.codec.host.threaded_decoder import ThreadedDecoder
from antiphon.codec.lockstep_decoder import LockstepDecoder
from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.families.fish_speech.codec_stage import FrameByFrame, load_codec
from antiphon.nn.codec_layers.windowed_decoder import WindowedDecoder
from tests.families.fish_speech.random_checkpoint import decoder_in

NUM_FRAMES = 21


@pytest.fixture(scope="module")
def decoder(made: Callable[[str], Path]) -> WindowedDecoder:
    return decoder_in(made("s2"))


@pytest.fixture(scope="module")
def stage(made: Callable[[str], Path]) -> GroupedDecoder:
    loaded = load_codec(LoadContext(path=made("s2"), device="cpu"))
    assert isinstance(loaded, ThreadedDecoder)
    assert isinstance(loaded.decoder, GroupedDecoder)
    return loaded.decoder


def frames_of(seed: int, count: int = NUM_FRAMES) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 160, (count, 10))


def streamed(
    stage: StreamingDecoder, streams: dict[int, NDArray[np.int64]], cuts: list[int]
) -> dict[int, Samples]:
    state, parts = stage.open(4), {slot: [np.zeros(0, np.float32)] for slot in streams}
    for slot in streams:
        stage.reset(state, slot)
    store = np.zeros((4, 64, 10), np.int64)
    for slot, frames in streams.items():
        store[slot, : len(frames)] = frames
    start = 0
    for cut in cuts:
        chunks = [CodecChunk(slot, start, cut) for slot in streams]
        for slot, samples in stage.launch(chunks, store, state).result().items():
            parts[slot].append(samples)
        start += cut
    return {slot: np.concatenate(each) for slot, each in parts.items()}


def test_a_stream_is_the_whole_however_it_is_cut(stage: GroupedDecoder) -> None:
    frames = frames_of(1)
    one, other, third = (
        streamed(stage, {0: frames}, cuts)[0]
        for cuts in ([1, 4, 4, 4, 4, 4], [1] * NUM_FRAMES, [1, 1, 4, 1, 4, 4, 1, 4, 1])
    )
    assert len(one) == NUM_FRAMES * stage.samples_per_frame
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, third)


def test_a_stream_is_the_same_in_company(stage: GroupedDecoder) -> None:
    cuts = [1, 4, 4, 4, 4, 4]
    together = streamed(stage, {0: frames_of(1), 2: frames_of(2), 3: frames_of(3)}, cuts)
    np.testing.assert_array_equal(together[2], streamed(stage, {1: frames_of(2)}, cuts)[1])


def test_the_stream_is_what_one_pass_makes(decoder: WindowedDecoder, stage: GroupedDecoder) -> None:
    frames = frames_of(4)
    whole = decoder.decode_whole(torch.from_numpy(frames.T.copy())[None])[0].numpy()
    parts = streamed(stage, {0: frames}, [1, 4, 4, 4, 4, 4])[0]
    assert np.abs(whole).max() > 0.2
    np.testing.assert_allclose(parts, whole, atol=2e-6)


def test_frame_by_frame_is_the_same_within_rounding(
    decoder: WindowedDecoder, stage: GroupedDecoder
) -> None:
    lockstep = LockstepDecoder(
        FrameByFrame(decoder),
        frame_size=10,
        sample_rate_hz=stage.sample_rate_hz,
        samples_per_frame=stage.samples_per_frame,
    )
    streams = {0: frames_of(1, 9), 2: frames_of(2, 9)}
    expected = streamed(stage, streams, [1, 4, 4])
    for slot, samples in streamed(lockstep, streams, [1, 4, 4]).items():
        np.testing.assert_allclose(samples, expected[slot], atol=2e-6)
    np.testing.assert_array_equal(
        streamed(lockstep, streams, [1, 4, 4])[2], streamed(lockstep, streams, [1] * 9)[2]
    )
