"""Chinese text written out in characters: numbers, dates, money, measures and signs.

Each rule reads a bounded number of tokens from its own on, as those of English text do. English
sentences and addresses within the text are written out by the rules of English.
"""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from antiphon.text.readings import Reading, Rule
from antiphon.text.tokens import DIGITS, LINE, SPACE, WORD, SpokenPiece, TokenizedText
from antiphon.text.written_out import pieces_of

DIGIT_WORDS = "零一二三四五六七八九"
_PHONE_DIGITS = "零幺二三四五六七八九"
_MAX_DIGITS = 16
_MAX_YEAR = 2999
_NAMES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("chinese_names.toml").read_text(encoding="utf-8")
)
_CURRENCIES, _CODES = _NAMES["currencies"], _NAMES["codes"]
_UNITS, _SIGNS = _NAMES["units"], _NAMES["signs"]
_MAX_UNIT_TOKENS = 3
_SHARES = {"%": "百分之", "‰": "千分之"}
_MAGNITUDES = "十百千万亿"
_COUNTED = frozenset(
    "个只条张本位件把辆台家间匹棵朵杯瓶碗盘块片双对套次遍趟天周年倍里米斤吨元亿万千百秒点口座部首"
    "篇句岁种样层段场份名头颗根枚艘架群排箱袋盒包顿串副幅克升公小分"
)
_NOT_COUNTED = frozenset("第初周期拜十百千万亿点零")
_AFTER_RANGES = frozenset("日号月年点分时天元个岁度米楼章节页周%")
_DASHES = "-–—~"
_MIN_ENGLISH_WORDS = 3
_END_MARKS = "。！？!?…"


def cardinal(number: int) -> str:
    """Return 一千零二十 for 1020; below 10^16."""
    words = _cardinal(number) or DIGIT_WORDS[0]
    return words.removeprefix("一") if words.startswith("一十") else words


def spelled(digits: str, names: str = DIGIT_WORDS) -> str:
    """Return digits one by one."""
    return "".join(names[int(each)] for each in digits)


def chinese_pieces_of(text: str) -> Iterator[SpokenPiece]:
    """Yield the pieces of a text, in order; together they cover it."""
    tokens = TokenizedText(text)
    place = stop = 0
    while place < len(tokens):
        if place >= stop:
            stop = _english_stop(text, tokens, place)
            if stop > place and _is_english([tokens.text(each) for each in range(place, stop)]):
                start = tokens.offset(place)
                for piece in pieces_of(TokenizedText(text[start : tokens.offset(stop)])):
                    yield replace(piece, start=piece.start + start, stop=piece.stop + start)
                place = stop
                continue
        reading = _read(tokens, place)
        for end, words in reading or ((place + 1, tokens.text(place)),):
            start, is_changed = tokens.offset(place), reading is not None
            is_end = not is_changed and _ends_sentence(tokens, place)
            yield SpokenPiece(start, tokens.offset(end), words, is_changed, is_end)
            place = end


def is_han(token: str) -> bool:
    return len(token) == 1 and token >= "\u3400" and token.isalpha()


def _english_stop(text: str, tokens: TokenizedText, place: int) -> int:
    while place < len(tokens):
        character = text[tokens.offset(place)]
        if character in "\n。、《》「」【】（），；：！？" or is_han(tokens.text(place)):
            break
        place += 1
    return place


def _is_english(run: Sequence[str]) -> bool:
    words = [each for each in run if each.isascii() and each[0].isalpha()]
    is_sentence = len(words) >= _MIN_ENGLISH_WORDS and sum(map(str.islower, words)) > 1
    return is_sentence or bool(words and ("@" in run or "://" in "".join(run)))


def _ends_sentence(tokens: TokenizedText, place: int) -> bool:
    kind, following = tokens.kind(place), tokens.kind(place + 1)
    if kind == ".":
        return following in (SPACE, LINE)
    return kind == LINE or (kind in _END_MARKS and following not in _END_MARKS + "”’」』）)")


def _read(tokens: TokenizedText, place: int) -> Reading | None:
    kind = tokens.kind(place)
    if kind in (SPACE, LINE):
        return None
    rules: tuple[Rule, ...]
    if kind == DIGITS:
        rules = (_phone, _date, _time, _version, _pair, _range, _quantity)
    elif kind == WORD:
        rules = (_code_amount,)
    elif kind in _CURRENCIES:
        rules = (_money,)
    else:
        rules = (_signed, _sign)
    return next((found for rule in rules if (found := rule(tokens, place)) is not None), None)


def _digits(tokens: TokenizedText, place: int) -> str:
    return tokens.text(place) if tokens.kind(place) == DIGITS else ""


