"""Amounts of money, measures, temperatures, percentages, and ranges of them."""

from dataclasses import dataclass, replace

from antiphon.text.contexts import reading_in, words
from antiphon.text.english_tables import (
    AMOUNTS,
    CURRENCIES,
    CURRENCY_CODES,
    DOLLARS,
    FRACTION_SIGNS,
    LETTERS,
    NOT_AFTER_SPACE,
    NOT_COUNTED,
    ORDINAL_ENDINGS,
    REAL,
    SCALE_WORDS,
    SCALES,
    SIGN_WORDS,
)
from antiphon.text.number_words import cardinal, ordinal_of
from antiphon.text.numerals import (
    Numeral,
    is_fraction,
    parse_numeral,
    say_in_context,
    say_integer,
    say_numeral,
    say_parts,
)
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, SPACE, WORD, TokenizedText
from antiphon.text.units import Unit, parse_per, parse_unit

_SIGNS = dict.fromkeys("-\u2013", "minus") | {
    sign: SIGN_WORDS[sign] for sign in "\u2212+\u00b1~\u2248<>\u2264\u2265"
}
DASHES = ("-", "\u2013", "\u2014", "\u2212")


_AFTER_METERS = words("across hurdles is plus races sprints swells times towards walls was waves")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Number with its unit or currency.

    Attributes:
        stop: index of the token after it.
        sign: words of the sign before it; empty if there is none.
        scale: scale such as "million"; empty if there is none.
        money: forms of the currency; ``None`` if it is not an amount of money.
        unit: singular and plural of the unit; ``None`` if there is none.
        is_glued: whether the unit is joined by a hyphen, as in "5-km run".
        per: unit that an amount of money is for, as in "$5/hour"; empty if there is none.
    """

    stop: int
    numeral: Numeral
    sign: str = ""
    scale: str = ""
    money: tuple[str, ...] | None = None
    unit: Unit | None = None
    is_glued: bool = False
    per: str = ""

    @property
    def is_plain(self) -> bool:
        return not (self.sign or self.scale or self.money or self.unit)


def parse_quantity(tokens: TokenizedText, place: int) -> Quantity | None:
    """Return the quantity that starts at a token: sign, currency, number, scale and unit."""
    start, sign = place, ""
    if tokens.kind(place) in _SIGNS:
        if not _is_sign(tokens, place):
            return None
        sign = _SIGNS[tokens.kind(place)]
        place += 1
        place += tokens.kind(place) == SPACE and sign not in ("minus", "plus")
    money, place = _currency_before(tokens, place)
    if money is not None and tokens.kind(place) in ("-", "\u2212") and not sign:
        sign, place = "minus", place + 1
    is_loss = money is not None and tokens.kind(place) == "(" and not sign  # "$(2.3) million"
    numeral = _numeral(tokens, start, place + is_loss, is_money=money is not None)
    if numeral is None or (is_loss and tokens.kind(numeral.stop) != ")"):
        return None
    if is_loss:
        sign, numeral = "minus", replace(numeral, stop=numeral.stop + 1)
    if sign == "minus" and tokens.has(place, "d/d") and tokens.is_closed(place + 3):
        fraction = int(tokens.text(place)[:6]), int(tokens.text(place + 2)[:6])
        is_part = is_fraction(*fraction) and money is None
        numeral = Numeral(place + 3, "", fraction=fraction) if is_part else numeral
    stop = numeral.stop
    scale, stop = _scale(tokens, stop, is_money=money is not None)
    if money is None:
        money, stop, numeral = _currency_behind(tokens, stop, numeral)
    if money is not None:
        per, stop = _per(tokens, stop)
        return Quantity(stop, numeral, sign, scale, money, per=per)
    found = _unit_behind(tokens, start, stop)
    if found is not None and (not scale or tokens.kind(found[0] - 1) in (WORD, ".")):
        stop, unit, is_glued = found
        return Quantity(stop, numeral, sign, scale, unit=unit, is_glued=is_glued)
    return Quantity(stop, numeral, sign, scale)


def with_per(tokens: TokenizedText, number: Quantity, money: tuple[str, ...]) -> Quantity:
    """Return a number as an amount of money, with its scale and what it is for."""
    scale, stop = number.scale, number.stop
    if not scale:
        scale, stop = _scale(tokens, stop, is_money=True)
    per, stop = _per(tokens, stop)
    return Quantity(stop, number.numeral, "", scale, money, per=per)


def _numeral(tokens: TokenizedText, start: int, place: int, *, is_money: bool) -> Numeral | None:
    """Return the numeral at a token, with a decimal comma before a unit or after a currency."""
    numeral = parse_numeral(tokens, place)
    if numeral is None or numeral.is_grouped or not tokens.has(numeral.stop, ",d"):
        return numeral
    comma = _decimal_comma(tokens, numeral)
    is_measure = comma.decimals and _unit_behind(tokens, start, comma.stop) is not None
    return comma if is_money or is_measure else numeral


def say_money(quantity: Quantity, *, british: bool, is_attribute: bool = False) -> str:
    assert quantity.money is not None
    one, many, one_part, many_parts = quantity.money
    numeral = quantity.numeral
    if is_attribute:
        many = many if len(numeral.decimals) == 2 else one
        many_parts = one_part
    if quantity.scale:
        return f"{say_numeral(numeral, british=british)} {quantity.scale} {many}"
    if (
        len(numeral.decimals) != 2
        or not one_part
        or ((numeral.whole or "0")[1:2] and numeral.whole[0] == "0")
    ):
        is_one = numeral.is_one
        return f"{say_numeral(numeral, british=british)} {one if is_one else many}"
    whole, parts = int(numeral.whole or "0"), int(numeral.decimals)
    small = f"{cardinal(parts)} {one_part if parts == 1 else many_parts}"
    if whole == 0 and parts:
        return small
    amount = f"{say_integer(str(whole), british=british)} {one if whole == 1 else many}"
    if british and many == "pounds" and parts > 9:
        return f"{amount} {cardinal(parts)}"
    return f"{amount} and {small}" if parts else amount


def _is_sign(tokens: TokenizedText, place: int) -> bool:
    """Return whether a sign belongs to the number after it, not between two numbers."""
    sign = tokens.kind(place)
    if sign not in ("-", "+", "\u2212", "\u2013"):
        return tokens.kind(place + 1) != SPACE or tokens.kind(place + 2) == DIGITS
    if sign == "\u2013" and tokens.before(place):
        return tokens.kind(place - 1) == SPACE and not tokens.before(place).isdecimal()
    return (
        place == 0 or tokens.kind(place - 1) in " \n([{\"'\u201c=<>/,:~*_|\u2264\u2265\u2248^\u00d7"
    )


def _currency_before(tokens: TokenizedText, place: int) -> tuple[tuple[str, ...] | None, int]:
    kind, text = tokens.kind(place), tokens.text(place)
    if kind in CURRENCIES:
        stop = place + 1
        stop += tokens.kind(stop) == SPACE and tokens.kind(stop + 1) == DIGITS
        return CURRENCIES[kind], stop
    if kind == WORD and text in DOLLARS and tokens.kind(place + 1) == "$":
        name = DOLLARS[text]
        stop = place + 2
        stop += tokens.kind(stop) == SPACE
        return (f"{name} dollar", f"{name} dollars", "cent", "cents"), stop
    if text == "R" and tokens.kind(place + 1) == "$":
        return REAL, place + 2 + (tokens.kind(place + 2) == SPACE)
    if kind == WORD and text in CURRENCY_CODES:
        stop = place + 1
        if text == "Rs" and tokens.kind(stop) == ".":
            stop += 1
        stop += tokens.kind(stop) == SPACE
        if tokens.kind(stop) == DIGITS:
            return CURRENCY_CODES[text], stop
    return None, place


def _currency_behind(
    tokens: TokenizedText, stop: int, numeral: Numeral
) -> tuple[tuple[str, ...] | None, int, Numeral]:
    comma = _decimal_comma(tokens, numeral) if tokens.has(stop, ",d") else numeral
    is_grouped = len(numeral.decimals) == 3 and 0 < len(numeral.whole) < 4
    if is_grouped and not numeral.is_grouped and numeral.whole != "0":
        whole = Numeral(stop, numeral.whole + numeral.decimals, is_grouped=True)
        numeral = whole if tokens.text(stop + (tokens.kind(stop) == SPACE)) == "\u20ac" else numeral
    for number in (numeral, comma):
        end = max(stop, number.stop)
        place = end + (tokens.kind(end) == SPACE)
        sign = tokens.kind(place)
        if sign in CURRENCIES and tokens.kind(place + 1) != DIGITS and tokens.text(place):
            return CURRENCIES[sign], place + 1, number
        code = tokens.text(place)
        if code in CURRENCY_CODES and code != "Rs" and tokens.is_closed(place + 1):
            names = CURRENCY_CODES[code]
            names = names if int(number.whole or "0") else (*names[:2], "", "")
            return names, place + 1, number
    is_pence = tokens.british and tokens.text(stop) == "p" and tokens.is_closed(stop + 1)
    if is_pence and numeral.is_integer:
        return ("penny", "pence", "", ""), stop + 1, numeral
    return None, stop, numeral


def _decimal_comma(tokens: TokenizedText, numeral: Numeral) -> Numeral:
    decimals = tokens.text(numeral.stop + 1)
    if numeral.decimals or numeral.fraction or len(decimals) > 2:
        return numeral
    return Numeral(numeral.stop + 2, numeral.whole, decimals, is_grouped=numeral.is_grouped)


def _scale(tokens: TokenizedText, place: int, *, is_money: bool) -> tuple[str, int]:
    """Return the word that multiplies a number, and its end."""
    text = tokens.text(place)
    if tokens.kind(place) in (SPACE, "-") and tokens.text(place + 1) in SCALE_WORDS:
        return tokens.text(place + 1), place + 2
    if (
        tokens.kind(place) == SPACE
        and is_money
        and tokens.text(place + 1) in ("bn", "mn", "M", "B")
    ):
        return SCALES[tokens.text(place + 1)], place + 2
    if tokens.kind(place) != WORD or text not in SCALES or not _may_end(tokens, place + 1):
        return "", place
    if text in ("k", "K") and tokens.before(place - 1) in ("a", "an", "the"):
        return "", place
    if is_money or text in ("mn", "bn", "mln", "bln", "k", "tn"):
        return SCALES[text], place + 1
    before = tokens.text(place - 1)
    is_counting = tokens.has(place + 1, " w") and tokens.text(place + 2) not in NOT_COUNTED
    after = tokens.text(place + 2)
    if text == "m" and is_counting and after.endswith("s") and after not in _AFTER_METERS:
        return SCALES[text], place + 1
    is_exact = tokens.has(place - 3, "d.d") and not tokens.after(place + 1)[:1].isupper()
    is_named = reading_in(LETTERS["capital"], *tokens.around(place - 1, place + 1))
    if text in ("M", "B") and (is_exact or (is_counting and after.islower() and not is_named)):
        return SCALES[text], place + 1
    if text == "K" and len(before) > 1 and before != "10":
        return SCALES[text], place + 1
    return "", place


def _unit_behind(tokens: TokenizedText, start: int, place: int) -> tuple[int, Unit, bool] | None:
    kind = tokens.kind(place)
    found = parse_unit(tokens, place)
    if found is not None:
        is_letter = kind == WORD and len(tokens.text(place)) == 1 and tokens.text(place).isupper()
        around = tokens.around(start, found[0], ".")
        if is_letter and reading_in(LETTERS["capital"], *around) is not None:
            return None
        is_signed = tokens.kind(start) in ("-", "\u2212")
        scale = LETTERS.get(tokens.text(place), ())
        if scale and not is_signed and reading_in(scale, *around) != "scale":
            return None
        return (*found, False) if _may_end(tokens, found[0]) else None
    if kind not in (SPACE, "-"):
        return None
    found = parse_unit(tokens, place + 1)
    text = tokens.text(place + 1)
    if found is None or not _may_end(tokens, found[0]):
        return None
    if text in NOT_AFTER_SPACE and kind == SPACE and found[0] < place + 5:
        is_inch = text == "in" and (
            tokens.kind(place + 2) == "."
            or tokens.after(place + 2) in ("x", "by", "tall", "wide", "long")
            or tokens.text(start - 2) in ("ft", "feet", "foot")
        )
        if not is_inch:
            return None
    is_compass = text in ("W", "E", "S", "N") and tokens.text(place + 2) in (".", " ")
    is_letter = kind == "-" and len(text) == 1 and not tokens.after(place + 2).islower()
    is_letter |= len(text) == 1 and text.isupper() and tokens.has(place + 2, "-d")
    scale = LETTERS.get(text, ()) if text in ("C", "K") else ()
    around = tokens.around(start + 2 * tokens.has(start, "d.d"), place)
    if scale and tokens.kind(start) != "-" and not reading_in(scale, *around):
        return None
    is_phrase = kind == "-" and tokens.kind(place + 2) == "-" and text in NOT_AFTER_SPACE
    if is_letter or is_phrase or (is_compass and _begins_name(tokens, place + 2)):
        return None
    return (*found, kind == "-")


def _begins_name(tokens: TokenizedText, place: int) -> bool:
    """Return whether a street's name or number follows: "45 W. 10th St."."""
    place += tokens.kind(place) == "."
    after = tokens.after(place)
    return tokens.kind(place) == SPACE and (after[:1].isupper() or after.isdecimal())


