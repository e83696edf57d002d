"""Telephone numbers, versions, IP addresses, keys, formulas and other codes."""

from antiphon.text.addresses import MAX_CODE_TOKENS, VOWELS, camel_parts, say_code_digits
from antiphon.text.contexts import reading_in, words
from antiphon.text.english_tables import (
    CODE_SIGNS,
    ELEMENTS,
    KEY_NAMES,
    KEYS,
    NAMED_SIGNS,
    NUMBER_STYLES,
    PHONE_WORDS,
    SHORT_WORDS,
    SLANG,
    TO_BETWEEN,
)
from antiphon.text.number_words import cardinal, in_pairs, plural, spelled
from antiphon.text.numerals import (
    PASSED_OVER,
    parse_numeral,
    say_in_context,
    say_integer,
    say_pairs,
    say_year,
)
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, LINE, SPACE, WORD, TokenizedText

_WORDS_TOO = words("AGE AIR BIG BOX CAR DAY GEN ICE MAX PRO RED TOP")
_BEFORE_CODES = words(": # . is")
_MIN_PHONE_DIGITS, _MAX_PHONE_DIGITS = 7, 15
_MAX_MIXED_TOKENS = 24
_MAX_CALL_TOKENS = 8


def read_phone(tokens: TokenizedText, place: int) -> Reading | None:
    """Read a telephone number: groups of digits with spaces, hyphens, dots or brackets between."""
    groups: list[str] = []
    stop, end = place, place
    has_plus = tokens.kind(stop) == "+"
    stop += has_plus
    separators = ""
    while len(groups) < 8:
        kind = tokens.kind(stop)
        is_area = not groups or (len(groups) == 1 and (has_plus or groups[0] == "1"))
        if is_area and tokens.has(stop, "(d)") and len(tokens.text(stop + 1)) <= 5:
            groups.append(tokens.text(stop + 1))
            separators += "("
            stop = end = stop + 3
        elif kind == DIGITS or (
            kind == WORD and groups[:1] == ["1"] and len(groups) == 2 and _is_vanity(tokens, stop)
        ):
            groups.append(tokens.text(stop))
            stop = end = stop + 1
        else:
            break
        following = tokens.kind(stop)
        if following == SPACE and separators[-1:] == "(" and tokens.kind(stop + 1) != DIGITS:
            break
        goes_on = tokens.kind(stop + 1) in (DIGITS, "(", WORD)
        if goes_on and (following == SPACE or following in ("-", ".", "\u2013")):
            separators += following
            stop += 1
        elif following not in ("(", DIGITS):
            break
    is_local = [*map(len, groups)] == [3, 4] and not separators.strip()
    is_phone = is_local and _is_called(tokens, place, end)
    is_phone = is_phone or bool(groups and _is_phone(groups, separators, has_plus=has_plus))
    is_phone = is_phone or (len(groups) == 3 and groups[-1].isalpha())
    is_code = len(groups) > 1 and sum(map(len, groups)) > 4 and set(separators) <= {" ", "-"}
    if is_code and not is_phone and tokens.is_closed(end):
        code = tokens.kind(place - 1) == "#" or reading_in(
            NUMBER_STYLES["code"], *tokens.around(place, end, _BEFORE_CODES)
        )
        return ((end, ", ".join(map(_say_group, groups))),) if code else None
    if not is_phone or not tokens.is_closed(end):
        return None
    spoken = ["eight hundred" if group == "800" else _say_group(group) for group in groups]
    words = ", ".join(spoken)
    if groups[0] == "1" and not has_plus and len(groups) > 1:
        words = " ".join(spoken[:2]) + "".join(f", {each}" for each in spoken[2:])
    return ((end, f"plus {words}" if has_plus else words),)


def _is_called(tokens: TokenizedText, place: int, stop: int) -> bool:
    """Whether two groups of digits are a line by themselves, or stand behind "call" and the like.

    Args:
        stop: token behind the last one.
    """
    start = place - 1
    while tokens.kind(start) not in (LINE, "") and place - start < _MAX_CALL_TOKENS:
        if tokens.text(start).lower() in PHONE_WORDS:
            return True
        start -= 1
    return start == place - 1 and tokens.ends_text(stop + (tokens.kind(stop) == "."))


def _is_vanity(tokens: TokenizedText, place: int) -> bool:
    return tokens.text(place).isupper() and len(tokens.text(place)) >= 3


def _say_group(group: str) -> str:
    if group.isdecimal():
        return spelled(group)
    return group.capitalize() if VOWELS & set(group) else " ".join(group)


