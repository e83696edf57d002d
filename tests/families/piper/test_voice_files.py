"""What is said beside a network is read strictly; what cannot be served says why."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.families.piper.prompt import PiperPrompt, PiperPrompter
from antiphon.families.piper.voice_files import InferenceScales, inspect, read_models
from antiphon.families.registry import checkpoint_family
from tests.families.piper.random_checkpoint import write_voice

TEXT_IDS = {symbol: [n] for n, symbol in enumerate("_^$ .abcdefghijklmnopqrstuvwxyz")}
RUSSIAN: dict[str, Any] = {"espeak": {"voice": "ru"}, "language": {"code": "ru_RU", "family": "ru"}}


def test_a_directory_of_voices_is_known_by_its_files(directory: Path) -> None:
    assert checkpoint_family(directory).name == "piper"


def test_speakers_are_voices(directory: Path) -> None:
    voices = [name for model in read_models(directory) for name in model.voices]
    assert voices == ["en_US-one", "speaker0", "speaker1"]
    found = inspect(directory)
    assert found.problems == ()
    assert found.facts["Voices"] == tuple(voices)
    assert found.facts["Languages"] == ("english", "en", "en-us")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"phoneme_type": "pinyin"}, "phoneme_type"),
        ({"audio": {}}, "audio.sample_rate"),
        ({"audio": {"sample_rate": 5}}, "audio.sample_rate"),
        ({"espeak": {}}, "espeak.voice"),
        ({"phoneme_id_map": {"_": [0], "^": [1]}}, r"phoneme_id_map\.\$"),
        ({"phoneme_id_map": {"_": [0], "^": [1], "$": [999]}}, "num_symbols"),
        ({"inference": {"length_scale": 0}}, "inference.length_scale"),
        ({"num_speakers": 2, "speaker_id_map": {"a": 2}}, "speaker_id_map.a"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    write_voice(tmp_path, "voice", **changes)
    with pytest.raises(ModelLoadError, match=named):
        read_models(tmp_path)
    (problem,) = inspect(tmp_path).problems
    assert "voice.onnx.json" in problem


def test_a_network_without_its_file_is_refused(tmp_path: Path) -> None:
    write_voice(tmp_path, "voice")
    (tmp_path / "voice.onnx.json").unlink()
    with pytest.raises(ModelLoadError, match=r"voice\.onnx\.json"):
        read_models(tmp_path)
    with pytest.raises(ModelLoadError, match="no voice"):
        read_models(tmp_path / "empty")


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"audio": {"sample_rate": 22050}}, "sample rate"), ({}, "several voices are named")],
)
def test_voices_that_do_not_go_together_are_refused(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    write_voice(tmp_path, "one", num_speakers=2)
    write_voice(tmp_path, "other", num_speakers=2, **changes)
    with pytest.raises(ModelLoadError, match=named):
        read_models(tmp_path)


def test_a_language_that_cannot_be_read_is_refused_at_load(tmp_path: Path) -> None:
    write_voice(tmp_path, "ru_RU-voice", **RUSSIAN)
    with pytest.raises(ModelLoadError, match=r"'ru'.*English voice, or one whose 'phoneme_type'"):
        PiperPrompter(LoadContext(tmp_path))
    assert "'ru'" in inspect(tmp_path).problems[0]


def test_a_voice_that_lacks_sounds_of_english_is_refused(tmp_path: Path) -> None:
    write_voice(tmp_path, "voice", phoneme_id_map=TEXT_IDS)
    with pytest.raises(ModelLoadError, match=r"phoneme_id_map.*θ"):
        PiperPrompter(LoadContext(tmp_path))


def test_a_voice_of_letters_reads_any_language(tmp_path: Path) -> None:
    write_voice(tmp_path, "voice", phoneme_type="text", phoneme_id_map=TEXT_IDS, **RUSSIAN)
    prompter = PiperPrompter(LoadContext(tmp_path))
    (voice,) = prompter.capabilities.voices
    data = prompter.build(SpeechRequest("Ab. 5! C"), voice, 1).data
    assert isinstance(data, PiperPrompt)
    a, b, c, dot = (TEXT_IDS[each][0] for each in "abc.")
    assert data.sentences[0].ids[:7] == (1, 0, a, 0, b, 0, dot)
    assert c in data.sentences[-1].ids
    assert [(each.word, each.start, each.stop) for each in data.sentences[0].words] == [
        ("Ab.", 2, 8)
    ]
    check = prompter.check_text("Ab. 5!", voice)
    assert check.unspoken == ("5",)
    assert check.is_spoken
    assert not prompter.check_text("5!", voice).is_spoken


def test_a_request_may_change_the_scales(prompter: PiperPrompter) -> None:
    voice = prompter.capabilities.voices[0]
    request = SpeechRequest("Hello.", options={"noise_w": 0.1})
    data = prompter.build(request, voice, 1).data
    assert isinstance(data, PiperPrompt)
    assert data.scales == InferenceScales(1.0, 0.667, 0.1)
    for name, value in (("length_scale", 0), ("noise_scale", 3), ("noise_w", 1.5)):
        with pytest.raises(InvalidRequestError) as caught:
            prompter.build(SpeechRequest("Hello.", options={name: value}), voice, 1)
        assert caught.value.param == name
    with pytest.raises(InvalidRequestError) as caught:
        prompter.build(SpeechRequest("Hello.", language="german"), voice, 1)
    assert caught.value.param == "language"
