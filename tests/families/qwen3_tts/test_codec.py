"""The decoder is exact: as official, in any grouping, in any company, and forgetful on reset."""

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from antiphon.codec.host.grouped_decoder import GroupedDecoder
from antiphon.engine.plan import CodecChunk
from antiphon.families.qwen3_tts.checkpoint import (
    codec_decoder_part,
    codec_encoder_part,
    speaker_encoder_part,
)
from antiphon.families.qwen3_tts.codec import decoder_of
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.encoder import CodecEncoder
from antiphon.nn.codec_layers.state import DecoderState
from antiphon.nn.codec_layers.windowed_decoder import WindowedDecoder
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.weights import open_weights
from tests.families.qwen3_tts.codec_models import codec_weights, recorded, small_config, tiny_config
from tests.families.qwen3_tts.random_checkpoint import make_full_checkpoint
from tests.nn.cpu.test_heap import num_resident_bytes

ROUNDING = 5e-6
"""Kernels for other shapes add in another order; samples here are around 0.1."""
NUM_FRAMES = 45
FORGOTTEN_FRAMES = 40
"""After so many frames nothing in the small decoder remembers a frame."""
SAMPLES_PER_FRAME = 64
NUM_ROWS = 3


@cache
def small_decoder(dtype: torch.dtype = torch.float32) -> WindowedDecoder:
    return decoder_of(codec_weights(small_config), small_config().codec.decoder, dtype)


def small_codec() -> GroupedDecoder:
    return GroupedDecoder(
        small_decoder(), sample_rate_hz=24000, samples_per_frame=SAMPLES_PER_FRAME
    )


@cache
def tiny_decoder() -> WindowedDecoder:
    return decoder_of(codec_weights(tiny_config), tiny_config().codec.decoder)


@cache
def streams() -> Tensor:
    """Return codes of some streams, ``[NUM_ROWS, 16, NUM_FRAMES]``."""
    random = np.random.Generator(np.random.PCG64(7))
    return torch.from_numpy(random.integers(0, 32, (NUM_ROWS, 16, NUM_FRAMES)))


@cache
def wholes() -> tuple[Tensor, ...]:
    """Return the audio of each stream, decoded alone, in one pass and without a state."""
    audio = tuple(small_decoder().decode_whole(codes[None])[0] for codes in streams())
    assert all(0.02 < one.std() < 0.5 for one in audio)
    return audio


def decode_alone(decoder: WindowedDecoder, codes: Tensor, sizes: Sequence[int]) -> Tensor:
    """Decode one stream ``[Q, n]`` in pieces of these sizes, then what remains."""
    state = decoder.open(1)
    pieces = torch.split(codes, [*sizes, codes.shape[1] - sum(sizes)], dim=1)
    return torch.cat([decoder.decode(piece[None], state)[0] for piece in pieces if piece.numel()])


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = ROUNDING) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


splits = st.lists(st.integers(1, 30), max_size=12).map(
    lambda sizes: [size for at, size in enumerate(sizes) if sum(sizes[: at + 1]) <= NUM_FRAMES]
)


def test_audio_is_as_official() -> None:
    official = torch.from_numpy(recorded()["wave"])
    codes = torch.from_numpy(recorded()["codes"].astype(np.int64))
    step = 61
    assert_close(tiny_decoder().decode_whole(codes[None])[0, ::step], official, 1e-5)
    assert_close(decode_alone(tiny_decoder(), codes, [1, 2, 3, 25, 40])[::step], official, 1e-5)


@settings(max_examples=25, deadline=None)
@given(splits)
def test_any_grouping_equals_one_pass(sizes: list[int]) -> None:
    assert_close(decode_alone(small_decoder(), streams()[0], sizes), wholes()[0])


def test_frames_one_by_one_equal_one_pass() -> None:
    assert_close(decode_alone(small_decoder(), streams()[0], [1] * NUM_FRAMES), wholes()[0])


