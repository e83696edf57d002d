"""Any text can be read: what has no English sound is left out, and nothing raises."""

import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.families.hibari.prompt import reader
from antiphon.text.base import judged_text, split_phonemes
from antiphon.text.tokens import SpokenPiece, TokenizedText
from antiphon.text.unspoken import UnspokenFinder
from antiphon.text.written_out import pieces_of

MAX_PHONEMES = 400
MAX_RUN_CHARACTERS = 64


def read(text: str) -> tuple[tuple[int, ...], ...]:
    return reader(british=False).read(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.text(max_size=60),
        st.text(st.sampled_from("aZé1²➈٣½ .,!?-—/'’$£%()[]😀中\u200b\n"), max_size=60),
    )
)
def test_no_text_raises(text: str) -> None:
    for sentence in read(text):
        assert 0 < len(sentence) <= MAX_PHONEMES
        assert all(0 < phoneme < 178 for phoneme in sentence)


@pytest.mark.parametrize("text", ["...", "?!", "—", "“”", "😀", "你好，世界。", "\u200b", "$", "'"])
def test_nothing_to_pronounce_is_no_sentence(text: str) -> None:
    assert read(text) == ()


def test_silent_sentences_do_not_silence_their_neighbours() -> None:
    assert read("Hello there. 😀 ... 你好。\nGoodbye!") == read("Hello there.\nGoodbye!")


def test_sentences_are_separate() -> None:
    assert len(read("Dr. Smith is here. Is he? Yes!\nA new line")) == 4


@pytest.mark.parametrize("text", ["7" * 400, "a-" * 200, "1/" * 200, "A" * 400, "word " * 300])
def test_monstrous_words_are_read_in_parts(text: str) -> None:
    sentences = read(text)
    assert sum(map(len, sentences)) > MAX_PHONEMES / 2
    assert max(map(len, sentences)) <= MAX_PHONEMES


def test_what_the_dictionary_refuses_leaves_the_words_around_it() -> None:
    (hello,), (reading, *_) = read("Hello"), read(f"Hello {'9' * 60} again")
    assert reading[: len(hello)] == hello


def test_threads_read_the_same() -> None:
    texts = [f"The zorbleflick number {n} was read at {n}:30." for n in range(24)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, texts)) == [read(text) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        "Some names e.g. Ann are short",
        "It is late i.e. after ten",
        "Bring apples etc. to the party",
        "Alphonse a.k.a. Scarface was here",
        "It is cats vs. dogs again",
        "We walked approx. five miles",
        "See fig. 3 and no. 5 and vol. 2 here",
        "I saw Dr. Smith on St. James St. near Mt. Hood",
        "A book of J. R. R. Tolkien and J.S. Bach",
        "A house of I. M. Pei and a book of A. A. Milne were on show",
        "The U.S. Army left the U.K. embassy",
        "Smith Jr. of Acme Inc. and Doe Ltd. met Prof. Lee et al. there",
        "At 5 p.m. on Fri. the 3rd of Sept. we left",
        "The man said 'yes' and \"no\" to so-called _friends_ of *hers*",
    ],
)
def test_an_abbreviation_or_a_quotation_is_no_pause(text: str) -> None:
    (sentence,) = reader(british=False)._sentences(text)
    assert not set(sentence.phonemes) & set(",;:.!?—…()")


