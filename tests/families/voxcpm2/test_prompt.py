"""What a request makes a prompt of, and what is refused before any work."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import Samples, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.fabric.wire import safe_pickle
from antiphon.families.kit.cloned_voices import CloningPrompter, Recording
from antiphon.families.kit.mixed.prompt import FRAME
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.voxcpm2.config import AUDIO_START, REFERENCE_END, REFERENCE_START
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from antiphon.families.voxcpm2.request import CONTINUED, REFERENCE, VoxCPM2Prompt, frames_of
from tests.families.voxcpm2.oracle.cases import RATE_HZ, continued, reference
from tests.families.voxcpm2.speaking import ask

SILENCE = np.zeros(RATE_HZ // 10, np.float32)


def layout(prompt: VoxCPM2Prompt) -> str:
    """Return what is where: reference, text, the start of audio, patches."""
    marks = {FRAME: "p", REFERENCE_START: "<", REFERENCE_END: ">", AUDIO_START: "|"}
    return "".join(marks.get(int(each), "t") for each in prompt.ids)


def num_patches(samples: Samples) -> int:
    return -(-len(samples) // (RATE_HZ // 25))


def test_each_way_of_bringing_a_voice_has_its_layout(prompter: VoxCPM2Prompter) -> None:
    size, more = num_patches(reference()), num_patches(continued())
    plain = ask(prompter, "Hi").data
    assert (layout(plain), plain.bounds) == ("ttt|", (1, 1, 4))
    cloned = ask(prompter, "Hi", ref_audio=reference()).data
    assert layout(cloned) == f"<{'p' * size}>ttt|"
    assert cloned.bounds == (1, 1 + size, size + 6)
    both = ask(
        prompter, "Hi", ref_audio=reference(), prompt_audio=continued(), prompt_text="a"
    ).data
    assert layout(both) == f"<{'p' * size}>tttt|{'p' * more}"
    assert both.bounds == (1, 1 + size, size + 7)
    assert len(both.frames) == size + more


def test_text_of_a_user_is_never_a_special_token(prompter: VoxCPM2Prompter) -> None:
    ids = ask(prompter, "<|audio_start|></s>").data.ids.tolist()
    assert ids.index(AUDIO_START) == len(ids) - 1
    assert 2 not in ids


def test_instructions_stand_in_parentheses_before_the_text(prompter: VoxCPM2Prompter) -> None:
    told = ask(prompter, "Hello.", instructions=" A calm\nvoice ").data
    written = ask(prompter, "(A calm voice)Hello.").data
    np.testing.assert_array_equal(told.ids, written.ids)
    assert told.max_frames == written.max_frames


def test_a_prepared_voice_is_its_recording(prompter: VoxCPM2Prompter) -> None:
    prepared = prompter.prepare_voice(reference(), name="Ann", ref_text="Said.")
    heard = ask(prompter, "Hi", ref_audio=reference(), ref_text="Said.").data
    same = ask(prompter, "Hi", ref_audio=prepared).data
    np.testing.assert_array_equal(same.ids, heard.ids)
    np.testing.assert_array_equal(same.frames, heard.frames)
    told = ask(prompter, "Hi", ref_audio=prepared, instructions="Slowly").data
    assert layout(told).endswith("|")  # nothing is continued
    silent = prompter.prepare_voice(reference(), name="Ann")
    assert layout(ask(prompter, "Hi", ref_audio=silent).data).endswith(">ttt|")


def test_what_is_continued_is_heard_before(prompter: VoxCPM2Prompter) -> None:
    prompt = ask(prompter, "Hi", prompt_audio=continued(), prompt_text="a")
    assert prompt.context_frames is not None
    np.testing.assert_array_equal(prompt.context_frames, frames_of(prompt.data.frames[-3:]))
    assert ask(prompter, "Hi", ref_audio=reference()).context_frames is None


def test_prompts_cross_processes(prompter: VoxCPM2Prompter) -> None:
    prompt = ask(prompter, "Hi", ref_audio=reference(), ref_text="Said.")
    for sent in (prompt, Recording(reference(), (CONTINUED,))):
        got = safe_pickle.loads(safe_pickle.dumps(sent))
        assert safe_pickle.dumps(got) == safe_pickle.dumps(sent)
    again = safe_pickle.loads(safe_pickle.dumps(prompt))
    np.testing.assert_array_equal(again.data.frames, prompt.data.frames)
    assert again.position_keys == prompt.position_keys


def test_keys_are_equal_as_far_as_prompts_are(prompter: VoxCPM2Prompter) -> None:
    first, second = (ask(prompter, text, ref_audio=reference()) for text in ("Hi a", "Hi b"))
    other = ask(prompter, "Hi a", ref_audio=continued())
    assert len(first.position_keys) == first.num_positions == len(first.data.ids) - 1
    assert [*first.position_keys[:-1]] == [*second.position_keys[:-1]]
    assert first.position_keys[-1] != second.position_keys[-1]
    assert first.position_keys[1] != other.position_keys[1]
    assert len({*first.position_keys[1:9]}) == 8  # patches differ


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"cfg_value": -0.1}, "cfg_value"),
        ({"cfg_value": 10.5}, "cfg_value"),
        ({"cfg_value": float("nan")}, "cfg_value"),
        ({"inference_timesteps": 1}, "inference_timesteps"),
        ({"inference_timesteps": 51}, "inference_timesteps"),
        ({"ref_text": "Said."}, "ref_text"),
        ({"ref_audio": SILENCE, "ref_text": " "}, "ref_text"),
        ({"prompt_text": "Said."}, "prompt_audio"),
        ({"prompt_audio": SILENCE}, "prompt_text"),
        (
            {"prompt_audio": SILENCE, "prompt_text": "a", "ref_audio": SILENCE, "ref_text": "a"},
            "ref_text",
        ),
        ({"ref_audio": np.full(9, np.nan, np.float32)}, "ref_audio"),
        ({"ref_audio": SILENCE[:0]}, "ref_audio"),
        ({"prompt_audio": "no samples", "prompt_text": "a"}, "prompt_audio"),
        ({"ref_audio": np.zeros(RATE_HZ * 60 + 1, np.float32)}, "ref_audio"),
        ({"speaker": "Ann"}, "speaker"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_wrong_options_name_their_field(
    fields: dict[str, Any], param: str, prompter: VoxCPM2Prompter
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ask(prompter, **fields)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("options", "recordings", "instructions", "param"),
    [
        ({}, ["prompt_audio"], None, "prompt_text"),
        ({"ref_text": "a"}, [], None, "ref_text"),
        ({"ref_text": "a"}, ["ref_audio"], "Slowly", "instructions"),
        ({"prompt_text": "a"}, ["prompt_audio"], "Slowly", "instructions"),
        ({}, [], "a" * 2001, "instructions"),
    ],
)
def test_what_no_recording_could_make_right_is_refused_before_it_is_loaded(
    options: dict[str, Any],
    recordings: list[str],
    instructions: str | None,
    param: str,
    prompter: VoxCPM2Prompter,
) -> None:
    request = SpeechRequest("Hi", options=options, instructions=instructions)
    with pytest.raises(InvalidRequestError) as caught:
        prompter.check(request, recordings)
    assert caught.value.param == param
    prompter.check(SpeechRequest("Hi", options={"ref_text": "a"}), ["ref_audio"])


def test_voices_of_others_are_refused(prompter: VoxCPM2Prompter) -> None:
    voice = prompter.prepare_voice(reference(), name="Ann")
    assert voice.ref_features is not None
    others: list[dict[str, Any]] = [
        {"family": "qwen3_tts"},
        {"ref_features": voice.ref_features[:, :-1]},
        {"ref_features": voice.ref_features[1:]},
        {"ref_features": None, "ref_codes": np.ones((2, 2), np.int64)},
    ]
    for change in others:
        changed: PreparedVoice = replace(voice, **change)
        with pytest.raises(InvalidRequestError) as caught:
            ask(prompter, ref_audio=changed)
        assert caught.value.param == "ref_audio"


def test_a_prompt_must_leave_room_to_speak(prompter: VoxCPM2Prompter) -> None:
    with pytest.raises(InvalidRequestError, match="at most 4032") as caught:
        ask(prompter, "a" * 4032)
    assert caught.value.param == "input"


def test_a_recording_is_kept_by_the_way_it_is_used(
    encoder: ClonedVoiceEncoder, prompter: VoxCPM2Prompter
) -> None:
    asked = []

    def encode(data: Recording) -> Any:
        asked.append(data.wanted)
        return encoder.encode(data).data

    uses, samples = (CONTINUED, REFERENCE), reference()
    preparer = CloningPrompter(prompter.capabilities, "voxcpm2", uses)
    preparer.use_encoder(encode)
    before, behind = (preparer.features(samples, [each])[each] for each in uses)
    assert asked == [(CONTINUED,), (REFERENCE,)]
    assert before.shape != behind.shape or not np.array_equal(before, behind)
    assert preparer.features(samples, [CONTINUED])[CONTINUED] is before
    assert len(asked) == 2