def _number(tokens: TokenizedText, place: int) -> tuple[int, str]:
    integer = _digits(tokens, place)
    if not integer:
        return place, ""
    stop = place + 1
    while (
        tokens.kind(stop) == ","
        and len(_digits(tokens, stop + 1)) == 3
        and len(tokens.text(place)) <= 3
        and len(integer) < _MAX_DIGITS - 3
    ):
        integer += tokens.text(stop + 1)
        stop += 2
    is_code = len(integer) > _MAX_DIGITS or (integer[0] == "0" and len(integer) > 1)
    words = spelled(integer) if is_code else cardinal(int(integer))
    if tokens.kind(stop) == "." and (fraction := _digits(tokens, stop + 1)):
        return stop + 2, f"{words}点{spelled(fraction)}"
    return stop, words


def _phone(tokens: TokenizedText, place: int) -> Reading | None:
    """Read telephone numbers digit by digit: mobile ones, with an area code, after "call"."""
    groups, stop = [_digits(tokens, place)], place + 1
    while tokens.kind(stop) in ("-", SPACE) and len(_digits(tokens, stop + 1)) > 2:
        groups.append(tokens.text(stop + 1))
        stop += 2
        if len(groups) > 3:
            return None
    digits = "".join(groups)
    is_mobile = len(digits) == 11 and digits[0] == "1" and digits[1] in "3456789"
    is_service = groups[0] in ("400", "800") and len(digits) == 10
    has_area = len(groups) > 1 and groups[0][0] == "0" and 10 <= len(digits) <= 12
    is_called = tokens.text(place - 1) in ("打", "拨") and len(digits) in (3, 5)
    is_short = is_called and len(groups) == 1
    if not (is_mobile or is_service or has_area or is_short):
        return None
    return ((stop, "，".join(spelled(each, _PHONE_DIGITS) for each in groups)),)


def _date(tokens: TokenizedText, place: int) -> Reading | None:
    """Read 2024-05-01, 2024/5/1 and 2024.5.1, and a year before 年."""
    year = _digits(tokens, place)
    if len(year) != 4:
        return None
    mark = tokens.kind(place + 1)
    month, day = _digits(tokens, place + 2), _digits(tokens, place + 4)
    is_date = mark in ("-", "/", ".") and mark == tokens.kind(place + 3) and month and day
    if is_date and 0 < int(month[:3]) <= 12 and 0 < int(day[:3]) <= 31:
        return ((place + 5, f"{spelled(year)}年{cardinal(int(month))}月{cardinal(int(day))}日"),)
    if not 1100 <= int(year) <= _MAX_YEAR:
        return None
    last = _digits(tokens, place + 2) if tokens.kind(place + 1) in _DASHES else ""
    if len(last) == 4 and year < last <= str(_MAX_YEAR):
        return ((place + 3, f"{spelled(year)}到{spelled(last)}"),)
    following = place + 1 + (tokens.kind(place + 1) == SPACE)
    return ((place + 1, spelled(year)),) if tokens.text(following) == "年" else None


def _time(tokens: TokenizedText, place: int) -> Reading | None:
    """Read 15:05 and 3:30 pm; other numbers with a colon are ratios."""
    hour, minute = _digits(tokens, place), _digits(tokens, place + 2)
    if tokens.kind(place + 1) != ":" or not minute:
        return None
    if len(minute) != 2 or len(hour) > 2 or int(hour) > 24 or int(minute) > 59:
        return None
    words = f"{'两' if int(hour) == 2 else cardinal(int(hour))}点"
    second = _digits(tokens, place + 4) if tokens.kind(place + 3) == ":" else ""
    stop = place + (5 if second else 3)
    if int(minute) or second:
        words += f"{'零' if 0 < int(minute) < 10 else ''}{cardinal(int(minute))}分"
    if second:
        words += f"{_number(tokens, place + 4)[1]}秒"
    half = stop + (tokens.kind(stop) == SPACE)
    part = {"am": "上午", "pm": "下午"}.get(tokens.text(half).lower())
    return ((half + 1, f"{part}{words}"),) if part else ((stop, words),)


def _version(tokens: TokenizedText, place: int) -> Reading | None:
    """Read the parts of 3.2.1 and of 192.168.1.1."""
    parts, stop = [_digits(tokens, place)], place + 1
    while tokens.kind(stop) == "." and (part := _digits(tokens, stop + 1)) and len(parts) < 8:
        parts.append(part)
        stop += 2
    return ((stop, "点".join(map(spelled, parts))),) if len(parts) > 2 else None


def _pair(tokens: TokenizedText, place: int) -> Reading | None:
    """Read ratios (3:2) and fractions (1/2)."""
    first, second = _digits(tokens, place), _digits(tokens, place + 2)
    mark = tokens.kind(place + 1)
    if mark not in (":", "/") or not second or max(len(first), len(second)) > 6:
        return None
    if mark in (tokens.kind(place + 3), tokens.kind(place - 1)):
        return None
    one, other = cardinal(int(first)), cardinal(int(second))
    return ((place + 3, f"{one}比{other}" if mark == ":" else f"{other}分之{one}"),)


def _range(tokens: TokenizedText, place: int) -> Reading | None:
    """Read 5-10%, whose sign belongs to both numbers."""
    middle, first = _number(tokens, place)
    stop, second = _number(tokens, middle + 1)
    share = _SHARES.get(tokens.kind(stop))
    if tokens.kind(middle) not in ("-", "–", "~") or not second or share is None:
        return None
    return ((stop + 1, f"{share}{first}到{second}"),)


