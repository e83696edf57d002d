"""What the model is told: instructions, the recording's words, the text and the recording."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.families.cosyvoice3.config import TEXT_FOLDER
from antiphon.families.cosyvoice3.options import MAX_POSITIONS, MAX_REFERENCE_TOKENS
from antiphon.families.cosyvoice3.prompt import CosyVoice3Prompt, CosyVoice3Prompter
from antiphon.families.cosyvoice3.tokenizer import load_tokenizer

START, TURN, FIRST_TEXT = 6561, 6563, 6761
VOICE = PreparedVoice(
    name="Ann",
    family="cosyvoice3",
    ref_text="So it is.",
    speaker_embedding=np.ones(192, np.float32),
    ref_codes=np.array([[7], [6560], [0]]),
    ref_features=np.zeros((6, 80), np.float32),
)
ANY = Voice(id="reference", name="Reference")


@pytest.fixture(scope="module")
def prompter(base: Path) -> CosyVoice3Prompter:
    return CosyVoice3Prompter(LoadContext(base))


@pytest.fixture(scope="module")
def end(base: Path) -> int:
    return load_tokenizer(base / TEXT_FOLDER).end_of_prompt


def build(prompter: CosyVoice3Prompter, text: str = "Hi you.", **more: Any) -> Prompt:
    options = {"ref_audio": VOICE} | more.pop("options", {})
    return prompter.build(SpeechRequest(text, options=options, **more), ANY, 1)


def told(prompt: Prompt) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of the text, and those of the recording, with what is around them checked."""
    assert isinstance(prompt.data, CosyVoice3Prompt)
    first, *ids = prompt.data.ids
    place = ids.index(TURN)
    assert first == START
    assert prompt.num_positions == len(ids) == len(prompt.position_keys)
    return tuple(each - FIRST_TEXT for each in ids[:place]), tuple(ids[place + 1 :])


def letters(prompter: CosyVoice3Prompter, text: str, base: Path) -> tuple[int, ...]:
    return load_tokenizer(base / TEXT_FOLDER).encode(text)


def test_zero_shot_continues_the_recording(
    prompter: CosyVoice3Prompter, base: Path, end: int
) -> None:
    encode = load_tokenizer(base / TEXT_FOLDER).encode
    text, recording = told(prompt := build(prompter))
    assert text == (*encode("You are a helpful assistant."), end, *encode("So it is.Hi you."))
    assert recording == (7, 6560, 0)
    np.testing.assert_array_equal(prompt.conditioning["tokens"], recording)
    assert prompt.conditioning["mel"].shape == (6, 80)
    assert prompt.num_tokens == 7
    assert (prompt.sampling.min_frames, prompt.sampling.max_frames) == (14, 140)
    other, _ = told(build(prompter, options={"ref_text": "Lead.<|endofprompt|>Now."}))
    assert other == (*encode("Lead."), end, *encode("Now.Hi you."))


def test_cross_lingual_imitates_the_sound_alone(
    prompter: CosyVoice3Prompter, base: Path, end: int
) -> None:
    encode = load_tokenizer(base / TEXT_FOLDER).encode
    text, recording = told(
        prompt := build(prompter, options={"ref_audio": replace(VOICE, ref_text=None)})
    )
    assert text == (*encode("You are a helpful assistant."), end, *encode("Hi you."))
    assert recording == ()
    assert len(prompt.conditioning["tokens"]) == 3


def test_instructions_take_the_place_of_the_recordings_words(
    prompter: CosyVoice3Prompter, base: Path, end: int
) -> None:
    encode = load_tokenizer(base / TEXT_FOLDER).encode
    text, recording = told(build(prompter, instructions="Speak fast."))
    assert text == (*encode("You are a helpful assistant. Speak fast."), end, *encode("Hi you."))
    assert recording == ()
    assert told(build(prompter, "Own words.<|endofprompt|>Hi you."))[0] == (
        *encode("Own words."),
        end,
        *encode("Hi you."),
    )


def test_limits_follow_the_text(prompter: CosyVoice3Prompter) -> None:
    assert build(prompter, "a").sampling.max_frames == 50
    asked = build(prompter, "Hello there.", sampling=Sampling(max_frames=30, top_k=5))
    assert (asked.sampling.max_frames, asked.sampling.top_k, asked.sampling.top_p) == (30, 5, 0.8)
    assert asked.sampling.temperature == 1.0


def test_a_checkpoints_own_voice(custom: Path) -> None:
    prompter = CosyVoice3Prompter(LoadContext(custom))
    (voice,) = prompter.capabilities.voices
    prompt = prompter.build(SpeechRequest("Hi."), voice, 1)
    assert prompt.conditioning["tokens"].shape == (0,)
    assert prompt.conditioning["speaker"].std() > 0.5
    with pytest.raises(UnknownVoiceError):
        prompter.build(SpeechRequest("Hi."), ANY, 1)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"options": {"ref_audio": None}}, "ref_audio"),
        ({"options": {"ref_audio": np.zeros(0, np.float32)}}, "ref_audio"),
        ({"options": {"ref_audio": replace(VOICE, family="other")}}, "ref_audio"),
        ({"options": {"ref_audio": replace(VOICE, ref_codes=np.array([[6561]] * 3))}}, "ref_audio"),
        (
            {"options": {"ref_audio": replace(VOICE, ref_features=np.ones((5, 80), np.float32))}},
            "ref_audio",
        ),
        ({"options": {"other": 1}}, "other"),
        ({"instructions": "x" * 2001}, "instructions"),
        ({"text": "Only this.<|endofprompt|>"}, "input"),
        ({"text": "x" * 5000}, "input"),
    ],
)
def test_what_cannot_be_is_named(
    prompter: CosyVoice3Prompter, more: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        build(prompter, **more)
    assert caught.value.param == param


def test_speech_is_drawn_without_a_penalty(prompter: CosyVoice3Prompter) -> None:
    ranges = SamplingRanges(takes_penalty=False, max_new_tokens=MAX_POSITIONS)
    assert prompter.capabilities.sampling == ranges


def test_words_of_a_recording_need_the_recording(prompter: CosyVoice3Prompter) -> None:
    request = SpeechRequest("Hi.", options={"ref_text": "So."})
    prompter.check(request, ["ref_audio"])
    with pytest.raises(InvalidRequestError) as caught:
        prompter.check(request)
    assert caught.value.param == "ref_text"


def test_speech_is_as_long_as_its_text_at_most(prompter: CosyVoice3Prompter) -> None:
    limits = [
        build(prompter, "Hi you, and you.", sampling=Sampling(max_frames=asked)).sampling.max_frames
        for asked in (None, 4000, 60)
    ]
    num_letters = len("Hi you, and you.")
    assert limits == [20 * num_letters, 20 * num_letters, 60]


def test_of_a_long_recording_the_end_is_heard(prompter: CosyVoice3Prompter) -> None:
    tokens = np.arange(MAX_REFERENCE_TOKENS + 40)
    mel = np.repeat(np.arange(2 * len(tokens), dtype=np.float32)[:, None], 80, axis=1)
    voice = replace(VOICE, ref_codes=tokens[:, None], ref_features=mel)
    heard = build(prompter, options={"ref_audio": voice}).conditioning
    assert heard["tokens"].tolist() == tokens[40:].tolist()
    assert heard["mel"][:, 0].tolist() == mel[80:, 0].tolist()
