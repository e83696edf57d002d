"""Numerals: grouped digits, decimals, leading zeros, fractions and mixed fractions."""

from dataclasses import dataclass

from antiphon.text.contexts import reading_in, words
from antiphon.text.english_tables import FRACTION_SIGNS, NUMBER_STYLES, ORDINAL_ENDINGS, STREETS
from antiphon.text.number_words import (
    MAX_NUMBER,
    cardinal,
    in_pairs,
    ordinal,
    plural,
    spelled,
    year,
)
from antiphon.text.tokens import DIGITS, SPACE, WORD, TokenizedText

_MAX_CARDINAL_DIGITS = 15
_MAX_FRACTION_PARTS = (*range(2, 13), 15, 16, 20, 24, 25, 32, 50, 60, 64, 100, 128, 1000)
_MAX_GROUPS = 6
_MAX_STREET_WORDS = 5
PASSED_OVER = words("( : # . number no is")
_NOT_ACRONYMS = words("after and before from late mid since till year")
_GROUP_SIGNS = (",", " ", "'", "_", ".")


@dataclass(frozen=True, slots=True)
class Numeral:
    """Unsigned number of a text.

    Attributes:
        stop: index of the token after it.
        whole: digits before the point, without marks; may be empty.
        decimals: digits after the point; may be empty.
        fraction: numerator and denominator added to the whole; ``None``: no fraction.
        is_grouped: whether thousands are marked.
    """

    stop: int
    whole: str
    decimals: str = ""
    fraction: tuple[int, int] | None = None
    is_grouped: bool = False

    @property
    def is_integer(self) -> bool:
        return not self.decimals and self.fraction is None

    @property
    def is_one(self) -> bool:
        return self.is_integer and self.whole == "1"

    @property
    def value(self) -> float:
        fraction = self.fraction or (0, 1)
        return float(f"{self.whole or 0}.{self.decimals or 0}") + fraction[0] / (fraction[1] or 1)


def parse_numeral(
    tokens: TokenizedText, place: int, *, with_fraction: bool = True
) -> Numeral | None:
    if tokens.kind(place) in FRACTION_SIGNS:
        return Numeral(place + 1, "", fraction=FRACTION_SIGNS[tokens.text(place)])
    if tokens.has(place, ".d") and tokens.is_open(place):
        return Numeral(place + 2, "", tokens.text(place + 1))
    if tokens.kind(place) != DIGITS:
        return None
    number = _grouped(tokens, place) or Numeral(place + 1, tokens.text(place))
    stop = number.stop
    if tokens.has(stop, ".d") and not tokens.has(stop + 2, ".d"):
        decimals = tokens.text(stop + 1)
        return Numeral(stop + 2, number.whole, decimals, is_grouped=number.is_grouped)
    return (with_fraction and _with_fraction(tokens, number)) or number


def say_numeral(numeral: Numeral, *, british: bool = False) -> str:
    if numeral.fraction is not None:
        return _say_fraction(numeral, british=british)
    words = [say_integer(numeral.whole, british=british)] if numeral.whole else []
    if numeral.decimals:
        words += ["point", spelled(numeral.decimals)]
    return " ".join(words)


def say_integer(digits: str, *, british: bool = False) -> str:
    """Return a count in words; leading zeros, and numbers without a name, digit by digit."""
    if (len(digits) > 1 and digits[0] == "0") or len(digits) > _MAX_CARDINAL_DIGITS:
        return spelled(digits)
    return cardinal(min(int(digits), MAX_NUMBER), british=british)


def say_parts(numerator: int, denominator: int) -> str:
    """Return "three quarters" for 3 and 4."""
    if denominator == 2:
        name = "half" if numerator == 1 else "halves"
    else:
        name = "quarter" if denominator == 4 else ordinal(denominator)
        name = name.removeprefix("one ") if denominator in (100, 1000) else name
        name += "" if numerator == 1 else "s"
    return f"{cardinal(numerator)} {name}"


def is_fraction(numerator: int, denominator: int) -> bool:
    """Return whether two numbers with a slash between are a fraction with a usual denominator."""
    return 0 < numerator < denominator and denominator in _MAX_FRACTION_PARTS


def say_in_context(tokens: TokenizedText, place: int, numeral: Numeral) -> str:
    """Return a plain integer as a year, an identifier, digits or a count, by its context."""
    digits, british = numeral.whole, tokens.british
    if numeral.is_grouped or (digits and not numeral.is_integer) or numeral.fraction:
        return say_numeral(numeral, british=british)
    style = number_style(tokens, place, numeral)
    if not digits:
        is_named = style == "pairs" and numeral.decimals[0] != "0" and len(numeral.decimals) < 4
        return say_pairs(numeral.decimals) if is_named else say_numeral(numeral, british=british)
    if style == "digits" or (len(digits) >= 10 and digits[-3:] != "000"):
        return spelled(digits)
    if style == "pairs":
        return say_pairs(digits)
    is_round = digits[-2:] == "00" and digits[1:2] != "0" and digits < "2000"
    if len(digits) != 4 or digits[0] == "0" or (style == "count" and not is_round):
        return say_integer(digits, british=british)
    if style == "year" and "1000" <= digits < "3000":
        return say_year(digits, british=british)
    return say_year(digits, british=british) if is_year(digits) else cardinal(int(digits))


