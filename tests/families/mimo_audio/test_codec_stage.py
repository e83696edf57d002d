"""Steps and passes of the decoder ask nothing of the device; on a GPU the audio is the same."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from shutil import copytree
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.codec.runners import FusedRunner
from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import AudioChunk, Samples, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CodecChunk
from antiphon.engine.request import EngineRequest
from antiphon.families.mimo_audio.codec import AudioDecoder
from antiphon.families.mimo_audio.codec_stage import (
    MiMoAudioCodec,
    PendingGroups,
    StageState,
    load_codec,
)
from antiphon.families.mimo_audio.config import PASS_GROUPS
from antiphon.families.mimo_audio.language_model import load_language_model, load_runner
from antiphon.nn import kernels
from tests.asking import AskNothing
from tests.families.mimo_audio.oracle.record import random_codes
from tests.families.mimo_audio.speaking import GREEDY, make_all_audio, prompt_of
from tests.families.mimo_audio.test_parity import decode, groups_of

SIZES = (32, 32, 8, 8, 8, 8, 8, 8)


def test_the_check_sees_a_question() -> None:
    with pytest.raises(AssertionError, match="in a step"), AskNothing():
        int(torch.ones(2)[0])


def test_a_deterministic_model_is_so_in_all_its_parts(checkpoint: Path) -> None:
    model = load_language_model(LoadContext(checkpoint, "cpu", is_deterministic=True))
    encoder, decoder = model.encoder, model.decoder
    assert encoder.transformer.is_batch_invariant
    assert encoder.narrow.is_batch_invariant
    assert decoder.transformer.is_batch_invariant
    assert decoder.begin.is_batch_invariant


def test_what_is_too_loud_is_clipped(checkpoint: Path) -> None:
    codec = load_codec(LoadContext(checkpoint, device="cpu"))
    codes = groups_of(random_codes(SIZES, 16), 261)
    plain = decode(codec, codes)
    overlap = codec._decoder.overlap
    louder = replace(overlap, basis=4 * overlap.basis)
    codec._decoder = replace(codec._decoder, overlap=louder)
    made = decode(codec, codes)
    np.testing.assert_array_equal(made, np.clip(4 * plain, -1, 1))
    assert (np.abs(made) == 1).any()


@torch.inference_mode()
def test_a_pass_of_the_decoder_asks_nothing(checkpoint: Path) -> None:
    codec = load_codec(LoadContext(checkpoint, device="cpu"))
    state = codec.open(1)
    with AskNothing():
        for _ in range(3):
            state.frames.fill_(3)
            codec._tick(state, 1, is_past=False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("auto", 5e-3), ("float32", 2e-5)],  # in the first keys and values have 16 bits
)
def test_a_gpu_makes_the_same_audio(checkpoint: Path, dtype: str, tolerance: float) -> None:
    codes = groups_of(random_codes(SIZES, 60), 261)
    wanted = decode(load_codec(LoadContext(checkpoint, device="cpu")), codes)
    codec = load_codec(LoadContext(checkpoint, device="cuda", dtype=dtype))
    made = decode(codec, codes)
    np.testing.assert_allclose(made, wanted, atol=tolerance)
    np.testing.assert_array_equal(decode(codec, codes, (4,)), made)
    streams = streams_of((12, 40, 24))
    together = decode_together(codec, streams, codec.open(4))
    for stream, samples in zip(streams, together, strict=True):
        np.testing.assert_allclose(samples, decode(codec, stream), atol=tolerance)


@pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed")
@torch.inference_mode()
def test_float32_that_is_asked_for_is_that_where_kernels_run(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = LoadContext(checkpoint, device="cpu")
    codes = groups_of(random_codes(SIZES, 40), 261)
    wanted = decode(load_codec(context), codes)
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    halves = load_codec(context).open(1).codec
    assert {halves.decoder[0].dtype, halves.vocoder[0].dtype} == {torch.float16}
    codec = load_codec(replace(context, dtype="float32"))
    kept = codec.open(1).codec
    assert {each.dtype for each in (*kept.decoder, *kept.vocoder)} == {torch.float32}
    np.testing.assert_array_equal(decode(codec, codes), wanted)


def streams_of(counts: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return streams of as many frames of codes, with text in the first one."""
    streams = [groups_of(random_codes(SIZES, count), 261) for count in counts]
    text = np.concatenate(([7], streams[0][0, 1:]))
    return [np.insert(streams[0], [0, 2], text, axis=0), *streams[1:]]


