"""Words that are spelled alike and spoken differently, and names that the dictionary lacks."""

from collections.abc import Sequence
from typing import Any

from antiphon.text.contexts import reading_in
from antiphon.text.english_tables import HOMOGRAPHS, NAME_PHONEMES

_CERTAIN = 5
_NUM_NEIGHBOURS = 4


def respell(tokens: Sequence[Any], *, british: bool) -> None:
    """Mark the dictionary's tokens of homographs and names with their reading in this sentence."""
    texts = [token.text for token in tokens]
    for place, token in enumerate(tokens):
        low = token.text.lower()
        rows = HOMOGRAPHS.get(low)
        reading = None
        if rows is not None:
            start = max(0, place - _NUM_NEIGHBOURS)
            after = texts[place + 1 : place + 1 + _NUM_NEIGHBOURS]
            reading = reading_in(rows, texts[start:place][::-1], after)
        if reading is not None and reading.isupper():
            token.tag = reading
        elif reading is not None and reading not in NAME_PHONEMES and reading != low:
            token.alias = reading
        name = NAME_PHONEMES.get(reading or low)
        if name is not None:
            token.phonemes = name.replace("O", "Q") if british else name
            token.rating = _CERTAIN
        if token.text == "'s" and place and tokens[place - 1].rating == _CERTAIN:
            tokens[place - 1].phonemes += "s" if tokens[place - 1].phonemes[-1] in "fkpt" else "z"
            token.phonemes = ""
