"""Splitting keeps what fits as it is, loses nothing else, respects the limit, prefers sentences."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.speech.segmenter import (
    MAX_CHARACTERS_AT_ONCE,
    Lengths,
    LengthSegmenter,
    Segmenter,
    SentenceSegmenter,
)
from antiphon.pipeline.speech.text import Boundary, Slice, segment_seed, segments
from antiphon.text import sentences

texts = st.text(
    st.one_of(st.sampled_from(" .,!?;\n。，—'\""), st.characters(exclude_categories=["Cs", "Cc"])),
    max_size=400,
)


def late_segments(text: str, max_characters: int) -> list[Slice]:
    """Split a text where it is split if it arrives in pieces."""
    segmenter, slices = LengthSegmenter(max_characters), list[Slice]()
    written, boundary = "", Boundary.NONE
    for part in [*segmenter.push(text), *segmenter.flush()]:
        written += part.text
        if part.ends_segment:
            slices.append(Slice(written, boundary))
            written, boundary = "", part.boundary
    return slices


SPLITTERS: dict[str, Callable[[str, int], Iterable[Slice]]] = {
    "whole": segments,
    "late": late_segments,
}
UNSPACED = (
    "你好。",
    "a",
    "。",
    ".",
    "\n",
    " ",
    "e\u0301",
    "👍🏽",
    "👨\u200d",
    '"',
    "[",
    "1,",
    "ー",
)
splitters = pytest.mark.parametrize("split", SPLITTERS.values(), ids=SPLITTERS.keys())


def squeezed(text: str) -> str:
    return "".join(text.split())


def texts_of(slices: Iterable[Slice]) -> list[str]:
    return [each.text for each in slices]


@splitters
@given(texts, st.integers(1, 120))
def test_segments_are_slices_and_only_spaces_are_between(
    split: Callable[[str, int], Iterable[Slice]], text: str, limit: int
) -> None:
    rest, end = text, 0
    for piece in texts_of(split(text, limit)):
        place = text.index(piece, end)
        assert not text[end:place].strip()
        end = place + len(piece)
    assert not text[end:].strip(), rest


@given(texts, st.integers(1, 120))
def test_nothing_is_lost_and_nothing_is_too_long(text: str, limit: int) -> None:
    pieces = texts_of(segments(text, limit))
    assert squeezed("".join(pieces)) == squeezed(text)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert len(text) <= limit or all(piece == piece.strip() for piece in pieces)


@splitters
@given(text=texts)
def test_what_fits_is_left_as_it_is(
    split: Callable[[str, int], Iterable[Slice]], text: str
) -> None:
    expected = [text] if text.strip() else []
    assert texts_of(split(text, max(1, len(text)))) == expected


@splitters
@pytest.mark.parametrize(
    "text",
    [
        "你好。世界很大。我们走吧！",
        "One.  Two.\nThree.\n\nFour.",
        " \nHi. \n",
        "你好。Hello there. さようなら",
    ],
)
def test_sentences_that_fit_are_not_rewritten(
    split: Callable[[str, int], Iterable[Slice]], text: str
) -> None:
    assert texts_of(split(text, 40)) == [text]


def test_sentences_share_a_segment_while_they_fit() -> None:
    text = "One.  Two. Dr. Smith has 3.5 cats! Three?"
    assert texts_of(segments(text, 26)) == ["One.  Two.", "Dr. Smith has 3.5 cats!", "Three?"]
    text = "你好。世界很大。我们走吧！再见。"
    assert texts_of(segments(text, 10)) == ["你好。世界很大。", "我们走吧！再见。"]


def test_a_long_sentence_is_cut_at_a_clause_then_at_a_space() -> None:
    assert texts_of(segments("aaa bbb ccc, ddd eee", 14)) == ["aaa bbb ccc,", "ddd eee"]
    assert texts_of(segments("aaaa bbbb cccc", 10)) == ["aaaa bbbb", "cccc"]
    assert texts_of(segments("a" * 25, 10)) == ["a" * 10, "a" * 10, "a" * 5]


def test_no_letter_is_parted_from_its_marks() -> None:
    for split in SPLITTERS.values():
        for text in ("e\u0301" * 30, "👨\u200d👩" * 20):
            pieces = texts_of(split(text, 9))
            assert len(pieces) > 1
            assert all(piece[0] in "e👨👩" for piece in pieces)
            assert not any(piece.endswith("\u200d") for piece in pieces)


CUTTERS: dict[str, Callable[[], Segmenter]] = {
    "lengths": lambda: LengthSegmenter(400),
    "sentences": lambda: SentenceSegmenter(Lengths(max=1000)),
    "clauses": lambda: SentenceSegmenter(Lengths(max=1000, min_clause=12)),
}


@pytest.fixture
def given_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how much text the sentence splitter is given, call by call."""
    lengths: list[int] = []

    def noted(language: str, text: str) -> Any:
        lengths.append(len(text))
        return sentencex.segment(language, text)

    monkeypatch.setattr(sentences, "split_sentences", noted)
    return lengths


@pytest.mark.parametrize("unit", UNSPACED)
def test_work_is_bounded_by_call_and_grows_with_the_text(unit: str, given_out: list[int]) -> None:
    """The library's time grows with the square of what it is given, and it holds everything up."""

    def work(num_characters: int) -> int:
        given_out.clear()
        text = (unit * num_characters)[:num_characters]
        for split in SPLITTERS.values():
            list(split(text, 400))
        for make in CUTTERS.values():
            cutter = make()
            cutter.push(text)
            cutter.flush()
        assert max(given_out, default=0) <= sentences.MAX_CHARACTERS
        return sum(given_out)

    assert work(40_000) <= 4.2 * work(10_000) + 10_000


@pytest.mark.parametrize("make", CUTTERS.values(), ids=CUTTERS.keys())
@pytest.mark.parametrize("unit", [*UNSPACED, "e.g. ", "a. ", "Hi. "])
def test_a_push_judges_no_more_than_comes_with_it(
    make: Callable[[], Segmenter], unit: str, given_out: list[int]
) -> None:
    cutter, text = make(), unit * 4000
    for start in range(0, 4000, MAX_CHARACTERS_AT_ONCE):
        given_out.clear()
        cutter.push(text[start : start + MAX_CHARACTERS_AT_ONCE])
        assert len(given_out) <= 2 * MAX_CHARACTERS_AT_ONCE
    given_out.clear()
    for character in text[:2000]:
        cutter.push(character)
    assert len(given_out) <= 2000 + 1000, "no place is judged twice"


def test_segment_seeds_differ_and_the_first_is_the_requests_own() -> None:
    seeds = [segment_seed(7, index) for index in range(100)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 100
    assert seeds == [segment_seed(7, index) for index in range(100)]
