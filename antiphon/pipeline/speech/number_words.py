"""English words for numbers: cardinals, ordinals, decimals and years."""

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("", "", *("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"))
_SCALES = ("", " thousand", " million", " billion", " trillion")
_IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
MAX_NUMBER = 10**15 - 1


def cardinal(number: int) -> str:
    """Return "one hundred and five" for 105; 0 to `MAX_NUMBER`."""
    assert 0 <= number <= MAX_NUMBER, number
    if number < 1000:
        return _below_thousand(number)
    groups = []
    rest, scale = number, 0
    while rest:
        rest, group = divmod(rest, 1000)
        if group:
            groups.append(_below_thousand(group) + _SCALES[scale])
        scale += 1
    if 0 < number % 1000 < 100:
        groups[0] = f"and {groups[0]}"
    return " ".join(reversed(groups))


def ordinal(number: int) -> str:
    """Return "twenty-first" for 21."""
    words = cardinal(number)
    for separator in ("-", " "):
        head, found, last = words.rpartition(separator)
        if found:
            return f"{head}{separator}{_ordinal_word(last)}"
    return _ordinal_word(words)


def decimal(whole: int, digits: str) -> str:
    """Return "three point one four" for 3 and "14"."""
    return " ".join([cardinal(whole), "point", spelled(digits)])


def spelled(digits: str) -> str:
    """Return each digit by itself."""
    return " ".join(_SMALL[int(digit)] for digit in digits)


def year(number: int) -> str:
    """Return "nineteen eighty-four" for 1984; 1000 to 2999, others as `cardinal`."""
    century, rest = divmod(number, 100)
    if not 10 <= century <= 29 or 2000 <= number <= 2009 or number % 1000 == 0:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _below_hundred(rest)
    tail = f" and {_below_hundred(rest)}" if rest else ""
    return f"{_SMALL[hundreds]} hundred{tail}"


def _below_hundred(number: int) -> str:
    if number < len(_SMALL):
        return _SMALL[number]
    tens, ones = divmod(number, 10)
    return f"{_TENS[tens]}-{_SMALL[ones]}" if ones else _TENS[tens]


def _ordinal_word(word: str) -> str:
    if word in _IRREGULAR_ORDINALS:
        return _IRREGULAR_ORDINALS[word]
    return f"{word.removesuffix('y')}ieth" if word.endswith("y") else f"{word}th"
