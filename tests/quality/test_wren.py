"""The trained voice wren: weights that mean something, in the two-stage engine."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import numpy as np
import pytest

from antiphon import Antiphon, SpeechRequest
from antiphon.contracts.types import Samples
from tests.asr import num_word_errors, transcribe, words
from tests.quality.test_real_speech import SENTENCES

pytestmark = pytest.mark.skipif(
    find_spec("antiphon_voice_wren") is None, reason="not installed: scripts/setup torch"
)
MAX_WORD_ERROR_RATE = 0.06


@pytest.fixture(scope="module")
def wren() -> Iterator[Antiphon]:
    with Antiphon.load("wren", device="cpu") as engine:
        yield engine


def request(text: str, **fields: object) -> SpeechRequest:
    return SpeechRequest(text, **{"voice": "heart", "seed": 1, **fields})  # type: ignore[arg-type]


def spoken(engine: Antiphon, text: str, **fields: object) -> Samples:
    return engine.speech(request(text, **fields)).samples


def num_errors(engine: Antiphon, sentences: Sequence[str], **fields: object) -> int:
    """Return how many words are heard wrong; each sentence ends by itself, at a speaker's pace."""
    said = [request(text, seed=n, **fields) for n, text in enumerate(sentences)]
    parts = []
    for each, audio in zip(said, engine.speeches(said), strict=True):
        assert audio.finish_reason == "stop", each
        assert 0.15 < audio.duration_s / len(words(each.input)) < 0.7, each
        parts += [audio.samples, np.zeros(12_000, np.float32)]
    heard = transcribe(np.concatenate(parts), 24_000)  # 30 s at a time, as it costs
    return num_word_errors(words(" ".join(sentences)), words(heard))


def error_rate(num_errors: int, sentences: Sequence[str]) -> float:
    return num_errors / len(words(" ".join(sentences)))


def test_a_stream_equals_the_whole_and_a_seed_repeats(wren: Antiphon) -> None:
    whole = spoken(wren, SENTENCES[0])
    streamed = [chunk.samples for chunk in wren.stream(request(SENTENCES[0]))]
    assert len(streamed) > 2
    np.testing.assert_array_equal(np.concatenate(streamed), whole)
    assert not np.array_equal(spoken(wren, SENTENCES[0], seed=2), whole)


@pytest.mark.slow  # other tests show it on random weights
def test_alone_equals_together(wren: Antiphon) -> None:
    both = [request(SENTENCES[0]), request(SENTENCES[3], voice="deep")]
    together = wren.speeches(both)
    for each, audio in zip(both, together, strict=True):
        np.testing.assert_array_equal(wren.speech(each).samples, audio.samples)


@pytest.mark.slow  # listens
def test_numbers_and_signs_are_spoken_as_words(wren: Antiphon) -> None:
    """The model knows words alone, so they are written out without being asked for."""
    written = "It costs $42, or 15% less."
    samples = spoken(wren, written)
    np.testing.assert_array_equal(samples, spoken(wren, written, normalize=True))
    heard = words(transcribe(samples, 24_000))
    assert {"42", "15"} <= set(heard), heard


@pytest.mark.slow  # speaks and listens
def test_sentences_are_understood(wren: Antiphon) -> None:
    """Half of them in each voice: text before the frames is another prompt than beside them."""
    heart, deep = SENTENCES[:5], SENTENCES[5:]
    wrong = num_errors(wren, heart, voice="heart", options={"non_streaming_mode": False})
    wrong += num_errors(wren, deep, voice="deep", options={"non_streaming_mode": True})
    rate = error_rate(wrong, SENTENCES)
    print(f"word error rate: {rate:.1%}")  # noqa: T201
    assert rate <= MAX_WORD_ERROR_RATE


@pytest.mark.slow  # speaks and listens
def test_eight_bits_are_understood_as_well() -> None:
    with Antiphon.load("wren", device="cpu", quantize="int8") as engine:
        wrong = num_errors(engine, SENTENCES[:5])
    assert error_rate(wrong, SENTENCES[:5]) <= MAX_WORD_ERROR_RATE
