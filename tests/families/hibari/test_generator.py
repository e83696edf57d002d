"""Real speech: streamed, repeatable, alone or in a crowd, and with nothing left behind."""

from collections.abc import Callable

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Samples
from antiphon.errors import EngineError
from antiphon.families.hibari.generator import HibariGenerator
from antiphon.families.hibari.vocoder import FRAME_SAMPLES, SAMPLE_RATE_HZ

PromptOf = Callable[..., Prompt]
TEXT = "Speech is served as soon as it is ready. Is that quick enough? I hope so!"


def speak(generator: HibariGenerator, prompt: Prompt) -> Samples:
    return np.concatenate([chunk.samples for chunk in generator.generate(prompt)])


def silences_ms(audio: Samples) -> list[float]:
    """Lengths of all silences, first to last, to a frame; zero where audio begins or ends loud."""
    frames = audio.reshape(-1, FRAME_SAMPLES)
    (loud,) = np.nonzero(np.sqrt(np.mean(np.square(frames), axis=1)) > 1e-3)
    borders = np.concatenate([[-1], loud, [len(frames)]])
    gaps = np.diff(borders) - 1
    gaps[1:-1] = np.where(gaps[1:-1] >= 15, gaps[1:-1], 0)
    kept = [gaps[0], *gaps[1:-1][gaps[1:-1] > 0], gaps[-1]]
    return [float(gap) * 1000 * FRAME_SAMPLES / SAMPLE_RATE_HZ for gap in kept]


def test_speech_is_plausible(generator: HibariGenerator, prompt_of: PromptOf) -> None:
    audio = speak(generator, prompt_of(TEXT))
    assert 3.5 < len(audio) / SAMPLE_RATE_HZ < 7
    assert 0.02 < np.sqrt(np.mean(np.square(audio))) < 0.2
    assert 0.1 < np.abs(audio).max() <= 1


def test_chunks_begin_small_and_grow(generator: HibariGenerator, prompt_of: PromptOf) -> None:
    long = "The quick brown fox jumps over the lazy dog, and then it runs all the way home again."
    chunks = list(generator.generate(prompt_of(long)))
    *growing, _ = [chunk.num_frames for chunk in chunks]
    assert growing[:4] == [16, 32, 64, 80]
    assert max(growing) == 80
    for chunk in chunks:
        assert chunk.samples.dtype == np.float32
        assert chunk.sample_rate_hz == SAMPLE_RATE_HZ
        assert len(chunk.samples) == chunk.num_frames * FRAME_SAMPLES


def test_speech_begins_at_once_and_pauses_are_natural(
    generator: HibariGenerator, prompt_of: PromptOf
) -> None:
    first, *between, last = silences_ms(speak(generator, prompt_of(TEXT)))
    assert first <= 100
    assert len(between) == 2
    assert all(200 <= pause <= 400 for pause in [*between, last])


def test_sentences_join_without_a_click(generator: HibariGenerator, prompt_of: PromptOf) -> None:
    alone = [speak(generator, prompt_of(text)) for text in ("A", "Mm", "Psst.", "Hello there!")]
    for audio in alone:
        assert np.abs(audio[:10]).max() < 1e-3
        assert np.abs(audio[-10:]).max() < 1e-3


def test_the_seed_decides_the_noise_and_nothing_else(
    generator: HibariGenerator, prompt_of: PromptOf
) -> None:
    first, again, other, negative = (
        speak(generator, prompt_of(TEXT, seed)) for seed in (1, 1, 2, -1)
    )
    np.testing.assert_array_equal(first, again)
    assert first.shape == other.shape == negative.shape
    assert not np.array_equal(first, other)
    assert np.corrcoef(first, other)[0, 1] > 0.9


def test_repeated_sentences_have_their_own_noise(
    generator: HibariGenerator, prompt_of: PromptOf
) -> None:
    first, second = np.split(speak(generator, prompt_of("This is so. This is so.")), 2)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, speak(generator, prompt_of("This is so.")))


def test_interleaved_streams_and_early_leavers(
    generator: HibariGenerator, prompt_of: PromptOf
) -> None:
    expected = speak(generator, prompt_of(TEXT))
    staying, leaving = generator.generate(prompt_of(TEXT)), generator.generate(prompt_of(TEXT, 5))
    heard: list[AudioChunk] = []
    for number, chunk in enumerate(staying):
        heard.append(chunk)
        if number < 2:
            next(leaving)
        elif number == 2:
            leaving.close()
    np.testing.assert_array_equal(np.concatenate([chunk.samples for chunk in heard]), expected)


@pytest.mark.parametrize("text", ["...", "😀", "你好"])
def test_nothing_to_pronounce_is_a_short_silence(
    generator: HibariGenerator, prompt_of: PromptOf, text: str
) -> None:
    prompt = prompt_of(text)
    assert prompt.num_tokens == 0
    (chunk,) = generator.generate(prompt)
    assert chunk.duration_s == 0.1
    assert chunk.num_frames == 8
    assert not chunk.samples.any()


def test_a_closed_generator_says_so(prompt_of: PromptOf) -> None:
    generator = HibariGenerator(LoadContext())
    generator.close()
    with pytest.raises(EngineError, match="heart"):
        next(generator.generate(prompt_of(TEXT)))
