"""Errors are counted by words in English, and by characters in Chinese."""

import pytest

from antiphon.errors import SettingsError
from antiphon_bench.quality.transcript import Recogniser, judged, num_errors, units


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
        ("It cost ten dollars at five P M.", "It cost $10 at 5pm.", 0, 7),
        ("One thousand two hundred and five", "1,205", 1, 6),
    ],
)
def test_errors_of_words(text: str, heard: str, errors: int, words: int) -> None:
    found = judged(text, heard)
    assert (found.num_errors, found.num_expected) == (errors, words)


def test_errors_of_characters() -> None:
    assert units("您好，Bluetooth！", "mixed") == ["您", "好", "bluetooth"]
    assert judged("您的茶在桌子上。", "您的茶在桌上", "zh").num_errors == 1


def test_the_fewest_changes_are_counted() -> None:
    assert num_errors(list("kitten"), list("sitting")) == 3
    assert num_errors([], list("abc")) == num_errors(list("abc"), []) == 3


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_bench.quality.transcript.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="quality"):
        Recogniser()