def decode_together(
    codec: MiMoAudioCodec, streams: Sequence[NDArray[np.int64]], state: StageState
) -> list[Samples]:
    """Decode streams in slots from the second on, in chunks of one pass and of two in turn."""
    parts: list[list[Samples]] = [[] for _ in streams]
    store = np.zeros((len(streams) + 1, 64, streams[0].shape[1]), np.int64)
    for slot, stream in enumerate(streams, start=1):
        store[slot, : len(stream)] = stream
    starts, turn = [0] * len(streams), 0
    ends = [len(each) + codec.late_frames for each in streams]
    while any(start < end for start, end in zip(starts, ends, strict=True)):
        chunks = []
        for row, stream in enumerate(streams):
            size = 4 + 4 * ((row + turn) % 2)
            start, starts[row] = starts[row], starts[row] + size
            if start < ends[row]:
                end = len(stream) if start + size >= len(stream) else None
                chunks.append(CodecChunk(row + 1, start, size, end))
        for slot, samples in codec.launch(chunks, store, state).result().items():
            parts[slot - 1].append(samples)
        turn += 1
    return [np.concatenate(each) for each in parts]


def test_slots_side_by_side_are_each_alone(checkpoint: Path) -> None:
    context = LoadContext(checkpoint, device="cpu")
    codec, batched = load_codec(context), load_codec(context, is_batched=True)
    streams = streams_of((12, 20, 8))
    alone = [decode(codec, each) for each in streams]
    for one, other in zip(alone, decode_together(codec, streams, codec.open(4)), strict=True):
        np.testing.assert_array_equal(one, other)
    state = batched.open(5)
    assert state.sizes == (1, 2, 4, 5)
    for slot in range(5):  # what was there before is not heard
        batched.replay(state, slot, streams[1][slot:])
        batched.reset(state, slot)
    for one, other in zip(alone, decode_together(batched, streams, state), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_streams_past_their_ends_take_no_time_of_the_decoders_layers(checkpoint: Path) -> None:
    codec = load_codec(LoadContext(checkpoint, device="cpu"), is_batched=True)
    streams, decoded = streams_of((40, 44, 40, 16, 16, 16, 16, 16)), AudioDecoder._decoded
    alone = [decode(codec, each) for each in streams]
    nums_of_rows: list[int] = []

    def counted(decoder: AudioDecoder, *given: Any) -> torch.Tensor:
        nums_of_rows[-1] += len(given[0])
        return decoded(decoder, *given)

    with mock.patch.object(AudioDecoder, "_decoded", counted):
        for is_past in (codec._is_past, lambda each: False):
            nums_of_rows.append(0)
            with mock.patch.object(codec, "_is_past", is_past):
                together = decode_together(codec, streams, codec.open(9))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert nums_of_rows[0] < 0.9 * nums_of_rows[1]


def test_a_step_takes_one_pass_at_the_end_of_a_stream_too(checkpoint: Path) -> None:
    context = LoadContext(checkpoint, "cpu", "float32", 2)
    codec = load_codec(context, is_batched=True)
    num_passes: list[int] = []
    num_late = 0
    tick, launch = codec._tick, codec.launch

    def counted_launch(chunks: Sequence[CodecChunk], *others: Any) -> PendingGroups:
        nonlocal num_late
        num_late += any(each.end == 2 for each in chunks)
        num_passes.append(0)
        return launch(chunks, *others)

    def counted_tick(state: StageState, *shape: Any) -> torch.Tensor:
        num_passes[-1] += 1
        return tick(state, *shape)

    with mock.patch.multiple(codec, launch=counted_launch, _tick=counted_tick):
        core = EngineCore(FusedRunner(load_runner(context), codec))
        for seed, num_frames in enumerate((2, 30)):
            sampling = Sampling(temperature=0.0, top_k=0, top_p=1.0, max_frames=num_frames)
            prompt = replace(prompt_of(checkpoint, "Hello", GREEDY), sampling=sampling)
            core.scheduler.add(EngineRequest(f"{seed}", prompt))
        while core.scheduler.num_live:
            core.step()
    assert max(num_passes) == 1
    assert num_late >= (2 + codec.late_frames) // PASS_GROUPS > 2


def test_the_first_sound_waits_for_one_group_more(checkpoint: Path, tmp_path: Path) -> None:
    """Whether speech ends with the latest group is not known before the next one.

    The step after that decodes, and makes a group too.
    """
    endless = tmp_path / "endless"
    copytree(checkpoint, endless)
    make_all_audio(endless)
    context = LoadContext(endless, "cpu", "float32", 2)
    codec = load_codec(context)
    clock = count(0.0, 1e-4)  # not the machine's: on a busy one the first chunk is larger
    core = EngineCore(FusedRunner(load_runner(context), codec), clock=lambda: next(clock))
    sampling = replace(GREEDY, max_frames=60, ignore_eos=True)
    request = EngineRequest("heard", replace(prompt_of(endless, "Hello"), sampling=sampling))
    core.scheduler.add(request)
    sounds = list[int]()
    while not sounds:
        chunks = [event for _, event in core.step() if isinstance(event, AudioChunk)]
        sounds += [request.num_frames for each in chunks if len(each.samples)]
    num_needed = codec.late_frames + 1
    num_needed += -num_needed % PASS_GROUPS
    assert sounds == [num_needed + 1 + 1]
