"""The languages that voices are of, and what reads them here."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from antiphon.errors import InvalidRequestError, how_to_install
from antiphon.families.kokoro.checkpoint import MAX_PHONEMES
from antiphon.text.base import TextReader
from antiphon.text.chinese import CHINESE_PACKAGES, ChineseReader
from antiphon.text.english import EnglishReader

_ENGLISH = ("en", "english")


@dataclass(frozen=True, slots=True)
class KokoroLanguage:
    """A language by the letter that its voices begin with.

    Attributes:
        names: accepted values of ``language``, the code first.
    """

    title: str
    names: tuple[str, ...]


LANGUAGES: Mapping[str, KokoroLanguage] = {
    "a": KokoroLanguage("American English", ("en-us", *_ENGLISH)),
    "b": KokoroLanguage("British English", ("en-gb", *_ENGLISH)),
    "e": KokoroLanguage("Spanish", ("es", "spanish")),
    "f": KokoroLanguage("French", ("fr-fr", "fr", "french")),
    "h": KokoroLanguage("Hindi", ("hi", "hindi")),
    "i": KokoroLanguage("Italian", ("it", "italian")),
    "j": KokoroLanguage("Japanese", ("ja", "japanese")),
    "p": KokoroLanguage("Brazilian Portuguese", ("pt-br", "pt", "portuguese")),
    "z": KokoroLanguage("Mandarin Chinese", ("zh", "chinese", "mandarin")),
}


class KokoroReaders:
    """Readers of all languages that this machine can read."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        """Load the dictionaries, for phonemes that have numbers."""
        american, british = (
            EnglishReader(vocabulary, british=british, max_phonemes=MAX_PHONEMES)
            for british in (False, True)
        )
        self._readers: dict[str, TextReader] = {"a": american, "b": british}
        if all(find_spec(module) for module, _ in CHINESE_PACKAGES):
            chinese = ChineseReader(vocabulary, american, max_phonemes=MAX_PHONEMES)
            self._readers["z"] = chinese

    @property
    def names(self) -> tuple[str, ...]:
        """Accepted values of ``language``."""
        known = (name for letter in self._readers for name in LANGUAGES[letter].names)
        return tuple(dict.fromkeys(known))

    def __contains__(self, letter: str) -> bool:
        return letter in self._readers

    def reader(self, language: str | None, voice: str, letter: str) -> TextReader:
        """Return the reader of a request; raises InvalidRequestError.

        Args:
            language: language that the request names, one of `names`; ``None``: the voice's own.
            letter: letter of the voice's own language.
        """
        found = self._letter(language, letter)
        if found is None:
            raise InvalidRequestError(
                f"Invalid 'language': '{language}'. Allowed: {', '.join(self.names)}.",
                param="language",
            )
        letter = found
        if letter not in self._readers:
            raise InvalidRequestError(
                f"The voice '{voice}' speaks {LANGUAGES[letter].title}, which this server cannot"
                f" read: {_remedy(letter)}. As 'language' it may read: {', '.join(self.names)}.",
                param="voice",
            )
        return self._readers[letter]

    def checker(self, language: str | None, letter: str) -> TextReader:
        """Return the reader of a request, as `reader` does; where that refuses, an English one."""
        found = self._letter(language, letter)
        return self._readers["a" if found is None or found not in self._readers else found]

    def _letter(self, language: str | None, letter: str) -> str | None:
        """Return the letter of a request's language; ``None`` if nothing here reads it."""
        if language is None or language.lower() in LANGUAGES[letter].names:
            return letter
        known = (each for each in self._readers if language.lower() in LANGUAGES[each].names)
        return next(known, None)


def _remedy(letter: str) -> str:
    if letter == "z":
        return how_to_install("chinese")
    return "no reader of that language is part of this version"
