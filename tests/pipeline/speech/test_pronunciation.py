"""A dictionary of readings: whole words alone, in the case of the key."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequestError, SettingsError
from antiphon.pipeline.speech.pronunciation import (
    MAX_ENTRIES,
    Pronunciations,
    WordReplacer,
    _Tree,
    check_pronunciations,
    settings_pronunciations,
)
from antiphon.text.offset_map import OffsetMap


def read_by(pronunciations: Pronunciations, text: str) -> str:
    return "".join(WordReplacer(pronunciations, OffsetMap()).push(text, is_last=True))


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
    assert read_by(Pronunciations(entries), text) == read


def test_a_reading_is_not_read_again_and_the_later_dictionary_counts() -> None:
    dictionaries = ({"a": "b", "b": "c"}, {"a": "x"})
    assert read_by(Pronunciations(*dictionaries), "a b") == "x c"
    assert read_by(Pronunciations({"a": "b", "b": "a"}), "a b") == "b a"
    assert read_by(Pronunciations({"a": r"\1\g<0>"}), "a") == r"\1\g<0>"


@given(st.dictionaries(WORDS, WORDS, max_size=6), st.text(max_size=60))
def test_any_dictionary_can_be_applied_to_any_text(entries: dict[str, str], text: str) -> None:
    check_pronunciations(entries)
    read = read_by(Pronunciations(entries), text)
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


class Counted(dict[str, Any]):
    """A dictionary that counts how often it is asked."""

    num_lookups = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.num_lookups += 1
        return super().get(key, default)


def test_work_grows_with_the_text_and_not_with_the_dictionary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def counted(tree: _Tree) -> None:
        monkeypatch.setattr(tree, "_next", Counted(tree._next))
        for child in tree._next.values():
            counted(child)

    def lookups(num_entries: int, num_words: int) -> int:
        pronunciations = Pronunciations({f"word{n}": "x" for n in range(num_entries)})
        counted(pronunciations._any_case)
        Counted.num_lookups = 0
        read_by(pronunciations, "other " * num_words)
        return Counted.num_lookups

    assert lookups(1000, 1000) == lookups(10, 1000) <= 2 * 1000
    assert lookups(1000, 4000) == 4 * lookups(1000, 1000)


def test_a_long_text_is_read_as_its_parts_are() -> None:
    """Words are found over the borders of what is looked at together."""
    pronunciations = Pronunciations({"a b": "ab", "+" * 100: "plus"})
    assert read_by(pronunciations, "a  b " * 5000) == "ab " * 5000
    assert read_by(pronunciations, "+" * 10_000) == "plus" * 100
    assert read_by(pronunciations, "ca  b " * 5000) == "ca  b " * 5000
