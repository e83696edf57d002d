"""Writes numbers, dates, times, money and units out in English words, as a reader would say them.

It does what is certain and leaves the rest alone: phone numbers, versions, addresses, fractions,
Roman numerals and anything glued to letters stay as they are. Dates are read only as 2024-05-01.
"""

import re
from collections.abc import Callable, Iterator

from antiphon.pipeline.speech.number_words import cardinal, decimal, ordinal, spelled, year

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_MONEY = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
}
_SCALE_WORDS = {"k": "thousand", "m": "million", "bn": "billion"}
_UNITS = {
    "%": ("percent", "percent"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "mph": ("mile per hour", "miles per hour"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "ml": ("milliliter", "milliliters"),
    "ms": ("millisecond", "milliseconds"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "Hz": ("hertz", "hertz"),
    "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "kW": ("kilowatt", "kilowatts"),
    "lb": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ft": ("foot", "feet"),
}

_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})"
_NUMBER = rf"({_WHOLE})(?:\.([0-9]{{1,15}}))?"
_BEFORE = r"(?<![\w.,:/\-+#$€£¥])"
_AFTER = r"(?![\w:/])(?![.,\-][\w])"
_UNIT = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_DATE = re.compile(rf"{_BEFORE}([12][0-9]{{3}})-([0-9]{{2}})-([0-9]{{2}}){_AFTER}", re.ASCII)
_TIME = re.compile(
    rf"{_BEFORE}([01]?[0-9]|2[0-3]):([0-5][0-9])(?: ?([ap])\.?m\b\.?)?{_AFTER}",
    re.ASCII | re.IGNORECASE,
)
_PRICE = re.compile(rf"(?<![\w$€£¥])([$€£¥]) ?{_NUMBER}(?: ?(k|m|bn)\b)?{_AFTER}", re.ASCII)
_MEASURE = re.compile(rf"{_BEFORE}(-?){_NUMBER} ?({_UNIT}){_AFTER}", re.ASCII)
_ORDINAL = re.compile(rf"{_BEFORE}([0-9]{{1,9}})(?:st|nd|rd|th){_AFTER}", re.ASCII)
_YEAR = re.compile(
    rf"\b((?:[Ii]n|[Ss]ince|[Uu]ntil|[Bb]y|[Ff]rom|[Yy]ear|{'|'.join(_MONTHS)}),? )"
    r"(1[0-9]{3}|20[0-9]{2})"
    rf"{_AFTER}(?! [a-z]+s\b)",
    re.ASCII,
)
_BEFORE_YEAR = re.compile(
    rf"\b(?:[Ii]n|[Ss]ince|[Uu]ntil|[Bb]y|[Ff]rom|[Yy]ear|{'|'.join(_MONTHS)}),?$", re.ASCII
)
_WORD_ALONE = re.compile(r"(?<!\S)[^\s0-9$€£¥]++(?=\s)")
_PLAIN = re.compile(rf"{_BEFORE}((?<= )-)?{_NUMBER}{_AFTER}", re.ASCII)

_MAX_SEARCHED_CHARACTERS = 10_000
_MAX_HELD_CHARACTERS = 1000  # beyond, numbers are read with what there is
_MAX_FOUND_CHARACTERS = 100  # of what any rule finds, and what it looks at after it
# A text without spaces is read in stretches, parted where no number can be, if there is such a
# place. Else all of it would be held back, and then read and cut into segments at once.
_STRETCH = re.compile(r"(?=\S{1000})(?:\S{900,1000}(?<![!-~])|\S{1000})")


def normalized(text: str) -> str:
    """Return the text with what can be read written out in words."""
    for pattern, read in _RULES:
        text = "".join(_substituted(pattern, read, text))
    return text


class Normalizer:
    """Writes numbers out in a text that arrives in pieces; where it is cut plays no part.

    What a rule may still read together with what follows is held back: numbers, signs of money,
    and words such as "in" before a year.
    """

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str, *, is_last: bool = False) -> str:
        """Return what has become certain with more text; nothing is held back of the last."""
        text = self._held + text
        stretches = []
        start = 0
        for found in _STRETCH.finditer(text):
            stretches.append(normalized(text[start : found.end()]))
            start = found.end()
        end = len(text) if is_last else start + _certain_end(text[start:])
        self._held = text[end:]
        return "".join([*stretches, normalized(text[start:end])])


