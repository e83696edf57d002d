"""Numbers in special forms: feet and inches, angles, durations, dimensions and powers."""

from dataclasses import replace

from antiphon.text.contexts import reading_in, words
from antiphon.text.english_tables import AMOUNTS, PER_SHORT, PER_WORDS, SECONDS, SUPERSCRIPTS, UNITS
from antiphon.text.number_words import cardinal, in_pairs, plural
from antiphon.text.numerals import parse_numeral, say_integer, say_numeral, say_pairs
from antiphon.text.quantities import Quantity, describes, parse_quantity
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, LINE, SPACE, WORD, TokenizedText
from antiphon.text.units import ends_here, parse_unit

_LOADS = ("pound", "kilogram", "repetition")
_FEET, _INCHES = ("'", "\u2032"), ('"', "\u2033", "\u201d")
_MAX_QUOTE_TOKENS = 40
_SQUARES = ("\u00b2", "\u00b3")
_TIMES_WORDS = words(
    """
    a already as better bigger cheaper daily faster higher larger less longer lower more per shorter
    slower smaller since stronger the this today worse yesterday
    """
)
_DURATIONS = {"d": "day", "m": "minute"} | {
    unit: UNITS[unit][0] for unit in words("h hr hrs min mins s sec secs ms")
}
_PER = PER_WORDS | words("lb kg gal oz")
_SIDES = {"W": "wide", "H": "high", "D": "deep", "L": "long"}
_DIRECTIONS = {"N": "north", "S": "south", "E": "east", "W": "west"}


def read_feet(tokens: TokenizedText, place: int) -> Reading | None:
    """Read 5'4", 6' and 12"."""
    number, mark = tokens.text(place), tokens.kind(place + 1)
    if mark in _FEET and len(number) <= 3 and tokens.kind(place - 1) != ",":
        inches = place + 2 + (tokens.kind(place + 2) == SPACE)
        part = parse_numeral(tokens, inches)
        if part is not None and len(part.whole) <= 2:
            stop = part.stop
            if tokens.kind(stop) in _INCHES or (
                tokens.kind(stop) in _FEET and tokens.kind(stop + 1) in _FEET
            ):
                stop += 1 if tokens.kind(stop) in _INCHES else 2
            elif inches > place + 2 or not tokens.is_closed(stop):
                return None
            return ((stop, f"{cardinal(int(number))} foot {say_numeral(part)}"),)
        if is_quote(tokens, place, _FEET) or not tokens.is_closed(place + 2):
            return None
        unit = reading_in(AMOUNTS["prime"], *tokens.around(place, place + 2))
        unit = unit or ("foot" if number == "1" else "feet")
        return ((place + 2, f"{cardinal(int(number))} {unit}"),)
    numeral = parse_numeral(tokens, place)
    if numeral is None or tokens.kind(numeral.stop) not in (*_INCHES, *_FEET):
        return None
    stop = numeral.stop + 1
    is_feet = tokens.kind(numeral.stop) in _FEET
    if is_feet and not (numeral.is_grouped and tokens.is_closed(stop)):
        return None
    number = say_numeral(numeral, british=tokens.british)
    if is_feet:
        return ((stop, f"{number} feet"),)
    around = tokens.around(place, stop)
    if not reading_in(AMOUNTS["size"], *around) and is_quote(tokens, place, _INCHES):
        return None
    is_attribute = reading_in(AMOUNTS["inch"], *around) == "one"
    words = f"{number} {'inch' if numeral.is_one or is_attribute else 'inches'}"
    is_range = tokens.kind(stop) in ("-", "\u2013") and tokens.kind(stop + 1) == DIGITS
    return ((stop, words), (stop + 1, " to ")) if is_range else ((stop, words),)


def is_quote(tokens: TokenizedText, place: int, marks: tuple[str, ...]) -> bool:
    """Return whether a quotation is open before a token, which a mark after it may close."""
    start, is_quoted = place, False
    while place - start < _MAX_QUOTE_TOKENS and start > 0 and tokens.kind(start - 1) != LINE:
        start -= 1
    for each in range(start, place):
        if tokens.kind(each) in (*marks, "\u201c"):
            is_quoted = not is_quoted and tokens.is_open(each)
    return is_quoted


def read_angle(tokens: TokenizedText, place: int) -> Reading | None:
    """Read 40°26'N and 40° 26' 46" N."""
    numeral = parse_numeral(tokens, place)
    if numeral is None or tokens.kind(numeral.stop) != "\u00b0":
        return None
    words, stop = [f"{say_numeral(numeral)} degrees"], numeral.stop + 1
    for marks, unit in ((_FEET, "minute"), (_INCHES, "second")):
        number = stop + (tokens.kind(stop) == SPACE)
        if tokens.kind(number) == DIGITS and tokens.kind(number + 1) in marks:
            digits = tokens.text(number)
            words.append(f"{say_integer(digits)} {unit}{'' if digits == '1' else 's'}")
            stop = number + 2
    direction = stop + (tokens.kind(stop) == SPACE)
    name = _DIRECTIONS.get(tokens.text(direction))
    if name and tokens.is_closed(direction + 1):
        words.append(name)
        stop = direction + 1
    return ((stop, " ".join(words)),) if len(words) > 1 else None


