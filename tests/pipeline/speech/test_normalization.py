"""Numbers in words: what is certain is written out, everything else stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.speech.normalization import normalized
from antiphon.pipeline.speech.number_words import MAX_NUMBER, cardinal, ordinal, year


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("It cost $3.50.", "It cost three dollars and fifty cents."),
        ("£0.99, $1, $2.5bn", "ninety-nine pence, one dollar, two point five billion dollars"),
        ("on 2024-05-01 at 5:30 p.m.", "on May first, twenty twenty-four at five thirty p.m."),
        ("1.5kg", "one point five kilograms"),
        ("1,250 people, 20 %", "one thousand two hundred and fifty people, twenty percent"),
        ("In 1984, the 3rd", "In nineteen eighty-four, the third"),
        ("It was -5 °C at 7:00.", "It was minus five degrees Celsius at seven o'clock."),
        ("1 km, 2 km/h", "one kilometer, two kilometers per hour"),
        ("agent 007", "agent zero zero seven"),
    ],
)
def test_numbers_are_written_out(text: str, read: str) -> None:
    assert normalized(text) == read


@pytest.mark.parametrize(
    "text", ["555-1234", "v1.2.3", "10.0.0.1", "3/4", "covid-19", "B2B", "2024-13-01", "1990s"]
)
def test_what_is_not_certain_stays(text: str) -> None:
    assert normalized(text) == text


@given(st.text(st.one_of(st.sampled_from("0123456789.,:-/$€%kmpsth "), st.characters())))
def test_any_text_can_be_read_and_words_stay(text: str) -> None:
    read = normalized(text)
    if not any(character in "0123456789" for character in text):
        assert read == text


@given(st.integers(0, MAX_NUMBER))
def test_numbers_have_names_of_their_own(number: int) -> None:
    assert cardinal(number) != cardinal((number + 1) % (MAX_NUMBER + 1))
    assert not any(character.isdigit() for character in cardinal(number) + ordinal(number))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1900, "nineteen hundred"),
        (1905, "nineteen oh five"),
        (2000, "two thousand"),
        (2007, "two thousand and seven"),
        (2024, "twenty twenty-four"),
    ],
)
def test_years(number: int, words: str) -> None:
    assert year(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "first"), (12, "twelfth"), (21, "twenty-first"), (40, "fortieth"), (100, "one hundredth")],
)
def test_ordinals(number: int, words: str) -> None:
    assert ordinal(number) == words
