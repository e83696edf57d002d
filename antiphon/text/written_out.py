"""English text written out in words: numbers, signs, abbreviations and codes, with offsets.

The rules of the table are tried at each token; text that no rule reads stays as it is. A rule reads
a bounded number of tokens around its own, so the total time is linear.
"""

from collections.abc import Iterator, Mapping, Sequence

from antiphon.text import (
    addresses,
    capitals,
    codes,
    dates,
    formulas,
    measures,
    quantities,
    ranges,
    signs,
    times,
    words,
)
from antiphon.text.english_tables import (
    CURRENCIES,
    FRACTION_SIGNS,
    SIGN_WORDS,
    SUBSCRIPTS,
    SUPERSCRIPTS,
)
from antiphon.text.readings import Reading, Rule
from antiphon.text.tokens import DIGITS, LINE, SPACE, WORD, SpokenPiece, TokenizedText

_END_MARKS = frozenset(".!?\u2026")
_CLOSERS = frozenset("\"'\u201d)]*_")
_OPENERS = frozenset("\"'\u201c([*_")
_MAX_CLOSERS = 4
SILENT_SIGNS = frozenset("\u2122\u00ae\u2120")
"""Signs that are left out although the dictionary has readings for them."""

_NUMBER_RULES: tuple[Rule, ...] = (
    *(capitals.read_outline, words.read_slashed_word, words.read_phrase, dates.read_numeric_date),
    *(codes.read_hexadecimal, codes.read_section, codes.read_phone, addresses.read_address),
    *(codes.read_version, dates.read_era, times.read_military_time, dates.read_book),
    *(dates.read_verse, dates.read_day_first, times.read_time, times.read_hours_to),
    *(dates.read_decade, quantities.read_ordinal, dates.read_ratio, ranges.read_chain),
    *(dates.read_slashed, measures.read_dimensions, measures.read_feet, measures.read_angle),
    *(measures.read_shillings, measures.read_duration, measures.read_plural),
    *(measures.read_multiple, ranges.read_quantity, codes.read_mixed, quantities.read_digits),
)
_WORD_RULES: tuple[Rule, ...] = (
    *(addresses.read_address, dates.read_book, codes.read_keys, codes.read_named_sign),
    *(ranges.read_code_amount, dates.read_month_first, dates.read_weekday, words.read_slashed_word),
    *(words.read_optional_plural, words.read_phrase, capitals.read_outline, words.read_dotted),
    *(words.read_initial, measures.read_unit_word, capitals.read_short_form),
    *(words.read_abbreviation, capitals.read_roman),
    *(capitals.read_state, codes.read_version, codes.read_to_between, formulas.read_formula),
    *(codes.read_mixed, capitals.read_capital_letter, dates.read_era),
    *(formulas.read_variable, capitals.read_short_word, capitals.read_spelled),
)
_RULES: Mapping[str, tuple[Rule, ...]] = {
    DIGITS: _NUMBER_RULES,
    WORD: _WORD_RULES,
    **dict.fromkeys(SIGN_WORDS, (signs.read_sign,)),
    **dict.fromkeys(CURRENCIES, (ranges.read_quantity,)),
    **dict.fromkeys(FRACTION_SIGNS, (ranges.read_quantity, quantities.read_digits)),
    **dict.fromkeys("\u2248\u00b1\u2264\u2265\u2212", (ranges.read_quantity, signs.read_sign)),
    **dict.fromkeys(SUPERSCRIPTS, (formulas.read_power,)),
    **dict.fromkeys(SUBSCRIPTS, (formulas.read_subscript,)),
    **dict.fromkeys("\u2022\u25cf\u25aa\u2023\u2043\u25e6", (signs.read_line_start,)),
    **dict.fromkeys(SILENT_SIGNS, (signs.read_mark,)),
    **dict.fromkeys("{}", (signs.read_brace,)),
    "\u207b": (formulas.read_power,),
    "-": (signs.read_line_start, ranges.read_quantity, signs.read_dash),
    "\u2013": (ranges.read_quantity, signs.read_dash),
    "\u2014": (signs.read_dash,),
    "+": (codes.read_phone, signs.read_line_start, ranges.read_quantity, signs.read_sign),
    "<": (signs.read_tag, ranges.read_quantity, signs.read_sign),
    ">": (signs.read_line_start, ranges.read_quantity, signs.read_sign),
    "~": (addresses.read_address, ranges.read_quantity, signs.read_mark),
    "*": (signs.read_line_start, signs.read_star),
    "_": (signs.read_mark,),
    "`": (signs.read_mark,),
    "\u00b0": (measures.read_unit_word, signs.read_sign),
    "\\": (addresses.read_address, signs.read_backslash),
    "^": (addresses.read_address, measures.read_exponent),
    "⌘": (codes.read_keys, signs.read_sign),
    "#": (signs.read_line_start, codes.read_hash, signs.read_sign),
    "@": (codes.read_hash, signs.read_sign),
    "(": (codes.read_phone,),
    "'": (dates.read_decade,),
    ".": (codes.read_named_sign, addresses.read_address, ranges.read_quantity),
    "/": (addresses.read_address, measures.read_slash),
    "[": (signs.read_link_start,),
    "]": (signs.read_link_end,),
    "=": (signs.read_sign,),
    "!": (signs.read_not_equal,),
}


