"""Tokens to samples: each once, the same in any company, and the same wherever the end is known."""

import operator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Samples
from antiphon.engine.plan import FRAME_STORE_FRAMES, CodecChunk
from antiphon.families.cosyvoice3.decoder import CosyVoice3Decoder, load_decoder
from antiphon.families.cosyvoice3.flow import MelFlow, Reference
from antiphon.families.cosyvoice3.speech_rows import SpeechRows
from tests.asking import AskNothing
from tests.families.cosyvoice3.speech import (
    AHEAD,
    GROUP,
    TOKENS,
    audio_of,
    chunks_of,
    first_mel,
    pass_mel,
    store_of,
    voice,
)

RATIO = 960


@pytest.fixture(scope="module")
def decoder(base: Path) -> CosyVoice3Decoder:
    return load_decoder(LoadContext(base, device="cpu"))


@pytest.fixture(scope="module")
def batched(base: Path) -> CosyVoice3Decoder:
    """A decoder that takes several streams at once, as on a GPU."""
    return load_decoder(LoadContext(base, device="cpu"), is_batched=True)


def test_shape(decoder: CosyVoice3Decoder, batched: CosyVoice3Decoder) -> None:
    assert [each.batch_chunks for each in (decoder, batched)] == [1, 32]
    assert batched.open(32).sizes[-1] == batched.batch_chunks
    assert decoder.group_frames == GROUP
    assert decoder.look_ahead_frames == AHEAD
    assert decoder.samples_per_frame == RATIO
    # The store holds a group and its look-ahead, while a step more is made.
    assert max(decoder.chunk_sizes) + AHEAD < FRAME_STORE_FRAMES


@pytest.mark.parametrize("num_tokens", [1, 2, 24, 25, 26, 28, 31, 32, 50, 53, 56, 57])
@pytest.mark.parametrize("num_reference", [0, 50])
def test_the_end_may_be_known_early_or_late(
    decoder: CosyVoice3Decoder, num_tokens: int, num_reference: int
) -> None:
    reference = voice(num_reference)
    late = audio_of(decoder, num_tokens, reference)
    assert len(late) == num_tokens * RATIO
    assert np.isfinite(late).all()
    assert late.std() > 1e-4
    np.testing.assert_array_equal(audio_of(decoder, num_tokens, reference, is_early=True), late)


def test_later_tokens_change_nothing_before_them(decoder: CosyVoice3Decoder) -> None:
    short, long = (audio_of(decoder, number, voice(10)) for number in (81, 110))
    np.testing.assert_array_equal(short[: 50 * RATIO], long[: 50 * RATIO])
    assert not np.array_equal(short[75 * RATIO :], long[75 * RATIO : 81 * RATIO])


def test_rows_are_independent_and_reset(decoder: CosyVoice3Decoder) -> None:
    voices = [voice(12, seed=1), voice(40, seed=2)]
    alone = [audio_of(decoder, 60, each) for each in voices]
    assert not np.array_equal(alone[0], alone[1])
    rows, store = decoder.open(2), store_of(TOKENS)
    decoder.reset(rows, 1, voice(3))
    decoder.launch([CodecChunk(1, 0, GROUP)], store, rows).result()
    for slot, each in enumerate(voices):
        decoder.reset(rows, slot, each)
    plans = zip(*(chunks_of(60, lambda start: start > 25, slot) for slot in (0, 1)), strict=True)
    parts = [decoder.launch([*plan], store, rows).result() for plan in plans]
    for slot in (0, 1):
        together = np.concatenate([part[slot] for part in parts])
        np.testing.assert_array_equal(together, alone[slot])


def test_streams_of_a_voice_share_its_arrays(decoder: CosyVoice3Decoder) -> None:
    rows = decoder.open(3)
    for slot, seed in enumerate((1, 2, 1)):
        decoder.reset(rows, slot, voice(12, seed=seed))
    first, other, again = (rows.stream(slot).reference for slot in range(3))
    assert first is again
    assert first is not other