def number_style(tokens: TokenizedText, place: int, numeral: Numeral) -> str | None:
    """Return the style of a plain number by the words around it, one of `NUMBER_STYLES`."""
    digits = numeral.whole or f".{numeral.decimals}"
    size = "0" if digits[0] == "0" and len(digits) > 1 else str(len(digits))
    is_round = len(digits) > 2 and digits[-2:] == "00" and size != "0"
    before, after = tokens.around(place, numeral.stop, PASSED_OVER)
    if tokens.kind(place - 1) == "-" and tokens.kind(place - 2) == WORD:
        before = ["<hyphen>"]
    if tokens.kind(place - 1) == "#" and len(digits) > 4:
        before = ["number"]
    if _is_section(tokens, numeral.stop):
        after = ["<section>"]
    elif _is_street(tokens, numeral.stop):
        after = ["<street>"]
    key = f".{len(digits) - 1}" if digits[0] == "." else f"{size}{'h' * is_round}"
    style = reading_in(NUMBER_STYLES.get(digits, ()), before, after)
    style = style or reading_in(NUMBER_STYLES.get(key, ()), before, after)
    is_acronym = style == "acronym" and before[0].lower() not in _NOT_ACRONYMS
    return "pairs" if is_acronym and not is_year(before[0]) else style


def _is_section(tokens: TokenizedText, place: int) -> bool:
    """Return whether a letter in brackets follows, as in "401(k)"."""
    return tokens.has(place, "(w)") and len(tokens.text(place + 1)) == 1


def _is_street(tokens: TokenizedText, place: int) -> bool:
    """Return whether a street's name in capitals follows a house number: "742 Elm Ter."."""
    for number in range(_MAX_STREET_WORDS):
        name = place + 1
        if tokens.kind(place) != SPACE or tokens.kind(name) not in (WORD, DIGITS):
            return False
        text, place = tokens.text(name), name + 1
        if text in STREETS:
            return number > 0
        is_ordinal = tokens.kind(name) == DIGITS and tokens.text(place).lower() in ORDINAL_ENDINGS
        if not (is_ordinal or text[0].isupper()):
            return False
        place += is_ordinal
        place += tokens.kind(place) == "."
    return False


def say_pairs(digits: str) -> str:
    """Return "four oh four" for 404; one by one with a leading zero."""
    return spelled(digits) if digits[0] == "0" else in_pairs(int(digits))


def say_year(digits: str, *, british: bool = False) -> str:
    """Return a year of one to four digits."""
    if len(digits) == 2 and digits[0] == "0":
        return "two thousand" if digits == "00" else f"oh {cardinal(int(digits))}"
    if len(digits) > 4 or (digits[0] == "0" and len(digits) > 1):
        return spelled(digits)
    return year(int(digits), british=british)


def say_decade(digits: str) -> str:
    """Return "nineteen nineties" for 1990."""
    if digits[-3:] == "000":
        return "thousands" if digits == "1000" else plural(cardinal(int(digits)))
    return plural(say_year(digits))


def is_year(digits: str) -> bool:
    """Return whether four digits usually are a year without further context."""
    return len(digits) == 4 and digits.isdecimal() and 1100 <= int(digits) < 2100


def _grouped(tokens: TokenizedText, place: int) -> Numeral | None:
    """Return digits in groups of three, or as in India, with one kind of mark between them."""
    first, sign = tokens.text(place), tokens.kind(place + 1)
    if sign not in _GROUP_SIGNS or len(first) > 3 or (first[0] == "0" and sign != ","):
        return None
    groups, stop = [first], place + 1
    while (
        tokens.kind(stop) == sign and tokens.kind(stop + 1) == DIGITS and len(groups) < _MAX_GROUPS
    ):
        group = tokens.text(stop + 1)
        if sign == SPACE and (len(group) != 3 or tokens.text(stop) == "\t"):
            break
        groups.append(group)
        stop += 2
    sizes = [len(group) for group in groups[1:]]
    if not sizes:
        return None
    is_usual = all(size == 3 for size in sizes)
    is_indian = sign == "," and len(sizes) > 1 and sizes[-1] == 3 and set(sizes[:-1]) == {2}
    if not (is_usual or (is_indian and len(first) < 3)):
        return None
    if sign == SPACE and not (
        len(sizes) > 1 or groups[-1] == "000" or tokens.text(place + 1) == "\u00a0"
    ):
        return None
    if sign == "." and len(sizes) < 2 and not tokens.has(stop, ",d"):
        return None
    whole = "".join(groups)
    if sign == "." and tokens.has(stop, ",d") and len(tokens.text(stop + 1)) <= 2:
        return Numeral(stop + 2, whole, tokens.text(stop + 1), is_grouped=True)
    return Numeral(stop, whole, is_grouped=True)


def _with_fraction(tokens: TokenizedText, number: Numeral) -> Numeral | None:
    """Return "2 1/2", "2-1/2", "2½" or "1/2" as one numeral."""
    place = number.stop
    if tokens.kind(place) in (SPACE, "-") and tokens.kind(place + 1) in FRACTION_SIGNS:
        place += 1
    if tokens.kind(place) in FRACTION_SIGNS:
        return Numeral(place + 1, number.whole, fraction=FRACTION_SIGNS[tokens.text(place)])
    for shape in (" d/d", "-d/d"):
        if tokens.has(place, shape) and tokens.is_closed(place + 4):
            fraction = int(tokens.text(place + 1)[:6]), int(tokens.text(place + 3)[:6])
            if is_fraction(*fraction) and len(number.whole) <= 3:
                return Numeral(place + 4, number.whole, fraction=fraction)
    return None


def _say_fraction(numeral: Numeral, *, british: bool) -> str:
    assert numeral.fraction is not None
    parts = say_parts(*numeral.fraction)
    if not numeral.whole:
        return parts
    parts = {"one half": "a half", "one quarter": "a quarter"}.get(parts, parts)
    return f"{say_integer(numeral.whole, british=british)} and {parts}"
