"""Plans of texts: every word is in one segment, and between segments are boundaries and pauses."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InputTooLongError, InvalidRequestError, UnspeakableTextError
from antiphon.pipeline.speech.pauses import Pause
from antiphon.pipeline.speech.pronunciation import Pronunciations
from antiphon.pipeline.speech.segmenter import LengthSegmenter, PackingSegmenter
from antiphon.pipeline.speech.text import Boundary
from antiphon.pipeline.speech.text_plan import PlanItem, Segment, TextPlanner
from antiphon.text.normalizer import Normalizer

PLAIN = Pronunciations()


def plan_of(text: str, limit: int = 40) -> list[PlanItem]:
    return TextPlanner(PackingSegmenter(limit), PLAIN).whole(text)


def segments_of(items: list[PlanItem]) -> list[Segment]:
    return [item for item in items if isinstance(item, Segment)]


def texts_of(items: list[PlanItem]) -> list[str]:
    return [segment.text.written for segment in segments_of(items)]


def described(items: list[PlanItem]) -> list[tuple[str, str]]:
    return [(each.boundary.value, each.text.written) for each in segments_of(items)]


@given(
    st.text(st.one_of(st.sampled_from(" .,!?\n\n。*—"), st.characters(exclude_categories=["C"]))),
    st.integers(1, 60),
)
def test_every_word_is_in_one_segment(text: str, limit: int) -> None:
    if not text.strip() or "[" in text:
        return
    items = plan_of(text, limit)
    texts = texts_of(items)
    assert "".join("".join(texts).split()) == "".join(text.split())
    assert all(each in text and 0 < len(each) <= limit for each in texts)
    assert len(text) > limit or texts == [text]
    assert [each.index for each in segments_of(items)] == list(range(len(texts)))
    following = [each.boundary for each in segments_of(items)[1:]]
    assert [each.next_boundary for each in segments_of(items)] == [*following, Boundary.NONE]


def test_boundaries_say_what_was_between() -> None:
    text = "One is here. Two is here. Three is here, which is longer than a segment is.\n\nFour."
    assert described(plan_of(text)) == [
        ("none", "One is here. Two is here."),
        ("sentence", "Three is here,"),
        ("word", "which is longer than a segment is."),
        ("paragraph", "Four."),
    ]


def test_what_has_no_words_stays_with_its_neighbour() -> None:
    items = plan_of("One.\n\n***\n\nTwo.", 12)
    assert described(items) == [("none", "One.\n\n***"), ("paragraph", "Two.")]
    assert described(plan_of("***\n \nOne. \n\n ", 12)) == [("none", "***\n \nOne.")]


def test_a_text_that_fits_is_one_segment_as_it_is() -> None:
    for text in (" One.\n\n Two.\n", "你好。世界很大。我们走吧！"):
        assert described(plan_of(text)) == [("none", text)]


def test_pauses_part_sections() -> None:
    items = plan_of("[pause:1s] One. [pause:2s][pause:500ms]\n[pause:1s] Two.")
    pauses = [each.duration_s if isinstance(each, Pause) else None for each in items]
    assert pauses == [1.0, None, 2.0, 0.5, 1.0, None]
    assert described(items) == [("none", "One."), ("none", "Two.")]


def test_words_are_exchanged_before_text_is_split_and_then_written_out() -> None:
    words = Pronunciations({"SQL": "sequel 5"})

    def planned(max_characters: int) -> list[str]:
        segmenter = PackingSegmenter(100)
        planner = TextPlanner(
            segmenter, words, normalizer=Normalizer, max_characters=max_characters
        )
        return texts_of(planner.whole("SQL 3."))

    assert planned(100) == ["sequel five three."]
    with pytest.raises(InputTooLongError):
        planned(10)


def test_no_text_grows_without_bound() -> None:
    """A job brings no limit of its own."""
    planner = TextPlanner(PackingSegmenter(400), Pronunciations({"a": "x" * 200}))
    with pytest.raises(InputTooLongError, match="210000 are allowed"):
        planner.whole("a " * 10_000)


@pytest.mark.parametrize("text", ["[pause:1s]", " [pause:1s]\n[pause:0s] "])
def test_silence_alone_is_no_text(text: str) -> None:
    with pytest.raises(UnspeakableTextError, match="pause"):
        plan_of(text)


def test_a_space_goes_on_at_once_where_it_need_not_be_held() -> None:
    plan = TextPlanner(LengthSegmenter(400), PLAIN, holds_spaces=False)
    (segment,) = plan.push("Hello ")
    assert isinstance(segment, Segment)
    assert segment.text.written == "Hello "
    assert described(plan.push("[pause:1s]There."))


def test_boundaries_have_names() -> None:
    assert {each.value for each in Boundary} == {"none", "word", "sentence", "paragraph"}


WORDS = Pronunciations({"SQL": "sequel", "New York": "the Big Apple", "C++": "see plus", "x": "ex"})
FRAGMENTS = (
    *("[pause:1s]", "[PAUSE: 20 ms ]", "\\", "[", "]", "[pause:", "500ms", " ", "  ", "\n\n", "\n"),
    *("SQL", "New", "York", "C++", "x", "ite", "Hello", "in", "1999", "$ ", "5", "km", "/h", "3rd"),
    *(". ", ", ", "! ", "。", "-", "3:30", " pm", "May", "1,000", "%", "word", "dollars", "’s"),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)


@given(
    TEXTS,
    st.lists(st.integers(1, 6), min_size=1),
    st.booleans(),
    st.booleans(),
    st.sampled_from([12, 60, 400]),
)
def test_a_text_that_arrives_is_planned_as_if_it_were_whole(
    text: str, sizes: list[int], normalize: bool, holds_spaces: bool, limit: int
) -> None:
    """Also where a tag, a word of the dictionary or a number comes in pieces."""

    def planner() -> TextPlanner:
        return TextPlanner(
            LengthSegmenter(limit),
            WORDS,
            normalizer=Normalizer if normalize else None,
            holds_spaces=holds_spaces,
        )

    def planned(plan: Callable[[], list[PlanItem]]) -> list[PlanItem] | str:
        try:
            return plan()
        except InvalidRequestError as error:
            return error.message

    def arriving() -> list[PlanItem]:
        plan, items, rest = planner(), [], text
        for size in sizes * (1 + len(text) // sum(sizes)):
            items += plan.push(rest[:size])
            rest = rest[size:]
        return [*items, *plan.finish()]

    whole, found = planned(lambda: planner().whole(text)), planned(arriving)
    if isinstance(whole, str) or isinstance(found, str):
        assert found == whole
        return
    assert described(found) == described(whole)
    assert [each for each in found if isinstance(each, Pause)] == [
        each for each in whole if isinstance(each, Pause)
    ]
    assert [type(each) for each in found] == [type(each) for each in whole]


def test_words_of_a_dictionary_are_planned_when_they_are_certain() -> None:
    plan = TextPlanner(LengthSegmenter(400), WORDS)
    (segment,) = plan.push("Hello S")
    assert isinstance(segment, Segment)
    written = [segment.text.written]
    for piece in ("QL", ", New Y", "ear", "!"):
        plan.push(piece)
        written.append(segment.text.written)
    assert written == ["Hello ", "Hello ", *["Hello sequel, "] * 2, "Hello sequel, New Year!"]


def test_without_a_dictionary_letters_are_planned_at_once() -> None:
    plan = TextPlanner(LengthSegmenter(400), PLAIN)
    (segment,) = plan.push("He")
    assert isinstance(segment, Segment)
    assert segment.text.written == "He"


def test_a_flush_ends_a_segment_where_it_stands() -> None:
    plan = TextPlanner(LengthSegmenter(400), WORDS)
    items = [*plan.push("One SQL"), *plan.flush(), *plan.push(" two [pause"), *plan.finish()]
    assert described(items) == [("none", "One sequel"), ("none", " two [pause")]
