"""Numbers in words, the same ones in whatever pieces a text arrives."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.text.normalizer import Normalizer, normalized
from antiphon.text.number_words import MAX_NUMBER, cardinal, ordinal, year
from antiphon.text.offset_map import OffsetMap
from antiphon.text.tokens import SpokenPiece
from tests.text.test_reading_suite import CASES


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("It cost $3.50.", "It cost three dollars and fifty cents."),
        ("£0.99, $1, $2.5bn", "ninety-nine pence, one dollar, two point five billion dollars"),
        ("on 2024-05-01 at 5:30 p.m.", "on May first, twenty twenty-four at five thirty P M."),
        ("1.5kg", "one point five kilograms"),
        ("1,250 people, 20 %", "one thousand two hundred fifty people, twenty percent"),
        ("In 1984, the 3rd", "In nineteen eighty-four, the third"),
        ("It was -5 °C at 7:00.", "It was minus five degrees Celsius at seven o'clock."),
        ("1 km, 2 km/h", "one kilometer, two kilometers per hour"),
        ("agent 007", "agent zero zero seven"),
    ],
)
def test_numbers_are_written_out(text: str, read: str) -> None:
    assert normalized(text) == read


@pytest.mark.parametrize("text", ["Well, yes: it is so!", "好。你好", "*so*", "naïve café - 好"])
def test_what_is_not_understood_stays(text: str) -> None:
    assert normalized(text) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("It\u2019s \u201cgood\u201d, na\u00efve caf\u00e9", 'It\'s "good", naive cafe.'),
        ("word\u2014word", "word, word."),
        ("Hello.\n\n\tWorld", "Hello, World."),
        ("Hello \u4e16\u754c again \U0001f600!", "Hello again!"),
        ("Das kostet 42 Stra\u00dfen", "Das kostet forty-two Strassen."),
        ("\u4f60\u597d\u3002", ""),
        ("...", ""),
        ("...so <b>it</b> is", "so it is."),
        ("\u0152uvre \u00f8re \u0126al", "Oeuvre ore Hal."),
        ("# Title\nThe text\nis long.\n\nnext", "Title, The text is long. next."),
        (
            "To buy:\n* milk\n* bread\n1. first\n2. last",
            "To buy: milk. bread, one, first, two, last.",
        ),
        ("Yes. No?! Wait... I see it. Go! Go!", "Yes, No, Wait, I see it. Go, Go!"),
        ("Yes:no,well!!! So, -- well -,so :-)", "Yes: no, well! So, well, so:"),
    ],
)
def test_models_of_words_alone_get_plain_letters(text: str, read: str) -> None:
    offsets = OffsetMap()
    written = Normalizer(offsets, words_only=True)
    assert "".join(map(written.push, text)) + written.push("", is_last=True) == read
    if read:
        assert offsets.num_made == len(read)
        start, stop = offsets.origin(len(read) - 2, len(read) - 1)
        assert 0 <= start < stop <= len(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("The BBC, U.S.A. and HTML", "The bee bee see, you ess eigh and aitch tea em el."),
        ("Plan B: a 5 MP TV", "Plan bee: a five em pee tea vee."),
        ("The EU's MAP", "The ee you's MAP."),
        ("CPUs of the FBI, CIA and NATO", "see pee yous of the eff bee I, see I eigh and NATO."),
        ("I do NOT like it's x-ray", "I do NOT like it's ex-ray."),
        ("READ THE MAP NOW", "read the MAP now."),
        ('As usual, Us is "Is it?"', 'As usual, Us is "Is it?"'),
        ('"As if," he said.', '"As if," he said.'),
    ],
)
def test_letters_are_written_as_they_are_spoken_for_models_of_words_alone(
    text: str, read: str
) -> None:
    written = Normalizer(words_only=True)
    assert "".join(map(written.push, text)) + written.push("", is_last=True) == read
    assert Normalizer(words_only=True).push(text, is_last=True) == read


@pytest.mark.parametrize(
    ("text", "unspoken"),
    [
        ("Hello \u4f60\u597d, \U0001f389!", ["\u4f60\u597d", "\U0001f389"]),
        (
            "\u041f\u0440\u0438\u0432\u0435\u0442. \U0001f44d\U0001f3fd",
            ["\u041f\u0440\u0438\u0432\u0435\u0442", "\U0001f44d\U0001f3fd"],
        ),
        ("caf\u00e9 <b>42</b> \u2026 $5 \u2014 *so*", []),
    ],
)
def test_what_models_of_words_alone_leave_out_is_listed(text: str, unspoken: list[str]) -> None:
    whole, written = Normalizer(words_only=True), Normalizer(words_only=True)
    whole.push(text, is_last=True)
    for character in text:
        written.push(character)
    written.push("", is_last=True)
    assert whole.unspoken == written.unspoken == unspoken


@given(st.text(max_size=40))
def test_no_text_is_beyond_a_model_of_words_alone(text: str) -> None:
    written = Normalizer(words_only=True).push(text, is_last=True)
    assert re.fullmatch(r"(\"?[A-Za-z][A-Za-z \"',\-.:;?!]*)?", written)
    assert "  " not in written


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
        (2007, "two thousand seven"),
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


@pytest.mark.parametrize("unit", ["!", ".", "你好，", "a1.", "3年"])
def test_of_a_text_without_spaces_little_is_held_back(unit: str) -> None:
    text = unit * (2500 // len(unit))
    whole = normalized(text)
    for size in (7, 1000, len(text)):
        normalizer, read = Normalizer(), ""
        for start in range(0, len(text), size):
            read += normalizer.push(text[start : start + size])
            assert len(normalizer._held) <= 1000
        assert read + normalizer.push("", is_last=True) == whole


def test_a_number_in_a_text_without_spaces_is_read_whole_wherever_it_stands() -> None:
    for before in range(980, 1020, 3):
        text = "!" * before + "1234" + "!" * 1200
        assert "1234" not in Normalizer().push(text, is_last=True)
        assert Normalizer().push(text, is_last=True) == normalized(text)


OTHER_LANGUAGES = (
    "Tengo 5 gatos y 3 perros.",
    "El tren sale a las 10:30 de la mañana.",
    "Das kostet 5 € pro Stück.",
    "Der Zug fährt um 14:30 Uhr ab.",
    "Il est 10 heures et il fait 20°C.",
    "J'ai 25 ans et je viens de Paris.",
    "Costa 50 € e si trova a 5 km.",
    "Het is 10 uur en het kost € 5.",
    "Jag har 3 katter och 2 hundar.",
    "O preço é de R$ 50 por pessoa, em 3 parcelas.",
    "Mam 5 kotów i to jest 100 zł, nie więcej.",
)


@pytest.mark.parametrize("text", OTHER_LANGUAGES)
def test_a_sentence_in_another_language_stays_until_it_is_called_english(text: str) -> None:
    assert normalized(text) == text
    assert Normalizer(is_english=True).push(text, is_last=True) != text
    mixed = normalized(f"I paid $5. {text} It was $5.")
    assert mixed == f"I paid five dollars. {text} It was five dollars."


@pytest.mark.parametrize("text", OTHER_LANGUAGES)
def test_a_language_is_clear_however_a_text_is_cut(text: str) -> None:
    normalizer, text = Normalizer(), f"I paid $5. {text} It was $5."
    written = "".join(map(normalizer.push, text)) + normalizer.push("", is_last=True)
    assert written == normalized(text)


class Judging(Normalizer):
    """Notes whether a part of a text is taken for another language."""

    is_foreign = False

    def _parts(self, group: list[tuple[SpokenPiece, str]]) -> Iterator[str]:
        assert self._language is not None
        self.is_foreign = self.is_foreign or self._language.is_foreign
        yield ""


def is_taken_for_foreign(text: str) -> bool:
    normalizer = Judging()
    normalizer.push(text, is_last=True)
    return normalizer.is_foreign


def test_english_is_taken_for_english() -> None:
    assert [text for _, text, _ in CASES if is_taken_for_foreign(text)] == []
    assert all(map(is_taken_for_foreign, OTHER_LANGUAGES))