Step = tuple[int, tuple[bool, ...]]
steps = st.lists(
    st.tuples(st.integers(1, 9), st.tuples(*[st.booleans()] * NUM_ROWS)), min_size=1, max_size=8
)


def runnable(mask: Sequence[bool], done: Sequence[int], num_frames: int) -> list[bool]:
    """Return which of the rows in ``mask`` have as many frames left."""
    return [on and at + num_frames <= NUM_FRAMES for on, at in zip(mask, done, strict=True)]


@settings(max_examples=25, deadline=None)
@given(steps)
def test_rows_at_different_times_do_not_disturb_each_other(plan: list[Step]) -> None:
    decoder = small_decoder()
    state = decoder.open(NUM_ROWS)
    done = [0] * NUM_ROWS
    for num_frames, mask in plan:
        active = torch.tensor(runnable(mask, done, num_frames))
        rows = active.nonzero()[:, 0]
        if not len(rows):
            continue
        spans = [slice(done[row], done[row] + num_frames) for row in rows.tolist()]
        codes = torch.stack(
            [streams()[row, :, span] for row, span in zip(rows, spans, strict=True)]
        )
        before, part = (state.memory.clone(), state.position.clone()), state.gather(rows)
        audio = decoder.decode(codes, part)
        state.scatter(rows, part)
        assert torch.equal(state.memory[~active], before[0][~active])
        assert torch.equal(state.position[~active], before[1][~active])
        for place, row in enumerate(rows.tolist()):
            start = done[row] * SAMPLES_PER_FRAME
            expected = wholes()[row][start : start + num_frames * SAMPLES_PER_FRAME]
            assert_close(audio[place], expected)
            done[row] += num_frames
    assert state.position.tolist() == done


@settings(max_examples=15, deadline=None)
@given(steps)
def test_a_batch_of_arrays_decodes_the_rows_of_its_chunks(plan: list[Step]) -> None:
    codec = small_codec()
    state = codec.open(NUM_ROWS)
    store = streams().transpose(1, 2).numpy()
    done = [0] * NUM_ROWS
    for num_frames, mask in plan:
        active = runnable(mask, done, num_frames)
        rows = [row for row in range(NUM_ROWS) if active[row]]
        chunks = [CodecChunk(row, done[row], num_frames) for row in rows]
        audio = codec.launch(chunks, store, state).result()
        assert [*audio] == rows
        for row in rows:
            start = done[row] * codec.samples_per_frame
            expected = wholes()[row][start : start + num_frames * codec.samples_per_frame]
            assert audio[row].dtype == np.float32
            assert_close(torch.from_numpy(audio[row]), expected)
            done[row] += num_frames


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(0, 5))
def test_arrays_in_any_grouping_give_the_same_to_the_last_bit(
    sizes: list[int], num_lead: int
) -> None:
    codec = small_codec()
    frames = streams()[0].T.numpy()
    state = codec.open(2)
    for slot in (0, 1):
        if num_lead:
            codec.prime(state, slot, frames[:num_lead])
    frames = frames[num_lead : num_lead + sum(sizes)]
    whole = codec.decode_row(frames, state, 0)
    parts = [codec.decode_row(part, state, 1) for part in np.split(frames, np.cumsum(sizes))]
    assert np.array_equal(np.concatenate(parts), whole)
    codec.reset(state, 0)
    assert 0 not in state.partial


def test_a_reset_slot_is_a_fresh_one() -> None:
    decoder = small_decoder()
    state, fresh = decoder.open(2), decoder.open(2)
    decoder.decode(streams()[:2], state)
    other = state.memory[0].clone()
    state.reset(1)
    assert torch.equal(state.memory[0], other)
    assert torch.equal(state.memory[1], fresh.memory[1])
    assert state.position.tolist() == [NUM_FRAMES, 0]
    again = decoder.decode(streams()[:2, :, :7], state)
    first = decoder.decode(streams()[:2, :, :7], fresh)
    assert torch.equal(again[1], first[1])


