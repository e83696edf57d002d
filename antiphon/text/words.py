"""Abbreviations, titles, initials, Roman numerals and words in capitals."""

from antiphon.text.contexts import words
from antiphon.text.english_tables import (
    ABBREVIATIONS,
    BARE_ABBREVIATIONS,
    BARE_BEFORE_NUMBERS,
    BARE_TITLES,
    BEFORE_NAMES,
    BEFORE_NUMBERS,
    CERTAIN_PLACES,
    COMPASS,
    DOTTED,
    LETTER_WORDS,
    NUMBERED_WITH_LETTERS,
    ORDINAL_ENDINGS,
    PHRASES,
    PLACES,
    SAINTS,
    SLASHED,
    STARTERS,
    STATES,
    TITLES,
)
from antiphon.text.number_words import roman
from antiphon.text.numerals import is_year, say_integer
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, LINE, SPACE, WORD, TokenizedText
from antiphon.text.units import ends_here

_PHRASES: dict[str, list[tuple[str, int]]] = {}
for _phrase in PHRASES:
    _tokens = TokenizedText(_phrase)
    _PHRASES.setdefault(_tokens.text(0), []).append((_phrase, len(_tokens)))
_MAX_DOTTED_PARTS = 8
_QUARTERS = words("NE NW SE SW")  # after the name of a street
_PARTICIPLES = {"incl": "included", "excl": "excluded"}
_SCHOOLS = frozenset(STATES.values()) | words("Ball Boise Fresno Kent Penn Wichita")


