"""The decoder for GPUs: as the exact one, whoever else is there and however frames are grouped."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.codec.graph_decoder import GraphDecoder, GraphState
from antiphon.contracts.types import Samples
from antiphon.engine.plan import FRAME_STORE_FRAMES, CodecChunk
from antiphon.families.qwen3_tts.codec import decoder_of, fused
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.nn.codec_layers.windowed_decoder import WindowedDecoder
from tests.families.qwen3_tts.codec_models import codec_weights, tiny_config

pytestmark = pytest.mark.gpu

NUM_SLOTS = 3
NUM_FRAMES = 5
FIRST_FRAME = 62
"""Frames of the store that its end lies between."""
MIN_SNR_DB = 35.0


@cache
def mini_config() -> Qwen3TTSConfig:
    """Return a configuration whose decoder has one layer of each kind, and one fused unit."""
    config = tiny_config()
    decoder = replace(
        config.codec.decoder,
        transformer=replace(config.codec.decoder.transformer, num_layers=1, window=4),
        codebook_size=32,
        decoder_dim=96,
        upsampling_ratios=(2,),
        upsample_rates=(2, 2),
    )
    return replace(config, codec=replace(config.codec, decoder=decoder))


@cache
def exact_decoder() -> WindowedDecoder:
    weights = {name: each.to(DEVICE) for name, each in codec_weights(mini_config).items()}
    return decoder_of(weights, mini_config().codec.decoder)


@cache
def codec() -> GraphDecoder:
    return GraphDecoder(
        fused(exact_decoder()),
        num_quantizers=16,
        sample_rate_hz=24000,
        samples_per_frame=8,
    )


@cache
def frames() -> Tensor:
    random = np.random.Generator(np.random.PCG64(3))
    return torch.from_numpy(random.integers(0, 32, (NUM_SLOTS, NUM_FRAMES, 16))).to(DEVICE)


def frame_store() -> Tensor:
    store = torch.zeros(NUM_SLOTS + 1, FRAME_STORE_FRAMES, 16, dtype=torch.int64, device=DEVICE)
    places = torch.arange(FIRST_FRAME, FIRST_FRAME + NUM_FRAMES) % FRAME_STORE_FRAMES
    store[:NUM_SLOTS, places] = frames()
    return store


def decode_in(groups: Sequence[int], slots: Sequence[int], state: GraphState) -> Samples:
    """Decode the first frames of some slots; return ``[k, ...]``."""
    store, chunks, at = frame_store(), [], FIRST_FRAME
    for size in groups:
        pending = codec().launch([CodecChunk(slot, at, size) for slot in slots], store, state)
        result = pending.result()
        assert pending.is_done
        chunks.append(np.stack([result[slot] for slot in slots]))
        at += size
    return np.concatenate(chunks, axis=1)


def assert_same(actual: Samples, expected: Samples) -> None:
    if DEVICE.type == "cuda":
        np.testing.assert_array_equal(actual, expected)
    else:  # the interpreter adds as NumPy does, by shape
        np.testing.assert_allclose(actual, expected, atol=2e-3)


def snr_db(actual: Samples, exact: Samples) -> float:
    return float(10 * np.log10(np.square(exact).sum() / np.square(actual - exact).sum()))


def test_audio_is_that_of_the_exact_decoder_in_any_grouping_and_company() -> None:
    exact = exact_decoder().decode_whole(frames().transpose(1, 2)).cpu().numpy()
    state = codec().open(NUM_SLOTS)
    together = decode_in([4, 1], range(NUM_SLOTS), state)
    for row, expected in zip(together, exact, strict=True):
        assert snr_db(row, expected) > MIN_SNR_DB
    codec().reset(state, 1)
    assert_same(decode_in([1, 1, 1], [1], state)[0], together[1, :24])


def test_chunks_of_any_sizes_are_decoded_in_one_pass() -> None:
    state = codec().open(NUM_SLOTS)
    expected = decode_in([5], range(NUM_SLOTS), state)
    for slot in range(NUM_SLOTS):
        codec().reset(state, slot)
    store = frame_store()
    heard: dict[int, list[Samples]] = {slot: [] for slot in range(NUM_SLOTS)}
    for sizes in ({2: 1, 0: 3}, {1: 4, 2: 2, 0: 1}, {0: 1, 2: 2, 1: 1}):
        starts = {slot: FIRST_FRAME + sum(map(len, heard[slot])) // 8 for slot in sizes}
        decodes = [CodecChunk(slot, starts[slot], size) for slot, size in sizes.items()]
        pending = codec().launch(decodes, store, state)
        assert len(pending.downloads) == 1, "it takes more than one pass"
        chunks = pending.result()
        assert {slot: len(each) for slot, each in chunks.items()} == {
            slot: 8 * size for slot, size in sizes.items()
        }
        assert all(each.base is None for each in chunks.values()), "it keeps the others' memory"
        for slot, chunk in chunks.items():
            heard[slot].append(chunk)
    for slot in range(NUM_SLOTS):
        assert_same(np.concatenate(heard[slot]), expected[slot])


def test_more_frames_than_a_pass_has_take_several() -> None:
    state = codec().open(NUM_SLOTS)
    assert state.sizes[-1] == 16
    store = frame_store()
    chunks = [CodecChunk(slot, FIRST_FRAME, 7) for slot in range(NUM_SLOTS)]
    pending = codec().launch(chunks, store, state)
    assert [len(rows) for rows, _ in pending.downloads] == [2, 1]
    heard = pending.result()
    expected = decode_in([1, 4], range(NUM_SLOTS), codec().open(NUM_SLOTS))
    for slot in range(NUM_SLOTS):
        assert_same(heard[slot][: 8 * NUM_FRAMES], expected[slot])


def test_frames_of_the_host_are_decoded_like_those_of_the_device() -> None:
    expected = decode_in([1, 1, 1], [0, 2], codec().open(NUM_SLOTS))
    state = codec().open(NUM_SLOTS)
    store = frame_store().cpu().numpy()
    heard: list[Samples] = []
    for number in range(3):
        chunks = [CodecChunk(slot, FIRST_FRAME + number, 1) for slot in (0, 2)]
        with codec().on_stream(state):
            audio = codec().launch(chunks, store, state).result()
        heard.append(np.stack([audio[0], audio[2]]))
    assert_same(np.concatenate(heard, axis=1), expected)
    assert not state.streams.positions[1]


def test_leads_side_by_side_are_those_one_after_the_other() -> None:
    many = torch.randint(
        0, 8, (20, *frames().shape[2:]), generator=torch.Generator().manual_seed(3)
    )
    leads = {2: many.numpy(), 0: many[:17].numpy(), 3: many.numpy(), 1: many[5:6].numpy()}
    alone, together = (codec().open(NUM_SLOTS + 1) for _ in range(2))
    for slot, lead in leads.items():
        codec().prime(alone, slot, lead)
    codec().prime_rows(together, leads)
    assert len(together.primed) == 3, "two of them are the same"
    assert together.streams.positions[:4].tolist() == [17, 1, 20, 20]
    store = torch.cat((frame_store(), frame_store()))
    chunks = [CodecChunk(slot, FIRST_FRAME, 2) for slot in leads]
    heard = [codec().launch(chunks, store, state).result() for state in (alone, together)]
    for slot in leads:
        assert_same(heard[0][slot], heard[1][slot])


def test_a_lead_is_decoded_once_and_copied_after() -> None:
    expected = decode_in([1, 1, 1], [1], codec().open(NUM_SLOTS))[0, 16:]
    state = codec().open(NUM_SLOTS)
    context = frames()[1, :2].cpu().numpy()
    store = frame_store()
    store[:NUM_SLOTS] = store[1].clone()
    for slot in range(2):
        codec().prime(state, slot, context)
        chunks = codec().launch([CodecChunk(slot, FIRST_FRAME + 2, 1)], store, state).result()
        assert_same(chunks[slot], expected)
    assert len(state.primed) == 1
