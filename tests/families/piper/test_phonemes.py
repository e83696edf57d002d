"""English is written as espeak-ng writes it, with what a network wants around it."""

from pathlib import Path

import pytest

from antiphon.families.piper.phonemes import (
    EnglishPhonemizer,
    _letters,
    sequence_ids,
    written_as_ipa,
)
from antiphon.families.piper.voice_files import InferenceScales, PiperModel

ESPEAK_NG = Path(__file__).with_name("espeak_ng_en_us.tsv")
"""Words and phrases with ``ɹ``, and what ``espeak-ng -v en-us --ipa`` 1.51 prints for them."""
IPA = "_^$ abdefhijklmnopstuvwzæðŋɐɑɒɔəɚɛɜɡɪɹɾʃʊʌʒʔθᵻː\u0329ˈˌ.,"


def phonemes_of(text: str, accent: str) -> str:
    """Return what a voice of an accent reads, without the full stop."""
    model = PiperModel(
        name="voice",
        network=Path("voice.onnx"),
        sample_rate_hz=22050,
        phoneme_type="espeak",
        espeak_voice=accent,
        language_code="",
        language_names=(),
        ids={symbol: (number,) for number, symbol in enumerate(IPA)},
        scales=InferenceScales(1.0, 0.667, 0.8),
        speakers={},
    )
    (sentence,) = EnglishPhonemizer(model).read(f"{text}.")
    symbols = (IPA[number] for number in sentence.ids)
    return "".join(symbol for symbol in symbols if symbol not in "_^$.")


def test_words_are_written_as_the_voices_were_trained() -> None:
    expected = dict(line.split("\t") for line in ESPEAK_NG.read_text("utf-8").splitlines())
    assert len(expected) > 250
    assert {text: phonemes_of(text, "en-us") for text in expected} == expected


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("over it", "ˈəʊvəɹ ɪt"),
        ("her own car", "hɜːɹ ˈəʊn kˈɑː"),
        ("far away", "fˈɑːɹ əwˈeɪ"),
        ("here again", "hˈɪəɹ əɡˈɛn"),
        ("her, and", "hˌɜː, and"),
        ("over there", "ˈəʊvə ðˈɛː"),
        ("law and order", "lˈɔː and ˈɔːdə"),
    ],
)
def test_a_british_voice_links_a_written_r(text: str, written: str) -> None:
    assert phonemes_of(text, "en-gb") == written


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("həlˈO ðˈɛɹ.", "həlˈoʊ ðˈɛɹ."),
        ("hˌW ɑɹ ju?", "haʊ ɑːɹ juː?"),
        ("bˈɜɹd", "bˈɜːd"),
        ("bˈɛTəɹ", "bˈɛɾɚ"),
        ("ʤˈʌʤ ʧˈɜɹʧ", "dʒˈʌdʒ tʃˈɜːtʃ"),
        ("sˈi ʃi hˈæpi", "sˈiː ʃiː hˈæpi"),
        ("bˈʌtn ˌʌndəɹstˈænd wˈɪtnəs", "bˈʌʔn̩ ˌʌndɚstˈænd wˈɪtnəs"),
        ("lˈɪTᵊl bˈY", "lˈɪɾəl bˈɔɪ"),
        ("fˈɔɹ mˈI nˈAm", "fˈɔːɹ mˈaɪ nˈeɪm"),
        ("əɹˈIv kˈɜɹənt", "ɚɹˈaɪv kˈɜːɹənt"),
        ("hɜɹ ˈOn, hɜɹ, ˈOn", "hɜːɹ ˈoʊn, hɜː, ˈoʊn"),
        ("jˈʊɹəp ʃˈʊɹ ɪt", "jˈʊɹɹəp ʃˈʊɹ ɪt"),
    ],
)
def test_american(read: str, written: str) -> None:
    assert "".join(written_as_ipa(read, is_british=False)) == written


@pytest.mark.parametrize(
    ("read", "written"),
    [("həlˈQ ðˈɛː, juː", "həlˈəʊ ðˈɛː, juː"), ("wˈɔːtə ɡˈQɪŋ", "wˈɔːtə ɡˈəʊɪŋ")],
)
def test_british(read: str, written: str) -> None:
    assert "".join(written_as_ipa(read, is_british=True)) == written


def test_padding_stands_behind_every_symbol() -> None:
    ids = {"_": (0,), "^": (1,), "$": (2,), "a": (3,), "b": (4, 5)}
    found, places = sequence_ids(["a", "", "ab", "?"], ids)
    assert found == (1, 0, 3, 0, 3, 0, 4, 5, 0, 2)
    assert places == (2, 4, 4, 9, 9)


@pytest.mark.parametrize(
    ("known", "expected"),
    [("Eey\u0301", "Ee\u0301y"), ("eéy", "eéy"), ("ey", "ee\u0301y")],
)
def test_letters_are_spelt_as_a_voice_knows_them(known: str, expected: str) -> None:
    ids = {symbol: (place,) for place, symbol in enumerate(known)}
    assert "".join(_letters("Eéy", ids)) == expected
