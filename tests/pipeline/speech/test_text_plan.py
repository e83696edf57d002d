"""Scripts: every word of a text is in one segment, and what joins them is what was between them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InputTooLongError, InvalidRequestError
from antiphon.pipeline.speech.pronunciation import Pronunciations
from antiphon.pipeline.speech.text import Boundary
from antiphon.pipeline.speech.text_plan import Script, TextLimits, plan_text
from antiphon.types import SpeechRequest

PLAIN = Pronunciations()


def script_of(text: str, limit: int = 40) -> Script:
    return plan_text(SpeechRequest(text), PLAIN, TextLimits(segment_characters=limit))


def told(script: Script) -> list[tuple[str, str]]:
    return [(each.joint.value, each.text) for passage in script for each in passage.segments]


@given(
    st.text(st.one_of(st.sampled_from(" .,!?\n\n。*—"), st.characters(exclude_categories=["C"]))),
    st.integers(1, 60),
)
def test_every_word_is_in_one_segment(text: str, limit: int) -> None:
    if not text.strip() or "[" in text:
        return
    script = script_of(text, limit)
    segments = [each for passage in script for each in passage.segments]
    assert "".join("".join(each.text for each in segments).split()) == "".join(text.split())
    assert all(each.text in text and 0 < len(each.text) <= limit for each in segments)
    assert len(text) > limit or segments[0].text == text
    assert [each.index for each in segments] == list(range(len(segments)))


def test_joints_tell_what_was_between() -> None:
    text = "One is here. Two is here. Three is here, which is longer than a segment is.\n\nFour."
    assert told(script_of(text)) == [
        ("none", "One is here. Two is here."),
        ("sentence", "Three is here,"),
        ("word", "which is longer than a segment is."),
        ("paragraph", "Four."),
    ]


def test_what_has_no_words_stays_with_its_neighbour() -> None:
    script = script_of("One.\n\n***\n\nTwo.", 12)
    assert told(script) == [("none", "One.\n\n***"), ("paragraph", "Two.")]
    assert told(script_of("***\n \nOne. \n\n ", 12)) == [("none", "***\n \nOne.")]


def test_a_text_that_fits_is_one_segment_as_it_is() -> None:
    for text in (" One.\n\n Two.\n", "你好。世界很大。我们走吧！"):
        assert told(script_of(text)) == [("none", text)]


def test_pauses_part_passages_and_add_up() -> None:
    script = script_of("[pause:1s] One. [pause:2s][pause:500ms]\n[pause:1s] Two.")
    assert [passage.pause_s for passage in script] == [1.0, 3.5, 0.0]
    assert told(script) == [("none", "One."), ("none", "Two.")]


def test_words_are_exchanged_before_text_is_split_and_then_written_out() -> None:
    request = SpeechRequest("SQL 3.", normalize=True)
    pronunciations = Pronunciations({"SQL": "sequel 5"})
    limits = TextLimits(segment_characters=100, num_characters=100)
    (passage,) = plan_text(request, pronunciations, limits)
    assert [each.text for each in passage.segments] == ["sequel five three."]
    with pytest.raises(InputTooLongError):
        plan_text(request, pronunciations, replace(limits, num_characters=10))


def test_no_text_grows_without_bound() -> None:
    """A job brings no limit of its own."""
    request = SpeechRequest("a " * 10_000)
    with pytest.raises(InputTooLongError, match="210000 are allowed"):
        plan_text(request, Pronunciations({"a": "x" * 200}), TextLimits(segment_characters=400))


@pytest.mark.parametrize("text", ["[pause:1s]", " [pause:1s]\n[pause:0s] "])
def test_silence_alone_is_no_text(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        script_of(text)


def test_joints_have_names() -> None:
    assert {each.value for each in Boundary} == {"none", "word", "sentence", "paragraph"}