def read_duration(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "2h30m", "1h 5m 3s" and "5m30s"."""
    words, stop, end, seen = list[str](), place, place, list[str]()
    while tokens.has(stop, "dw") and tokens.text(stop + 1) in _DURATIONS:
        digits, unit = tokens.text(stop), _DURATIONS[tokens.text(stop + 1)]
        if unit in seen or len(digits) > 4:
            return None
        seen.append(unit)
        words.append(f"{say_integer(digits)} {unit}{'' if digits == '1' else 's'}")
        end = stop + 2
        stop = end + (tokens.kind(end) == SPACE)
    if seen == ["hour"] and tokens.kind(end) == DIGITS and len(tokens.text(end)) == 2:
        words.append(cardinal(int(tokens.text(end))))
        end += 1
    if len(words) < 2 or not tokens.is_closed(end):
        return None
    return ((end, " ".join(words)),)


def read_shillings(tokens: TokenizedText, place: int) -> Reading | None:
    """Read the "10s. 6d." and the "3s." of "£4 10s. 6d." and "£2 3s."."""
    if not tokens.has(place, "dw") or tokens.text(place + 1) != "s":
        return None
    stop = place + 2 + (tokens.kind(place + 2) == ".")
    pence = stop + (tokens.kind(stop) == SPACE)
    words = f"{say_integer(tokens.text(place))} shilling{'s' * (tokens.text(place) != '1')}"
    if tokens.has(pence, "dw") and tokens.text(pence + 1) == "d":
        is_one, stop = tokens.text(pence) == "1", pence + 2
        words += f" and {say_integer(tokens.text(pence))} {'penny' if is_one else 'pence'}"
        stop += tokens.kind(stop) == "." and not ends_here(tokens, stop + 1)
    elif not tokens.has(place - 3, "\u00a3d "):
        return None
    return ((stop, words),) if tokens.is_closed(stop) else None


def read_plural(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "two 747s", "49ers" and "100s of": more of a number, unless they are seconds."""
    digits, ending, stop = tokens.text(place), tokens.text(place + 1), place + 2
    is_plural = ending in ("s", "er", "ers", "er's", "ers'")
    if not is_plural or not tokens.is_open(place) or not tokens.is_closed(stop):
        return None
    if ending == "s" and _are_seconds(tokens, place):
        return None
    is_paired = len(digits) in (3, 4) and digits[0] != "0" and digits[-2:] != "00"
    words = in_pairs(int(digits)) if is_paired else say_integer(digits)
    if ending != "s":
        return ((stop, f"{words.removesuffix('e')}er{ending[2:]}"),)
    return ((stop, plural(words.removeprefix("one ") if digits[0] == "1" else words)),)


def _are_seconds(tokens: TokenizedText, place: int) -> bool:
    """Return whether a number with an "s" is a time, by the words around it."""
    before, after = tokens.around(place, place + 2)
    if before[:1] in (["and"], ["or"], ["to"]) and tokens.has(place - 5, "dw w "):
        before = tokens.around(place - 5, place)[0]
    elif tokens.has(place - 4, "dw, "):
        before = tokens.around(place - 4, place)[0]
    is_alone = not before and tokens.ends_text(place + 2)
    return is_alone or reading_in(SECONDS["s"], before, after) is not None


def read_dimensions(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "3x4", "1920×1080" and "10 ft x 12 ft"; with an equals sign after it, a product."""
    first = _parse_size(tokens, place)
    if first is None or first.sign or first.money or tokens.kind(place) == WORD:
        return None
    sizes, stop, is_cross = [first], first.stop, False
    while True:
        spaced = tokens.kind(stop) == SPACE
        cross = stop + spaced
        if tokens.text(cross) not in ("x", "X", "\u00d7"):
            break
        following = _parse_size(tokens, cross + 1 + (spaced and tokens.kind(cross + 1) == SPACE))
        if following is None or following.sign or following.money:
            break
        is_cross = tokens.text(cross) == "\u00d7"
        sizes.append(following)
        stop = following.stop
    if len(sizes) < 2 or not (tokens.is_closed(stop) or tokens.has(stop, "-w")):
        return None
    after = tokens.kind(stop + (tokens.kind(stop) == SPACE)) or " "
    is_product = after in ("=", "^", *SUPERSCRIPTS) or (
        is_cross and not sizes[-1].unit and all(len(size.numeral.whole) < 3 for size in sizes)
    )
    is_load = sizes[0].unit is not None and sizes[0].unit[0] in _LOADS and not sizes[-1].unit
    joint = " times " if is_product or is_load else " by "
    if tokens.text(stop - 1) == "s" and not sizes[0].unit:
        numerals = [say_numeral(size.numeral) for size in sizes]
        return ((stop, " by ".join([*numerals[:-1], plural(numerals[-1])])),)
    if sizes[-1].unit and describes(tokens, place, stop, "unit"):
        sizes = [replace(size, unit=size.unit and size.unit[:1] * 2) for size in sizes]
    return ((stop, joint.join(_say_size(tokens, size, sizes) for size in sizes)),)


def _parse_size(tokens: TokenizedText, place: int) -> Quantity | None:
    """Return a quantity, or a number of feet or inches with a mark behind it."""
    size = parse_quantity(tokens, place)
    if size is None or not size.is_plain or tokens.kind(size.stop) not in (*_FEET, *_INCHES):
        return size
    unit = ("foot", "feet") if tokens.kind(size.stop) in _FEET else ("inch", "inches")
    stop = size.stop + 1
    letter = stop + (tokens.kind(stop) == SPACE)
    side = _SIDES.get(tokens.text(letter))
    if side is not None and tokens.is_closed(letter + 1):
        return Quantity(letter + 1, size.numeral, unit=(f"{unit[0]} {side}", f"{unit[1]} {side}"))
    return Quantity(stop, size.numeral, unit=unit)


def _say_size(tokens: TokenizedText, size: Quantity, sizes: list[Quantity]) -> str:
    numeral = size.numeral
    is_paired = len(numeral.whole) in (3, 4) and numeral.whole[-2:] != "00"
    is_paired = is_paired and numeral.is_integer and not numeral.is_grouped
    is_paired = is_paired and max(len(each.numeral.whole) for each in sizes) == 4
    words = say_pairs(numeral.whole) if is_paired else say_numeral(numeral, british=tokens.british)
    if size.unit is not None:
        words += f" {size.unit[0] if numeral.is_one else size.unit[1]}"
    return words


def read_multiple(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "2x" and "10X": "two times faster", else "ten X"."""
    numeral = parse_numeral(tokens, place)
    if numeral is None or tokens.text(numeral.stop) not in ("x", "X"):
        return None
    is_rate = tokens.has(numeral.stop + 1, "/w")
    if not (tokens.is_closed(numeral.stop + 1) or is_rate):
        return None
    after = tokens.after(numeral.stop + 1)
    name = "times" if after.lower() in _TIMES_WORDS else "X"
    name = name if not is_rate else "time" if numeral.is_one else "times"
    return ((numeral.stop + 1, f"{say_numeral(numeral, british=tokens.british)} {name}"),)


def read_exponent(tokens: TokenizedText, place: int) -> Reading | None:
    """Read the "^2" of "x^2"."""
    number = place + 1
    sign = ""
    if tokens.kind(number) in ("-", "\u2212"):
        sign, number = "minus ", number + 1
    if tokens.kind(number) == DIGITS:
        named = {"2": "squared", "3": "cubed"}.get(tokens.text(number)) if not sign else None
        return ((number + 1, named or f"to the power of {sign}{say_integer(tokens.text(number))}"),)
    return ((place + 1, "to the power of"),)


def read_slash(tokens: TokenizedText, place: int) -> Reading | None:
    """Read a slash between words: "per" before a unit of time, else "slash"."""
    if place > 1 and tokens.has(place - 2, "d / d"):
        return ((place + 1, "divided by"),)
    has_dot = tokens.has(place - 2, "w.")
    before, after = tokens.kind(place - 1 - has_dot), tokens.kind(place + 1)
    is_letter = after == WORD and len(tokens.text(place + 1)) == 1
    if before == DIGITS and (after == DIGITS or is_letter):
        return ((place + 1, "over"),)
    unit = tokens.text(place + 1)
    if tokens.text(place - 1) in ("BR", "BD", "bedroom", "bed"):
        return ((place + 1, ", "),)
    is_rate = unit == "s" and tokens.text(place - 1).endswith("s")
    is_rate = is_rate or unit in PER_SHORT or unit in _PER
    if is_rate and before in (WORD, DIGITS) and after == WORD:
        return ((place + 2, f"per {PER_SHORT.get(unit) or UNITS.get(unit, (unit,))[0]}"),)
    is_loose = before in (WORD, DIGITS, "%", ")") and tokens.has(place + 1, " w")
    return ((place + 1, "slash"),) if is_loose or after in (WORD, DIGITS, SPACE, "$") else None


def read_unit_word(tokens: TokenizedText, place: int) -> Reading | None:
    """Read a unit without a number where only a unit can occur: "km/h", "m²"."""
    is_degree = tokens.kind(place) == "\u00b0"
    if tokens.kind(place + 1) not in ("/", "\u00b2", "\u00b3") and not is_degree:
        return None
    found = parse_unit(tokens, place)
    if found is None or found[0] < place + 2 or not tokens.is_closed(found[0]):
        return None
    is_sure = (
        is_degree
        or tokens.joined(place, found[0]) == "m/s"
        or tokens.kind(found[0] - 1) in _SQUARES
    )
    return ((found[0], found[1][1]),) if len(tokens.text(place)) > 1 or is_sure else None
