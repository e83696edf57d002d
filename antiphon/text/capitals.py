"""Roman numerals, letters by their names, states, and words in capitals."""

from antiphon.text.contexts import reading_in, words
from antiphon.text.english_tables import (
    CAPITAL_WORDS,
    CARDINAL_NAMES,
    CENTURY_WORDS,
    COMPASS,
    LETTER_WORDS,
    PRESS_STATES,
    REGNAL_NAMES,
    SHORT_FORMS,
    SHORT_WORDS,
    SHOUTED,
    STARTERS,
    STATES,
    UNITS,
)
from antiphon.text.number_words import cardinal, ordinal, roman
from antiphon.text.numerals import say_integer, say_year
from antiphon.text.quantities import DASHES
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, LINE, SPACE, WORD, TokenizedText
from antiphon.text.words import follows_name

_OPERATORS = frozenset("=+\u2212\u00d7\u00f7<>\u2264\u2265\u2248\u2229\u222a\u2192\u2208^*")
_AFTER_KING = words("and became built died fled founded had in is of ordered reigned ruled was")
_VOWELS = frozenset("AEIOU")
_SPOKEN = _VOWELS | {"Y"}  # a word has one of them
_INFLECTIONS = ("ED", "ER", "ERS", "GS", "HS", "ING", "LES", "RES", "RS", "SES", "TS", "IES")
_ROMAN_LONG = frozenset("IVXLC")
_ROMAN_ALONE = frozenset("IVX")
_MAX_OUTLINE_PARTS = 6
_BEFORE_TOWNS = words("at from in near of outside to")
_STAGED = words("class grade phase stage type")
_NUM_AFTER = 3