@pytest.mark.parametrize("changed", [0, 1, 20, NUM_FRAMES - 1])
def test_a_frame_changes_nothing_before_it_and_something_after(changed: int) -> None:
    codes = streams()[:1].clone()
    codes[:, :, changed] = (codes[:, :, changed] + 1) % 32
    audio = small_decoder().decode_whole(codes)[0]
    start = changed * SAMPLES_PER_FRAME
    assert torch.equal(audio[:start], wholes()[0][:start])
    assert not torch.equal(audio[start:], wholes()[0][start:])


def test_the_far_past_is_forgotten() -> None:
    codes = streams()[:1].clone()
    codes[:, :, 0] = (codes[:, :, 0] + 1) % 32
    start = FORGOTTEN_FRAMES * SAMPLES_PER_FRAME
    audio = small_decoder().decode_whole(codes)[0]
    assert torch.equal(audio[start:], wholes()[0][start:])


def test_every_tensor_of_a_checkpoint_is_taken(tmp_path: Path) -> None:
    make_full_checkpoint(tmp_path, size="tiny", task="base")
    config = load_config(tmp_path)
    codec, like = config.codec, torch.empty(0)
    assert codec.encoder is not None
    with open_weights(codec_decoder_part(tmp_path, config), like=like) as weights:
        decoder_of(weights, codec.decoder)
    with open_weights(codec_encoder_part(tmp_path, config), like=like) as weights:
        CodecEncoder.of(weights, codec.encoder, codec.num_quantizers)
    assert config.speaker_encoder is not None
    with open_weights(speaker_encoder_part(tmp_path, config), like=like) as weights:
        EcapaEncoder.of(weights, "speaker_encoder", config.speaker_encoder)


def test_ids_outside_the_codebooks_are_clamped_into_them() -> None:
    codes = streams()[:1, :, :6].clone()
    codes[0, :, 2], codes[0, 3, 4], codes[0, 0, 5] = 2150, -1, 2**40
    audio = small_decoder().decode_whole(codes)
    assert torch.equal(audio, small_decoder().decode_whole(codes.clamp(0, 31)))


def test_nothing_waits_for_the_device() -> None:
    """Tensors of the meta device have no values: whoever asks for one fails."""
    weights = {name: tensor.to("meta") for name, tensor in codec_weights(small_config).items()}
    decoder = decoder_of(weights, small_config().codec.decoder)
    state = decoder.open(2)
    codes = torch.empty((2, 16, 30), dtype=torch.int64, device="meta")
    assert decoder.decode(codes, state).shape == (2, 30 * SAMPLES_PER_FRAME)


def test_slots_can_be_taken_out_and_put_back() -> None:
    decoder = small_decoder()
    state = decoder.open(NUM_ROWS)
    decoder.decode(streams()[:, :, :5], state)
    before = state.memory.clone()
    slots = torch.tensor([2, 0])
    part = state.gather(slots)
    audio = decoder.decode(streams()[slots, :, 5:9], part)
    assert torch.equal(state.memory, before)
    state.scatter(slots, part)
    assert torch.equal(state.memory[1], before[1])
    assert state.position.tolist() == [9, 5, 9]
    assert_close(audio[0], wholes()[2][5 * SAMPLES_PER_FRAME : 9 * SAMPLES_PER_FRAME])


def test_half_precision_keeps_its_state_in_half_the_room() -> None:
    decoder = small_decoder(torch.bfloat16)
    state: DecoderState = decoder.open(1)
    assert state.memory.dtype == torch.bfloat16
    audio = decoder.decode(streams()[:1], state)[0]
    error = (audio - wholes()[0]).square().mean()
    assert error < 0.05 * wholes()[0].square().mean()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_slots_take_memory_when_they_are_used() -> None:
    before, num_slots = num_resident_bytes(), 2**27 // small_decoder().row_size
    state = small_decoder().open(num_slots)
    assert state.memory.nbytes > 2**28
    assert num_resident_bytes() - before < 2**26
    assert not state.memory[num_slots // 2].any()
