"""English words for numbers: cardinals, ordinals, decimals, years, digits and Roman numerals."""

from antiphon.text.contexts import pairs

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("", "", *("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"))
_SCALES = ("", " thousand", " million", " billion", " trillion")
_IRREGULAR_ORDINALS = pairs(
    "one=first, two=second, three=third, five=fifth, eight=eighth, nine=ninth, twelve=twelfth"
)
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_ROMAN_PARTS = (
    *((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L")),
    *((40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")),
)
_MAX_ROMAN_LETTERS = 15
MAX_NUMBER = 10**15 - 1


def cardinal(number: int, *, british: bool = False) -> str:
    """Return "one hundred five" for 105, in British English "one hundred and five".

    Args:
        number: 0 to `MAX_NUMBER`.
    """
    assert 0 <= number <= MAX_NUMBER, number
    groups = []
    rest, scale = number, 0
    while rest:
        rest, group = divmod(rest, 1000)
        if group:
            groups.append(_below_thousand(group, british=british) + _SCALES[scale])
        scale += 1
    if british and number > 1000 and 0 < number % 1000 < 100:
        groups[0] = f"and {groups[0]}"
    return " ".join(reversed(groups)) or _SMALL[0]


def ordinal(number: int, *, british: bool = False) -> str:
    """Return "twenty-first" for 21."""
    return ordinal_of(cardinal(number, british=british))


def ordinal_of(words: str) -> str:
    for separator in ("-", " "):
        head, found, last = words.rpartition(separator)
        if found:
            return f"{head}{separator}{_ordinal_word(last)}"
    return _ordinal_word(words)


def spelled(digits: str) -> str:
    """Return the digits one by one."""
    return " ".join(_SMALL[int(digit)] for digit in digits)


def in_pairs(number: int) -> str:
    """Return "four oh four" for 404 and "twelve oh four" for 1204; 100 to 9999."""
    high, low = divmod(number, 100)
    if number < 100 or number % 1000 == 0:
        return cardinal(number)
    if low == 0:
        return f"{cardinal(high)} hundred"
    return f"{cardinal(high)} {'oh ' if low < 10 else ''}{cardinal(low)}"


def year(number: int, *, british: bool = False) -> str:
    """Return "nineteen eighty-four" for 1984; below 1010, from 3000 and for 2000s, a cardinal."""
    if not 1010 <= number < 3000 or number % 1000 < 10:
        return cardinal(number, british=british)
    return in_pairs(number)


def plural(words: str) -> str:
    """Return "nineteen nineties" for "nineteen ninety"."""
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return f"{words}es" if words.endswith("x") else f"{words}s"


def roman(letters: str) -> int | None:
    """Return the value of a Roman numeral in capitals; ``None`` if it is not one."""
    if not 0 < len(letters) <= _MAX_ROMAN_LETTERS or not _ROMAN.keys() >= set(letters):
        return None
    values = [_ROMAN[letter] for letter in letters]
    following = [*values[1:], 0]
    number = sum(-a if a < b else a for a, b in zip(values, following, strict=True))
    rest, written = number, ""
    for value, part in _ROMAN_PARTS:
        while rest >= value:
            rest, written = rest - value, written + part
    return number if written == letters else None


def _below_thousand(number: int, *, british: bool) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _below_hundred(rest)
    tail = f" {'and ' if british else ''}{_below_hundred(rest)}" if rest else ""
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
