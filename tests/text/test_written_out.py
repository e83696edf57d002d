"""Nothing of a text is lost when it is written out, whatever it is and however it arrives."""

from collections.abc import Callable, Iterator
from cProfile import Profile
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.families.hibari.prompt import reader
from antiphon.text.base import UNSPOKEN_PHONEMES
from antiphon.text.chinese_numbers import chinese_pieces_of
from antiphon.text.normalizer import Normalizer, normalized
from antiphon.text.tokens import SpokenPiece, TokenizedText
from antiphon.text.written_out import pieces_of
from tests.text.test_reading_suite import CASES

SIGNS = "$€£¥%+=±×÷≈≥≤≠½²°"
ALPHABET = f"0123456789{SIGNS}.,:;/-–'\"()[]<>~#@&*_ \nabkmsxApmI"
TEXTS = st.one_of(
    st.text(st.sampled_from(ALPHABET), max_size=40),
    st.lists(st.sampled_from(sorted({text for _, text, _ in CASES})), max_size=4).map(" ".join),
    st.text(max_size=40),
)


# Signs of Markdown and of paths have another meaning beside words than beside signs.
PLAUSIBLE = st.one_of(
    st.text(st.sampled_from([each for each in ALPHABET if each not in "/_~^.'*"]), max_size=12),
    st.lists(st.sampled_from(sorted({text for _, text, _ in CASES})), max_size=4).map(" ".join),
)


def plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


@settings(max_examples=400, deadline=None, derandomize=True)
@given(TEXTS)
def test_pieces_cover_a_text(text: str) -> None:
    place = 0
    for piece in pieces_of(TokenizedText(text)):
        assert piece.start == place <= piece.stop
        place = piece.stop
    assert place == len(text)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(PLAUSIBLE)
@example("I LOVE NEW YORK 1600 Pennsylvania Avenue NW")
def test_no_digit_is_left_and_what_is_written_out_is_read_as_it_is(text: str) -> None:
    written = normalized(text)
    assert not any("0" <= character <= "9" for character in written if text.isascii())
    assert normalized(written) == written or plain(normalized(written)) == plain(written)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(st.sampled_from(f"0123456789{SIGNS} "), min_size=1, max_size=12))
def test_signs_and_digits_are_spoken_or_reported(text: str) -> None:
    check = reader(british=False).check(text)
    reported = "".join(check.unspoken)
    for piece in pieces_of(TokenizedText(text)):
        part = text[piece.start : piece.stop]
        if part.strip() and not any(character in reported for character in part):
            assert any(map(str.isalpha, piece.words)), (text, part)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(TEXTS, st.lists(st.integers(0, 60), max_size=6))
def test_where_a_text_is_cut_plays_no_part(text: str, cuts: list[int]) -> None:
    normalizer = Normalizer()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    written = [normalizer.push(text[start:stop]) for start, stop in pairwise(places)]
    assert "".join([*written, normalizer.push("", is_last=True)]) == normalized(text)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(TEXTS)
def test_to_normalize_changes_nothing_of_what_is_heard(text: str) -> None:
    read = reader(british=False).pronounce
    heard, heard_of_words = read(text), read(normalized(text))
    sounds = [
        "".join(symbol for symbol in each if symbol not in UNSPOKEN_PHONEMES)
        for each in (heard, heard_of_words)
    ]
    assert len(sounds[1]) >= 0.8 * len(sounds[0]) - 4


@settings(max_examples=150, deadline=None, derandomize=True)
@given(TEXTS)
def test_words_are_those_of_the_text(text: str) -> None:
    last = 0
    for sentence in reader(british=False).read_words(text):
        for word in sentence:
            assert word.word
            last = text.index(word.word, last) + (" " in word.word)


NASTY_CHINESE = (
    "你",
    "5年",
    "$5万",
    "2024-",
    "1:",
    "5-",
    "~5",
    "5%",
    "你a",
    ")",
    ". )",
    "N (",
    "hrs )",
)
NASTY = (
    *("9", "1/", "a-", "A.", "$", "((", "[a](", "1.", "1:", "-", "'", '5"', "x1", "http://", "&#"),
    *("1,000", "I", "1st ", "5 ", "a b ", ". ", "Dr. ", "May 5 ", "5'4\" ", "~", "*a*", "a@", "1-"),
    *("/a", "\\", "<b", "e.g. ", "No. ", "1 x ", "²", "½", "1°", "#a", "A ", "St. ", "+1 ", "_"),
)


def num_calls(work: Callable[[], object]) -> int:
    profile = Profile(builtins=False)
    profile.runcall(work)
    return sum(each.callcount for each in profile.getstats())


@pytest.mark.parametrize("unit", [*NASTY, *NASTY_CHINESE])
@pytest.mark.parametrize("read", [lambda text: pieces_of(TokenizedText(text)), chinese_pieces_of])
def test_work_grows_with_the_text_alone(
    unit: str, read: Callable[[str], Iterator[SpokenPiece]]
) -> None:
    size = (800 if unit == "http://" else 400) // len(unit)  # addresses: below, all is read again
    short = num_calls(lambda: [*read(unit * size)])
    long = num_calls(lambda: [*read(unit * 2 * size)])
    assert long < 3 * short


@pytest.mark.parametrize("unit", ["x", "1/", "a.b.", "(", "[a](", "你", "😀", "&#", "9", "a b "])
@pytest.mark.parametrize("size", [8, 250])
def test_no_push_takes_longer_for_what_came_before(unit: str, size: int) -> None:
    normalizer, text = Normalizer(), unit * ((1800 + 5 * size) // len(unit))
    pushes = [text[start : start + size] for start in range(0, len(text), size)]
    costs = [num_calls(partial(normalizer.push, piece)) for piece in pushes]
    num_first = 800 // size
    assert max(costs) <= 2 * max(costs[:num_first])
