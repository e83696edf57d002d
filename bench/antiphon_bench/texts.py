"""Texts of requests, distributed by a seed."""

import random
from collections.abc import Sequence
from pathlib import Path

from antiphon.errors import SettingsError


def text_of(texts: Sequence[str], seed: int, index: int) -> str:
    """Return the text of a load's request number ``index``, whichever process sends it."""
    return random.Random(f"{seed}/{index}").choice(texts)


def read_text(file: Path) -> str:
    """Return what is in a file; raises SettingsError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error


def read_texts(file: Path) -> tuple[str, ...]:
    """Read one text a line; raises SettingsError if the file cannot be read, or has none."""
    texts = tuple(line.strip() for line in read_text(file).splitlines() if line.strip())
    if not texts:
        raise SettingsError(f"{file}: there is no text in it.")
    return texts
