"""Emoji and their names."""

import re
import unicodedata

_PICTURES = (
    r"\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe"
    r"\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001f2ff\U0001f300-\U0001f64f\U0001f680-\U0001f7ff\U0001f900-\U0001faff"
)
"""Blocks of Unicode that hold pictures, and the pictures in other blocks that keyboards offer."""

_MODIFIERS = r"\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f"
"""Variation selectors, the joiner, the keycap, tags of flags: no sound by themselves."""

PICTURE = re.compile(f"[{_PICTURES}]")
MODIFIER = re.compile(f"[{_MODIFIERS}]")
_FIRST_REGIONAL = 0x1F1E6
_SKIN = range(0x1F3FB, 0x1F400)


def name_of(picture: str) -> str:
    """Return what a picture is called: "red heart", "grinning face"; a letter for half a flag."""
    code = ord(picture)
    if _FIRST_REGIONAL <= code < _FIRST_REGIONAL + 26:
        return chr(ord("A") + code - _FIRST_REGIONAL)
    if code in _SKIN:
        return ""
    return unicodedata.name(picture, "").lower()
