"""The default voice through the HTTP API, heard by a real recogniser: the words are there."""

import httpx
import numpy as np
import pytest

from antiphon.config import Settings
from antiphon.formats import AudioFormat
from tests.asr import num_word_errors, transcribe, words
from tests.decoding import Decoded, decoded
from tests.servers import RunningServer, server_of

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Please call Stella and ask her to bring these things from the store.",
    "The weather tomorrow will be cold and cloudy with a chance of rain.",
    "He opened the old wooden door and walked slowly into the garden.",
    "Our train leaves the station at seven in the morning.",
    "She wrote a long letter to her brother in Canada.",
    "The children played on the beach until the sun went down.",
    "A good book can change the way you see the world.",
    "We bought fresh bread, butter and cheese at the market.",
    "Thank you for calling, how may I help you today?",
)
MAX_WORD_ERROR_RATE = 0.10
MAX_DURATION_DIFFERENCE_S = 0.070


server = server_of(Settings())
"""A server with the settings that everybody has who sets nothing."""


def spoken(server: RunningServer, text: str, **fields: object) -> tuple[Decoded, int]:
    body = {"model": "tts-1", "voice": "alloy", "input": text, "seed": 1, **fields}
    response = httpx.post(f"{server.base_url}/v1/audio/speech", json=body, timeout=60)
    assert response.status_code == 200, response.text
    format = str(fields.get("response_format", "mp3"))
    return decoded(response.content, format, int(response.headers["x-sample-rate"]))


def test_sentences_are_understood(server: RunningServer) -> None:
    """Each is a request; they are listened to one after another, 30 s at a time as it costs."""
    parts, rate_hz = [], 0
    for sentence in SENTENCES[:5]:
        samples, rate_hz = spoken(server, sentence)
        parts += [samples, np.zeros(rate_hz // 2, np.float32)]
    heard = transcribe(np.concatenate(parts), rate_hz)
    said = words(" ".join(SENTENCES[:5]))
    rate = num_word_errors(said, words(heard)) / len(said)
    print(f"corpus word error rate: {rate:.1%} of {len(said)} words")  # noqa: T201
    assert rate <= MAX_WORD_ERROR_RATE, heard


@pytest.mark.slow  # listens to minutes of speech
def test_every_format_has_the_same_words_and_length(server: RunningServer) -> None:
    text = SENTENCES[0]
    plain, plain_rate_hz = spoken(server, text, response_format="pcm")
    for format in AudioFormat:
        samples, rate_hz = spoken(server, text, response_format=format)
        difference_s = len(samples) / rate_hz - len(plain) / plain_rate_hz
        assert abs(difference_s) <= MAX_DURATION_DIFFERENCE_S, format
        assert words(transcribe(samples, rate_hz)) == words(text), format


@pytest.mark.slow  # listens, too
@pytest.mark.parametrize("speed", [0.5, 1.5])
def test_a_changed_speed_is_still_understood(server: RunningServer, speed: float) -> None:
    text = SENTENCES[1]
    heard = transcribe(*spoken(server, text, speed=speed, response_format="wav"))
    assert num_word_errors(words(text), words(heard)) <= 1


@pytest.mark.slow  # listens to minutes of speech
def test_text_of_many_sentences_keeps_every_word(server: RunningServer) -> None:
    text = " ".join(SENTENCES)
    heard = transcribe(*spoken(server, text, response_format="opus"))
    num_errors = num_word_errors(words(text), words(heard))
    assert num_errors / len(words(text)) <= MAX_WORD_ERROR_RATE, heard