def _may_end(tokens: TokenizedText, place: int) -> bool:
    """Return whether a unit may end before a token, which may continue a range."""
    return tokens.is_closed(place) or tokens.kind(place) in (*DASHES, "/")


def say_quantity(tokens: TokenizedText, place: int, quantity: Quantity) -> str:
    british, numeral = tokens.british, quantity.numeral
    words = [quantity.sign] if quantity.sign else []
    if quantity.money is not None:
        is_attribute = describes(tokens, place, quantity.stop, "$")
        words.append(say_money(quantity, british=british, is_attribute=is_attribute))
        words += [f"per {quantity.per}"] if quantity.per else []
    elif quantity.unit is not None:
        one, many = quantity.unit
        is_one = numeral.is_one or quantity.is_glued or (numeral.fraction and not numeral.whole)
        is_food = one.endswith("spoon")  # "2 tbsp. oil"
        is_one = is_one or (not is_food and describes(tokens, place, quantity.stop, "unit"))
        words.append(say_numeral(numeral, british=british))
        words += [quantity.scale] if quantity.scale else []
        words.append(one if is_one else many)
    elif quantity.is_plain:
        words.append(say_in_context(tokens, place, numeral))
    else:
        words.append(say_numeral(numeral, british=british))
        words += [quantity.scale] if quantity.scale else []
    return " ".join(words)


