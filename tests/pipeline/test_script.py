"""Scripts: every word of a text is in one segment, and what joins them is what was between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InputTooLongError, InvalidRequestError
from antiphon.pipeline.pronunciation import Pronunciations
from antiphon.pipeline.script import Joint, Script, write_script
from antiphon.types import SpeechRequest

PLAIN = Pronunciations()


def script_of(text: str, limit: int = 40) -> Script:
    return write_script(SpeechRequest(text), PLAIN, limit, 10_000)


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
    assert all(each.text == each.text.strip() and 0 < len(each.text) <= limit for each in segments)
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
    assert told(script_of("One.\n\n***\n\nTwo.")) == [("none", "One. ***"), ("paragraph", "Two.")]
    assert told(script_of("***\n \nOne.")) == [("none", "***\nOne.")]


def test_pauses_part_passages_and_add_up() -> None:
    script = script_of("[pause:1s] One. [pause:2s][pause:500ms]\n[pause:1s] Two.")
    assert [passage.pause_s for passage in script] == [1.0, 3.5, 0.0]
    assert told(script) == [("none", "One."), ("none", "Two.")]


def test_words_are_exchanged_before_text_is_split_and_then_written_out() -> None:
    request = SpeechRequest("SQL 3.", normalize=True)
    pronunciations = Pronunciations({"SQL": "sequel 5"})
    (passage,) = write_script(request, pronunciations, 100, 100)
    assert [each.text for each in passage.segments] == ["sequel five three."]
    with pytest.raises(InputTooLongError):
        write_script(request, pronunciations, 100, 10)


@pytest.mark.parametrize("text", ["[pause:1s]", " [pause:1s]\n[pause:0s] "])
def test_silence_alone_is_no_text(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        script_of(text)


def test_joints_have_names() -> None:
    assert {each.value for each in Joint} == {"none", "word", "sentence", "paragraph"}
