"""Guards end speech that goes nowhere, and let slow, silent or playful speech pass."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.models.qwen3_tts.stopping import LoopDetector, frame_budget, slow_frames


def first_alarm(codes: list[int]) -> int | None:
    detector = LoopDetector()
    return next((at for at, code in enumerate(codes) if detector.observe(code)), None)


def speech(num_frames: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(2048) for _ in range(num_frames)]


def test_speech_passes() -> None:
    assert first_alarm(speech(3000)) is None


@pytest.mark.parametrize("period", [1, 2, 7, 25, 32])
def test_a_loop_is_found_within_seconds_wherever_it_begins(period: int) -> None:
    before = speech(40, seed=1)
    alarm = first_alarm(before + speech(period, seed=2) * 300)
    assert alarm is not None
    assert len(before) + 90 <= alarm <= len(before) + period + 101


def test_silence_without_end_is_found() -> None:
    rng = random.Random(3)
    silence = [rng.choice([7, 8, 9, 10]) for _ in range(400)]
    alarm = first_alarm(speech(30) + silence)
    assert alarm is not None
    assert 100 <= alarm <= 30 + 100


def test_a_pause_of_five_seconds_passes() -> None:
    assert first_alarm((speech(50) + [7] * 62) * 5) is None


def test_laughter_that_repeats_for_five_seconds_passes() -> None:
    assert first_alarm(speech(50) + [1, 2, 3, 4, 5] * 12 + speech(50, seed=1)) is None


USUAL_S = {
    "We have time.": 1.1,
    "Call 0800 555 1234 567 before 12:30.": 6.2,
    "NASA, the FBI, the CIA and the WWW.": 4.1,
    "In 1984 it cost $1,234,567.89, i.e. 45% more.": 9.9,
    "Supercalifragilisticexpialidocious antidisestablishmentarianism.": 4.7,
    "A b c d e f g.": 1.6,
    "www.example.com/index.html": 2.8,
    "It was the best of times, it was the worst of times, it was the age of wisdom.": 4.8,
    "你好。世界很大。我们走吧！今天天气很好，适合出去走走。": 27 / 4,
    "銀河鉄道の夜は、宮沢賢治の童話である。": 24 / 7,
    "안녕하세요, 오늘 날씨가 정말 좋네요.": 17 / 5,
    "Съешь же ещё этих мягких французских булок, да выпей чаю.": 4.5,
}
"""What usual speech takes: the lines in English as hibari says them, others by their syllables."""


@pytest.mark.parametrize(("text", "usual_s"), USUAL_S.items())
def test_slow_speech_has_three_times_as_long_as_usual_speech(text: str, usual_s: float) -> None:
    assert slow_frames(text) > 2.5 * usual_s * 12.5
    assert frame_budget(slow_frames(text), is_instructed=False) > 3 * usual_s * 12.5
    longer = frame_budget(slow_frames(text * 20), is_instructed=False)
    assert longer > 2.5 * 20 * usual_s * 12.5
    told = frame_budget(slow_frames(text * 20), is_instructed=True)
    assert told > 5 * 20 * usual_s * 12.5, "very slowly"


@given(st.text(), st.text())
def test_characters_add_up_and_none_is_free(left: str, right: str) -> None:
    assert slow_frames(left + right) == slow_frames(left) + slow_frames(right)
    assert slow_frames(left) >= len(left)