def read_roman(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "Henry VIII", "Chapter IV", "World War II" and "the XIX century"."""
    text, stop = tokens.text(place), place + 1
    letters = text.removesuffix("'s").removesuffix("s")
    value = roman(letters.upper() if letters.islower() and len(letters) > 1 else letters)
    stage = roman(letters[:-1]) if len(letters) > 2 and tokens.before(place) in _STAGED else None
    if value is None and stage:
        return ((stop, f"{cardinal(stage)} {letters[-1]}"),)
    last = roman(tokens.text(stop + 1)) if tokens.kind(stop) in DASHES else None
    is_closed = tokens.is_closed(stop) or (last is not None and tokens.is_closed(stop + 2))
    if value is None or not tokens.is_open(place) or not is_closed:
        return None
    tail = text[len(letters) :]
    dot = tokens.has(place - 2, ". ") and place > 1
    before = tokens.before(place - 2 if dot else place)
    is_numbered = before in CARDINAL_NAMES or before.removesuffix("s") in CARDINAL_NAMES
    if dot and before == "no" and letters == "I":  # the answer, and who answers
        return None
    if is_numbered and last is not None:
        return ((stop + 2, f"{cardinal(value)} to {cardinal(last)}"),)
    if not tokens.is_closed(stop):
        return None
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
    is_drip = is_drip or tokens.text(place - 2).islower()  # "5 mg of morphine IV"
    if is_word or (letters == "IV" and is_drip):
        return None
    has_initial = tokens.kind(place - 4) == "."
    is_person = follows_name(tokens, place) and (has_initial or follows_name(tokens, place - 2))
    return ((stop, f"the {ordinal(value)}{tail}" if is_person else f"{cardinal(value)}{tail}"),)


def _is_regnal(tokens: TokenizedText, place: int, letters: str) -> bool:
    """Return whether a numeral follows the name of a monarch or a pope."""
    is_behind = tokens.kind(place - 1) == SPACE and tokens.before(place) in REGNAL_NAMES
    if not is_behind or not tokens.text(place - 2)[0].isupper():
        return False
    is_verb = tokens.after(place + 1).islower() and tokens.after(place + 1) not in _AFTER_KING
    return tokens.text(place) != "I" or not is_verb  # "King I see" is no numeral


def read_capital_letter(tokens: TokenizedText, place: int) -> Reading | None:
    """Read single capitals that are spelled: "Plan A", "I B M"."""
    text = tokens.text(place)
    is_open = tokens.is_open(place) or tokens.kind(place - 1) == "&"
    if len(text) != 1 or not (text.isupper() or text == "a") or not is_open:
        return None
    stop = place + 1
    while text != "a" and (
        tokens.has(stop, " w")
        and len(tokens.text(stop + 1)) == 1
        and tokens.text(stop + 1).isupper()
    ):
        if tokens.text(stop + 1) == "I" and stop == place + 1:
            break
        stop += 2
    if stop > place + 1:
        return ((stop, tokens.joined(place, stop)),)
    is_named = tokens.before(place) in LETTER_WORDS and tokens.kind(place - 1) in (SPACE, "-")
    is_letter = text in "Aa" and (is_named or _is_joined(tokens, place))
    return ((stop, "A"),) if is_letter else None


def _is_joined(tokens: TokenizedText, place: int) -> bool:
    """Return whether a letter stands beside a sign: "Q&A", "A-Z" and "A + B"."""
    before, after = place - 1, place + 1
    is_spaced = tokens.kind(before) == SPACE and tokens.kind(before - 1) in _OPERATORS
    is_sign = tokens.kind(after + 2) == DIGITS  # "a +2 charge"
    is_before = tokens.kind(after) == SPACE and tokens.kind(after + 1) in _OPERATORS
    is_spaced = is_spaced or (is_before and not is_sign)
    is_minus = tokens.has(after, " - w") and len(tokens.text(after + 3)) == 1
    is_pair = tokens.kind(before) == "&" or tokens.kind(after) in ("&", "-", "\u2013")
    return is_spaced or is_minus or (is_pair and tokens.text(place) == "A")


def read_state(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "CA" as California after a town's name and a comma."""
    has_dot = tokens.kind(place + 1) == "."
    name = STATES.get(tokens.text(place)) or (has_dot and PRESS_STATES.get(tokens.text(place)))
    if not name or not tokens.is_closed(place + 1):
        return None
    has_zip = tokens.has(place + 1, " d") and len(tokens.text(place + 2)) == 5
    town = tokens.text(place - 3)
    is_behind_town = tokens.has(place - 3, "w, ") and town[0].isupper() and not town.isupper()
    if tokens.text(place) == "MD" and not (has_zip or _is_in(tokens, place - 3)):
        return None  # a physician
    is_short = tokens.text(place) in PRESS_STATES and not tokens.ends_text(place + 2)
    return ((place + 1 + is_short, name),) if is_behind_town or has_zip else None


def _is_in(tokens: TokenizedText, place: int) -> bool:
    """Return whether a name of up to three words is behind a preposition or a street."""
    for name in range(place, place - 5, -2):
        if tokens.before(name) in _BEFORE_TOWNS or tokens.has(name - 2, ", "):
            return True
    return False


def read_short_word(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "aka", "btw", "PhD" and shouted words that would be spelled."""
    text, stop = tokens.text(place), place + 1
    is_closed = tokens.is_closed(stop) or tokens.kind(stop) == "/"
    if text in SHORT_WORDS and is_closed and tokens.is_open(place):
        return ((stop, SHORT_WORDS[text]),)
    is_closed = len(text) == 4 and not _VOWELS & {text[0], text[-1]}  # "DOGS", not "NCAA"
    is_long = (len(text) > 4 or is_closed) and text.isupper() and bool(_VOWELS & set(text))
    is_inflected = is_long and not is_closed and text.endswith(_INFLECTIONS)
    if is_inflected or ((is_long or text in SHOUTED) and _is_shouted(tokens, place)):
        return ((stop, text.lower()),)
    return None


def read_short_form(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "hrs", "km" or "Esc" without a number, and "Assoc. Prof."."""
    text, stop = tokens.text(place), place + 1
    if tokens.kind(stop) == "." and f"{text}." in SHORT_FORMS:
        text, stop = f"{text}.", stop + 1
    rows = SHORT_FORMS.get(text, ())
    is_extension = text == "x" and tokens.kind(stop) == DIGITS
    is_closed = tokens.is_closed(stop) or is_extension or tokens.kind(stop) == "/"
    is_power = bool(tokens.kind(stop)) and tokens.kind(stop) in "\u00b2\u00b3"
    if not rows or not tokens.is_open(place) or not is_closed or is_power:
        return None
    words = reading_in(rows, *tokens.around(place, stop, num_after=_NUM_AFTER))
    if words == "compass":
        words = COMPASS[text.rstrip(".")]
    elif words in ("one", "many"):
        words = UNITS[text.rstrip(".")][words == "many"]
    ends = tokens.ends_text(stop) or tokens.after(stop) in STARTERS
    stop -= text[-1] == "." and ends
    return None if words is None else ((stop, words),)


def read_spelled(tokens: TokenizedText, place: int) -> Reading | None:
    """Read letters and words in capitals as letters, for models that know no acronyms."""
    text, stop = tokens.text(place), place + 1
    is_plural = text[2:].endswith("s") and text[:-1].isupper()
    tail = "'s" if text.endswith("'s") else "s" if is_plural else ""
    letters = text.removesuffix(tail)
    is_listed = "," in (tokens.kind(stop), tokens.kind(place - 2))
    is_single = len(text) == 1 and text.isascii() and text not in "aAI"
    is_spelled = (
        letters.isupper()
        and len(text) > 1
        and not (_VOWELS & set(letters[1:-1]) and len(letters) > 3)
        and letters not in CAPITAL_WORDS
        and not (_SPOKEN & set(letters) and not is_listed and _is_shouted(tokens, place))
    )
    is_inside = "'" in (tokens.kind(place - 1), tokens.kind(stop))
    if not tokens.spells or is_inside or not (is_single or is_spelled):
        return None
    return ((stop, f"{' '.join(letters.upper())}{tail}"),)


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
    are_words = all(word.isupper() and (len(word) > 1 or word in "IA") for word in around)
    return are_words and bool(around)
