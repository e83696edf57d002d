"""Kokoro's published weights over the HTTP API, heard by real recognisers, in both languages."""

from typing import Any

import httpx
import numpy as np
import pytest
import soxr

from antiphon.config import ModelSettings, Settings
from antiphon.contracts.types import Samples
from tests.asr import RECOGNISER_RATE_HZ, heard_words, num_word_errors, transcribe, words
from tests.families.kokoro.downloads import multilingual_recogniser, published_kokoro
from tests.servers import RunningServer, server_of

pytestmark = pytest.mark.slow  # a second of speech takes about a second of a core

RATE_HZ = 24_000
ENGLISH = (
    ("af_heart", "The quick brown fox jumps over the lazy dog."),
    ("am_michael", "Please call Stella and ask her to bring these things from the store."),
    ("bf_emma", "The weather tomorrow will be cold and cloudy with a chance of rain."),
    ("bm_george", "He opened the old wooden door and walked slowly into the garden."),
    ("af_bella(2)+af_sky", "A good book can change the way you see the world."),
    ("af_heart", "She wrote a long letter to her brother in Canada."),
)
CHINESE = (
    ("zf_xiaoxiao", "今天天气很好，我们去公园散步吧。"),
    ("zf_xiaoyi", "我每天早上都喝一杯咖啡。"),
    ("zm_yunxi", "他在北京大学学习中文。"),
)
MAX_ERROR_RATE = 0.05
MAX_TIME_DIFFERENCE_S = 0.25  # the recogniser itself is exact to 0.1 s or so


server = server_of(Settings(model=ModelSettings(source=str(published_kokoro()), device="cpu")))


def spoken(server: RunningServer, voice: str, text: str, **fields: Any) -> Samples:
    body = {"model": "kokoro", "voice": voice, "input": text, "response_format": "pcm", **fields}
    answer = httpx.post(f"{server.base_url}/v1/audio/speech", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2").astype(np.float32) / np.float32(32768)


def test_english_is_understood(server: RunningServer) -> None:
    heard = [transcribe(spoken(server, *each), RATE_HZ) for each in ENGLISH]
    pairs = [(words(said), words(got)) for (_, said), got in zip(ENGLISH, heard, strict=True)]
    rate = sum(num_word_errors(*pair) for pair in pairs) / sum(len(said) for said, _ in pairs)
    print(f"word error rate: {rate:.1%}")  # noqa: T201
    assert rate <= MAX_ERROR_RATE, heard


def test_chinese_is_understood(server: RunningServer) -> None:
    """Compared by syllables: which characters a recogniser writes for them is its own affair."""
    pypinyin = pytest.importorskip("pypinyin", reason="not installed: scripts/setup chinese")
    from faster_whisper import WhisperModel

    recogniser = WhisperModel(
        str(multilingual_recogniser()), device="cpu", compute_type="int8", cpu_threads=2
    )
    num_errors = num_syllables = 0
    for voice, text in CHINESE:
        samples = soxr.resample(spoken(server, voice, text), RATE_HZ, RECOGNISER_RATE_HZ)
        segments, _ = recogniser.transcribe(samples, language="zh", beam_size=1)
        got = "".join(segment.text for segment in segments)
        said, heard = (
            pypinyin.lazy_pinyin("".join(filter(str.isalpha, each))) for each in (text, got)
        )
        print(text, got)  # noqa: T201
        num_errors += num_word_errors(said, heard)
        num_syllables += len(said)
    assert num_errors / num_syllables <= MAX_ERROR_RATE


def test_words_are_where_they_are_heard(server: RunningServer) -> None:
    voice, text = ENGLISH[0]
    body = {"input": text, "voice": voice, "response_format": "pcm", "stream": False}
    url = f"{server.base_url}/dev/captioned_speech"
    times = httpx.post(url, json=body, timeout=300).json()["timestamps"]
    assert [each["word"] for each in times] == text.split()
    heard = heard_words(spoken(server, voice, text), RATE_HZ)
    assert [word for word, *_ in heard] == text.split()
    for each, (word, start_s, end_s) in zip(times, heard, strict=True):
        middle_s = (each["start_time"] + each["end_time"]) / 2
        assert abs(middle_s - (start_s + end_s) / 2) <= MAX_TIME_DIFFERENCE_S, word
