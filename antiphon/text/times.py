"""Times of day: "9:05", "9am", "9:30-11 a.m.", "0600 hours"."""

from antiphon.text.contexts import reading_in, words
from antiphon.text.english_tables import DAY_NAMES, DAYS, MILITARY
from antiphon.text.number_words import cardinal, spelled
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, SPACE, TokenizedText
from antiphon.text.units import ends_here

_DASHES = ("-", "\u2013")
_HALVES = words("a p A P")
_BEFORE_HOURS = words("at by from til till to until")
_ZONES = words("BST CDT CET CST EDT EST ET GMT MDT MST PDT PST PT UTC")
_NOT_ENDS = _ZONES.union(DAYS, DAY_NAMES)


def read_time(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "9:05", "9am", "9:30-11 a.m.", "12:30:45" and "6.30pm"."""
    if (stamp := _stamp(tokens, place)) is not None:
        return stamp
    if tokens.has(place, "d:d.d") and len(tokens.text(place + 2)) == 2:
        words = _say_clock(int(tokens.text(place)[:3]), tokens.text(place + 2), "")
        return ((place + 5, f"{words} point {spelled(tokens.text(place + 4))}"),)
    if tokens.has(place, "d/dw") and tokens.text(place + 3) == "c":  # "8/7c": Eastern and Central
        hours = (cardinal(int(tokens.text(each)[:2])) for each in (place, place + 2))
        return ((place + 4, f"{', '.join(hours)} Central"),)
    first = read_clock(tokens, place)
    if first is None:
        return None
    stop, words = first
    if tokens.kind(stop) in _DASHES or tokens.has(stop, " -") or tokens.has(stop, " \u2013"):
        behind = stop + 1 + tokens.has(stop, " ")
        behind += tokens.kind(behind) == SPACE
        if tokens.text(behind) in ("noon", "midnight"):
            return ((behind, f"{words} to "),)
        last = read_clock(tokens, behind, is_range=True)
        if last is not None and tokens.is_closed(last[0]):
            return ((last[0], f"{words} to {last[1]}"),)
    return ((stop, words),) if tokens.is_closed(stop) else None


def _stamp(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "00:01:02,500" and "00:01:02" as a duration, without parts that are zero."""
    is_exact = tokens.has(place, "d:d:d,d") or tokens.has(place, "d:d:d.d")
    digits = [tokens.text(place + step) for step in range(0, 8 if is_exact else 5, 2)]
    is_stamp = (is_exact and len(digits[3]) == 3) or (
        digits[0] == "00" and tokens.has(place, "d:d:d")
    )
    stop = place + 2 * len(digits) - 1
    if not is_stamp or not tokens.is_closed(stop) or max(map(len, digits)) > 3:
        return None
    numbers = [cardinal(int(each)) for each in digits[:3]]
    decimals = "".join(digits[3:]).rstrip("0")
    numbers[2] += f" point {spelled(decimals)}" if decimals else ""
    parts = zip(numbers, ("hour", "minute", "second"), strict=True)
    words = (f"{one} {unit}{'s' * (one != 'one')}" for one, unit in parts if one != "zero")
    return ((stop, " ".join(words) or "zero seconds"),)


def read_hours_to(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "9-5pm" and "9–11:30 AM", where only the end is marked as a time."""
    if tokens.kind(place + 1) not in _DASHES or tokens.kind(place + 2) != DIGITS:
        return None
    last = read_clock(tokens, place + 2)
    if last is None or len(tokens.text(place)) > 2 or not tokens.is_closed(last[0]):
        return None
    return ((last[0], f"{cardinal(int(tokens.text(place)))} to {last[1]}"),)


def read_clock(
    tokens: TokenizedText, place: int, *, is_range: bool = False
) -> tuple[int, str] | None:
    """Return the end of a time of day, and its words."""
    if tokens.kind(place) != DIGITS or len(tokens.text(place)) > 2:
        return None
    hour = int(tokens.text(place))
    minutes = [":d", ".d"]
    has_minutes = tokens.has(place + 1, minutes[0]) and len(tokens.text(place + 2)) == 2
    is_dotted = tokens.has(place + 1, minutes[1]) and len(tokens.text(place + 2)) == 2
    stop = place + 3 if has_minutes or is_dotted else place + 1
    half, stop = _half_of_day(tokens, stop)
    is_closed = tokens.is_closed(stop + 1) or tokens.kind(stop + 1) in _DASHES
    is_hour = has_minutes or is_range or tokens.text(stop + 3) in _HALVES
    is_hour = is_hour or tokens.before(place) in _BEFORE_HOURS
    if is_hour and not half and tokens.text(stop) in _HALVES and is_closed:
        half, stop = f"{tokens.text(stop).upper()} M", stop + 1
    if hour > 24 or (half and hour > 12 and not has_minutes):
        return None
    if is_dotted and not half:
        return None
    if not (has_minutes or is_dotted):
        if half:
            return stop, f"{cardinal(hour)} {half}"
        is_hour = is_range and tokens.is_closed(stop) and hour <= 12
        return (stop, cardinal(hour)) if is_hour else None
    minute = tokens.text(place + 2)
    if int(minute) > 59:
        return None
    seconds = tokens.text(place + 4) if not half and tokens.has(place + 3, ":d") else ""
    if seconds == "00":
        return place + 5, _say_clock(hour, minute, "")
    if len(seconds) == 2 and int(seconds) < 60:
        tail = f" and {cardinal(int(seconds))} second{'' if int(seconds) == 1 else 's'}"
        half, stop = _half_of_day(tokens, place + 5)
        head = _say_clock(hour, minute, "") if int(minute) else f"{cardinal(hour)} hours"
        return stop, f"{head}{tail}{f' {half}' if half else ''}"
    zone = tokens.after(stop) if tokens.after(stop) in _ZONES else ""
    return stop, _say_clock(hour, minute, half or zone)


def _say_clock(hour: int, minute: str, half: str) -> str:
    if minute == "00":
        if half and half not in _ZONES:
            return f"{cardinal(hour)} {half}"
        if 1 <= hour <= 12:
            return f"{cardinal(hour)} o'clock"
        return f"{cardinal(hour)} hundred" if hour else "zero hundred"
    words = f"{cardinal(hour)} {'oh ' if minute[0] == '0' else ''}{cardinal(int(minute))}"
    return f"{words} {half}" if half and half not in _ZONES else words


def _half_of_day(tokens: TokenizedText, place: int) -> tuple[str, int]:
    """Return "A M" or "P M" if present, and its end."""
    start = place + (tokens.kind(place) == SPACE)
    letters = tokens.text(start)
    if letters.lower() in ("am", "pm") and (letters[0].islower() == letters[1].islower()):
        is_word = letters == "am" and start > place
        if is_word and tokens.kind(start + 1) == SPACE and tokens.text(start + 2) in ("I", "not"):
            return "", place
        return " ".join(letters.upper()), start + 1
    is_dotted = letters in _HALVES and tokens.has(start + 1, ".w")
    if is_dotted and tokens.text(start + 2) in ("m", "M"):
        stop = start + 3
        is_inside = not ends_here(tokens, stop + 1) or tokens.after(stop + 1) in _NOT_ENDS
        stop += tokens.kind(stop) == "." and is_inside
        return f"{letters.upper()} M", stop
    return "", place


def read_military_time(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "0600 hours", "1830 hours" and "the 0800 train"."""
    digits = tokens.text(place)
    is_hours = tokens.has(place + 1, " w") and tokens.text(place + 2) in ("hours", "hrs")
    is_early = digits[0] == "0" and digits != "0000" and tokens.is_closed(place + 1)
    is_time = is_early and reading_in(MILITARY["0"], *tokens.around(place, place + 1))
    if len(digits) != 4 or not (is_hours or is_time):
        return None
    hour, minute = digits[:2], digits[2:]
    if int(hour) > 24 or int(minute) > 59 or (hour > "20" and minute != "00" and int(hour) > 24):
        return None
    head = f"oh {spelled(hour[1])}" if hour[0] == "0" else cardinal(int(hour))
    if minute == "00":
        return ((place + 1, f"{head} hundred"),)
    tail = f"oh {spelled(minute[1])}" if minute[0] == "0" else cardinal(int(minute))
    return ((place + 1, f"{head} {tail}"),)
