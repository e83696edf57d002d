"""Dates, years, decades, days, months and times of day."""

from math import gcd

from antiphon.text.contexts import reading_in, words
from antiphon.text.english_tables import (
    BOOK_NAMES,
    BOOKS,
    DAY_NAMES,
    DAY_READINGS,
    MONTH_NAMES,
    MONTHS,
    NOT_COUNTED,
    ORDINAL_ENDINGS,
    PAIR_STYLES,
    SECONDS,
    SHORT_DAYS,
    WORDS_TOO,
)
from antiphon.text.number_words import cardinal, ordinal
from antiphon.text.numerals import (
    is_fraction,
    is_year,
    parse_numeral,
    say_decade,
    say_integer,
    say_parts,
    say_year,
)
from antiphon.text.readings import Reading
from antiphon.text.times import read_clock
from antiphon.text.tokens import DIGITS, SPACE, WORD, TokenizedText
from antiphon.text.units import ends_here, parse_unit

_DASHES = ("-", "\u2013")
_PASSED_OVER = words("( : , . is was of a the")
_NO_WORDS = ("Jan", "Dec", "Jun")  # names at most, and never before a dot


def read_numeric_date(tokens: TokenizedText, place: int) -> Reading | None:
    """Read 2024-05-01, 5/1/2024, 01.05.2024 and 1-May-2024."""
    sign = tokens.kind(place + 1)
    if sign == "-" and tokens.has(place, "d-w-d"):
        month = MONTH_NAMES.get(tokens.text(place + 2).capitalize())
        return _date(tokens, place + 5, month, tokens.text(place), tokens.text(place + 4))
    if sign not in ("-", "/", ".") or not tokens.has(place, f"d{sign}d{sign}d"):
        return None
    first, second, third = (tokens.text(place + step) for step in (0, 2, 4))
    if tokens.kind(place + 5) == sign and tokens.kind(place + 6) == DIGITS:
        return None
    if len(first) == 4:
        return _date(tokens, place + 5, _month(second), third, first)
    if len(third) not in (2, 4) or max(len(first), len(second)) > 2:
        return None
    if len(third) == 2 and sign != "/" and (len(first + second) < 4 or sign == "."):
        return None
    is_day_first = tokens.british or sign == "." or int(first) > 12
    day, month = (first, second) if is_day_first and int(second) <= 12 else (second, first)
    if len(third) == 2:
        third = f"{'19' if int(third) > 50 else '20'}{third}"
    return _date(tokens, place + 5, _month(month), day, third)


def read_slashed(tokens: TokenizedText, place: int) -> Reading | None:
    """Read two numbers with a slash between: a fraction, a date, a score, or years."""
    is_end = tokens.is_closed(place + 3) or tokens.kind(place + 3) in _DASHES
    if not tokens.has(place, "d/d") or not is_end:
        return None
    first, second, stop = tokens.text(place), tokens.text(place + 2), place + 3
    if tokens.kind(stop) == "/" or max(len(first), len(second)) > 4:
        return None
    if is_year(first) and len(second) in (2, 3, 4):
        return ((stop, f"{say_year(first)} {say_year(second)}"),)
    one, other = int(first), int(second)
    day, month = (one, other) if tokens.british else (other, one)
    is_date = 1 <= month <= 12 and 1 <= day <= 31 and len(first) < 3 and len(second) < 3
    style = reading_in(PAIR_STYLES["/"], *tokens.around(place, stop, _PASSED_OVER))
    if _is_span(tokens, place):
        style = "date"
    if is_date and style == "date":
        return ((stop, _day_of(tokens, MONTHS[month - 1], day)),)
    joint = _joint(tokens, stop, one, other, style)
    is_whole = joint is None and other == 1
    if joint is None and is_fraction(one, other):
        is_inch = tokens.kind(stop) in ('"', "\u2033") and tokens.is_closed(stop + 1)
        unit = parse_unit(tokens, stop + (tokens.kind(stop) in (SPACE, "-")))
        is_sure = tokens.kind(stop) == "-" or (unit is not None and unit[1][0] != "inch")
        is_unit = unit is not None and tokens.is_closed(unit[0]) and is_sure
        stop, name = unit if unit and is_unit else (stop + is_inch, ("inch",) if is_inch else ("",))
        return ((stop, f"{say_parts(one, other)} {name[0]}".strip()),)
    if joint is None and is_date and (day > 12 or is_whole):
        return ((stop, _day_of(tokens, MONTHS[month - 1], day)),)
    if joint is None and one == 1 and other > 12:
        return ((stop, say_parts(one, other)),)
    if joint is None:
        joint = " out of " if 0 < one < other else " over "
    return ((stop, f"{cardinal(one)}{joint}{cardinal(other)}"),)