def _certain_end(text: str) -> int:
    """Return where the last word ends that no rule reads together with what follows."""
    end = 0
    for found in _WORD_ALONE.finditer(text):
        if not _BEFORE_YEAR.search(found[0]):
            end = found.end()
    if len(text) - end > _MAX_HELD_CHARACTERS:
        return max(end, text.rfind(" "), text.rfind("\n"))
    return end


def _substituted(
    pattern: "re.Pattern[str]", read: Callable[["re.Match[str]"], str], text: str
) -> Iterator[str]:
    """Yield what ``pattern.sub`` gives; the interpreter's lock is free between two searches."""
    start = position = 0
    while position < len(text):
        end = position + _MAX_SEARCHED_CHARACTERS
        found = pattern.search(text, position, end + _MAX_FOUND_CHARACTERS)
        if found is None or found.start() >= end:
            position = end
            continue
        yield text[start : found.start()]
        yield read(found)
        start = position = found.end()
    yield text[start:]


def _date(found: "re.Match[str]") -> str:
    month, day = int(found[2]), int(found[3])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return found[0]
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year(int(found[1]))}"


def _time(found: "re.Match[str]") -> str:
    hour, minute = int(found[1]), int(found[2])
    words = [cardinal(hour)]
    if minute:
        words.append(f"oh {cardinal(minute)}" if minute < 10 else cardinal(minute))
    if found[3]:
        words.append(f"{found[3].lower()}.m.")
    elif not minute:
        words.append("o'clock" if 1 <= hour <= 12 else "hundred")
    return " ".join(words)


def _price(found: "re.Match[str]") -> str:
    one, many, one_part, many_parts = _MONEY[found[1]]
    whole, digits, scale = int(found[2].replace(",", "")), found[3], found[4]
    if scale:
        return f"{_number(found[2], digits)} {_SCALE_WORDS[scale]} {many}"
    if digits is None:
        return f"{cardinal(whole)} {one if whole == 1 else many}"
    if len(digits) != 2 or not one_part:
        return f"{_number(found[2], digits)} {many}"
    num_parts = int(digits)
    parts = f"{cardinal(num_parts)} {one_part if num_parts == 1 else many_parts}"
    if whole == 0:
        return parts
    money = f"{cardinal(whole)} {one if whole == 1 else many}"
    return f"{money} and {parts}" if num_parts else money


def _measure(found: "re.Match[str]") -> str:
    one, many = _UNITS[found[4]]
    is_one = found[2] == "1" and found[3] is None
    sign = "minus " if found[1] else ""
    return f"{sign}{_number(found[2], found[3])} {one if is_one else many}"


def _plain(found: "re.Match[str]") -> str:
    return f"{'minus ' if found[1] else ''}{_number(found[2], found[3])}"


def _number(whole: str, digits: str | None) -> str:
    if digits is None and len(whole) > 1 and whole.startswith("0"):
        return spelled(whole.replace(",", ""))
    number = int(whole.replace(",", ""))
    return cardinal(number) if digits is None else decimal(number, digits)


_RULES: tuple[tuple["re.Pattern[str]", Callable[["re.Match[str]"], str]], ...] = (
    (_DATE, _date),
    (_TIME, _time),
    (_PRICE, _price),
    (_MEASURE, _measure),
    (_ORDINAL, lambda found: ordinal(int(found[1]))),
    (_YEAR, lambda found: found[1] + year(int(found[2]))),
    (_PLAIN, _plain),
)
