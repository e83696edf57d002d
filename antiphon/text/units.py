"""Units of measure in a text: "km", "°C", "m²", "km/h"."""

from typing import TypeAlias

from antiphon.text.english_tables import PER_SHORT, PER_WORDS, UNITS, WITH_DOT
from antiphon.text.tokens import DIGITS, SPACE, WORD, TokenizedText

Unit: TypeAlias = tuple[str, ...]
"""Singular and plural."""
_POWERS = {"2": "square", "3": "cubic", "\u00b2": "square", "\u00b3": "cubic"}


def parse_unit(tokens: TokenizedText, place: int) -> tuple[int, Unit] | None:
    found = _simple_unit(tokens, place)
    if found is None:
        return None
    stop, (one, many) = found
    if tokens.kind(stop) != "/":
        return found
    per, stop = parse_per(tokens, stop)
    per = per.replace("square second", "second squared")
    return (stop, (f"{one} per {per}", f"{many} per {per}")) if per else found


def parse_per(tokens: TokenizedText, place: int) -> tuple[str, int]:
    """Return the unit behind a slash, for which an amount is, and its end; empty: none."""
    word = tokens.text(place + 1)
    if word in PER_WORDS or word in PER_SHORT:
        name = PER_SHORT.get(word) or (UNITS[word][0] if word in UNITS else word)
        return name, _behind_dot(tokens, place + 2, word)
    below = _simple_unit(tokens, place + 1)
    return ("", place) if below is None else (below[1][0], below[0])


def _behind_dot(tokens: TokenizedText, stop: int, unit: str) -> int:
    """Return the end of a unit with the dot of its short form, unless that ends a sentence."""
    has_dot = tokens.kind(stop) == "." and unit.split()[-1] in WITH_DOT
    return stop + (has_dot and not ends_here(tokens, stop + 1))


def _simple_unit(tokens: TokenizedText, place: int) -> tuple[int, Unit] | None:
    kind, text = tokens.kind(place), tokens.text(place)
    if kind in ("%", "\u2030"):
        name = "percent" if kind == "%" else "per mille"
        return place + 1, (name, name)
    if kind == "\u00b0":
        return _degrees(tokens, place)
    stop = place + 1
    for shape in (" w", ". w", "-w", ".-w"):
        pair = f"{text} {tokens.text(stop + len(shape) - 1)}"
        if tokens.has(stop, shape) and pair in UNITS:
            text, stop = pair, stop + len(shape)
    if kind != WORD or text not in UNITS or (text == "c" and tokens.kind(stop) != "."):
        return None
    one, many = UNITS[text]
    power, end = _power(tokens, stop, text)
    if power:
        return end, (f"{power} {one}", f"{power} {many}")
    return _behind_dot(tokens, stop, text), (one, many)


def _power(tokens: TokenizedText, place: int, unit: str) -> tuple[str, int]:
    """Return "square" or "cubic", and the end of a unit's exponent."""
    if tokens.kind(place) in _POWERS:
        return _POWERS[tokens.kind(place)], place + 1
    if tokens.has(place, "^d"):
        return _POWERS.get(tokens.text(place + 1), ""), place + 2
    is_glued = tokens.kind(place) == DIGITS and unit in ("m", "km", "cm", "mm", "ft", "in")
    return (_POWERS.get(tokens.text(place), ""), place + 1) if is_glued else ("", place)


def ends_here(tokens: TokenizedText, place: int) -> bool:
    """Return whether a dot before a token ends the sentence: no text or a capital follows."""
    if tokens.ends_text(place):
        return True
    if tokens.kind(place) in "\"')\u201d":
        place += 1
    if tokens.kind(place) != SPACE:
        return False
    return tokens.kind(place + 1) == WORD and tokens.text(place + 1)[0].isupper()


def _degrees(tokens: TokenizedText, place: int) -> tuple[int, Unit]:
    for stop in (place + 1, place + 2):
        scale = {"C": " Celsius", "F": " Fahrenheit", "K": " kelvin"}.get(tokens.text(stop))
        if scale and (tokens.is_closed(stop + 1) or tokens.kind(stop + 1) == "/"):
            return stop + 1, (f"degree{scale}", f"degrees{scale}")
        if tokens.kind(place + 1) != SPACE:
            break
    return place + 1, ("degree", "degrees")
