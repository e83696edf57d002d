"""What was heard of an answer is a beginning of it, whole words, and by the audio's own clock."""

import pytest

from antiphon.pipeline.chat.playback_transcript import CHARACTERS_PER_S, PlaybackTranscript

FIRST, SECOND = "One two three. ", "Four **five** six."


def spoken(*, is_complete: bool = True) -> PlaybackTranscript:
    heard = PlaybackTranscript()
    for text, said in ((FIRST, FIRST), (SECOND, SECOND.replace("*", ""))):
        heard.write(text, said)
        heard.add_audio(2.0)
        heard.end_segment(said.strip())
    if is_complete:
        heard.complete()
    return heard


@pytest.mark.parametrize(
    ("heard_s", "wanted"),
    [
        (0.0, ""),
        (0.1, ""),
        (0.9, "One"),  # within the second word
        (1.0, "One two"),
        (2.0, "One two three."),
        (2.1, "One two three."),
        (3.0, "One two three. Four"),
        (4.0, "One two three. Four **five** six."),
        (9.0, "One two three. Four **five** six."),
    ],
)
def test_segments_say_where_the_audio_is(heard_s: float, wanted: str) -> None:
    assert spoken().until(heard_s) == wanted


def test_more_is_heard_later() -> None:
    heard = spoken(is_complete=False)
    texts = [heard.until(step / 20) for step in range(100)]
    assert all(heard.text.startswith(text) for text in texts)
    assert [len(text) for text in texts] == sorted(len(text) for text in texts)


def test_of_what_goes_on_the_rate_is_a_guess_that_no_word_is_ahead_of() -> None:
    heard = PlaybackTranscript()
    words = "These are words that are written far ahead of the voice."
    for word in words.split():
        heard.write(f"{word} ", f"{word} ")
    heard.add_audio(1.0)
    said = heard.until(1.0)
    assert 0 < len(said) <= CHARACTERS_PER_S
    assert heard.text.startswith(said)


def test_scripts_without_spaces_are_cut_between_characters() -> None:
    heard = PlaybackTranscript()
    heard.write("今日は良い天気です。", "今日は良い天気です。")
    heard.add_audio(1.0)
    heard.complete()
    assert heard.until(0.5) == "今日は良い"


def test_an_answer_that_is_silent_is_heard_at_once() -> None:
    heard = PlaybackTranscript()
    heard.write("```x```", "")
    heard.complete()
    assert heard.until(0.0) == "```x```"
