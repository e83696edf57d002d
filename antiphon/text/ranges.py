"""Amounts and measures, and ranges of them."""

from antiphon.text.contexts import reading_in, words
from antiphon.text.english_tables import (
    CURRENCIES,
    CURRENCY_CODES,
    DOLLARS,
    FRACTION_SIGNS,
    NUMBER_STYLES,
)
from antiphon.text.measures import is_quote
from antiphon.text.number_words import in_pairs, plural
from antiphon.text.numerals import parse_numeral, say_integer, say_numeral, say_pairs, say_year
from antiphon.text.quantities import DASHES, Quantity, parse_quantity, say_quantity, with_per
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, SPACE, TokenizedText

_MAX_CHAIN_TOKENS = 32
_BEFORE_HOURS = words(
    "open from hours daily f fri friday s sa sat saturday su sun sunday weekdays weekends"
)


def read_quantity(tokens: TokenizedText, place: int) -> Reading | None:
    """Read an amount, a measure, or a range of either."""
    first = parse_quantity(tokens, place)
    if first is None:
        return None
    if first.money and tokens.text(first.stop) == "s" and tokens.is_closed(first.stop + 1):
        digits = first.numeral.whole
        many = plural(say_integer(digits)).removeprefix("one ")
        tail = f" of {first.money[1]}" if digits in ("100", "1000", "1000000") else ""
        return ((first.stop + 1, f"{many}{tail}"),)
    last, joint = _range_end(tokens, first)
    if last is None:
        adjoins = tokens.kind(first.stop) in (DIGITS, ".") or first.numeral.is_integer
        is_joined = first.numeral.is_grouped and tokens.has(first.stop, "-w")
        if first.is_plain and adjoins and not (tokens.is_closed(first.stop) or is_joined):
            return None
        words = say_quantity(tokens, place, first)
        best = parse_numeral(tokens, first.stop + 1) if tokens.has(first.stop, "/d") else None
        if first.numeral.decimals and tokens.has(first.stop, ":d"):
            return ((first.stop + 2, f"{words} to {say_integer(tokens.text(first.stop + 1))}"),)
        if first.numeral.decimals and best is not None:
            return ((best.stop, f"{words} out of {say_numeral(best)}"),)
        return ((first.stop, words),)
    is_inch = last.is_plain and tokens.kind(last.stop) in ('"', "\u2033")
    if is_inch and not is_quote(tokens, place, ('"', "\u2033")):
        last = Quantity(last.stop + 1, last.numeral, unit=("inch", "inches"))
    if first.money and not (last.money or last.unit):
        last = with_per(tokens, last, first.money)
    if not tokens.is_closed(last.stop):
        return ((first.stop, say_quantity(tokens, place, first)),) if first.money else None
    return _say_range(tokens, place, first, last, joint)


def read_chain(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "4-4-2" and "71-69-74" number by number."""
    stop = place + 1
    while tokens.has(stop, "-d") and stop - place < _MAX_CHAIN_TOKENS:
        stop += 2
    digits = [tokens.text(each) for each in range(place, stop, 2)]
    is_chain = len(digits) > 2 and tokens.is_open(place) and tokens.is_closed(stop)
    if not is_chain or max(map(len, digits)) > 2:
        return None
    joint = ", " if max(map(len, digits)) > 1 else " "
    return ((stop, joint.join(map(say_integer, digits))),)


def _range_end(tokens: TokenizedText, first: Quantity) -> tuple[Quantity | None, str]:
    """Return the other end of a range, and the word between the two."""
    place = first.stop
    is_spaced = tokens.kind(place) == SPACE
    dash = tokens.kind(place + is_spaced)
    behind = place + is_spaced + 1
    if dash not in DASHES or (is_spaced and tokens.kind(behind) != SPACE):
        return None, ""
    behind += is_spaced
    if tokens.kind(behind) not in (DIGITS, *CURRENCIES, *FRACTION_SIGNS) and not tokens.has(
        behind, ".d"
    ):
        return None, ""
    last = parse_quantity(tokens, behind)
    if (
        last is None
        or last.sign
        or (is_spaced and tokens.kind(behind) in CURRENCIES and first.is_plain)
        or (tokens.kind(last.stop) in DASHES and tokens.kind(last.stop + 1) == DIGITS)
    ):
        return None, ""
    is_result = tokens.kind(last.stop + (tokens.kind(last.stop) == SPACE)) == "="
    if (not is_spaced or dash == "\u2013") and not is_result:
        return last, "to"
    if dash != "-" or first.numeral.value >= last.numeral.value or is_result:
        return last, "minus"
    has_unit = last.unit or last.money or tokens.has(last.stop, " w")
    return last, "to" if has_unit else "minus"


def _say_range(
    tokens: TokenizedText, place: int, first: Quantity, last: Quantity, joint: str
) -> Reading:
    british = tokens.british
    if first.is_plain and last.is_plain and joint == "to":
        return _plain_range(tokens, place, first, last)
    is_shared = first.is_plain
    same = first.money is not None and first.money == last.money
    is_shared = is_shared or (same and bool(last.scale) and not first.scale)
    if is_shared or (same and not (first.numeral.decimals or last.numeral.decimals)):
        head = say_numeral(first.numeral, british=british)
        if first.scale and first.scale != last.scale:
            head = f"{head} {first.scale}"
        head = f"{first.sign} {head}".strip()
    else:
        head = say_quantity(tokens, place, first)
    return ((last.stop, f"{head} {joint} {say_quantity(tokens, place, last)}"),)


def _plain_range(tokens: TokenizedText, place: int, first: Quantity, last: Quantity) -> Reading:
    digits, other = first.numeral.whole, last.numeral.whole
    is_plain = first.numeral.is_integer and last.numeral.is_integer and not first.numeral.is_grouped
    is_later = len(other) == 2 or (len(other) == 4 and digits <= other < "2100")
    if is_plain and len(digits) == 4 and "1000" <= digits < "2100" and is_later:
        years = say_year(digits), say_year(other)
        return ((last.stop, " to ".join(years)),)
    is_airliner = digits[:1] == digits[-1:] == "7" and len(digits) == 3 and other[1:] in ("00", "")
    is_airliner = is_airliner and tokens.before(place) in ("a", "the")
    rows = NUMBER_STYLES.get(f"{digits}-{other}") or NUMBER_STYLES["model"]
    if is_airliner or reading_in(rows, *tokens.around(place, last.stop, ".:")):
        return ((last.stop, f"{in_pairs(int(digits))} {say_pairs(other).replace('zero', 'oh')}"),)
    words = [say_numeral(each.numeral, british=tokens.british) for each in (first, last)]
    is_hours = tokens.before(place) in _BEFORE_HOURS
    if digits == other and not (first.numeral.decimals or is_hours):
        return ((last.stop, " ".join(words)),)
    return ((last.stop, " to ".join(words)),)


def read_code_amount(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "USD 5" and "US$5"."""
    text = tokens.text(place)
    is_code = text in CURRENCY_CODES or (text in (*DOLLARS, "R") and tokens.kind(place + 1) == "$")
    return read_quantity(tokens, place) if is_code and tokens.is_open(place) else None
