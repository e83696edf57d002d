"""A text is written out whole or not at all, and each of its digits and signs counts."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.families.hibari.prompt import reader
from antiphon.text.normalizer import Normalizer, normalized
from tests.text.test_reading_suite import CASES

NUMBERED = sorted({text for name, text, _ in CASES if name != "remains" and re.search(r"\d", text)})
# In these, dots and plus signs separate the parts of a telephone number, a time, or a key.
SEPARATED = ("codes", "keys", "mixed", "telephone", "times")
SIGNED = sorted({text for name, text, _ in CASES if name not in SEPARATED})
MIXTURES = st.lists(
    st.sampled_from(
        [*NUMBERED, "3+5元", "5 лет", "$5", "3個", "שלום 5", "№ 7", "and", "10,000", "50%"]
    ),
    min_size=1,
    max_size=4,
).map(" ".join)


@pytest.mark.parametrize(
    "text",
    [
        "3+5元",
        "Мне 5 лет",
        "цена $5",
        "5 лет",
        "我有3个，一共$5",
        "3月5日 10:30",
        "価格は1,000円です",
        "יש לי 5 ילדים",
        "عندي 5 كتب",
        "मेरे पास 5 किताबें हैं",
        "나는 5마리",
        "Έχω 5 γάτες",
        "Я зв. 5 А&amp;Б",
    ],
)
def test_text_of_another_script_passes_untouched(text: str) -> None:
    assert normalized(text) == text


def test_english_beside_another_script_is_written_out() -> None:
    assert normalized("I paid $5, and 我有3个. It is 5 now") == (
        "I paid five dollars, and 我有3个. It is five now"
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(MIXTURES)
def test_a_word_is_written_out_whole_or_left_as_it_is(text: str) -> None:
    tokens = text.split()
    for token in normalized(text).split():
        assert token in tokens or not re.search("[0-9]", token), token


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(NUMBERED), st.data())
def test_each_digit_counts(text: str, data: st.DataObject) -> None:
    text = re.sub(r"<[^>]*>|&#?\w+;|\]\([^)]*\)", "", text)
    places = [match.start() for match in re.finditer("[0-9]", text)]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    digit = data.draw(st.sampled_from([each for each in "123456789" if each != text[place]]))
    assert normalized(text) != normalized(f"{text[:place]}{digit}{text[place + 1 :]}")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(SIGNED), st.data())
def test_each_sign_counts_or_is_reported(text: str, data: st.DataObject) -> None:
    places = [match.start() for match in re.finditer(r"[$€£¥%+=±×÷≈≥≤≠]|(?<=\d)\.(?=\d)", text)]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    reported = "".join(reader(british=False).check(text).unspoken)
    without = f"{text[:place]} {text[place + 1 :]}"
    assert normalized(text) != normalized(without) or text[place] in reported


@pytest.mark.parametrize(
    "unit", ["x", "9", "1/", "a.b.", "((", "你", "😀", "e\u0301\u0302", "[a](", " "]
)
@pytest.mark.parametrize("size", [1, 250, 5000])
def test_what_is_kept_and_read_again_is_bounded(unit: str, size: int) -> None:
    normalizer, text = Normalizer(), unit * (1500 // len(unit))
    written = ""
    for start in range(0, len(text), size):
        written += normalizer.push(text[start : start + size])
        assert len(normalizer._context) + len(normalizer._held) <= 1200
    written += normalizer.push("", is_last=True)
    assert written == normalized(text)
