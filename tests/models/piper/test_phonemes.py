"""English is written as espeak-ng writes it, with what a network wants around it."""

import pytest

from antiphon.models.piper.phonemes import _letters, sequence_ids, written_as_ipa


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
