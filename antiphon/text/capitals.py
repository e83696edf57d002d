"""Roman numerals, letters by their names, states, and words in capitals."""

from antiphon.text.name_table import CARDINAL_NAMES, CENTURY_WORDS, COMPASS, REGNAL_NAMES, STATES
from antiphon.text.number_words import cardinal, ordinal, roman
from antiphon.text.numerals import say_integer, say_year
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, LINE, SPACE, WORD, TokenizedText
from antiphon.text.word_table import LETTER_WORDS, SHORT_WORDS, SHOUTED
from antiphon.text.words import follows_name

_ROMAN_LONG = frozenset("IVXLC")
_ROMAN_ALONE = frozenset("IVX")
_MAX_OUTLINE_PARTS = 6


def read_roman(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "Henry VIII", "Chapter IV", "World War II" and "the XIX century"."""
    text, stop = tokens.text(place), place + 1
    letters = text.removesuffix("'s").removesuffix("s")
    value = roman(letters.upper() if letters.islower() and len(letters) > 1 else letters)
    if value is None or not tokens.is_open(place) or not tokens.is_closed(stop):
        return None
    tail = text[len(letters) :]
    dot = tokens.has(place - 2, ". ") and place > 1
    before = tokens.before(place - 2 if dot else place)
    is_numbered = before in CARDINAL_NAMES or before.removesuffix("s") in CARDINAL_NAMES
    if is_numbered and (letters.isupper() or len(letters) > 1):
        return ((stop, f"{cardinal(value)}{tail}"),)
    if not letters.isupper():
        return None
    if _is_regnal(tokens, place, letters):
        return ((stop, f"the {ordinal(value)}{tail}"),)
    if tokens.after(stop) in CENTURY_WORDS and value < 100:
        return ((stop, ordinal(value)),)
    return None if tail == "s" else _roman_alone(tokens, place, letters, value, tail)


def read_outline(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "Section III.A" and "Appendix 3.B.2"."""
    if tokens.kind(place + 1) != "." or tokens.before(place) not in CARDINAL_NAMES:
        return None
    spoken, kinds, stop = list[str](), "", place
    while len(kinds) < _MAX_OUTLINE_PARTS:
        text, kind = tokens.text(stop), tokens.kind(stop)
        value = roman(text.upper()) if kind == WORD and (not spoken or len(text) > 1) else None
        if kind == WORD and value is None and len(text) > 1:
            return None
        if kind == DIGITS:
            spoken += ["point"] if kinds[-1:] == DIGITS else []
            spoken.append(say_integer(text))
        else:
            spoken.append(text.upper() if value is None else cardinal(value))
        kinds += WORD if kind == WORD and value is None else DIGITS
        stop += 1
        if tokens.kind(stop) != "." or tokens.kind(stop + 1) not in (WORD, DIGITS):
            break
        stop += 1
    is_outline = len(kinds) > 1 and (WORD in kinds or tokens.kind(place) == WORD)
    return ((stop, " ".join(spoken)),) if is_outline and tokens.is_closed(stop) else None


def _roman_alone(
    tokens: TokenizedText, place: int, letters: str, value: int, tail: str
) -> Reading | None:
    """Read a numeral of several letters without a word that announces it, unless it is a word."""
    stop = place + 1
    if len(letters) > 4 and 1000 < value < 2100:
        return ((stop, f"{say_year(str(value))}{tail}"),)
    is_numeral = set(letters) <= (_ROMAN_ALONE if len(letters) < 4 else _ROMAN_LONG)
    if len(letters) < 2 or not is_numeral:
        return None
    is_word = letters in ("IV", "XX", "XXX", "VI") and tokens.before(place) in ("an", "")
    is_drip = tokens.after(stop).lower() in ("drip", "fluids", "fluid", "bag", "line")
    if is_word or (letters == "IV" and is_drip):
        return None
    is_person = follows_name(tokens, place) and follows_name(tokens, place - 2)
    return ((stop, f"the {ordinal(value)}{tail}" if is_person else f"{cardinal(value)}{tail}"),)


def _is_regnal(tokens: TokenizedText, place: int, letters: str) -> bool:
    """Return whether a numeral follows the name of a monarch or a pope."""
    is_behind = tokens.kind(place - 1) == SPACE and tokens.before(place) in REGNAL_NAMES
    if not is_behind or not tokens.text(place - 2)[0].isupper():
        return False
    return len(letters) > 1 or letters in "VX" or _is_regnal_first(tokens, place)


def _is_regnal_first(tokens: TokenizedText, place: int) -> bool:
    """Return whether "I" after a name is its number: no lower-case verb follows it."""
    if tokens.text(place) != "I":
        return True
    following = tokens.after(place + 1)
    is_verb_of_king = following in (
        "was",
        "of",
        "is",
        "and",
        "died",
        "ruled",
        "became",
        "had",
        "in",
    )
    return not following or is_verb_of_king or not following.islower()


def read_capital_letter(tokens: TokenizedText, place: int) -> Reading | None:
    """Read single capitals that are spelled: "Plan A", "I B M"."""
    text = tokens.text(place)
    if len(text) != 1 or not text.isupper() or not tokens.is_open(place):
        return None
    stop = place + 1
    while (
        tokens.has(stop, " w")
        and len(tokens.text(stop + 1)) == 1
        and tokens.text(stop + 1).isupper()
    ):
        if tokens.text(stop + 1) == "I" and stop == place + 1:
            break
        stop += 2
    if stop > place + 1:
        return ((stop, tokens.joined(place, stop)),)
    if (
        text == "A"
        and tokens.before(place) in LETTER_WORDS
        and tokens.kind(place - 1) in (SPACE, "-")
    ):
        return ((stop, text),)
    return None


def read_state(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "CA" as California after a town's name and a comma."""
    name = STATES.get(tokens.text(place))
    if name is None or not tokens.is_closed(place + 1):
        return None
    has_zip = tokens.has(place + 1, " d") and len(tokens.text(place + 2)) == 5
    is_behind_town = (
        tokens.has(place - 3, "w, ")
        and place >= 3
        and tokens.text(place - 3)[0].isupper()
        and not tokens.text(place - 3).isupper()
    )
    return ((place + 1, name),) if is_behind_town or has_zip else None


def read_short_word(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "aka", "btw", "PhD" and shouted words that would be spelled."""
    text, stop = tokens.text(place), place + 1
    if text in SHORT_WORDS and tokens.is_closed(stop) and tokens.is_open(place):
        return ((stop, SHORT_WORDS[text]),)
    if text in SHOUTED and _is_shouted(tokens, place):
        return ((stop, text.lower()),)
    street = COMPASS.get(text) if len(text) <= 2 else None
    if street and tokens.before(place) in (
        "ave",
        "avenue",
        "st",
        "street",
        "blvd",
        "rd",
        "road",
        ".",
    ):
        return ((stop, street),)
    if street and len(text) <= 2 and tokens.before(place).isdecimal() and tokens.has(stop, " w"):
        following = tokens.text(stop + 1)
        if following[0].isupper() and len(following) > 2 and not following.isupper():
            return ((stop, street),)
    return None


def _is_shouted(tokens: TokenizedText, place: int) -> bool:
    """Return whether the words around, if any, are in capitals too."""
    around = []
    for step in (-1, 1):
        other = place + step
        while (
            tokens.kind(other) and tokens.kind(other) not in (WORD, LINE) and abs(other - place) < 4
        ):
            other += step
        if tokens.kind(other) == WORD:
            around.append(tokens.text(other))
    return (
        bool(around)
        and all(len(word) > 1 or word in ("I", "A") for word in around)
        and all(word.isupper() for word in around)
    )