@pytest.mark.parametrize(
    "unit", ["a", "aB", "[", "[a](", "[a](/b/) ", "9", "a-", "$", "&#", "A.", "a b ", "é", "1/"]
)
def test_what_one_call_works_on_is_bounded(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a regular expression the interpreter's lock is kept.

    A run without spaces costs the dictionary's expressions more than linear time, and a bracket
    without a link all that follows it.
    """
    own, given = reader(british=False), list[str]()
    tokenize = own._g2p.tokenize

    def spy(text: str) -> object:
        given.append(text)
        return tokenize(text)

    monkeypatch.setattr(own._g2p, "tokenize", spy)
    own.pronounce(unit * (MAX_PHONEMES // len(unit)))
    for text in given:
        rest = re.sub(r"\[[^]]+]\(/[^)]*/\)", "", text)
        assert "[" not in rest
        assert max(map(len, rest.split()), default=0) <= MAX_RUN_CHARACTERS
        assert len(text) <= 10 * MAX_PHONEMES


def test_british_reading_differs() -> None:
    text = "She can't dance in the bath after the car park."
    assert reader(british=True).read(text) != read(text)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("ab, ;"), max_size=80), st.integers(1, 12))
def test_splitting_loses_nothing_but_spaces(phonemes: str, max_phonemes: int) -> None:
    pieces = split_phonemes(phonemes, max_phonemes)
    assert all(len(piece) <= max_phonemes for piece in pieces)
    assert "".join(pieces).replace(" ", "") == phonemes.replace(" ", "")


def test_splits_at_clauses_then_at_spaces_then_anywhere() -> None:
    assert split_phonemes("aa bb, cc dd, ee", 13) == ["aa bb, cc dd,", "ee"]
    assert split_phonemes("aa bb, cc dd, ee", 6) == ["aa bb,", "cc dd,", "ee"]
    assert split_phonemes("aa bb cc", 5) == ["aa bb", "cc"]
    assert split_phonemes("aaaaabb", 5) == ["aaaaa", "bb"]


@pytest.mark.parametrize(
    ("text", "unspoken"),
    [
        ("Hello, world! It's 5 o'clock.", ()),
        ("$5, 5 €, 20 %, 3 + 4 = 7, ½, ²", ()),
        ("Grüße aus Köln, naïve café", ()),
        ("Hello你好there, 世界。", ("你好", "世界")),
        ("A 👍🏽 and a 👨\u200d👩\u200d👧 🇩🇪", ("👍🏽", "👨\u200d👩\u200d👧", "🇩🇪")),
        ("$ is a sign, 日本語 a language", ("$", "日本語")),
        ("If x > 5, a> b, >5 or 5 >= 3, press Menu > File.", ()),
        ("It costs $ 5 or 5$, a + b = c, a->b, ~5, 5 ± 1, § 5 and © 2024.", ()),
        ("One | two ™", ("|", "™")),
        ("Hello Привет there, გამარჯობა", ("Привет", "გამარჯობა")),
    ],
)
def test_what_is_left_out_is_known(text: str, unspoken: tuple[str, ...]) -> None:
    check = reader(british=False).check(text)
    assert check.unspoken == unspoken
    assert check.is_spoken


@pytest.mark.parametrize(("text", "is_missed"), [("你好。", True), ("🎉", True), ("...", False)])
def test_a_text_without_a_reading_is_known(text: str, is_missed: bool) -> None:
    check = reader(british=False).check(text)
    assert not check.is_spoken
    assert bool(check.unspoken) is is_missed


def test_signs_without_end_are_judged_alone() -> None:
    signs = random.Random(0).choices("a5 $€£<>=+-~×÷±°≥≠©", k=20_000)
    read_texts: list[str] = []

    def pronounce(text: str) -> str:
        read_texts.append(text)
        return reader(british=False).pronounce(text)

    assert UnspokenFinder(pronounce).check("".join(signs)).is_spoken
    assert len(read_texts) < 600


def test_a_currency_is_read_wherever_it_stands() -> None:
    assert read("It is 5 €.") == read("It is 5€.") == read("It is €5.")


@pytest.mark.parametrize("text", ["ｚｏｒｂｌ", "𝔃𝓸𝓻𝓫𝓵", "\ufeffzorbl", "zor\u00adbl"])
def test_letters_in_another_form_are_these_letters(text: str) -> None:
    assert read(text) == read("zorbl")


def test_words_in_a_script_that_is_left_out_make_no_noise() -> None:
    assert read("Hello Здравствуйте there") == read("Hello there")


@pytest.mark.parametrize("unit", ["word ", "1/", "\U0001f600", "a\n"])
def test_a_long_text_is_judged_in_stretches(unit: str) -> None:
    """What one list holds is freed in one call, which keeps the interpreter's lock."""
    text, given = unit * (40_000 // len(unit)), list[str]()

    def pieces(stretch: str) -> Iterator[SpokenPiece]:
        given.append(stretch)
        return pieces_of(TokenizedText(stretch))

    assert len(judged_text(text, pieces)) == len(text) or unit == "1/"
    assert "".join(given) == text
    assert max(map(len, given)) <= 5000
    if unit[-1].isspace():
        assert all(stretch.endswith(unit) for stretch in given)
