"""Language names and tags resolve to the values of each model."""

import pytest

from antiphon.contracts.languages import resolve_language
from antiphon.errors import InvalidRequestError
from antiphon.families.kokoro.languages import LANGUAGES as KOKORO

QWEN = ("auto", "english", "chinese", "portuguese", "en", "zh", "pt")
HIBARI = ("english", "en", "en-us", "en-gb")
ALL_OF_KOKORO = tuple(name for each in KOKORO.values() for name in each.names)


@pytest.mark.parametrize(
    ("language", "available", "resolved"),
    [
        ("en-US", QWEN, "en"),
        ("EN_us", QWEN, "en"),
        (" English ", QWEN, "english"),
        ("eng", QWEN, "en"),
        ("en-Latn-US", QWEN, "en"),
        ("en-GB-oxendict", QWEN, "en"),
        ("en-US-u-hc-h24", QWEN, "en"),
        ("en-us-x-own", QWEN, "en"),
        ("zh-CN", QWEN, "zh"),
        ("ZH_HANS_CN", QWEN, "zh"),
        ("zh-cmn-Hant-TW", QWEN, "zh"),
        ("cmn", QWEN, "zh"),
        ("中文", QWEN, "zh"),
        ("Mandarin", QWEN, "zh"),
        ("pt-419", QWEN, "pt"),
        ("Portugue\u0302s", QWEN, "pt"),
        ("en_GB", HIBARI, "en-gb"),
        ("en-AU", HIBARI, "en"),
        ("fr", ALL_OF_KOKORO, "fr"),
        ("fr-CA", ("fr-fr",), "fr-fr"),
        ("Español", ALL_OF_KOKORO, "es"),
        ("de_AT", ("german",), "german"),
        ("Deutsch", ("english", "german"), "german"),
        ("xx-YY", ("xx",), "xx"),
        ("auto", QWEN, None),
        ("AUTO", (), None),
        (" ", QWEN, None),
        (None, (), None),
    ],
)
def test_a_language_is_known_by_its_tags_and_names(
    language: str | None, available: tuple[str, ...], resolved: str | None
) -> None:
    assert resolve_language(language, available) == resolved


@pytest.mark.parametrize(
    "language",
    [
        *("klingon", "de", "e", "en-", "en--US", "-en", "en-US-", "en US", "english-", "e\u0301n"),
        *("zh-min-nan", "yue", "zh-yue-HK", "sichuan_dialect", "1", "x-en", "\0", "e" * 9000),
        "en" + " " * 9000 + "-US",
    ],
)
def test_another_language_is_refused_with_those_that_there_are(language: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"Available: auto, english, chinese") as caught:
        resolve_language(language, QWEN, param="lang_code")
    assert caught.value.param == "lang_code"
    assert len(str(caught.value)) < 300


def test_a_model_that_decides_by_itself_takes_no_language() -> None:
    with pytest.raises(InvalidRequestError, match="none, this model decides by itself"):
        resolve_language("en", ())
