"""Bounds of speech that does not end: slow and playful speech is within them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.families.kit.speech_budget import FRAME_RATE_HZ, frame_budget, slow_frames

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
    assert frame_budget(slow_frames(text)) > 3 * usual_s * 12.5
    longer = frame_budget(slow_frames(text * 20))
    assert longer > 2.5 * 20 * usual_s * 12.5
    told = frame_budget(slow_frames(text * 20), is_instructed=True)
    assert told > 5 * 20 * usual_s * 12.5, "very slowly"


@given(st.text(), st.text())
def test_characters_add_up_and_none_is_free(left: str, right: str) -> None:
    assert slow_frames(left + right) == slow_frames(left) + slow_frames(right)
    assert slow_frames(left) >= len(left)


@pytest.mark.parametrize(
    ("text", "most_s"),
    [
        *(("a", 4.6), ("OK", 4.6), ("Hi.", 5), ("嗯", 4.6), ("1次", 6), ("7", 5), ("好的。", 6)),
        *(("あ", 4.6), ("네", 4.6), ("да", 4.6), ("Yes!", 5.5), ("2024", 16), ("We have time.", 8)),
    ],
)
def test_a_short_text_ends_within_seconds(text: str, most_s: float) -> None:
    budget = frame_budget(slow_frames(text))
    assert 4 * FRAME_RATE_HZ < budget <= most_s * FRAME_RATE_HZ
    assert frame_budget(slow_frames(text), is_instructed=True) == 2 * budget


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_more_text_may_take_longer_and_never_more_than_slow_speech_and_a_pause(
    one: int, other: int
) -> None:
    less, more = sorted((one, other))
    assert frame_budget(less) <= frame_budget(more) <= more + 15.5 * FRAME_RATE_HZ
    assert frame_budget(less) <= frame_budget(less, is_limited=True)


def test_a_request_s_own_limit_is_met_up_to_15_s() -> None:
    assert frame_budget(slow_frames("a"), is_limited=True) > 15 * FRAME_RATE_HZ
