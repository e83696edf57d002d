"""Web and mail addresses, file names and paths, read character by character."""

from antiphon.text.english_tables import (
    CODE_SIGNS,
    DOMAIN_ENDINGS,
    FILE_ENDINGS,
    HIDDEN_FILES,
    SPOKEN_CODES,
    SURE_DOMAIN_ENDINGS,
)
from antiphon.text.number_words import spelled
from antiphon.text.numerals import is_year, say_integer, say_year
from antiphon.text.readings import Reading
from antiphon.text.tokens import LINE, SPACE, TokenizedText

MAX_CODE_TOKENS = 200
VOWELS = frozenset("aeiouyAEIOUY")
_TRAILING = ".,;:!?)]}'\"\u201d>*_`"
_OPENERS = {")": "(", "]": "[", "}": "{"}
_BEFORE_ADDRESS = " \n(\"'\u201c<`*"
_SCHEMES = ("http", "https", "ftp", "mailto", "file", "ssh")


def read_address(tokens: TokenizedText, place: int) -> Reading | None:
    """Read web and mail addresses, file names and paths, character by character."""
    if place > 0 and tokens.kind(place - 1) not in _BEFORE_ADDRESS:
        return None
    stop, shape = place, []
    while stop - place < MAX_CODE_TOKENS and tokens.kind(stop) not in ("", SPACE, LINE):
        shape.append(tokens.kind(stop))
        stop += 1
    while shape and shape[-1] in _TRAILING and _OPENERS.get(shape[-1]) not in shape:
        shape.pop()
        stop -= 1
    if not {".", "@", "/", "\\", ":"} & set(shape) or len(shape) < 2:
        return None
    chunk = tokens.joined(place, stop)
    is_code = _is_net_address(chunk, shape) or _is_file(chunk) or _is_identifier(chunk.lower())
    if not is_code and not _is_pattern(f" {chunk} "):
        return None
    return ((stop, say_code([tokens.text(each) for each in range(place, stop)])),)


def _is_net_address(chunk: str, shape: list[str]) -> bool:
    low = chunk.lower()
    if low.startswith("www.") or ("://" in low and low.split("://")[0] in _SCHEMES):
        return True
    name, at, domain = low.rpartition("@")
    host = domain if at else low.split("/")[0].split("?")[0]
    host = host.split(":")[0] if host.split(":")[-1].isdecimal() else host
    if low.startswith("localhost:"):
        return True
    labels = host.split(".")
    if at:
        return bool(name) and len(labels) > 1 and all(map(_is_label, labels))
    if len(labels) < 2 or not all(map(_is_label, labels)) or not any(map(str.isalpha, host)):
        return False
    return labels[-1] in SURE_DOMAIN_ENDINGS or (
        labels[-1] in DOMAIN_ENDINGS and ("/" in low or len(labels) > 2) and chunk == low
    )


def _is_identifier(chunk: str) -> bool:
    """Return whether this is a DOI, the number of a preprint, a hidden file or an ending."""
    is_doi = chunk[:3] == "10." and "/" in chunk and any(map(str.isalpha, chunk))
    is_ending = chunk[0] == "." and chunk[1:] in FILE_ENDINGS
    return is_doi or is_ending or chunk.startswith(("doi:10.", "arxiv:")) or chunk in HIDDEN_FILES


def _is_pattern(chunk: str) -> bool:
    """Return whether an escape, or a regular expression with one, is between two spaces."""
    return any(
        sign == "\\" and letter in "bdnrstwBDSW" and not (before.isalnum() or after.isalnum())
        for before, sign, letter, after in zip(chunk, chunk[1:], chunk[2:], chunk[3:], strict=False)
    )


def _is_label(label: str) -> bool:
    return label.replace("-", "").replace("_", "").isalnum()


def _is_file(chunk: str) -> bool:
    if all(len(part) == 1 for part in chunk.replace("-", ".").split(".")):
        return False
    if chunk[:2] in ("~/", "./") or chunk[:3] == "../" or chunk[1:3] == ":\\":
        return True
    if chunk[0] == "/" and len(chunk) > 1:
        return chunk[1].isalpha() or chunk[1] == "."
    name = chunk.replace("\\", "/").rsplit("/", 1)[-1]
    stem, _, ending = name.rpartition(".")
    is_ending = ending.lower() in FILE_ENDINGS and (len(ending) > 1 or len(stem) > 1)
    if is_ending and (stem or "/" in chunk):
        return all(character.isalnum() or character in "._-()[]+ /\\~" for character in chunk)
    parts = chunk.split("/")
    return len(parts) > 3 and all(map(_is_label, filter(None, parts))) and not chunk[0].isdecimal()


def say_code(texts: list[str]) -> str:
    """Return the tokens of an address or a file name in words."""
    words: list[str] = []
    for place, text in enumerate(texts):
        before = texts[place - 1] if place else ""
        if text[0].isalpha():
            is_last = text == "co" or texts[place + 1 : place + 2] != ["."]
            is_ending = before == "." and is_last and "@" not in texts[place:]
            words.append(_say_code_word(text, is_ending=is_ending))
        elif text.isdecimal():
            words.append(say_code_digits(text))
        else:
            words.append(CODE_SIGNS.get(text, text))
    return " ".join(words)


def _say_code_word(text: str, *, is_ending: bool) -> str:
    low = text.lower()
    if low in SPOKEN_CODES:
        return SPOKEN_CODES[low]
    is_unspeakable = len(text) <= 4 and not VOWELS & set(text)
    if len(text) == 1 or is_unspeakable or (is_ending and len(text) <= 3):
        return " ".join(text.upper())
    if low in ("http", "https", "ftp", "ssh"):
        return " ".join(text.upper())
    if text.isupper():
        return text.lower() if len(text) > 4 else text
    return " ".join(camel_parts(text))


def camel_parts(text: str) -> list[str]:
    """Return the words of "CamelCase"."""
    parts, start = [], 0
    for place in range(1, len(text)):
        follows_small = text[place].isupper() and text[place - 1].islower()
        ends_capitals = (
            text[place].isupper()
            and text[place - 1].isupper()
            and text[place + 1 : place + 2].islower()
        )
        if follows_small or ends_capitals:
            parts.append(text[start:place])
            start = place
    return [*parts, text[start:]]


def say_code_digits(digits: str) -> str:
    if is_year(digits):
        return say_year(digits)
    return say_integer(digits) if len(digits) < 3 else spelled(digits)