@torch.inference_mode()
def test_streams_in_one_batch_are_each_alone(
    decoder: CosyVoice3Decoder, batched: CosyVoice3Decoder
) -> None:
    """Of many lengths, two with recordings of one length; others' slots are not touched."""
    lengths, voices = (
        (60, 82, 56, 82, 33),
        [voice(each, seed=each) for each in (12, 0, 50, 12, 60)],
    )
    alone = [audio_of(decoder, *each) for each in zip(lengths, voices, strict=True)]
    rows, store = batched.open(8), np.resize(TOKENS, (1, 1000))[:, :, None].repeat(8, axis=0)
    slots = (5, 0, 7, 2, 3)
    for slot, each in zip(slots, voices, strict=True):
        batched.reset(rows, slot, each)
    for slot in (1, 4, 6):  # what is in them is not touched
        rows.flow.context[:, :, slot] = torch.nan
    parts: list[list[Samples]] = [[] for _ in slots]
    plans = [
        chunks_of(length, partial(operator.lt, length - GROUP - AHEAD), slot)
        for length, slot in zip(lengths, slots, strict=True)
    ]
    for chunks in zip_longest(*plans):
        made = batched.launch([each for each in chunks if each], store, rows).result()
        for part, slot in zip(parts, slots, strict=True):
            part += [made[slot]] if slot in made else []
    assert rows.flow.context[:, :, [1, 4, 6]].isnan().all()
    for part, wanted in zip(parts, alone, strict=True):
        found = np.concatenate(part)
        np.testing.assert_allclose(found, wanted, atol=1e-3 * wanted.std())


@pytest.mark.parametrize("num_tokens", [1, 30, 33, 52])
def test_a_last_pass_may_be_wider_than_what_is_left(
    decoder: CosyVoice3Decoder, batched: CosyVoice3Decoder, num_tokens: int
) -> None:
    wanted = audio_of(decoder, num_tokens, voice(5))
    found = audio_of(batched, num_tokens, voice(5))
    np.testing.assert_allclose(found, wanted, atol=1e-3 * wanted.std())


