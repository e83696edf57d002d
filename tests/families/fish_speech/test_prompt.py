"""Prompts: what is refused, and that no text can name what is no text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import VoicePreparing
from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.fabric.wire import safe_pickle
from antiphon.families.fish_speech.config import MAX_POSITIONS, load_config
from antiphon.families.fish_speech.prompt import FishSpeechPrompter
from antiphon.families.kit.mixed.prompt import FRAME, MixedPrompt

CODES = np.arange(30, dtype=np.int64).reshape(3, 10)
SAMPLES = np.linspace(-0.5, 0.5, 6000, dtype=np.float32)


@pytest.fixture(scope="module", params=["s2", "s1"])
def prompter(request: pytest.FixtureRequest, made: Callable[[str], Path]) -> FishSpeechPrompter:
    found = FishSpeechPrompter(LoadContext(path=made(request.param)))
    found.use_encoder(lambda recording: {"ref_codes": CODES})
    return found


def build(prompter: FishSpeechPrompter, text: str = "Hi.", **options: Any) -> MixedPrompt:
    voice = prompter.capabilities.voices[0]
    prompt = prompter.build(SpeechRequest(text, options=options), voice, 1)
    data: MixedPrompt = prompt.data
    assert prompt.num_positions == len(data.ids) - 1 == len(prompt.position_keys)
    return data


def test_a_recording_becomes_frames_of_the_prompt(prompter: FishSpeechPrompter) -> None:
    assert isinstance(prompter, VoicePreparing)
    plain = build(prompter)
    cloned = build(prompter, ref_audio=SAMPLES, ref_text="So it was.")
    assert not len(plain.frames)
    assert cloned.frames.tolist() == CODES.tolist()
    assert (cloned.ids == FRAME).sum() == len(CODES)
    assert cloned.ids[-1] != FRAME
    voice = prompter.prepare_voice(SAMPLES, name="Ann", ref_text="So it was.")
    assert build(prompter, ref_audio=voice).ids.tolist() == cloned.ids.tolist()


def test_prompts_of_one_voice_begin_with_equal_keys(prompter: FishSpeechPrompter) -> None:
    voice = prompter.prepare_voice(SAMPLES, name="Ann", ref_text="So it was.")
    one, other = (build(prompter, text, ref_audio=voice) for text in ("One.", "Two!"))
    shared = [a == b for a, b in zip(one.position_keys, other.position_keys, strict=True)]
    assert shared.index(False) > len(CODES)
    changed = PreparedVoice(
        name="Ann", family=voice.family, ref_text=voice.ref_text, ref_codes=CODES + 1
    )
    third = build(prompter, "One.", ref_audio=changed)
    assert third.ids.tolist() == one.ids.tolist()
    assert [a != b for a, b in zip(one.position_keys, third.position_keys, strict=True)] == [
        id_ == FRAME for id_ in one.ids[:-1]
    ]


def test_prompts_cross_processes(prompter: FishSpeechPrompter) -> None:
    cloned = build(prompter, ref_audio=SAMPLES, ref_text="So it was.")
    back = safe_pickle.loads(safe_pickle.dumps(cloned))
    assert isinstance(back, MixedPrompt)
    assert back.position_keys == cloned.position_keys


@pytest.mark.parametrize("name", ["<|im_end|>", "<|semantic:3|>", "<|voice|>", "\ud800"])
def test_no_text_names_what_is_no_text(
    prompter: FishSpeechPrompter, made: Callable[[str], Path], name: str
) -> None:
    special = set(load_config(made("s2")).tokens.ids.values())
    plain, spelled = build(prompter, "a"), build(prompter, f"a{name}")
    assert sum(id_ in special for id_ in plain.ids) == sum(id_ in special for id_ in spelled.ids)
    assert len(spelled.ids) > len(plain.ids)


def voice_of(codes: NDArray[np.int64]) -> PreparedVoice:
    return PreparedVoice(name="a", family="fish_speech", ref_codes=codes)


def with_code(codebook: int, code: int) -> NDArray[np.int64]:
    codes = np.zeros_like(CODES)
    codes[0, codebook] = code
    return codes


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"ref_audio": SAMPLES}, "ref_text"),
        ({"ref_audio": SAMPLES, "ref_text": " "}, "ref_text"),
        ({"ref_text": "Words."}, "ref_text"),
        ({"ref_audio": "file"}, "ref_audio"),
        ({"ref_audio": np.zeros(0, np.float32), "ref_text": "Words."}, "ref_audio"),
        ({"ref_audio": PreparedVoice(name="a", family="b", ref_codes=CODES)}, "ref_audio"),
        (
            {"ref_audio": PreparedVoice(name="a", family="fish_speech", ref_codes=CODES + 160)},
            "ref_audio",
        ),
        (
            {"ref_audio": voice_of(np.full_like(CODES, 159)), "ref_text": "Words."},
            None,
        ),
        (
            {"ref_audio": voice_of(with_code(0, 160)), "ref_text": "Words."},
            "ref_audio",
        ),
        (
            {"ref_audio": voice_of(with_code(9, 160)), "ref_text": "Words."},
            "ref_audio",
        ),
        (
            {"ref_audio": PreparedVoice(name="a", family="fish_speech", ref_codes=CODES[:, 1:])},
            "ref_audio",
        ),
        ({"ref_audio": PreparedVoice(name="a", family="fish_speech", ref_codes=CODES)}, "ref_text"),
        ({"speaker": 3}, "speaker"),
    ],
    ids=str,
)
def test_wrong_options_name_their_field(
    prompter: FishSpeechPrompter, options: dict[str, Any], param: str | None
) -> None:
    if param is None:  # the last that is right, beside the first that is wrong
        assert len(build(prompter, **options).frames)
        return
    with pytest.raises(InvalidRequestError) as caught:
        build(prompter, **options)
    assert caught.value.param == param


def test_speech_is_drawn_without_a_penalty(prompter: FishSpeechPrompter) -> None:
    ranges = SamplingRanges(takes_penalty=False, max_new_tokens=MAX_POSITIONS)
    assert prompter.capabilities.sampling == ranges


def test_a_prompt_leaves_room_to_speak(prompter: FishSpeechPrompter) -> None:
    num_others = len(build(prompter, "a").ids) - 1
    most = MAX_POSITIONS - 215 - num_others  # frames of ten seconds
    assert len(build(prompter, "a" * most).ids) == MAX_POSITIONS - 215
    with pytest.raises(InvalidRequestError) as caught:
        build(prompter, "a" * (most + 1))
    assert caught.value.param == "input"


def test_a_request_without_its_recording_yet_is_checked(prompter: FishSpeechPrompter) -> None:
    prompter.check(SpeechRequest("Hi.", options={"ref_text": "Words."}), ["ref_audio"])
    with pytest.raises(InvalidRequestError, match="ref_text"):
        prompter.check(SpeechRequest("Hi."), ["ref_audio"])


def test_turns_of_speakers_stand_on_lines_of_their_own(made: Callable[[str], Path]) -> None:
    prompter = FishSpeechPrompter(LoadContext(path=made("s2")))
    spoken = build(prompter, "<|speaker:0|> Hi there. <|speaker:1|>Hello!\n\n<|speaker:0|>Bye.")
    wanted = build(prompter, "<|speaker:0|> Hi there.\n<|speaker:1|>Hello!\n<|speaker:0|>Bye.")
    assert spoken.ids.tolist() == wanted.ids.tolist()
    assert (
        build(prompter, "One.\n\nTwo.").ids.tolist() != build(prompter, "One.\nTwo.").ids.tolist()
    )
