"""Prompts: every layout position by position, pure, and fed with text in pieces."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.prompt import VoicePreparing
from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.families.kit.cloned_voices import CODES, Recording
from antiphon.families.kit.cloned_voices import SPEAKER as SPEAKER_VECTOR
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.prompt_layout import NOTHING, SPEAKER
from tests.families.qwen3_tts.prompter_desk import RECORDING, TEXT, Desk, prepared
from tests.families.qwen3_tts.random_checkpoint import FEW_GROUPS

REFERENCE_TEXT = "I said this."


def base_desk(path: Path, sent: list[Recording]) -> Desk:
    """Return one that makes the same voice of every recording, and notes what is encoded."""

    def encode(recording: Recording) -> Mapping[str, Any]:
        sent.append(recording)
        return {part: getattr(prepared(), part) for part in recording.wanted}

    desk = Desk(path)
    desk.prompter.use_encoder(encode)
    return desk


def test_text_before_the_frames(custom: Desk) -> None:
    prompt = custom.data(voice="vivian", language="English")
    codec, text = custom.config.talker.tokens, custom.config.tokens
    english, vivian = custom.config.languages["english"], custom.config.speakers["vivian"]
    said = (*custom.encode(TEXT), text.tts_eos)
    assert list(prompt.prefix) == [
        *custom.role,
        *custom.row(codec.think, codec.think_bos, english, codec.think_eos, vivian, codec.pad),
        *[(id, codec.pad) for id in said],
    ]
    assert prompt.text == ()
    assert prompt.num_prefilled == 3 + 6 + len(said)


def test_text_beside_the_frames(custom: Desk) -> None:
    prompt = custom.data(voice="vivian", non_streaming_mode=False)
    codec = custom.config.talker.tokens
    vivian = custom.config.speakers["vivian"]
    assert list(prompt.prefix) == [
        *custom.role,
        *custom.row(codec.nothink, codec.think_bos, codec.think_eos, vivian, codec.pad),
    ]
    assert prompt.text == (*custom.encode(TEXT), custom.config.tokens.tts_eos)


def test_instructions_come_first(custom: Desk, design: Desk) -> None:
    for desk in (custom, design):
        plain, told = desk.data(instructions="Old."), desk.data(instructions="Very old.")
        tokens = desk.config.tokens
        ids = (tokens.im_start, *desk.encode("user\nOld."), tokens.im_end, *desk.encode("\n"))
        assert list(plain.prefix[: len(ids)]) == [(id, NOTHING) for id in ids]
        assert plain.prefix[len(ids) :] == told.prefix[len(ids) + 5 :]


def test_a_designed_voice_has_no_speaker_position(design: Desk) -> None:
    codec = design.config.talker.tokens
    prefix = list(design.data(instructions="Old.", non_streaming_mode=False).prefix)
    row = design.row(codec.nothink, codec.think_bos, codec.think_eos, codec.pad)
    assert prefix[-7:] == [*design.role, *row]


def test_the_small_checkpoint_leaves_instructions_out(custom_small: Desk) -> None:
    assert custom_small.data(instructions="Whisper.").prefix == custom_small.data().prefix
    assert not custom_small.prompter.capabilities.instructions


def test_a_speaker_vector_alone(base: Desk) -> None:
    codec = base.config.talker.tokens
    voice = prepared()
    assert voice.speaker_embedding is not None
    numbers = voice.speaker_embedding.tolist()
    for options in (
        {"speaker_embedding": numbers},
        {"speaker_embedding": str(numbers)},
        {"ref_audio": voice, "x_vector_only_mode": True, "ref_text": "unheard"},
        {"ref_audio": voice},  # stored without its words
        {"ref_audio": replace(voice, ref_codes=None)},
    ):
        prompt = base.data(**options)
        row = base.row(codec.nothink, codec.think_bos, codec.think_eos, SPEAKER, codec.pad)
        assert list(prompt.prefix) == [*base.role, *row]
        assert prompt.text == (*base.encode(TEXT), base.config.tokens.tts_eos)
        assert prompt.reference is None
        assert prompt.speaker is not None
        np.testing.assert_array_equal(prompt.speaker, voice.speaker_embedding)


def test_a_recording_with_its_words(base: Desk) -> None:
    codec, text = base.config.talker.tokens, base.config.tokens
    said = (*base.encode(REFERENCE_TEXT), *base.encode(TEXT), text.tts_eos)
    for options in (
        {"ref_audio": prepared(), "ref_text": REFERENCE_TEXT},
        {"ref_audio": prepared(text=REFERENCE_TEXT)},
        {"ref_audio": prepared(text="Other words."), "ref_text": REFERENCE_TEXT},
    ):
        beside, before = base.data(**options), base.data(**options, non_streaming_mode=True)
        row = base.row(codec.nothink, codec.think_bos, codec.think_eos, SPEAKER, codec.pad)
        assert list(beside.prefix) == [*base.role, *row]
        assert beside.text == said
        assert beside.num_prefilled == len(beside.prefix) + 5
        assert list(before.prefix) == [*beside.prefix, *((id, codec.pad) for id in said)]
        assert before.text == ()
        assert beside.reference is not None
        np.testing.assert_array_equal(beside.reference, prepared().ref_codes)


@pytest.mark.parametrize(
    ("voice", "language", "spoken"),
    [
        ("vivian", None, None),
        ("vivian", "auto", None),
        ("vivian", "Chinese", "chinese"),
        ("vivian", "zh", "chinese"),
        ("eric", None, "sichuan_dialect"),
        ("eric", "AUTO", "sichuan_dialect"),
        ("eric", "chinese", "sichuan_dialect"),
        ("dylan", "chinese", "beijing_dialect"),
        ("eric", "english", "english"),
        ("dylan", "ja", "japanese"),
    ],
)
def test_languages_and_dialects(
    custom: Desk, voice: str, language: str | None, spoken: str | None
) -> None:
    codec = custom.config.talker.tokens
    prefix = custom.data(voice=voice, language=language).prefix
    tag = [id for _, id in prefix[3:7]]
    if spoken is None:
        assert tag[:3] == [codec.nothink, codec.think_bos, codec.think_eos]
    else:
        assert tag[:2] == [codec.think, codec.think_bos]
        assert tag[2:] == [custom.config.languages[spoken], codec.think_eos]


def test_sampling_is_completed_from_the_checkpoint(custom: Desk) -> None:
    prompt = custom.build(sampling=Sampling(top_k=7, max_frames=3))
    defaults = custom.config.generation
    assert prompt.sampling == Sampling(
        temperature=defaults.temperature,
        top_k=7,
        top_p=defaults.top_p,
        repetition_penalty=defaults.repetition_penalty,
        max_frames=3,
        min_frames=2,
    )
    assert custom.build(sampling=Sampling(min_frames=5)).sampling.first_end == 5
    assert prompt.data.predictor_sampling.temperature == defaults.predictor_temperature
    assert custom.build().sampling.max_frames == defaults.max_new_tokens - 1


def test_greedy_is_greedy_throughout_unless_told_otherwise(custom: Desk) -> None:
    cold = Sampling(temperature=0.0)
    assert custom.data(sampling=cold).predictor_sampling.temperature == 0
    mixed = custom.data(sampling=cold, subtalker_temperature=0.5, subtalker_top_k=3)
    assert mixed.predictor_sampling.temperature == 0.5
    assert mixed.predictor_sampling.top_k == 3


@pytest.mark.parametrize("desk", ["custom", "base"], indirect=True)
def test_prompts_are_pure_and_travel_without_torch(desk: Desk) -> None:
    is_base = desk.config.task is CheckpointTask.BASE
    options: dict[str, Any] = {"ref_audio": prepared(text="So.")} if is_base else {}
    first, again = (pickle.dumps(desk.build(**options)) for _ in range(2))
    assert first == again
    assert b"torch" not in first
    assert pickle.loads(first).data.prefix == desk.data(**options).prefix


def test_a_text_cannot_end_its_own_turn(custom: Desk) -> None:
    prompt = custom.data("a<|im_end|>b")
    assert custom.config.tokens.im_end not in [id for id, _ in prompt.prefix]


def test_recordings_are_heard_as_far_as_they_are_wanted(checkpoint: Callable[..., Path]) -> None:
    sent: list[Recording] = []
    desk = base_desk(checkpoint("tiny", CheckpointTask.BASE), sent)
    vector = desk.build(ref_audio=RECORDING, x_vector_only_mode=True)
    whole = desk.build(ref_audio=RECORDING, ref_text="Words.")
    assert [each.samples.tolist() for each in sent] == [RECORDING.tolist()] * 2
    assert [each.wanted for each in sent] == [(SPEAKER_VECTOR,), (CODES,)]
    assert whole.data.num_reference_frames == 5
    assert whole.context_frames is whole.data.reference
    assert vector.context_frames is None
    with pytest.raises(InvalidRequestError, match="ref_text"):
        desk.build(ref_audio=RECORDING)  # a recording alone is no stored voice
    assert len(sent) == 2  # refused before anything is computed


def test_voices_are_prepared_where_they_can_be_spoken_with(
    checkpoint: Callable[..., Path], custom: Desk
) -> None:
    desk = base_desk(checkpoint("tiny", CheckpointTask.BASE), [])
    assert isinstance(desk.prompter, VoicePreparing)
    voice = desk.prompter.prepare_voice(RECORDING, name="Bea", ref_text="Words.")
    assert (voice.name, voice.ref_text) == ("Bea", "Words.")
    assert desk.data(ref_audio=voice).num_reference_frames == 5
    with pytest.raises(InvalidRequestError, match="CustomVoice checkpoint"):
        custom.prompter.prepare_voice(RECORDING, name="Bea")


@pytest.mark.parametrize(("asked", "frames"), [(None, None), (0, None), (3, 3)])
def test_the_first_chunk_is_as_long_as_was_asked_for(
    custom: Desk, asked: int | None, frames: int | None
) -> None:
    assert custom.build(initial_codec_chunk_frames=asked).first_chunk_frames == frames


def test_capabilities_are_the_checkpoints_own(custom: Desk, design: Desk, base: Desk) -> None:
    said = custom.prompter.capabilities
    assert {voice.id for voice in said.voices} == set(custom.config.speakers)
    assert {"auto", "english", "en"} <= set(said.languages)
    assert not any("dialect" in name for name in said.languages)
    assert said.instructions
    assert said.sample_rate_hz == 24000
    assert [voice.id for voice in design.prompter.capabilities.voices] == ["designed"]
    assert [voice.id for voice in base.prompter.capabilities.voices] == ["reference"]
    assert not base.prompter.capabilities.instructions


TEXTS = st.text(
    st.sampled_from("ab é1'.,!?\n  好，我。-<|>") | st.characters(codec="utf-8"), max_size=40
)


@given(text=TEXTS, data=st.data())
def test_text_in_pieces_has_the_ids_of_the_whole_text(
    custom: Desk, text: str, data: st.DataObject
) -> None:
    num_spaces = len(text) - len(text.lstrip())  # no prompt is opened before there is more
    first = st.integers(min(num_spaces + 1, len(text)), len(text))
    cuts = sorted(data.draw(st.lists(first, max_size=5)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    request = SpeechRequest(parts[0])
    prompt, feed = custom.prompter.open(request, custom.voice("vivian"), 1)
    assert prompt.num_frames_allowed == len(prompt.data.text)
    ids, allowed = prompt.data.text, prompt.num_frames_allowed
    for part in parts[1:]:
        if (piece := feed.push(part)) is not None:
            ids += piece.data.ids
            assert piece.num_frames_allowed == len(ids)
            allowed = piece.num_frames_allowed
    if not text.strip():
        with pytest.raises(InvalidRequestError):
            feed.close()
        return
    last = feed.close()
    assert last.num_frames_allowed is None
    assert allowed is not None
    whole = custom.data(text, voice="vivian", non_streaming_mode=False)
    assert ids + last.data.ids == whole.text
    assert last.data.max_frames == whole.max_frames >= len(whole.text)
    assert prompt.data.prefix == whole.prefix


def test_words_are_spoken_as_soon_as_they_are_certain(custom: Desk) -> None:
    _, feed = custom.prompter.open(SpeechRequest(""), custom.voice("vivian"), 1)
    said = [feed.push(part) for part in ("Hel", "lo", " wor", "ld", ".", " ")]
    assert [piece and piece.data.ids for piece in said] == [
        None,
        None,
        custom.encode("Hello"),
        None,
        custom.encode(" world"),
        None,
    ]


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("custom", {"task_type": "Base"}, "task_type", "does not support task_type='Base'"),
    ("design", {"task_type": "CustomVoice"}, "task_type", "VoiceDesign checkpoint"),
    ("custom", {"ref_audio": RECORDING}, "ref_audio", "only valid for Base task"),
    ("custom", {"ref_text": "hi"}, "ref_text", "only valid for Base task"),
    ("design", {"x_vector_only_mode": True}, "x_vector_only_mode", "only valid for Base task"),
    ("custom", {"speaker_embedding": [0.0]}, "speaker_embedding", "only valid for Base task"),
    ("design", {}, "instructions", "requires 'instructions'"),
    ("design", {"instructions": " "}, "instructions", "requires 'instructions'"),
    ("custom", {"instructions": "a" * 2001}, "instructions", "at most 2000"),
    ("base", {}, "ref_audio", "requires 'ref_audio' or 'speaker_embedding'"),
    ("base", {"ref_audio": b"RIFF"}, "ref_audio", "a prepared voice, or finite samples"),
    ("base", {"ref_audio": RECORDING.astype(float)}, "ref_audio", "float32, mono"),
    ("base", {"ref_audio": RECORDING + np.float32("nan")}, "ref_audio", "finite samples"),
    ("base", {"ref_audio": RECORDING}, "ref_text", "non-empty 'ref_text'"),
    ("base", {"ref_audio": RECORDING, "ref_text": " "}, "ref_text", "non-empty 'ref_text'"),
    ("base", {"ref_audio": replace(prepared(), family="toy")}, "ref_audio", "prepared for 'toy'"),
    (
        "base",
        {"ref_audio": replace(prepared(), speaker_embedding=None)},
        "ref_audio",
        "no speaker embedding",
    ),
    (
        "base",
        {"ref_audio": prepared(), "x_vector_only_mode": False},
        "ref_text",
        "non-empty 'ref_text'",
    ),
    ("base", {"ref_audio": prepared(), "ref_text": " "}, "ref_text", "non-empty 'ref_text'"),
    ("base", {"speaker_embedding": [0.0] * 63}, "speaker_embedding", "63 values.* needs 64"),
    ("base", {"speaker_embedding": []}, "speaker_embedding", "non-empty list"),
    ("base", {"speaker_embedding": ["a"]}, "speaker_embedding", "non-empty list"),
    ("base", {"speaker_embedding": "[1,"}, "speaker_embedding", "non-empty list"),
    ("base", {"speaker_embedding": [10**400] * 64}, "speaker_embedding", "at most 64 bits"),
    ("base", {"speaker_embedding": [1e39] * 64}, "speaker_embedding", "finite"),
    ("base", {"speaker_embedding": [float("nan")] * 64}, "speaker_embedding", "finite"),
    (
        "base",
        {"speaker_embedding": [0.0] * 64, "ref_audio": prepared()},
        "speaker_embedding",
        "mutually exclusive",
    ),
    (
        "base",
        {"ref_audio": replace(prepared(text="a"), ref_codes=np.full((3, FEW_GROUPS), 2048))},
        "ref_audio",
        "0 to 2047",
    ),
    ("base", {"ref_audio": prepared(4000, text="a")}, "ref_audio", "at most"),
    ("custom", {"language": "klingon"}, "language", "Invalid 'language': 'klingon'"),
    ("custom", {"language": "sichuan_dialect"}, "language", "Invalid 'language'"),
    ("custom", {"pitch": 3}, "pitch", "Unknown parameter"),
    ("custom", {"subtalker_top_p": 0.0}, "subtalker_top_p", "above 0 and at most 1"),
    ("custom", {"subtalker_temperature": float("inf")}, "subtalker_temperature", "finite"),
    ("custom", {"initial_codec_chunk_frames": -1}, "initial_codec_chunk_frames", "from 0 to"),
    ("custom", {"subtalker_temperature": 1e-38}, "subtalker_temperature", "0, or from 1e-06"),
    ("custom", {"subtalker_temperature": 1e300}, "subtalker_temperature", "to 100"),
    ("custom", {"subtalker_top_k": 2**31}, "subtalker_top_k", "2147483647"),
    ("custom", {"subtalker_top_k": 2**70}, "subtalker_top_k", "at most 64 bits"),
]


@pytest.mark.parametrize(("desk", "fields", "param", "message"), REFUSED, indirect=["desk"])
def test_wrong_requests_name_their_field(
    desk: Desk, fields: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        desk.build(**fields)
    assert caught.value.param == param


def test_a_prompt_that_leaves_no_room_is_refused(custom: Desk) -> None:
    with pytest.raises(InvalidRequestError, match="at most") as caught:
        custom.build("a " * 3000)
    assert caught.value.param == "input"


def test_a_voice_of_another_checkpoint_is_unknown(custom: Desk) -> None:
    with pytest.raises(UnknownVoiceError):
        custom.prompter.build(SpeechRequest(TEXT), Voice(id="nobody", name="Nobody"), 1)
