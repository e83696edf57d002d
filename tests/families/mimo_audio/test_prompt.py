"""Requests become turns of a chat; what the model cannot do is refused and names its field."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.families.mimo_audio.prompt import MiMoAudioPrompt, MiMoAudioPrompter
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer


@pytest.fixture(scope="module")
def prompter(checkpoint: Path) -> MiMoAudioPrompter:
    return MiMoAudioPrompter(LoadContext(checkpoint))


def built(prompter: MiMoAudioPrompter, text: str, **more: Any) -> MiMoAudioPrompt:
    prompt = prompter.build(SpeechRequest(text, **more), prompter.capabilities.voices[0], 1)
    assert isinstance(prompt.data, MiMoAudioPrompt)
    assert prompt.num_positions == len(prompt.data.groups) - 1 == len(prompt.position_keys)
    return prompt.data


def ids(checkpoint: Path, *parts: str) -> list[int]:
    return load_text_tokenizer(checkpoint, 272).encode(parts)


def test_a_text_is_asked_for_and_begun(prompter: MiMoAudioPrompter, checkpoint: Path) -> None:
    groups = built(prompter, "good day").groups
    asked = "user\nPlease convert this text to speech: Good day"
    turn = ["<|im_start|>", asked, "<|im_end|>", "\n", "<|im_start|>", "assistant\n", "<|sostm|>"]
    assert groups[:, 0].tolist() == ids(checkpoint, *turn)
    assert (groups[:, 1:] == [*(32, 32, 8, 8, 8, 8, 8, 8)] * 4).all()


def test_instructions_make_the_model_think_first(
    prompter: MiMoAudioPrompter, checkpoint: Path
) -> None:
    written = built(prompter, "你好", instructions=" softly ").groups[:, 0].tolist()
    end = ids(checkpoint, "请将这段文字转换为语音: 你好(softly)", "<|im_end|>", "\n")
    end += ids(checkpoint, "<|im_start|>", "assistant\n<think>\n")
    assert written[-len(end) :] == end
    assert written[:2] == ids(checkpoint, "<|im_start|>", "s")


def test_a_greedy_request_is_greedy_throughout(prompter: MiMoAudioPrompter) -> None:
    assert built(prompter, "Hi", sampling=Sampling(temperature=0)).code_sampling.temperature == 0
    assert built(prompter, "Hi").code_sampling.temperature == 0.9
    told = {"local_temperature": 0.5, "local_top_k": 7, "local_top_p": 0.5}
    sampling = built(prompter, "Hi", sampling=Sampling(temperature=0), options=told).code_sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.5, 7, 0.5)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"options": {"local_top_p": 0}}, "local_top_p"),
        ({"options": {"nothing": 1}}, "nothing"),
        ({"instructions": "a" * 2001}, "instructions"),
        ({"input": "a" * 9000}, "input"),
    ],
)
def test_what_cannot_be_done_names_its_field(
    prompter: MiMoAudioPrompter, fields: dict[str, Any], param: str
) -> None:
    request = SpeechRequest(**({"input": "Hello."} | fields))
    with pytest.raises(InvalidRequestError) as caught:
        prompter.build(request, prompter.capabilities.voices[0], 1)
    assert caught.value.param == param


def test_speech_is_drawn_without_a_penalty(prompter: MiMoAudioPrompter) -> None:
    ranges = SamplingRanges(takes_penalty=False)
    assert prompter.capabilities.sampling == ranges


def test_prompts_that_begin_alike_have_equal_keys(prompter: MiMoAudioPrompter) -> None:
    voice = prompter.capabilities.voices[0]
    one, other = (
        prompter.build(SpeechRequest(text), voice, 1) for text in ("Good day", "Good night")
    )
    same = np.array(one.position_keys[:50]) == np.array(other.position_keys[:50])
    assert same[:45].all()
    assert not same.all()
