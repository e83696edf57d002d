"""Errors are counted by words in English, and by characters in Chinese."""

import pytest

from antiphon.bench.quality.transcript import Recogniser, judged, num_errors, number_words, units
from antiphon.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "heard", "errors", "words"),
    [
        ("Two letters, please.", "two letters please", 0, 3),
        ("Two letters, please.", "To letters please.", 1, 3),
        ("Two letters, please.", "letters please", 1, 3),
        ("Two letters, please.", "Two two letters please", 1, 3),
        ("Two letters, please.", "", 3, 3),
        ("At seven thirty.", "At 7:30.", 0, 3),
        ("She isn’t well-known.", "she isn't well known", 0, 4),
        ("One thousand two hundred and five", "1,205", 1, 6),
    ],
)
def test_errors_of_words(text: str, heard: str, errors: int, words: int) -> None:
    found = judged(text, heard)
    assert (found.num_errors, found.num_expected) == (errors, words)
    assert found.error_rate == errors / words


def test_errors_of_characters() -> None:
    assert units("您好，Bluetooth！", "mixed") == ["您", "好", "bluetooth"]
    assert judged("您的茶在桌子上。", "您的茶在桌上", "zh").num_errors == 1


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety nine"),
        (105, "one hundred five"),
        (2026, "two thousand twenty six"),
        (999_999, "nine hundred ninety nine thousand nine hundred ninety nine"),
        (1_000_000, "one zero zero zero zero zero zero"),
    ],
)
def test_numbers_are_spelled(number: int, words: str) -> None:
    assert number_words(number) == words


def test_the_fewest_changes_are_counted() -> None:
    assert num_errors(list("kitten"), list("sitting")) == 3
    assert num_errors([], list("abc")) == num_errors(list("abc"), []) == 3


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.bench.quality.transcript.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="quality"):
        Recogniser()