def read_slashed_word(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "and/or", "w/o", "24/7" and the like as a whole."""
    if tokens.kind(place + 1) != "/" or not tokens.is_open(place):
        return None
    for steps in (5, 3, 2):
        name = SLASHED.get(tokens.joined(place, place + steps).lower())
        if name == "F" and tokens.kind(place + 2) != DIGITS:
            return None
        if name is not None and (steps == 2 or tokens.is_closed(place + steps)):
            if steps == 2 and tokens.kind(place + 2) == DIGITS:
                name += " "
            return ((place + steps, name),)
    return None


def read_phrase(tokens: TokenizedText, place: int) -> Reading | None:
    """Read an abbreviation of several words, and a number before one as a count."""
    start = place + 2 * tokens.has(place, "d w")
    for phrase, size in _PHRASES.get(tokens.text(start), ()):
        stop = start + size
        if tokens.joined(start, stop) == phrase and tokens.is_open(place):
            if start > place:
                return ((place + 1, say_integer(tokens.text(place))),)
            return _with_end(tokens, stop, PHRASES[phrase], has_dot=phrase[-1] == ".")
    return None


def read_optional_plural(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "file(s)" as "files"."""
    ending = tokens.text(place + 2)
    if not tokens.has(place + 1, "(w)") or ending not in ("s", "es", "ren"):
        return None
    return ((place + 4, f"{tokens.text(place)}{ending}"),) if tokens.is_closed(place + 4) else None


def read_dotted(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "U.S.", "e.g.", "Ph.D." and "J.R.R.": letters with a dot after each."""
    stop, num_parts = place, 0
    while (
        tokens.kind(stop) == WORD and len(tokens.text(stop)) <= 2 and tokens.kind(stop + 1) == "."
    ):
        stop += 2
        num_parts += 1
        is_parted = num_parts == 1 and tokens.has(stop, " w.")
        if is_parted and f"{tokens.joined(place, stop)}{tokens.text(stop + 1)}." in DOTTED:
            stop += 1
        if num_parts > _MAX_DOTTED_PARTS:
            return None
    has_last_dot = True
    is_last = tokens.kind(stop) == WORD and len(tokens.text(stop)) <= 2
    if num_parts and is_last and tokens.is_closed(stop + 1):
        stop, num_parts, has_last_dot = stop + 1, num_parts + 1, False
    text = tokens.joined(place, stop).replace(" ", "")
    if text in DOTTED:
        stop += tokens.has(stop, ", ") and text in ("e.g.", "i.e.")
        words = DOTTED[text]
        return ((stop, f"{words}," if tokens.kind(stop - 1) == "," else words),)
    is_series = tokens.has(stop, "dw") and tokens.text(stop + 1) in ("d", "th")
    if num_parts < 2 - is_series or not tokens.is_open(place):
        return None
    letters = " ".join(text.replace(".", "").upper())
    if tokens.text(stop) == "s" and tokens.kind(stop - 1) == ".":
        return ((stop + 1, f"{letters}s"),)
    if has_last_dot and _ends_behind(tokens, stop, is_name=True):
        stop -= 1
    return ((stop, letters),)


def read_initial(tokens: TokenizedText, place: int) -> Reading | None:
    """Read the "J." of "J. Smith", whose dot does not end a sentence."""
    text = tokens.text(place)
    if len(text) != 1 or not text.isupper() or tokens.kind(place + 1) != ".":
        return None
    is_next = tokens.has(place + 2, " w.") and len(tokens.text(place + 3)) == 1
    if is_next and tokens.text(place + 3).isupper():
        return ((place + 2, text),)
    if text == "I":
        return None
    following = tokens.after(place + 2)
    compass = COMPASS.get(text)
    is_numbered = tokens.has(place + 2, " dw") and tokens.text(place + 4) in ORDINAL_ENDINGS
    if compass and (
        is_numbered or (tokens.has(place + 2, " dw") and tokens.before(place).isdecimal())
    ):
        return ((place + 2, compass),)
    if tokens.has(place + 2, " w") and following[0].isupper() and following not in STARTERS:
        if compass and tokens.before(place).isdecimal():
            return ((place + 2, compass),)
        if tokens.before(place) not in LETTER_WORDS:
            return ((place + 2, text),)
    return None


def read_abbreviation(tokens: TokenizedText, place: int) -> Reading | None:
    """Read an abbreviation of the tables, with a dot, or without one if it is unambiguous."""
    text = tokens.text(place)
    has_dot = tokens.kind(place + 1) == "."
    stop = place + 1 + has_dot
    if not tokens.is_open(place):
        return None
    is_name = follows_name(tokens, place) or tokens.has(place - 3, "w. ")
    if text == "v" and has_dot and is_name and tokens.after(stop)[:1].isupper():
        return ((stop, "versus"),)
    numbered = _before_number(tokens, place, stop, has_dot=has_dot)
    if numbered is not None:
        return numbered
    title = TITLES.get(text)
    if title is not None and (has_dot or text in BARE_TITLES) and _is_title(tokens, place, stop):
        return ((stop, title),)
    if text in ("St", "St's") and _is_saint(tokens, place, stop):
        return ((stop, "Saint"),)
    is_school = text == "St" and has_dot and tokens.text(place - 2) in _SCHOOLS
    if is_school and tokens.before(place - 2) != "on" and not _is_numbered(tokens, place):
        return _with_end(tokens, stop, "State", has_dot=has_dot)
    if _is_place(tokens, place, has_dot=has_dot):
        return _with_end(tokens, stop, PLACES[text], has_dot=has_dot)
    return _plain_abbreviation(tokens, place, stop, has_dot=has_dot)


def _is_place(tokens: TokenizedText, place: int, *, has_dot: bool) -> bool:
    text = tokens.text(place)
    if text in CERTAIN_PLACES:
        return True
    is_marked = has_dot or _ends_street(tokens, place)
    return text in PLACES and is_marked and follows_name(tokens, place)


def _plain_abbreviation(
    tokens: TokenizedText, place: int, stop: int, *, has_dot: bool
) -> Reading | None:
    text = tokens.text(place)
    name = ABBREVIATIONS.get(text)
    if name is None or not (has_dot or text in BARE_ABBREVIATIONS):
        return None
    if text in BEFORE_NAMES:
        is_last = text.lower() in _PARTICIPLES and not tokens.after(stop)
        return ((stop, _PARTICIPLES[text.lower()] if is_last else name),)
    if text in _WORDS_AT_END and has_dot and _ends_behind(tokens, stop, is_name=False):
        return None
    return _with_end(tokens, stop, name, has_dot=has_dot)


_WORDS_AT_END = words(
    """
    al ave Co def dist ed ex Fl info ins lib lic med pop prelim rec ref Ref rev sm supp coord int ft
    gal Ill Max max Min Miss mo par Penn Ph prob sec Tech Temp temp Va Wash
    """
)


def _with_end(tokens: TokenizedText, stop: int, words: str, *, has_dot: bool) -> Reading:
    """Keep the dot of an abbreviation in the text if it ends a sentence too."""
    if has_dot and _ends_behind(tokens, stop, is_name=False):
        stop -= 1
    return ((stop, words),)


def _ends_behind(tokens: TokenizedText, stop: int, *, is_name: bool) -> bool:
    """Return whether a sentence ends with an abbreviation.

    Args:
        stop: index of the token after its dot.
        is_name: whether names often follow it, so that a capital alone is weak evidence.
    """
    if tokens.ends_text(stop):
        return True
    if not ends_here(tokens, stop) or tokens.after(stop) in (*_QUARTERS, *PLACES):
        return False
    return not is_name or tokens.after(stop) in STARTERS


def _before_number(
    tokens: TokenizedText, place: int, stop: int, *, has_dot: bool
) -> Reading | None:
    text = tokens.text(place)
    name = BEFORE_NUMBERS.get(text)
    if name is None or not (has_dot or text in BARE_BEFORE_NUMBERS):
        return None
    number = stop + (tokens.kind(stop) == SPACE)
    number += tokens.kind(number) == "#" or (text[:2] in ("Eq", "eq") and tokens.has(number, "(d"))
    is_number = tokens.kind(number) == DIGITS
    if tokens.kind(number) == WORD and has_dot:
        word = tokens.text(number)
        is_roman = len(word) > 1 and roman(word.upper()) is not None
        is_letter = text in NUMBERED_WITH_LETTERS and len(word) == 1 and word.isupper()
        is_code = word.isupper() and tokens.has(number + 1, "-d") and name.lower() == "number"
        is_number = is_number or is_roman or is_letter or is_code
    if not is_number:
        return None
    if text in ("c", "b", "d", "l", "v", "V", "est", "Est", "ca") and not has_dot:
        return None
    if name.lower() == "established" and not is_year(tokens.text(number)):
        name = "estimated"
    is_glued = number == stop
    return ((stop, f"{name} " if is_glued else name),)


def _is_title(tokens: TokenizedText, place: int, stop: int) -> bool:
    """Return whether a name follows a title that is not part of a street or a name before it."""
    text = tokens.text(place)
    if place > 2 and tokens.text(place - 3) in TITLES and tokens.has(place - 3, "w. "):
        return True
    if text in BARE_TITLES - PLACES.keys() and tokens.has(stop - 1, ".,"):
        return True  # an address: "Yes, Sgt.,"
    is_person = tokens.before(place) in ("the", "our", "his") and text not in PLACES
    if is_person and tokens.kind(stop - 1) == "." and not ends_here(tokens, stop):
        return True
    if not tokens.has(stop, " w") or not tokens.text(stop + 1)[0].isupper():
        is_class = tokens.has(stop, " dw") and tokens.text(stop + 2) in ORDINAL_ENDINGS
        is_sure = text in ("Mr", "Mrs", "Ms", "Dr", "Prof") and (
            tokens.has(stop, " w") or tokens.has(stop, " &")
        )
        is_place = text in PLACES and (is_class or follows_name(tokens, place))
        return (is_sure or is_class) and not is_place
    if text == "Sr":
        return not follows_name(tokens, place)
    if text in PLACES and follows_name(tokens, place):
        is_address = tokens.text(stop + 1) in ("Apt", "Suite", "Unit", *COMPASS)
        return not (is_address or tokens.text(stop + 1) in STARTERS or _is_numbered(tokens, place))
    return True


def _is_numbered(tokens: TokenizedText, place: int) -> bool:
    """Return whether a house number precedes by one or two words."""
    for back in range(2, 9, 2):
        is_ordinal = tokens.text(place - back).lower() in ORDINAL_ENDINGS
        if tokens.kind(place - back - is_ordinal) == DIGITS:
            return True
        if tokens.kind(place - back) != WORD or tokens.kind(place - back + 1) != SPACE:
            return False
    return False


def follows_name(tokens: TokenizedText, place: int) -> bool:
    """Return whether a capitalized word, or an ordinal, directly precedes."""
    if tokens.kind(place - 1) != SPACE:
        return False
    before = tokens.text(place - 2)
    if tokens.kind(place - 2) == WORD and before.lower() in ORDINAL_ENDINGS:
        return True
    return tokens.kind(place - 2) == WORD and before[0].isupper() and before not in STARTERS


def _is_saint(tokens: TokenizedText, place: int, stop: int) -> bool:
    if not tokens.has(stop, " w") or not tokens.text(stop + 1)[0].isupper():
        return False
    name = tokens.text(stop + 1).split("'")[0]
    return name in SAINTS or not follows_name(tokens, place)


def _ends_street(tokens: TokenizedText, place: int) -> bool:
    """Return whether this is a street's short form without a dot: "123 Main St"."""
    is_end = tokens.kind(place + 1) in (",", "", LINE, SPACE)
    return is_end and follows_name(tokens, place) and _is_numbered(tokens, place)
