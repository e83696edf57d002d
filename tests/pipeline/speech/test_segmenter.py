"""Text is cut at the same places in whatever pieces it arrives, and nothing of it is lost."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.speech.segmenter import (
    Lengths,
    LengthSegmenter,
    Segmenter,
    SentenceSegmenter,
    utterance_segmenter,
)
from antiphon.pipeline.speech.text import Boundary

MAKERS: dict[str, Callable[[], Segmenter]] = {
    "sentences": lambda: SentenceSegmenter(Lengths(max=60)),
    "clauses": lambda: SentenceSegmenter(Lengths(max=60, min_clause=12)),
    "early": lambda: SentenceSegmenter(
        Lengths(max=60, min_sentence=24), Lengths(max=60, min_clause=9)
    ),
    "lengths": lambda: LengthSegmenter(40),
}
PIECES = (
    "Hello",
    "Dr.",
    "e.g.",
    "3.5",
    "you",
    "。",
    "你好",
    "！",
    "…",
    '"',
    "”",
    ")",
    "\n",
    "\n\n",
)
TEXTS = st.lists(
    st.sampled_from((*PIECES, " ", " ", " ", ".", "!", "?", ",", ";", ":", "x" * 25)), max_size=60
).map("".join)


def cut(cutter: Segmenter, pieces: list[str]) -> list[str]:
    found, current = [], ""
    for part in [*(part for piece in pieces for part in cutter.push(piece)), *cutter.flush()]:
        current += part.text
        if part.ends_segment:
            found.append(current)
            current = ""
    assert not current, "a flush ends what has begun"
    return found


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@given(text=TEXTS, places=st.lists(st.integers(0, 300), max_size=20))
def test_the_pieces_do_not_matter(
    make: Callable[[], Segmenter], text: str, places: list[int]
) -> None:
    ends = sorted({0, *(min(place, len(text)) for place in places), len(text)})
    pieces = [text[start:end] for start, end in pairwise(ends)]
    whole = cut(make(), [text])
    assert cut(make(), pieces) == whole
    assert cut(make(), list(text)) == whole


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@given(text=TEXTS)
def test_nothing_is_lost_and_nothing_grows_too_long(
    make: Callable[[], Segmenter], text: str
) -> None:
    segments = cut(make(), [text])
    if isinstance(make(), SentenceSegmenter):
        assert "".join(segments).strip() == text.strip()
    assert "".join("".join(segments).split()) == "".join(text.split())
    assert all(segment in text and len(segment) <= 60 for segment in segments)


def test_sentences_end_where_people_hear_them_end() -> None:
    text = 'I met Dr. Smith. "Really?" she asked! It was 3.5 km, e.g. far.\n\nThen 你好。再见。'
    segments = cut(SentenceSegmenter(Lengths(max=400)), [text])
    assert [segment.strip() for segment in segments] == [
        "I met Dr. Smith.",
        '"Really?" she asked!',
        "It was 3.5 km, e.g. far.",
        "Then 你好。",
        "再见。",
    ]


def test_a_long_first_sentence_begins_with_its_first_clause() -> None:
    first = Lengths(max=400, min_clause=20)
    cutter = SentenceSegmenter(Lengths(max=400), first)
    text = "Well, when all had been said and done, nobody spoke. He left, and she stayed."
    segments = [segment.strip() for segment in cut(cutter, [text])]
    assert segments == [
        "Well, when all had been said and done,",
        "nobody spoke.",
        "He left, and she stayed.",
    ]


def test_a_pause_belongs_to_what_is_before_it() -> None:
    cutter = SentenceSegmenter(Lengths(max=400))
    text = "Wait here. [pause:1.5s] Now go on. [pause:2s]"
    assert cut(cutter, [text]) == ["Wait here. [pause:1.5s] Now go on. [pause:2s]"]


def test_late_text_is_passed_on_at_once() -> None:
    cutter = LengthSegmenter(400)
    assert ["".join(part.text for part in cutter.push(each)) for each in "abc. d"] == [*"abc. d"]


def test_late_text_ends_a_segment_at_the_first_sentence_after_its_length() -> None:
    text = "One two. Three four five. Six, seven. Eight nine ten eleven twelve thirteen. Last."
    cutter = LengthSegmenter(30)
    assert cut(cutter, [text]) == [
        "One two. Three four five. Six, seven.",
        "Eight nine ten eleven twelve thirteen.",
        "Last.",
    ]
    parts = [part for part in cutter.push(f"{text}\n\nMore of it. And") if part.ends_segment]
    assert [part.boundary for part in parts] == [Boundary.SENTENCE, Boundary.SENTENCE]
    words = "one two three four five six seven"
    assert cut(LengthSegmenter(16), [words]) == ["one two three four five", "six seven"]
    assert cut(LengthSegmenter(16), [words.replace(" ", "")]) == [
        "onetwothreefourfivesixse"[:24],
        "ven",
    ]


def test_text_of_a_client_is_cut_as_it_asks() -> None:
    pieces = [" ", "One, that is lo", "ng enough. ", "Two."]
    assert cut(utterance_segmenter("none"), pieces) == [" One, that is long enough. Two."]
    whole = cut(utterance_segmenter("sentence"), pieces)
    assert [each.strip() for each in whole] == ["One, that is long enough.", "Two."]
    clauses = cut(utterance_segmenter("clause"), ["A clause here, and one. Short, b."])
    assert [each.strip() for each in clauses] == ["A clause here,", "and one.", "Short, b."]