def _is_phone(groups: list[str], separators: str, *, has_plus: bool) -> bool:
    sizes = [len(group) for group in groups]
    total = sum(sizes)
    if has_plus:
        return (len(groups) > 1 and _MIN_PHONE_DIGITS <= total <= _MAX_PHONE_DIGITS) or total >= 10
    if "-" not in separators and "(" not in separators and "." not in separators:
        if groups[0][:1] != "0" and sizes not in ([3, 3, 4], [1, 3, 3, 4], [4, 4, 4, 4]):
            return False
        return len(groups) > 1 and _MIN_PHONE_DIGITS + 2 <= total <= 16 and max(sizes) < 8
    if len(groups) > 1 and "." in separators:
        return sizes in ([3, 3, 4], [1, 3, 3, 4])
    if "(" in separators:
        return _MIN_PHONE_DIGITS <= total <= _MAX_PHONE_DIGITS and len(groups) > 1
    return (
        sizes in ([3, 4], [3, 3, 4], [1, 3, 3, 4], [3, 2, 4], [4, 4, 4, 4], [5, 4], [1, 3, 7])
        or (groups[0][:1] == "0" and total >= 9)
        or (len(groups) >= 4 and total >= 9)
    )


def read_version(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "2.0.1", "v2.0.1", "3.11" after the name of a program, and IP addresses."""
    start = place
    has_v = tokens.kind(place) == WORD
    if has_v:
        if tokens.text(place) not in ("v", "V") or tokens.kind(place + 1) != DIGITS:
            return None
        if tokens.text(place) == "V" and not tokens.has(place + 2, ".d"):
            return None
        start += 1
    parts, stop = [tokens.text(start)], start + 1
    while (tokens.has(stop, ".d") or tokens.joined(stop, stop + 2) == ".x") and len(parts) < 6:
        parts.append(tokens.text(stop + 1))
        stop += 2
    if len(parts) == 2 and not (has_v or parts[1] == "x"):
        around = tokens.around(place, stop, "><=")
        if parts[1] == "0" or reading_in(NUMBER_STYLES["version"], *around) is None:
            return None
    is_grouped = len(parts) > 2 and parts[0] != "0" and {len(part) for part in parts[1:]} == {3}
    if (len(parts) < 2 or (is_grouped and len(parts) != 4)) and not has_v:
        return None
    if len(parts) == 4 and all(part[:4].isdecimal() and int(part[:4]) < 256 for part in parts):
        joint = " dot "
        words = joint.join(_say_octet(part) for part in parts)
        words, stop = _with_port(tokens, words, stop)
    else:
        words = " point ".join(map(_say_version_part, parts))
    tail, end = _version_tail(tokens, stop)
    if not (tail.islower() or tokens.is_closed(end)):
        return None
    return ((end, f"{'version ' if has_v else ''}{words} {tail}".rstrip()),)


def _version_tail(tokens: TokenizedText, stop: int) -> tuple[str, int]:
    """Return the "rc" of "1.8-rc2" or the "B" of "1.8.2b", and its end."""
    if tokens.has(stop, "-w") and tokens.text(stop + 1) in ("alpha", "beta", "rc"):
        return tokens.text(stop + 1), stop + 2
    is_letter = tokens.kind(stop) == WORD and len(tokens.text(stop)) == 1
    return (tokens.text(stop).upper(), stop + 1) if is_letter else ("", stop)


def _with_port(tokens: TokenizedText, address: str, stop: int) -> tuple[str, int]:
    if not tokens.has(stop, ":d"):
        return address, stop
    port = tokens.text(stop + 1)
    words = in_pairs(int(port)) if len(port) == 4 else say_integer(port)
    return f"{address} colon {words}", stop + 2


def _say_octet(part: str) -> str:
    return in_pairs(int(part)) if len(part) == 3 and part[1:] != "00" else say_integer(part)


def _say_version_part(part: str) -> str:
    if len(part) == 2 and part[0] == "0" and part != "00":
        return f"oh {cardinal(int(part))}"
    if part == "x":
        return "X"
    return say_integer(part) if len(part) < 4 else spelled(part)


def read_keys(tokens: TokenizedText, place: int) -> Reading | None:
    """Read key combinations: "Ctrl+C", "Cmd-Shift-P" and "Alt + F4"."""
    first = KEYS.get(tokens.text(place).lower())
    if first is None or not tokens.is_open(place):
        return None
    words, stop = [first], place + 1
    while True:
        spaced = tokens.has(stop, " + ")
        if not spaced and tokens.kind(stop) not in ("+", "-"):
            break
        key = stop + (3 if spaced else 1)
        text = tokens.text(key)
        is_key = len(text) < 2 or text.lower() in KEYS or text.lower() in KEY_NAMES
        is_key = is_key and (tokens.text(place)[0].isupper() or first in ("control", "command"))
        is_key = is_key or (text in ("F", "f") and tokens.kind(key + 1) == DIGITS)
        if tokens.kind(stop) == "-" and not is_key:
            break
        if tokens.kind(key) == WORD and tokens.kind(key + 1) == DIGITS and len(text) == 1:
            words += [text.upper(), say_integer(tokens.text(key + 1))]
            stop = key + 2
        elif tokens.kind(key) in (WORD, DIGITS):
            name = KEYS.get(text.lower()) or KEY_NAMES.get(text.lower())
            name = name or (say_integer(text) if text.isdecimal() else text)
            words.append(name.upper() if len(name) == 1 else name)
            stop = key + 1
        elif tokens.kind(key) in CODE_SIGNS and tokens.kind(stop) == "+":
            words.append(CODE_SIGNS[tokens.kind(key)])
            stop = key + 1
        else:
            break
    return ((stop, " ".join(words)),) if len(words) > 1 else None


def read_named_sign(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "C#", "C++", ".NET", "A+" and "B-"."""
    for steps in (3, 2):
        name = NAMED_SIGNS.get(tokens.joined(place, place + steps))
        if name is not None and tokens.is_open(place) and tokens.is_closed(place + steps):
            return ((place + steps, name),)
    text, sign = tokens.text(place), tokens.kind(place + 1)
    is_grade = len(text) == 1 and text in "ABCDFO" and sign in ("+", "-", "\u2212")
    if not is_grade or not tokens.is_open(place):
        return None
    is_last = tokens.kind(place + 2) in (SPACE, LINE, "", ".", ",", "!", "?", ")", ";", '"', "'")
    if not is_last or (tokens.kind(place + 2) == SPACE and tokens.kind(place + 3) == DIGITS):
        return None
    return ((place + 2, f"{text} {'plus' if sign == '+' else 'minus'}"),)


def read_to_between(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "B2B" and "text2speech"."""
    if not tokens.has(place, "wdw") or tokens.text(place + 1) != "2" or not tokens.is_open(place):
        return None
    first, last = tokens.text(place), tokens.text(place + 2)
    is_known = tokens.joined(place, place + 3) in TO_BETWEEN or min(len(first), len(last)) > 2
    is_known = is_known and tokens.is_closed(place + 3)
    return ((place + 3, f"{first} to {last}"),) if is_known else None


def read_mixed(tokens: TokenizedText, place: int) -> Reading | None:
    """Read joined letters and digits: "F-16", "B2B", "4x4", "COVID-19", "3D"."""
    if not tokens.is_open(place):
        return None
    words, stop, kinds = list[str](), place, ""
    while tokens.kind(stop) in (WORD, DIGITS) and stop - place < _MAX_MIXED_TOKENS:
        kinds += tokens.kind(stop)
        words.append(_say_mixed(tokens, stop, is_first=stop == place))
        stop += 1
        is_hyphen = tokens.kind(stop) in ("-", "\u2013") and tokens.kind(stop + 1) in (WORD, DIGITS)
        text = tokens.text(stop - 1)
        is_name = kinds[-1] == DIGITS or text.isupper() or text in ("cr", "cv")
        if kinds[-1] == DIGITS and tokens.has(stop, "\u2013d"):
            words.append("to")
        if is_hyphen and is_name and DIGITS in kinds[-1] + tokens.kind(stop + 1):
            stop += 1
    slang = SLANG.get(tokens.joined(place, stop).lower())
    if slang is not None and tokens.is_closed(stop):
        return ((stop, slang),)
    if set(kinds) != {WORD, DIGITS} or not tokens.is_closed(stop) or kinds.count(DIGITS) > 8:
        return None
    code = reading_in(NUMBER_STYLES["code"], *tokens.around(place, stop, PASSED_OVER))
    if code and max(map(len, words)) > 2:
        parts = [tokens.text(each) for each in range(place, stop) if tokens.text(each).isalnum()]
        named = [len(part) > 3 and not VOWELS.isdisjoint(part) for part in parts]
        words = [
            part
            if is_name
            else say_integer(part)
            if named[0] and len(part) < 3 and part.isdecimal()
            else _say_code_part(part)
            for part, is_name in zip(parts, named, strict=True)
        ]
    if kinds == "dw" and tokens.has(place, "d-w") and text.islower() and len(text) > 3:
        words[0] = words[0] if text == "grit" else say_integer(tokens.text(place))
    if kinds == f"{kinds[:-2]}{DIGITS}{WORD}" and tokens.text(stop - 1) in ("s", "'s"):
        words = [*words[:-2], plural(words[-2])]
    return ((stop, " ".join(words)),)


def _say_code_part(part: str) -> str:
    return " ".join(part) if part.isupper() else _say_group(part)


def read_hexadecimal(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "0x1F" digit by digit."""
    if tokens.text(place) != "0" or tokens.text(place + 1)[:1] != "x":
        return None
    stop = place + 1
    while tokens.kind(stop) in (WORD, DIGITS) and stop - place < _MAX_MIXED_TOKENS:
        stop += 1
    digits = tokens.joined(place + 1, stop)[1:]
    is_hexadecimal = bool(digits) and set(digits.lower()) <= set("0123456789abcdef")
    if not is_hexadecimal or not tokens.is_closed(stop) or (digits.isdecimal() and len(digits) < 3):
        return None
    words = (spelled(digit) if digit.isdecimal() else digit.upper() for digit in digits)
    return ((stop, f"zero X {' '.join(words)}"),)


def read_section(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "401(k)" and "Section 4(b)(2)" without a pause."""
    numeral = parse_numeral(tokens, place)
    stop = numeral.stop if numeral is not None else place
    if numeral is None or tokens.kind(stop + 1) != WORD:
        return None
    words = [say_in_context(tokens, place, numeral)]
    while tokens.kind(stop) == "(" and tokens.kind(stop + 2) == ")" and len(words) < 5:
        part = tokens.text(stop + 1)
        if not (part.isdecimal() and len(part) < 3) and not (part.isalpha() and len(part) == 1):
            return None
        words.append(say_integer(part) if part.isdecimal() else part.upper())
        stop += 3
    ending = "s" if tokens.text(stop) == "s" else ""
    is_section = len(words) > 1 and tokens.is_closed(stop + len(ending))
    return ((stop + len(ending), f"{' '.join(words)}{ending}"),) if is_section else None


def _say_mixed(tokens: TokenizedText, place: int, *, is_first: bool) -> str:
    text = tokens.text(place)
    if tokens.kind(place) == DIGITS:
        if (len(text) > 1 and text[0] == "0") or len(text) > 4:
            return spelled(text)
        if len(text) == 4:
            return say_year(text) if text[2:] == "00" else say_pairs(text)
        if len(text) == 3 and text[1:] != "00":
            return in_pairs(int(text))
        return say_integer(text)
    if text in ("s", "'s") and not is_first:
        return text
    if text.lower() != text != text.upper() and text in SHORT_WORDS:
        return SHORT_WORDS[text]  # "IPv6"
    if len(text) == 2 and text in ELEMENTS and not is_first and text[1] != "s":
        return " ".join(text.upper())  # "2Fe"
    if text.isupper() and len(text) <= 3 and text not in _WORDS_TOO:
        return " ".join(text)
    if len(text) == 1 or (len(text) <= 3 and not VOWELS & set(text)):
        return " ".join(text.upper())
    return text


def read_hash(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "#1", "#MeToo" and "@name"."""
    if not tokens.is_open(place):
        return None
    is_name = tokens.kind(place + 2) in (WORD, "_") and len(tokens.text(place + 2)) > 1
    if tokens.has(place, "#d") and not is_name:
        return ((place + 1, "number "),)
    is_code = tokens.kind(place + 2) in ("-", DIGITS) and len(tokens.text(place + 1)) < 4
    if tokens.kind(place) == "#" and is_code and tokens.text(place + 1).isupper():
        return ((place + 1, "number "),)
    is_alone = tokens.has(place - 2, "w # ") or tokens.has(place, "#:")
    if is_alone and place > 1:
        is_key = tokens.before(place) in ("press", "hit", "dial", "the")
        return ((place + 1, "pound" if is_key else "number"),)
    if tokens.kind(place + 1) not in (WORD, DIGITS):
        return None
    stop, words = place + 1, list[str]()
    while stop - place < MAX_CODE_TOKENS and (
        tokens.kind(stop) in (WORD, DIGITS) or tokens.has(stop, "_w") or tokens.has(stop, "_d")
    ):
        text = tokens.text(stop)
        if tokens.kind(stop) == WORD:
            words += [text] if text.isupper() and len(text) < 6 else camel_parts(text)
        elif text.isdecimal():
            words.append(say_code_digits(text))
        elif tokens.kind(place) == "@":
            words.append("underscore")
        stop += 1
    name = "hashtag" if tokens.kind(place) == "#" else "at"
    return ((stop, f"{name} {' '.join(words)}"),)