def describes(tokens: TokenizedText, place: int, stop: int, kind: str) -> bool:
    """Return whether an amount describes the noun after it: "a $5 bill", "a 90° turn"."""
    if tokens.has(stop, "-w"):
        return True
    stop += tokens.kind(stop) == ")" and tokens.kind(place - 1) == "("
    if tokens.kind(stop) != SPACE and not tokens.has(stop, ", d-w"):
        return False
    stop += 4 * (tokens.kind(stop) == ",")  # "a $300, 30-day pass"
    return reading_in(AMOUNTS[kind], *tokens.around(place, stop)) == "one"


def _per(tokens: TokenizedText, place: int) -> tuple[str, int]:
    """Return the unit that an amount is for, and its end."""
    if not tokens.has(place, "/w"):
        return "", place
    word, (per, stop) = tokens.text(place + 1), parse_per(tokens, place)
    if not per and word.islower() and len(word) > 2:
        return word, place + 2
    return per, stop


def read_ordinal(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "3rd", "21st" and "1,000th"."""
    numeral = parse_numeral(tokens, place, with_fraction=False)
    if numeral is None or not numeral.is_integer or len(numeral.whole) > 12:
        return None
    suffix = tokens.text(numeral.stop).lower()
    ends = tokens.kind(numeral.stop + 1) in ("-", "/") or tokens.is_closed(numeral.stop + 1)
    is_series = suffix == "d" and (  # "F.3d", "2d Cir."
        "." in (tokens.kind(place - 1), tokens.kind(place - 2))
        or tokens.after(numeral.stop + 1) in ("Cir", "Dep't", "Dist")
    )
    if not (suffix in ORDINAL_ENDINGS or (is_series and numeral.whole[-1] in "23")) or not ends:
        return None
    words = ordinal_of(cardinal(int(numeral.whole), british=tokens.british))
    return ((numeral.stop + 1, words),)


def read_digits(tokens: TokenizedText, place: int) -> Reading | None:
    """Read digits, or the sign of a fraction, that no other rule reads."""
    if tokens.kind(place) in FRACTION_SIGNS:
        numerator, denominator = FRACTION_SIGNS[tokens.kind(place)]
        return ((place + 1, say_parts(numerator, denominator)),)
    return ((place + 1, say_integer(tokens.text(place), british=tokens.british)),)
