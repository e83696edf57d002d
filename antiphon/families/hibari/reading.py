"""English text as hibari reads it: by its own numbers of phonemes."""

import json
from functools import lru_cache
from pathlib import Path

from hibari.tts import ASSETS, MAX_PHONEMES

from antiphon.text.english import EnglishReader


@lru_cache(maxsize=2)
def reader(*, british: bool) -> EnglishReader:
    """Return this process's reader for an accent: its dictionaries are loaded once."""
    vocabulary = Path(ASSETS, "vocab.json").read_text(encoding="utf-8")
    return EnglishReader(json.loads(vocabulary), british=british, max_phonemes=MAX_PHONEMES)