def _is_span(tokens: TokenizedText, place: int) -> bool:
    """Return whether two dates with a dash between are there, as in "11/18-12/2"."""
    for first in (place, place - 4):
        if tokens.has(first, "d/d") and tokens.kind(first + 3) in _DASHES:
            if not tokens.has(first + 4, "d/d"):
                return False
            month, day, other, last = (int(tokens.text(first + step)[:6]) for step in (0, 2, 4, 6))
            style = reading_in(PAIR_STYLES["/"], *tokens.around(first, first + 3, _PASSED_OVER))
            return style == "date" or not (is_fraction(month, day) and is_fraction(other, last))
    return False


def _joint(tokens: TokenizedText, stop: int, one: int, other: int, style: str | None) -> str | None:
    """Return the spoken form of the slash in a score; ``None`` if it may be a fraction."""
    if tokens.kind(stop + (tokens.kind(stop) == SPACE)) == "=":
        return " divided by "
    if style in ("apart", "over", "out of") or (style == "for" and one > other):
        return " " if style == "apart" else f" {style} "
    if style == "shillings" and (one > other or gcd(one, other) > 1):
        return " and "  # old British money
    if one + other == 100 and min(one, other) > 9:
        return " "
    if (other in (10, 100) and 1 < one <= other) or one == other > 0:
        return " out of "
    return " over " if one > 12 and other > 31 and other not in (64, 100) else None


