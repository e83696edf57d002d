"""Prompts: phonemes per sentence, and honest refusals."""

import subprocess
import sys

import pytest

from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.families.hibari.prompt import HibariPrompter
from antiphon.text.phoneme_prompt import PhonemePrompt


def test_declaring_the_family_loads_no_model_code() -> None:
    program = (
        "import sys; from antiphon.families.hibari import FAMILY;"
        "sys.exit(bool({'hibari', 'onnxruntime'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_tokens_are_the_phonemes_of_all_sentences(prompter: HibariPrompter) -> None:
    heart = prompter.capabilities.voices[0]
    request = SpeechRequest("Hello there. How are you?", sampling=Sampling(top_k=3))
    prompt = prompter.build(request, heart, 7)
    assert isinstance(prompt.data, PhonemePrompt)
    assert len(prompt.data.sentences) == 2
    assert prompt.num_tokens == sum(map(len, prompt.data.sentences)) > 20
    assert (prompt.seed, prompt.sampling) == (7, Sampling(top_k=3))
    assert prompter.build(request, heart, 7) == prompt


@pytest.mark.parametrize("language", [None, "english", "English", "EN", "en-US"])
def test_english_by_any_name(prompter: HibariPrompter, language: str | None) -> None:
    heart = prompter.capabilities.voices[0]
    plain = prompter.build(SpeechRequest("Hello."), heart, 1)
    assert prompter.build(SpeechRequest("Hello.", language=language), heart, 1) == plain


def test_another_language_is_refused(prompter: HibariPrompter) -> None:
    heart = prompter.capabilities.voices[0]
    with pytest.raises(InvalidRequestError, match="'French'") as caught:
        prompter.build(SpeechRequest("Bonjour.", language="French"), heart, 1)
    assert caught.value.param == "language"


def test_a_voice_of_another_model_is_refused(prompter: HibariPrompter) -> None:
    with pytest.raises(UnknownVoiceError, match="heart"):
        prompter.build(SpeechRequest("Hello."), Voice(id="mine", name="Mine"), 1)
