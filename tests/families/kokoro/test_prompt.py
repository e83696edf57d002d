"""Requests become phonemes in the voice's language, or are refused with what would help."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.families.kokoro.checkpoint import MAX_PHONEMES
from antiphon.families.kokoro.prompt import KokoroPrompter
from antiphon.text.phoneme_prompt import PhonemePrompt

TEXT = "She can't dance in the bath. Is that so?"
reads_chinese = find_spec("misaki") is not None


@pytest.fixture(scope="module")
def prompter(exported: Path) -> KokoroPrompter:
    return KokoroPrompter(LoadContext(path=exported))


def built(prompter: KokoroPrompter, voice: str, text: str = TEXT, **more: str) -> PhonemePrompt:
    found = prompter.named_voice(voice)
    assert found is not None
    data = prompter.build(SpeechRequest(text, word_timestamps=True, **more), found, 1).data  # type: ignore[arg-type]
    assert isinstance(data, PhonemePrompt)
    return data


def test_the_accent_is_the_voice_s_unless_the_request_says_one(prompter: KokoroPrompter) -> None:
    american, british = (built(prompter, voice) for voice in ("af_heart", "bf_emma"))
    assert american.sentences != british.sentences
    assert built(prompter, "bf_emma", language="english").sentences == british.sentences
    assert built(prompter, "bf_emma", language="en-US").sentences == american.sentences
    assert [each.word for each in british.words[1]] == ["Is", "that", "so?"]


def test_sentences_are_never_too_long(prompter: KokoroPrompter) -> None:
    lengths = [len(ids) for ids in built(prompter, "af_heart", "word " * 400).sentences]
    assert sum(lengths) > MAX_PHONEMES
    assert max(lengths) <= MAX_PHONEMES


def test_voices_that_can_be_read_are_listed(prompter: KokoroPrompter) -> None:
    listed = [voice.id for voice in prompter.capabilities.voices]
    chinese = ["zf_xiaoxiao"] if reads_chinese else []
    assert listed == ["af_heart", "af_sky", "am_adam", "bf_emma", *chinese]
    assert ("zh" in prompter.capabilities.languages) is reads_chinese


def test_mixes_are_voices(prompter: KokoroPrompter) -> None:
    mixed = built(prompter, " AF_Heart(2) + af_sky ")
    assert mixed.voice == "af_heart(2)+af_sky"
    assert prompter.named_voice("af_heart+nobody") is None
    with pytest.raises(UnknownVoiceError):
        prompter.build(SpeechRequest(TEXT), Voice(id="nobody", name=""), 1)


def test_voices_of_one_s_own_may_have_capitals(exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    shutil.copy(tmp_path / "voices" / "af_sky.bin", tmp_path / "voices" / "af_Mine.bin")
    prompter = KokoroPrompter(LoadContext(path=tmp_path))
    assert built(prompter, "af_Mine").voice == "af_Mine"
    assert built(prompter, "af_Mine(2)+af_sky").voice == "af_Mine(2)+af_sky"


def test_a_language_that_cannot_be_read_is_refused_unless_another_is_said(
    prompter: KokoroPrompter,
) -> None:
    with pytest.raises(InvalidRequestError, match="Japanese") as caught:
        built(prompter, "jf_alpha")
    assert caught.value.param == "voice"
    assert built(prompter, "jf_alpha", language="en-us").sentences
    with pytest.raises(InvalidRequestError) as caught:
        built(prompter, "af_heart", language="klingon")
    assert caught.value.param == "language"


@pytest.mark.skipif(not reads_chinese, reason="misaki is not installed: scripts/setup chinese")
def test_what_is_left_out_depends_on_the_language(prompter: KokoroPrompter) -> None:
    heart = prompter.capabilities.voices[0]
    assert not prompter.check_text("你好", heart).is_spoken
    assert prompter.check_text("你好", heart, "zh").is_spoken
    assert built(prompter, "af_heart", "你好", language="zh").sentences


@pytest.mark.skipif(reads_chinese, reason="misaki is installed: the extra 'chinese'")
def test_what_chinese_needs_is_said(prompter: KokoroPrompter) -> None:
    with pytest.raises(InvalidRequestError, match="scripts/setup chinese"):
        built(prompter, "zf_xiaoxiao")
