"""Voice names as clients of Kokoro-FastAPI write them.

It calls a voice ``af_heart`` (language, gender, name), and a mix ``af_bella(2)+af_sky(1)``.
"""

import re
from collections.abc import Iterator

MAX_CHARACTERS = 500

_BETWEEN = re.compile(r"\+|-(?=[a-z][fm]_)", re.IGNORECASE)
_WEIGHT = re.compile(r"\(\s*[0-9]*\.?[0-9]+\s*\)$")
_PREFIX = re.compile(r"[a-z][fm]_(?=\w)", re.IGNORECASE)


def is_prefixed_voice(name: str | None) -> bool:
    """Whether a voice, or each of a mix, is named as clients of Kokoro-FastAPI name it."""
    if name is None or len(name) > MAX_CHARACTERS:
        return False
    return all(_PREFIX.match(part.strip()) for part in _BETWEEN.split(name))


def other_spellings(name: str | None, *, of_mixes: bool = True) -> Iterator[str]:
    """Yield names that may be meant by one that is unknown, the likeliest first.

    Of a mix, these are its voices in their order; of each, its last part after the whole.

    Args:
        name: Name sent by a client.
        of_mixes: whether a voice may speak for a mix; not so where voices are mixed.
    """
    if name is None or len(name) > MAX_CHARACTERS:
        return
    parts = _BETWEEN.split(name)
    if len(parts) > 1 and not of_mixes:
        return
    for part in parts:
        voice = _WEIGHT.sub("", part.strip()).strip()
        short = _PREFIX.sub("", voice, count=1)
        yield from (each for each in dict.fromkeys((voice, short)) if each and each != name)
