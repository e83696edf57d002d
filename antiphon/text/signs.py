"""Signs on their own, and remains of HTML and Markdown."""

from antiphon.text.english_tables import (
    HTML_TAGS,
    MONTH_NAMES,
    SIGN_PAIRS,
    SIGN_WORDS,
    SUBSCRIPTS,
    SUPERSCRIPTS,
)
from antiphon.text.number_words import cardinal, roman
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, LINE, SPACE, WORD, TokenizedText

_MAX_LINK_TOKENS = 200
_MAX_TAG_TOKENS = 40
_MAX_STARS = 20
_NUMBER_OR_WORD = (WORD, DIGITS, ")")
_BULLETS = "-*+\u2022\u25cf\u25aa\u2023\u2043\u25e6"


def read_sign(tokens: TokenizedText, place: int) -> Reading | None:
    """Read a sign, or two that belong together, by its name."""
    pair = SIGN_PAIRS.get(tokens.joined(place, place + 2))
    if pair is not None:
        return ((place + 2, pair),)
    sign, stop = tokens.kind(place), place + 1
    if sign == "\u2605":
        while tokens.kind(stop) == sign and stop - place < _MAX_STARS:
            stop += 1
        is_one = tokens.has(stop, " w") and tokens.text(stop + 1).islower()
        number = place - 1 - (tokens.kind(place - 1) == SPACE)
        counted = tokens.kind(number) == DIGITS and stop == place + 1
        name = ("star" if is_one else "stars") if counted else f"{cardinal(stop - place)} star"
        return ((stop, f" {name}{'s' * (stop > place + 1)}"),)
    is_menu = sign == ">" and tokens.has(place - 2, "w > w")
    if is_menu and all(tokens.text(each)[0].isupper() for each in (place - 2, place + 2)):
        return ((stop, ","),)
    word = SIGN_WORDS.get(sign)
    return None if word is None else ((stop, word),)


def read_dash(tokens: TokenizedText, place: int) -> Reading | None:
    """Read a hyphen or a dash between spaces: a pause, or "minus" between letters of a formula."""
    stop = place + 1
    while tokens.kind(stop) in ("-", "\u2013", "\u2014") and stop - place < 80:
        stop += 1
    if tokens.kind(stop) == ">":
        return ((stop + 1, "to"),)
    is_option = tokens.kind(place - 1) == SPACE and tokens.kind(stop) == WORD
    letter = tokens.text(stop).upper() if len(tokens.text(stop)) == 1 else ""
    if is_option and (stop - place == 2 or letter):
        return ((stop + len(letter), f"{'dash ' * (stop - place)}{letter}"),)
    if stop - place > 1:
        is_rule = _begins_line(tokens, place) and tokens.kind(stop) in (LINE, "")
        return ((stop, "" if is_rule else "\u2014"),)
    before, after = tokens.kind(place - 1), tokens.kind(place + 1)
    is_term = tokens.has(place - 1, "w-d") and tokens.text(place - 1) in (*"nijkxyz",)
    is_until = tokens.has(place - 2, "d - w") and tokens.text(place + 2) in MONTH_NAMES
    if is_until or is_term:
        return ((stop, "to" if is_until else " minus "),)
    if before not in (SPACE, "") and _is_range(tokens, place):
        return ((stop, " to "),)
    if tokens.kind(place) != "-":
        is_joined = before in (WORD, DIGITS) and after in (WORD, DIGITS)
        return ((stop, "\u2014"),) if before == SPACE or is_joined else None
    if before in (SPACE, "") and after == SPACE:
        if _begins_line(tokens, place):
            return ((stop, ""),)
        is_formula = _is_term(tokens, place - 2) and _is_term(tokens, place + 2)
        return ((stop, "minus" if is_formula else "\u2014"),)
    return None


def _is_range(tokens: TokenizedText, place: int) -> bool:
    """Return whether a dash between two words or numbers stands for "to"."""
    is_short = tokens.has(place - 2, "w.")
    before = place - 1 - is_short
    first, last = tokens.text(before), tokens.text(place + 1)
    ends = _end_of_range(tokens, before), _end_of_range(tokens, place + 1)
    if "" in ends:
        return False
    if tokens.kind(place) == "-":
        is_alphabet = first.lower() == "a" and last in "zZ" and len(last) == 1
        is_date = "number" in ends and "date" in ends
        is_counted = ends == ("number", "number") or (ends[0] == "time" and ends[1] == "number")
        return is_alphabet or is_date or is_counted
    is_named = ends == ("word", "word") and (is_short or len(first) > 3) and len(last) > 3
    return ends[0] == ends[1] != "word" or is_named or ("number" in ends and "word" not in ends)


def _end_of_range(tokens: TokenizedText, place: int) -> str:
    """Return the kind of one end of a range; empty if it cannot be one."""
    text, kind = tokens.text(place), tokens.kind(place)
    if kind == DIGITS:
        return "number"
    if kind == WORD and len(text) == 1 and tokens.kind(place - 1) == DIGITS:
        return "number"
    if kind != WORD:
        return ""
    if text.lower() in ("noon", "midnight"):
        return "time"
    if text in MONTH_NAMES or text.lower().endswith("day"):
        return "date"
    if len(text) == 1 or roman(text) is not None:
        return "letter" if text.isupper() or text == "z" else ""
    return "word" if text[0].isupper() else ""


def _is_term(tokens: TokenizedText, place: int) -> bool:
    kind = tokens.kind(place)
    is_variable = kind == WORD and len(tokens.text(place)) == 1 and tokens.text(place) != "I"
    return is_variable or kind in (DIGITS, *SUPERSCRIPTS, *SUBSCRIPTS, "(", ")")