def _quantity(tokens: TokenizedText, place: int, sign: str = "") -> Reading | None:
    """Read a number with its unit, its percent sign or its currency."""
    stop, words = _number(tokens, place)
    if not words:
        return None
    if (share := _SHARES.get(tokens.kind(stop))) is not None:
        return ((stop + 1, f"{share}{sign}{words}"),)
    unit_place = stop + (tokens.kind(stop) == SPACE)
    for after in range(unit_place + _MAX_UNIT_TOKENS, unit_place, -1):
        written = tokens.joined(unit_place, after)
        unit = _UNITS.get(written) or _CODES.get(written) or _CURRENCIES.get(written)
        if unit is None or (written in _CURRENCIES and _digits(tokens, after)):
            continue
        if sign == "负" and written.startswith("°"):
            sign = "零下"
        return ((after, f"{sign}{'两' if words == '二' else words}{unit}"),)
    following = tokens.text(stop + (tokens.kind(stop) == SPACE))
    if words == "二" and following in _COUNTED and tokens.text(place - 1) not in _NOT_COUNTED:
        words = "两"
    return ((stop, f"{sign}{words}"),)


def _money(tokens: TokenizedText, place: int, sign: str = "") -> Reading | None:
    """Read an amount behind its currency, with the magnitude that follows it."""
    return _amount(tokens, place + 1, _CURRENCIES[tokens.kind(place)], sign)


def _code_amount(tokens: TokenizedText, place: int) -> Reading | None:
    """Read the amount behind the code of a currency: USD 5, US$5."""
    for stop in (place + 2, place + 1):
        if (unit := _CODES.get(tokens.joined(place, stop))) is not None:
            return _amount(tokens, stop + (tokens.kind(stop) == SPACE), unit)
    return None


def _amount(tokens: TokenizedText, place: int, unit: str, sign: str = "") -> Reading | None:
    stop, words = _number(tokens, place)
    if not words:
        return None
    if "点" in words:
        words = words.rstrip("零").removesuffix("点")
    magnitude = ""
    while tokens.text(stop) and tokens.text(stop) in _MAGNITUDES and len(magnitude) < 3:
        magnitude += tokens.text(stop)
        stop += 1
    words = "两" if words == "二" else words
    return ((stop, f"{sign}{words}{magnitude}{unit}"),)


def _signed(tokens: TokenizedText, place: int) -> Reading | None:
    """Read the sign of a number: a range, a difference, or a number below zero."""
    kind, after = tokens.kind(place), place + 1
    if kind not in ("-", "–", "—", "~", "\u2212", "+") or not (
        _digits(tokens, after) or tokens.kind(after) in _CURRENCIES
    ):
        return None
    before = tokens.text(place - 1)
    is_counted = before in _AFTER_RANGES and bool(_digits(tokens, place - 2))
    follows_number = before.isdecimal() or is_counted
    if kind in ("+", "\u2212") and follows_number:
        return None
    if follows_number:
        stop, _ = _number(tokens, after)
        return ((after, "减" if kind == "-" and tokens.has(stop, "=") else "到"),)
    if kind == "~":
        return ((after, "约"),)
    if kind in ("–", "—") or (before[:1].isalpha() and not is_han(before)):
        return None
    sign = "正" if kind == "+" else "负"
    rule = _money if tokens.kind(after) in _CURRENCIES else _quantity
    return rule(tokens, after, sign)


def _sign(tokens: TokenizedText, place: int) -> Reading | None:
    """Read a sign by its name; a line of equals signs is a rule."""
    kind = tokens.kind(place)
    if kind in ("-", "*") and tokens.kind(place - 1) == tokens.kind(place + 1) == SPACE:
        words = {"-": "减", "*": "乘"}[kind]
        is_formula = _digits(tokens, place - 2) and _digits(tokens, place + 2)
        return ((place + 1, words),) if is_formula else None
    if kind == "*" and _digits(tokens, place - 1) and _digits(tokens, place + 1):
        return ((place + 1, "乘"),)
    unit = _UNITS.get(tokens.joined(place, place + 2)) if kind == "°" else None
    if unit is not None:
        return ((place + 2, unit),)
    if kind not in _SIGNS:
        return None
    if kind == "=" and "===" in tokens.joined(place - 2, place + 3):
        return ((place + 1, ""),)
    return ((place + 1, _SIGNS[kind]),)


def _cardinal(number: int) -> str:
    for scale, name in ((10**8, "亿"), (10**4, "万")):
        high, low = divmod(number, scale)
        if high:
            gap = "零" if 0 < low < scale // 10 else ""
            return f"{'两' if high == 2 else _cardinal(high)}{name}{gap}{_cardinal(low)}"
    words = ""
    for place, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // place % 10
        if digit:
            words += f"{'两' if digit == 2 and name == '千' else DIGIT_WORDS[digit]}{name}"
        elif words and number % place and not words.endswith("零"):
            words += "零"
    return words