def pieces_of(tokens: TokenizedText, start: int = 0) -> Iterator[SpokenPiece]:
    """Yield the pieces of a text, in order; together they cover it.

    Args:
        start: index of the first piece's token; earlier tokens are context.
    """
    place = start
    while place < len(tokens):
        reading = _read(tokens, place)
        if reading is None:
            yield _copied(tokens, place)
            place += 1
            continue
        for stop, spoken in reading:
            yield SpokenPiece(tokens.offset(place), tokens.offset(stop), spoken, is_changed=True)
            place = stop


def _read(tokens: TokenizedText, place: int) -> Reading | None:
    for rule in _RULES.get(tokens.kind(place), ()):
        reading = rule(tokens, place)
        if reading is not None:
            return reading
    return None


def _copied(tokens: TokenizedText, place: int) -> SpokenPiece:
    kind = tokens.kind(place)
    return SpokenPiece(
        tokens.offset(place),
        tokens.offset(place + 1),
        tokens.text(place),
        ends_sentence=kind == LINE or (kind in _END_MARKS | _CLOSERS and _ends(tokens, place)),
    )


def _ends(tokens: TokenizedText, place: int) -> bool:
    """Return whether a sentence ends after a mark or its closing signs."""
    if tokens.kind(place + 1) not in (SPACE, LINE, ""):
        return False
    mark = place
    while tokens.kind(mark) in _CLOSERS and place - mark < _MAX_CLOSERS:
        mark -= 1
    if tokens.kind(mark) not in _END_MARKS or not tokens.kind(mark):
        return False
    following = place + 2
    while tokens.kind(following) and tokens.kind(following) in _OPENERS:
        following += 1
    return not tokens.text(following)[:1].islower()


def spoken_text(pieces: Sequence[SpokenPiece]) -> tuple[str, list[int]]:
    """Return pieces as one text, and the number of the piece of each character.

    A space separates words that would adjoin those before them.
    """
    parts: list[str] = []
    numbers: list[int] = []
    before, last = False, ""
    for number, piece in enumerate(pieces):
        part = piece.words
        is_joined = part[:1].isalnum() and (piece.is_changed or before)
        if last.isalnum() and (is_joined or part[:1] in ("(", "[")):
            part = f" {part}"
        parts.append(part)
        numbers += [number] * len(part)
        before, last = piece.is_changed, part[-1:] or last
    return "".join(parts), numbers