def read_star(tokens: TokenizedText, place: int) -> Reading | None:
    """Read an asterisk: "times" between numbers or variables, else a mark of emphasis."""
    before, after = place - 1, place + 1
    if tokens.kind(before) == SPACE and tokens.kind(after) == SPACE:
        before, after = before - 1, after + 1
    if _is_term(tokens, before) and _is_term(tokens, after):
        return ((place + 1, "times"),)
    if tokens.has(place, "**d") and _is_term(tokens, before):
        return ((place + 2, " to the power of"),)
    if tokens.kind(after) == DIGITS and tokens.before(place) in ("dial", "press", "call", "hit"):
        return ((place + 1, "star "),)
    return ((place + 1, ""),)


def read_mark(tokens: TokenizedText, place: int) -> Reading | None:
    """Drop marks of emphasis, of code and of strikethrough."""
    if tokens.kind(place) == "_":
        is_inside = {tokens.kind(place - 1), tokens.kind(place + 1)} <= {WORD, DIGITS}
        return ((place + 1, " underscore " if is_inside else ""),)
    if tokens.kind(place) == "~" not in (tokens.kind(place - 1), tokens.kind(place + 1)):
        return ((place + 1, "about"),) if tokens.kind(place + 1) in (WORD, SPACE) else None
    return ((place + 1, ""),)


def read_backslash(tokens: TokenizedText, place: int) -> Reading | None:
    """Read a backslash by its name between letters; drop an escape."""
    is_path = {tokens.kind(place - 1), tokens.kind(place + 1)} <= {*_NUMBER_OR_WORD}
    return ((place + 1, "backslash" if is_path else ""),)


def read_line_start(tokens: TokenizedText, place: int) -> Reading | None:
    """Drop the mark of a heading, an item or a quotation at the start of a line."""
    is_shift = tokens.kind(place - 2) in _NUMBER_OR_WORD and tokens.text(place + 3).islower()
    if tokens.has(place, ">> w") and not is_shift:
        return ((place + 2, ""),)  # a change of speakers
    if not _begins_line(tokens, place):
        return None
    sign, stop = tokens.kind(place), place
    while tokens.kind(stop) == sign and stop - place < 6:
        stop += 1
    if sign in ("#", ">") or (sign in _BULLETS and stop == place + 1):
        return ((stop, ""),) if tokens.kind(stop) == SPACE else None
    return None


def _begins_line(tokens: TokenizedText, place: int) -> bool:
    if place > 0 and tokens.kind(place - 1) == SPACE:
        place -= 1
    return place <= 0 or tokens.kind(place - 1) == LINE


def read_tag(tokens: TokenizedText, place: int) -> Reading | None:
    """Drop an HTML tag, and read "<3" as a heart."""
    before = tokens.before(place)
    is_heart = before in ("i", "we", "u", "you") or (
        tokens.ends_text(place + 2) and (len(before) > 1 or tokens.text(place - 2).isupper())
    )
    if is_heart and tokens.text(place + 1) == "3" and tokens.is_closed(place + 2):
        return ((place + 2, "heart"),)
    stop = place + 1 + (tokens.kind(place + 1) == "/")
    if tokens.kind(stop) != WORD:
        return None
    name = tokens.text(stop).lower() + (
        tokens.text(stop + 1) if tokens.kind(stop + 1) == DIGITS else ""
    )
    if name not in HTML_TAGS:
        return None
    while tokens.kind(stop) not in (">", "<", "", LINE) and stop - place < _MAX_TAG_TOKENS:
        stop += 1
    if tokens.kind(stop) != ">":
        return None
    is_pause = name in ("br", "p", "li", "td") and not _begins_line(tokens, place)
    return ((stop + 1, ", " if is_pause else ""),)


def read_link_start(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "[text](address)" as its text; "[word](/phonemes/)" is left to the dictionary."""
    close = _link_close(tokens, place)
    if close is not None:
        stop = _address_end(tokens, close + 1)
        if stop is not None:
            address = tokens.joined(close + 2, stop - 1)
            if len(address) > 1 and address[0] == address[-1] == "/":
                return ((stop, tokens.joined(place, stop)),)
            return ((place + 1, ""),)
    return ((place + 1, "("),)


def read_link_end(tokens: TokenizedText, place: int) -> Reading | None:
    """Drop the address after the text of a link."""
    stop = _address_end(tokens, place + 1) if tokens.kind(place + 1) == "(" else None
    return ((place + 1, ")"),) if stop is None else ((stop, ""),)


def _link_close(tokens: TokenizedText, place: int) -> int | None:
    stop = place + 1
    while stop - place < _MAX_LINK_TOKENS and tokens.kind(stop) not in ("", LINE, "]", "["):
        stop += 1
    return stop if tokens.has(stop, "](") else None


def _address_end(tokens: TokenizedText, place: int) -> int | None:
    stop = place + 1
    while stop - place < _MAX_LINK_TOKENS and tokens.kind(stop) not in ("", LINE, ")"):
        if tokens.kind(stop) == SPACE and tokens.kind(stop + 1) not in ('"', "'"):
            return None
        stop += 1
    return stop + 1 if tokens.kind(stop) == ")" else None


def read_brace(tokens: TokenizedText, place: int) -> Reading | None:
    """Read braces as brackets."""
    return ((place + 1, "(" if tokens.kind(place) == "{" else ")"),)


def read_not_equal(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "!=" and drop the mark before the link of an image."""
    if tokens.kind(place + 1) == "=":
        return ((place + 2, SIGN_PAIRS["!="]),)
    return ((place + 1, ""),) if tokens.kind(place + 1) == "[" else None