def read_month_first(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "May 5, 2024", "Jan. 3rd", "Sept 2001", "May 5-7" and "Jan." alone."""
    text = tokens.text(place)
    name = MONTH_NAMES.get(text)
    if name is None or (text == "APR" and tokens.text(place - 2) in ("%", "percent")):
        return None
    has_dot = tokens.kind(place + 1) == "." and len(text) < 5 and text.capitalize() != "May"
    stop = place + 1 + has_dot
    number = stop + (tokens.kind(stop) == SPACE)
    if tokens.has(number, "'d"):
        return ((stop, name), (number + 2, f" {say_year(tokens.text(number + 1))}"))
    if tokens.kind(number) == DIGITS and number > stop - has_dot:
        found = _after_month(tokens, number)
        if found is not None:
            return ((stop, name), *found)
    return None if text in MONTHS else _short_month(tokens, place, name, has_dot=has_dot)


def _short_month(tokens: TokenizedText, place: int, name: str, *, has_dot: bool) -> Reading | None:
    text, stop = tokens.text(place), place + 1 + has_dot
    is_month = text not in WORDS_TOO or text in _NO_WORDS
    if has_dot and (is_month or (not ends_here(tokens, stop) and tokens.before(place))):
        return ((stop - ends_here(tokens, stop), name),)
    if tokens.kind(stop) in _DASHES and tokens.text(stop + 1) in MONTH_NAMES:
        return ((place + 1, name), (stop + 1, " to"), *_month_alone(tokens, stop + 1))
    if text.capitalize() not in WORDS_TOO and not text.isupper():
        return ((place + 1, name),)
    return None


def read_day_first(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "5 May 2024", "5th of May" and "3 Jan."."""
    day, stop = tokens.text(place), place + 1
    if len(day) > 2 or not 1 <= int(day) <= 31:
        return None
    is_ordinal = tokens.text(stop).lower() in ORDINAL_ENDINGS
    stop += is_ordinal
    until = ""
    if tokens.kind(stop) in _DASHES and tokens.kind(stop + 1) == DIGITS and not is_ordinal:
        until = tokens.text(stop + 1)
        stop += 2
    if tokens.kind(stop) != SPACE:
        return None
    has_of = tokens.text(stop + 1) == "of"
    name_at = stop + (3 if has_of else 1)
    name = MONTH_NAMES.get(tokens.text(name_at))
    if name is None or (
        tokens.text(name_at) == "May" and tokens.after(name_at + 1) in ("be", "not")
    ):
        return None
    if until and not (len(until) <= 2 and 1 <= int(until) <= 31):
        return None
    end = name_at + 1
    if tokens.kind(end) == "." and len(tokens.text(name_at)) < 5 and not ends_here(tokens, end + 1):
        end += 1
    article = "" if tokens.before(place) == "the" or (has_of and is_ordinal) else "the "
    words = f"{article}{ordinal(int(day))}"
    if until:
        words += f" to {ordinal(int(until))}"
    parts = [(stop, words), (end, f" of {name}")]
    comma = end + (tokens.kind(end) == ",")
    if tokens.has(comma, " d") and _is_year_at(tokens, comma + 1):
        parts += _year_behind(tokens, end, comma)
    return tuple(parts)


def read_weekday(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "Mon", "Tues." and "Mon-Fri" as days."""
    text = tokens.text(place)
    days = SHORT_DAYS.get(text), SHORT_DAYS.get(tokens.text(place + 2))
    if all(days) and tokens.kind(place + 1) in _DASHES and tokens.is_closed(place + 3):
        return ((place + 3, " to ".join(map(str, days))),) if tokens.is_open(place) else None
    is_half = tokens.has(place + 1, " dw") and tokens.text(place + 3) in ("a", "p")
    if days[0] and (is_half or (len(text) == 2 and tokens.has(place + 1, " d"))):
        return ((place + 1, days[0]),)
    name = DAY_NAMES.get(text)
    if name is None:
        return None
    stop = place + 1
    has_dot = tokens.kind(stop) == "." and not ends_here(tokens, stop + 1)
    stop += has_dot
    following = tokens.text(stop + 1 + (tokens.kind(stop + 1) == SPACE))
    if tokens.kind(stop) in _DASHES and following in DAY_NAMES:
        other = read_weekday(tokens, stop + 1) or ((stop + 2, DAY_NAMES[following]),)
        return ((stop, name), (stop + 1, " to "), *other)
    is_certain = (
        text not in WORDS_TOO or has_dot or (text in ("Mon", "Wed") and not tokens.has(stop, " "))
    )
    is_day = is_certain or reading_in(DAY_READINGS[text], *tokens.around(place, stop, ",/-\u2013"))
    return ((stop, name),) if is_day else None


def read_decade(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "1990s", "'90s", "in the 60s" and "the '98 season"."""
    start = place + (tokens.kind(place) == "'")
    if tokens.kind(start) != DIGITS:
        return None
    digits, stop = tokens.text(start), start + 1
    is_short = start > place
    is_plural = tokens.text(stop) == "s" or (
        tokens.has(stop, "'w") and tokens.text(stop + 1) == "s"
    )
    if is_short and not is_plural:
        is_year_alone = len(digits) == 2 and tokens.is_closed(stop)
        return ((stop, say_year(digits)),) if is_year_alone else None
    if not is_plural:
        return None
    stop += 1 if tokens.text(stop) == "s" else 2
    is_end = tokens.is_closed(stop) or tokens.has(stop, "-w")
    if not is_end or digits[-1] != "0":
        return None
    if len(digits) == 4 and "1000" <= digits < "2200":
        return ((stop, say_decade(digits)),)
    if len(digits) != 2 or digits < "20":
        return None
    style = reading_in(SECONDS["decade"], *tokens.around(place, stop))
    is_decade = tokens.kind(place - 1) == "-" or is_short or style == "decade"
    is_decade = is_decade or (style == "named" and digits > "50")
    return ((stop, say_decade(digits)),) if is_decade else None


def read_era(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "44 BC", "AD 79" and "1066 CE"."""
    if tokens.kind(place) == WORD:
        if tokens.text(place) in ("AD", "CE") and tokens.has(place + 1, " d"):
            return ((place + 1, "A D"), (place + 3, f" {say_year(tokens.text(place + 2))}"))
        return None
    digits, era = tokens.text(place), tokens.text(place + 2)
    if len(digits) > 4 or tokens.kind(place + 1) != SPACE or era not in ("BC", "BCE", "AD", "CE"):
        return None
    return ((place + 1, say_year(digits)), (place + 3, f" {' '.join(era)}"))


def _after_month(tokens: TokenizedText, place: int) -> Reading | None:
    """Return the readings of a day and a year, or a year, after a month."""
    day, stop = tokens.text(place), place + 1
    if _is_year_at(tokens, place):
        return ((stop, f" {say_year(day)}"),)
    if len(day) > 2 or not 1 <= int(day) <= 31:
        return None
    if tokens.text(stop).lower() in ORDINAL_ENDINGS:
        stop += 1
    if not tokens.is_closed(stop) and tokens.kind(stop) not in _DASHES:
        return None
    if tokens.kind(stop) == ":" or tokens.kind(stop) == "%":
        return None
    parts = [(stop, f" {ordinal(int(day))}")]
    if tokens.kind(stop) in _DASHES and tokens.kind(stop + 1) == DIGITS:
        until = tokens.text(stop + 1)
        if len(until) <= 2 and 1 <= int(until) <= 31:
            stop += 2 + (tokens.text(stop + 2).lower() in ORDINAL_ENDINGS)
            parts.append((stop, f" to {ordinal(int(until))}"))
    parts += _second_day(tokens, stop)
    stop = parts[-1][0]
    comma = stop + (tokens.kind(stop) == ",")
    if tokens.has(comma, " d") and _is_year_at(tokens, comma + 1):
        parts += _year_behind(tokens, stop, comma)
    return tuple(parts)


def _second_day(tokens: TokenizedText, stop: int) -> Reading:
    """Return the reading of the "& 25" of "Dec. 24 & 25"."""
    sign, end = tokens.text(stop + 1), stop + 4
    if sign not in ("&", "and") or not tokens.has(stop, " & d" if sign == "&" else " w d"):
        return ()
    day, after = tokens.text(stop + 3), tokens.after(end)
    is_day = len(day) < 3 and 0 < int(day) < 32 and tokens.is_closed(end)
    is_day = is_day and (sign == "&" or not after or after in NOT_COUNTED)
    return ((end, f" and {ordinal(int(day))}"),) if is_day else ()


def _year_behind(tokens: TokenizedText, stop: int, comma: int) -> Reading:
    """Return the readings of an optional comma and the year after it."""
    year = (comma + 2, f" {say_year(tokens.text(comma + 1))}")
    return ((comma, ","), year) if comma > stop else (year,)


def _month_alone(tokens: TokenizedText, place: int) -> Reading:
    stop = place + 1
    if tokens.kind(stop) == "." and not ends_here(tokens, stop + 1):
        stop += 1
    return ((stop, f" {MONTH_NAMES[tokens.text(place)]}"),)


def _is_year_at(tokens: TokenizedText, place: int) -> bool:
    digits = tokens.text(place)
    return len(digits) == 4 and "1000" <= digits < "3000" and tokens.is_closed(place + 1)


def _month(digits: str) -> str | None:
    return MONTHS[int(digits) - 1] if len(digits) <= 2 and 1 <= int(digits) <= 12 else None


def _day_of(tokens: TokenizedText, month: str, day: int) -> str:
    return f"the {ordinal(day)} of {month}" if tokens.british else f"{month} {ordinal(day)}"


def _date(
    tokens: TokenizedText, stop: int, month: str | None, day: str, year: str
) -> Reading | None:
    if month is None or len(day) > 2 or not 1 <= int(day) <= 31 or len(year) not in (2, 4):
        return None
    if len(year) == 2:
        year = f"{'19' if int(year) > 50 else '20'}{year}"
    words = f"{_day_of(tokens, month, int(day))}, {say_year(year)}"
    is_stamp = tokens.has(stop, "wd:d") and tokens.text(stop) == "T"
    if not is_stamp:
        return ((stop, words),) if tokens.is_closed(stop) else None
    clock = read_clock(tokens, stop + 1)
    if clock is None:
        return None
    stop = clock[0]
    zone = " U T C" if tokens.text(stop) == "Z" else ""
    return ((stop + bool(zone), f"{words}, {clock[1]}{zone}"),)


def read_ratio(tokens: TokenizedText, place: int) -> Reading | None:
    """Read ratios that are not times of day: "3:1", "16:9" and "50:50"."""
    second = parse_numeral(tokens, place + 2) if tokens.has(place, "d:d") else None
    if second is None or not second.is_integer or not tokens.is_closed(second.stop):
        return None
    first, digits = tokens.text(place), second.whole
    is_long = len(first) > 5 or (len(digits) > 5 and not second.is_grouped)
    if is_long or tokens.kind(second.stop) == ":":
        return None
    joint = " " if first == digits == "50" else " oh " if digits[0] == "0" < digits else " to "
    number = say_integer(digits.lstrip("0") or "0")
    return ((second.stop, f"{cardinal(int(first))}{joint}{number}"),)


def read_verse(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "3:16-18" after a book of the Bible, and "2:1" after a word such as "ratio"."""
    if not tokens.has(place, "d:d") or max(len(tokens.text(place + step)) for step in (0, 2)) > 3:
        return None
    stop = place + 3
    style = reading_in(PAIR_STYLES[":"], *tokens.around(place, stop, ".,"))
    if style is None or not (tokens.is_closed(stop) or tokens.kind(stop) in _DASHES):
        return None
    joint = " to " if style == "to" else " "
    words = joint.join(cardinal(int(tokens.text(each))) for each in (place, place + 2))
    if style == "verse" and tokens.kind(stop) in _DASHES and tokens.kind(stop + 1) == DIGITS:
        words += f" to {say_integer(tokens.text(stop + 1))}"
        stop += 2
    return ((stop, words),)


def read_book(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "Gen. 1:1" and the number of "1 Cor. 13:4"."""
    book = place + 2 * (tokens.has(place, "d w") and tokens.text(place) in ("1", "2", "3"))
    text = tokens.text(book)
    stop = book + 1 + (tokens.kind(book + 1) == ".")
    if not tokens.has(stop, " d:d") or text.lower() not in BOOK_NAMES:
        return None
    number = ((book, f"{ordinal(int(tokens.text(place))).capitalize()} "),) if book > place else ()
    return (*number, (stop, BOOKS.get(text, text)))
