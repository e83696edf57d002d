"""Detection of sentences in Latin letters that are not English, by their function words."""

from antiphon.text.contexts import words

_MAX_WORDS, _MAX_CHARACTERS = 8, 160  # without evidence, a sentence is of the language before it
_MIN_FOREIGN = 2
_ENGLISH = words(
    """
    about and are because been but could don't from have how i'll i'm if it it's its just my not our
    she should than that that's the their them then there these they this those were what when where
    which who why with would you your
    """
)
# None of them is an English word; those in English names (de, la, van) need another beside them.
_OTHERS = words(
    """
    aan aber alla alle als ao att auch auf aus av aux avec az bei bij bir c'est cette che com como
    cu czy dans das dass datum de dei del della dem den der des deux di dla doch du e een egy ein
    eine einen einer el ela ele elle em en er est et ett euch für ganz gli haben hat het hogy ich ik
    ikke il ils im inte ist j'ai jag je jest jetzt kein keine kostet la las le les lo los luego már
    mehr mein mais mas med mi mich mil mit moi muy más na nach não ne nel nem nicht nie niet noch
    nos nous når och oder og op os para pas pero più por pour présent prix på quando quanto que
    questo qui qué se sein si sich sie się sind são só sont su sul sur také také tak të tengo ter ti
    til toda todo tot trop tu uhr um uma un una und une uno unter uns van ve vom von voor vous wie
    wir wird yang y à és è é ça één är że été ó où über
    """
)
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
        if low in _ENGLISH:
            self.is_foreign, self.is_known = False, True
            self._others.clear()
        elif not is_name and low in _OTHERS:
            self._others.add(low)
        elif not is_name and not _LETTERS.isdisjoint(low):
            self._others.add(_MARKS)
        if len(self._others) >= _MIN_FOREIGN:
            self.is_foreign = self.is_known = True
