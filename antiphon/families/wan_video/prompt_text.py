"""Cleaning of a prompt before it is tokenized, as in diffusers' pipelines of Wan."""

import html
from importlib import import_module
from typing import Any


def clean_prompt(text: str) -> str:
    """Return a prompt as the model reads it.

    Broken encodings are mended and curly quotes made straight (ftfy), entities written out, runs of
    white space are one space: as in training.
    """
    ftfy: Any = import_module("ftfy")
    regex: Any = import_module("regex")  # its white space is not that of the standard library
    text = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
    return str(regex.sub(r"\s+", " ", text)).strip()
