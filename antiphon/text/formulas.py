"""Chemical formulas, powers, subscripts and variables."""

from antiphon.text.english_tables import (
    ELEMENTS,
    NOT_AFTER_SPACE,
    SHORT_WORDS,
    SUBSCRIPTS,
    SUPERSCRIPTS,
)
from antiphon.text.number_words import cardinal
from antiphon.text.numerals import say_integer
from antiphon.text.readings import Reading
from antiphon.text.tokens import DIGITS, SPACE, WORD, TokenizedText
from antiphon.text.units import parse_unit

_IONS = ("ion", "ions", "channel", "channels", "level", "levels")
_FORMULA_KINDS = (WORD, DIGITS, *SUBSCRIPTS, "(", ")")
_MAX_FORMULA_TOKENS = 24
_MAX_POWER_DIGITS = 6


def read_formula(tokens: TokenizedText, place: int) -> Reading | None:
    """Read "CO2", "H\u2082SO\u2084" and "C6H12O6": elements and their numbers."""
    stop, words, has_number = place, list[str](), False
    if not tokens.is_open(place) and tokens.kind(place - 1) != DIGITS:
        return None
    while tokens.kind(stop) in _FORMULA_KINDS and stop - place < _MAX_FORMULA_TOKENS:
        part = _formula_part(tokens, place, stop)
        if part is None:
            break
        has_number = has_number or (bool(part) and part[0].islower())
        has_number = has_number or _is_compound(tokens.text(stop))
        words += [part] if part else []
        stop += 1
    sign = {"\u207a": "plus", "\u207b": "minus"}.get(tokens.kind(stop))
    is_ion = tokens.kind(stop) == "+" and tokens.after(stop + 1) in _IONS
    if is_ion:
        sign, has_number = "plus", True
    if has_number and sign is not None:
        words.append(sign)
        stop += 1
    if not has_number or not tokens.is_closed(stop) or not words[0][0].isupper():
        return None
    return ((stop, " ".join(words)),)


def _formula_part(tokens: TokenizedText, place: int, stop: int) -> str | None:
    text, kind = tokens.text(stop), tokens.kind(stop)
    if kind == WORD:
        symbols = element_symbols(text)
        return None if symbols is None else " ".join(" ".join(symbols).upper().replace(" ", ""))
    if kind in SUBSCRIPTS:
        return _say_subscript(tokens, stop)
    if kind == DIGITS:
        return say_integer(text) if len(text) < 3 else None
    if kind == "(":
        return "" if tokens.kind(stop + 1) == WORD and stop > place else None
    return "" if "(" in tokens.joined(place, stop) else None


def _is_compound(text: str) -> bool:
    """Return whether a word is a formula without numbers, as "NaCl" and "KCl"."""
    is_mixed = text[:1].isupper() and not text.isupper() and any(map(str.isupper, text[1:]))
    is_mixed = is_mixed and not text[:-1].isupper()
    return is_mixed and element_symbols(text) is not None


def element_symbols(text: str) -> list[str] | None:
    """Return the element symbols that spell a word; ``None`` if they do not."""
    symbols, place = list[str](), 0
    while place < len(text):
        size = 2 if text[place : place + 2] in ELEMENTS and len(text) > place + 1 else 1
        symbol = text[place : place + size]
        if symbol not in ELEMENTS:
            return None
        symbols.append(symbol)
        place += size
    return symbols


def read_power(tokens: TokenizedText, place: int) -> Reading | None:
    """Read superscripts: "squared", "cubed", "to the power of 10"."""
    stop, digits, sign = place, "", ""
    if tokens.kind(stop) == "\u207b":
        sign, stop = "minus ", stop + 1
    while tokens.kind(stop) and tokens.kind(stop) in SUPERSCRIPTS and len(digits) < 7:
        digits += str(SUPERSCRIPTS.index(tokens.kind(stop)))
        stop += 1
    if not digits or len(digits) > _MAX_POWER_DIGITS:
        return None
    named = {"2": "squared", "3": "cubed"}.get(digits)
    words = named if named and not sign else f"to the power of {sign}{cardinal(int(digits))}"
    unit = parse_unit(tokens, stop + 1) if tokens.has(place - 1, "d") else None
    is_word = tokens.text(stop + 1) in NOT_AFTER_SPACE
    if unit and tokens.has(stop, " w") and tokens.is_closed(unit[0]) and not is_word:
        return ((stop, f" {words}"), (unit[0], f" {unit[1][1]}"))
    return ((stop, f" {words}"),)


def read_subscript(tokens: TokenizedText, place: int) -> Reading | None:
    """Read a subscript number after a letter, as in "x\u2081"."""
    return ((place + 1, f" {_say_subscript(tokens, place)}"),)


def _say_subscript(tokens: TokenizedText, place: int) -> str:
    """Return the number of a run of subscripts at its first sign, else nothing."""
    digits = ""
    if tokens.kind(place - 1) in (*SUBSCRIPTS,):
        return ""
    while tokens.kind(place) in (*SUBSCRIPTS,) and len(digits) < _MAX_POWER_DIGITS:
        digits += str(SUBSCRIPTS.index(tokens.kind(place)))
        place += 1
    return say_integer(digits)


def read_variable(tokens: TokenizedText, place: int) -> Reading | None:
    """Read the letters before a superscript, as in "mc\u00b2", by their names."""
    text, behind = tokens.text(place), tokens.kind(place + 1)
    if text[0] in SHORT_WORDS and len(text) == 2 and not text.isascii():
        return ((place + 1, f"{SHORT_WORDS[text[0]]} {text[1].upper()}"),)
    if text in ("f", "g", "h") and tokens.has(place + 1, "(w)"):
        return ((place + 4, f"{text.upper()} of {tokens.text(place + 2).upper()}"),)
    if _is_product(tokens, place):
        return ((place + 1, " ".join(text.upper())),)
    is_divisor = tokens.has(place - 2, "d/") and len(text) == 1 and tokens.is_closed(place + 1)
    if is_divisor:
        return ((place + 1, text.upper()),)
    if len(text) > 3 or not behind or behind not in (*SUPERSCRIPTS, *SUBSCRIPTS, "^"):
        return None
    return ((place + 1, " ".join(text.upper()) if text.isascii() else SHORT_WORDS.get(text, text)),)


def _is_product(tokens: TokenizedText, place: int) -> bool:
    """Return whether letters are factors, as in "F = ma": a capital equals them."""
    text, sign = tokens.text(place), place - 1 - (tokens.kind(place - 1) == SPACE)
    left = sign - 1 - (tokens.kind(sign - 1) == SPACE)
    is_equal = tokens.kind(sign) == "=" and len(tokens.text(left)) == 1
    return is_equal and tokens.text(left).isupper() and len(text) in (2, 3) and text.isascii()