@torch.inference_mode()
def test_a_pass_over_the_recording_alone_changes_nothing(decoder: CosyVoice3Decoder) -> None:
    flow, ahead, num_tokens = decoder._flow, GROUP + 3, 60
    tokens, mel, speaker = (torch.from_numpy(each) for each in voice(num_tokens).values())
    reference, speech = Reference(tokens, mel, speaker), torch.from_numpy(TOKENS[: ahead + 3])
    rows = flow.open(1)
    wanted = first_mel(flow, speech, reference, rows, ahead)[2 * num_tokens :]
    flow.record(reference, 0, rows, ahead=ahead)
    found = pass_mel(flow, speech, reference, rows, (ahead - 2 * GROUP, 2 * GROUP, ahead))
    torch.testing.assert_close(found[-2 * ahead :], wanted, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("num_reference", [0, 1, 21, 22, 23, 46])
def test_places_before_a_stream_change_nothing(
    decoder: CosyVoice3Decoder, num_reference: int
) -> None:
    """A first pass may be as wide as that of the longest recording that is not apart."""
    flow, ahead, width = decoder._flow, GROUP + 3, 3 * GROUP
    tokens, mel, speaker = (torch.from_numpy(each) for each in voice(num_reference).values())
    reference, speech = Reference(tokens, mel, speaker), torch.from_numpy(TOKENS[: ahead + GROUP])
    next_one = (ahead, GROUP, ahead)
    made = []
    for is_padded in (False, True):
        rows = flow.open(1)
        if is_padded:  # in a slot where another stream was
            rows.context[:] = torch.nan
            first_mel(flow, torch.from_numpy(TOKENS[-60:]), reference, rows, ahead)
            parts = [pass_mel(flow, speech, reference, rows, (ahead - width, width, ahead))]
        else:
            parts = [first_mel(flow, speech, reference, rows, ahead)]
        made.append(torch.cat([*parts, pass_mel(flow, speech, reference, rows, next_one)]))
    torch.testing.assert_close(*made, atol=1e-5, rtol=1e-4)


def test_a_copy_of_a_recording_that_fails_is_used_by_nobody(
    decoder: CosyVoice3Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, store = decoder.open(2), store_of(TOKENS)
    for slot in range(2):
        decoder.reset(rows, slot, voice(47 + slot))
        decoder.launch([CodecChunk(slot, 0, GROUP)], store, rows)
    assert all(rows.recorded)
    monkeypatch.setattr(MelFlow, "recall", Mock(side_effect=RuntimeError))
    decoder.reset(rows, 1, voice(47))
    with pytest.raises(RuntimeError):
        decoder.launch([CodecChunk(1, 0, GROUP)], store, rows)
    assert rows.recorded[0]
    assert rows.recorded[1] is None


def test_a_recording_is_computed_once(
    decoder: CosyVoice3Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = audio_of(decoder, 60, voice(50))
    recorded: list[int] = []
    record = MelFlow.record

    def watched(flow: MelFlow, reference: Reference, slot: int, *rest: Any, **more: Any) -> None:
        recorded.append(slot)
        record(flow, reference, slot, *rest, **more)

    monkeypatch.setattr(MelFlow, "record", watched)
    rows, store = decoder.open(2), store_of(TOKENS)
    for slot in (1, 0, 1, 1):  # the third time from its own slot, whose stream has gone on
        decoder.reset(rows, slot, voice(50))
        parts = [decoder.launch([each], store, rows).result() for each in chunks_of(60, bool, slot)]
        np.testing.assert_array_equal(np.concatenate([each[slot] for each in parts]), wanted)
    assert recorded == [1]
    for slot in (0, 1):  # no slot holds it any more
        decoder.reset(rows, slot, voice(51 - slot, seed=1))
        decoder.launch([CodecChunk(slot, 0, GROUP)], store, rows).result()
    decoder.reset(rows, 0, voice(50))
    decoder.launch([CodecChunk(0, 0, GROUP)], store, rows).result()
    assert recorded == [1, 0, 1, 0]


def test_a_replayed_row_goes_on_as_the_one_that_was_given_up(decoder: CosyVoice3Decoder) -> None:
    whole, store = audio_of(decoder, 90, voice(8)), store_of(TOKENS)
    rows = decoder.open(1)
    decoder.reset(rows, 0, voice(8))
    decoder.replay(rows, 0, TOKENS[: 25 + AHEAD, None], AHEAD)
    decoder.replay(rows, 0, TOKENS[25 : 50 + AHEAD, None], AHEAD)
    last = [decoder.launch([each], store, rows).result()[0] for each in chunks_of(90, bool)[2:]]
    np.testing.assert_array_equal(np.concatenate(last), whole[50 * RATIO :])


def test_a_chunk_costs_the_same_anywhere(decoder: CosyVoice3Decoder) -> None:
    rows, store, shapes = decoder.open(1), store_of(TOKENS), []
    decoder.reset(rows, 0, voice(20))
    for chunk in chunks_of(400, lambda start: start + GROUP + AHEAD > 400)[:-1]:
        decoder.launch([chunk], store, rows).result()
        shapes.append(shapes_of(rows))
    assert all(each == shapes[0] for each in shapes)
    decoder.launch([CodecChunk(0, 375, GROUP, 400)], store, rows).result()
    assert shapes_of(rows) == shapes[0]


def shapes_of(rows: SpeechRows) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Return where what all rows keep is, and how large."""
    flow = rows.flow
    kept = {**flow.tokens.kept, **flow.convs.kept, **rows.vocoder.kept, "context": flow.context}
    return {name: (each.data_ptr(), tuple(each.shape)) for name, each in kept.items()}


def test_float32_is_not_rounded_to_tf32(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, seen = load_decoder(LoadContext(base, device="cpu")), []
    end = CosyVoice3Decoder._voice_end

    def watched(*arguments: Any) -> Any:
        seen.append(torch.backends.cudnn.allow_tf32)
        return end(*arguments)

    monkeypatch.setattr(CosyVoice3Decoder, "_voice_end", watched)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    state = decoder.open(1)
    decoder.reset(state, 0, voice(3))
    decoder.launch([CodecChunk(0, 0, GROUP, 3)], store_of(TOKENS[:3]), state)
    assert seen == [False]
    assert torch.backends.cudnn.allow_tf32


@torch.inference_mode()
def test_later_passes_ask_nothing(batched: CosyVoice3Decoder) -> None:
    """So that a CUDA graph can hold them."""
    rows = batched.open(1)
    batched.reset(rows, 0, voice(0))
    batched.launch([CodecChunk(0, 0, GROUP)], store_of(TOKENS), rows)
    with AskNothing():
        for inputs in rows.flow_inputs.values():
            batched._flow_passes.chunk_pass(inputs, 1, rows)
        for is_first in (True, False):
            batched._vocoder_pass(is_first, 1, rows)
            batched._last_pass(is_first, 1, 2 * (GROUP + AHEAD - 1), rows)
