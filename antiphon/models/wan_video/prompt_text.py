"""How a prompt is cleaned before it is tokenized: as diffusers' own pipelines of Wan do it."""

import html
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_fix: Callable[[str], str] | None = None


def clean_prompt(text: str) -> str:
    """Return a prompt as the model reads it: entities written out, runs of white space as one.

    Where ftfy is installed it mends broken encodings first, and makes curly quotes straight, as
    in training; diffusers leaves that out where it is not, and so it is here.
    """
    regex: Any = import_module("regex")  # its white space is not that of the standard library
    text = html.unescape(html.unescape(_fixed(text))).strip()
    return str(regex.sub(r"\s+", " ", text)).strip()


def _fixed(text: str) -> str:
    global _fix
    if _fix is None:
        has_ftfy = find_spec("ftfy") is not None
        _fix = import_module("ftfy").fix_text if has_ftfy else str
    return _fix(text)
