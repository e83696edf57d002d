"""Numerals: grouped digits, decimals, leading zeros, fractions and mixed fractions."""

from dataclasses import dataclass

from antiphon.text.contexts import words
from antiphon.text.name_table import DIGIT_WORDS, NOT_NOUNS, PAIR_WORDS, YEAR_WORDS
from antiphon.text.number_words import (
    MAX_NUMBER,
    cardinal,
    in_pairs,
    ordinal,
    plural,
    roman,
    spelled,
    year,
)
from antiphon.text.tokens import DIGITS, SPACE, WORD, TokenizedText
from antiphon.text.unit_table import FRACTION_SIGNS

_MAX_CARDINAL_DIGITS = 15
_MAX_FRACTION_PARTS = (*range(2, 13), 15, 16, 20, 24, 25, 32, 50, 60, 64, 100, 128, 1000)
_MAX_GROUPS = 6
_SHORT_DIGIT_WORDS = words("call code cvv dial ext extension otp passcode pin text")
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
        """Value, for comparisons."""
        fraction = self.fraction or (0, 1)
        return float(f"{self.whole or 0}.{self.decimals or 0}") + fraction[0] / (fraction[1] or 1)


def parse_numeral(
    tokens: TokenizedText, place: int, *, with_fraction: bool = True
) -> Numeral | None:
    """Return the numeral that starts at a token."""
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
    """Return a numeral in words, as a count."""
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
    before = _word_before(tokens, place)
    if numeral.is_grouped or not numeral.is_integer:
        return say_numeral(numeral, british=british)
    if before in DIGIT_WORDS and (len(digits) > 3 or digits[0] == "0"):
        return spelled(digits)
    if before in _SHORT_DIGIT_WORDS and len(digits) == 3:
        return spelled(digits)
    if len(digits) == 4 and digits[0] != "0" and _follows_capitals(tokens, place):
        return in_pairs(int(digits))
    is_name = len(digits) in (3, 4) and digits[0] != "0" and digits[-2:] != "00"
    if before in PAIR_WORDS and is_name:
        return in_pairs(int(digits))
    if before in PAIR_WORDS and len(digits) > 4:
        return spelled(digits)
    if len(digits) >= 10 and digits[-3:] != "000":
        return spelled(digits)
    if len(digits) == 5 and _follows_state(tokens, place):
        return spelled(digits)
    if len(digits) == 4 and digits[0] != "0":
        return _say_four(tokens, place, numeral, before)
    return say_integer(digits, british=british)


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


def roman_at(tokens: TokenizedText, place: int) -> int | None:
    """Return the value of a word that is a Roman numeral."""
    return roman(tokens.text(place)) if tokens.kind(place) == WORD else None


def _say_four(tokens: TokenizedText, place: int, numeral: Numeral, before: str) -> str:
    digits, british = numeral.whole, tokens.british
    number, after = int(digits), tokens.after(numeral.stop)
    is_counted = (
        tokens.kind(numeral.stop) == SPACE
        and after.islower()
        and after.endswith("s")
        and not after.endswith("ss")
        and after not in NOT_NOUNS
    ) or after in ("people", "men", "women", "children", "feet", "percent", "dollars")
    if is_counted and not (digits[-2:] == "00" and digits[1] != "0" and number < 2000):
        return cardinal(number, british=british)
    if is_year(digits) or (before in YEAR_WORDS and 1000 <= number < 3000 and not is_counted):
        return say_year(digits, british=british)
    return cardinal(number, british=british)


def _word_before(tokens: TokenizedText, place: int) -> str:
    """Return the preceding word, skipping "number", "is", a colon or a hash."""
    for _ in range(3):
        if tokens.kind(place - 1) in (SPACE, ":", "#", "."):
            place -= 1
            continue
        if tokens.kind(place - 1) == WORD and tokens.text(place - 1).lower() in (
            "number",
            "is",
            "no",
        ):
            first = tokens.before(place - 1)
            return first if first in DIGIT_WORDS | PAIR_WORDS else tokens.text(place - 1).lower()
        break
    first = tokens.text(place - 1)
    if tokens.kind(place - 1) == WORD and len(first) == 2 and first.isupper():
        return tokens.before(place - 1) or first.lower()  # the airline in "Flight UA 232"
    return tokens.before(place)


def _follows_capitals(tokens: TokenizedText, place: int) -> bool:
    """Return whether a name in capitals precedes, as in "RTX 4090", and a lower-case letter."""
    before = tokens.text(place - 2)
    is_name = tokens.kind(place - 1) == SPACE and len(before) in (3, 4) and before.isupper()
    return is_name and before.lower() not in DIGIT_WORDS | YEAR_WORDS and not is_year(before)


def _follows_state(tokens: TokenizedText, place: int) -> bool:
    before = tokens.text(place - 2)
    return tokens.kind(place - 1) == SPACE and len(before) == 2 and before.isupper()


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
    if sign == SPACE and not (len(sizes) > 1 or groups[-1] == "000" or _is_thin(tokens, place + 1)):
        return None
    if sign == "." and len(sizes) < 2 and not tokens.has(stop, ",d"):
        return None
    whole = "".join(groups)
    if sign == "." and tokens.has(stop, ",d") and len(tokens.text(stop + 1)) <= 2:
        return Numeral(stop + 2, whole, tokens.text(stop + 1), is_grouped=True)
    return Numeral(stop, whole, is_grouped=True)


def _is_thin(tokens: TokenizedText, place: int) -> bool:
    return tokens.text(place) in ("\u00a0", "\u202f", "\u2009")


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
