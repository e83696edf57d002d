"""Detection of sentences in Latin letters that are not English, by their function words."""

from antiphon.text.english_tables import ENGLISH_FUNCTION_WORDS, FOREIGN_FUNCTION_WORDS

_MAX_WORDS, _MAX_CHARACTERS = 8, 160  # without evidence, a sentence is of the language before it
_MIN_FOREIGN = 2
_LETTERS = frozenset("àãåæèìòöøœúüāćčęěğışłńňőřśšşťůűźżžâîôûäëïßçóíáúýñõ")
_CLOSING = "\"')]\u201d*_"
_MARKS = f"{_CLOSING}([.,;:!?\u201c\u00bf\u00a1"
_ENDS = frozenset(".!?\u2026")


class SentenceLanguage:
    """Language of the sentence that words are added to; where they are parted plays no part.

    Attributes:
        is_foreign: whether it is in Latin letters and not English; until known, the last sentence.
        is_known: whether words of this sentence have decided it, or too many have come without.
    """

    def __init__(self) -> None:
        self.is_foreign = self.is_known = False
        self._others: set[str] = set()
        self._num_words = self._num_characters = 0
        self._has_ended = False

    def add(self, text: str) -> None:
        """Add whole words with what follows them."""
        for word in text.split():
            if self._has_ended:
                self._num_words = self._num_characters = 0
                self._others.clear()
                self.is_known = False
            self._has_ended = word.rstrip(_CLOSING)[-1:] in _ENDS
            self._add_word(word)
        self._has_ended = self._has_ended or "\n" in text
        is_long = self._num_words >= _MAX_WORDS or self._num_characters >= _MAX_CHARACTERS
        self.is_known = self.is_known or is_long or self._has_ended

    def _add_word(self, word: str) -> None:
        low = word.strip(_MARKS).lower().replace("\u2019", "'")
        is_name = word[0].isupper() and self._num_words > 0
        self._num_words += 1
        self._num_characters += len(word)
        if low in ENGLISH_FUNCTION_WORDS:
            self.is_foreign, self.is_known = False, True
            self._others.clear()
        elif not is_name and low in FOREIGN_FUNCTION_WORDS:
            self._others.add(low)
        elif not is_name and not _LETTERS.isdisjoint(low):
            self._others.add(_MARKS)
        if len(self._others) >= _MIN_FOREIGN:
            self.is_foreign = self.is_known = True
