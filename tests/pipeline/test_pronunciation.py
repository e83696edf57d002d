"""A dictionary of readings: whole words alone, in the case that the key tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequestError, SettingsError
from antiphon.pipeline.pronunciation import (
    MAX_ENTRIES,
    Pronunciations,
    check_pronunciations,
    settings_pronunciations,
)

WORDS = st.text(min_size=1, max_size=8).filter(lambda word: bool(word.strip()))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("SQL and sql, MySQL, SQLs.", "sequel and sql, MySQL, SQLs."),
        ("Nginx, NGINX and nginx!", "engine x, engine x and engine x!"),
        ("C++ is not C. c++", "see plus plus is not C. c++"),
        ("New  York\nCity", "the city"),
        ("SQL, SQL Server", "sequel, the server"),
    ],
)
def test_whole_words_are_exchanged(text: str, read: str) -> None:
    entries = {
        "SQL": "sequel",
        "SQL Server": "the server",
        "nginx": "engine x",
        "C++": "see plus plus",
        "new york city": "the city",
    }
    assert Pronunciations(entries).applied(text) == read


def test_a_reading_is_not_read_again_and_the_later_dictionary_counts() -> None:
    dictionaries = ({"a": "b", "b": "c"}, {"a": "x"})
    assert Pronunciations(*dictionaries).applied("a b") == "x c"
    assert Pronunciations({"a": "b", "b": "a"}).applied("a b") == "b a"
    assert Pronunciations({"a": r"\1\g<0>"}).applied("a") == r"\1\g<0>"


@given(st.dictionaries(WORDS, WORDS, max_size=6), st.text(max_size=60))
def test_any_dictionary_can_be_applied_to_any_text(entries: dict[str, str], text: str) -> None:
    check_pronunciations(entries)
    read = Pronunciations(entries).applied(text)
    if not any(word.strip().casefold()[:1] in text.casefold() for word in entries):
        assert read == text


@pytest.mark.parametrize(
    "entries",
    [
        *({"": "x"}, {"x": " "}, {"x" * 101: "y"}, {"x": "y" * 201}),
        {str(number): "x" for number in range(MAX_ENTRIES + 1)},
    ],
)
def test_what_is_no_dictionary_is_refused(entries: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        check_pronunciations(entries)
    assert raised.value.param == "pronunciations"
    with pytest.raises(SettingsError, match=r"speech\.pronunciations"):
        settings_pronunciations(entries)
