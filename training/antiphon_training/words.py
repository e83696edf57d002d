"""Words of texts, and the count of errors among them."""

import re
from collections.abc import Sequence


def words(text: str) -> list[str]:
    """Return the words of a text, lower case, without punctuation."""
    return re.findall(r"[a-z0-9']+", text.lower().replace("-", " "))


def num_word_errors(expected: Sequence[str], recognised: Sequence[str]) -> int:
    """Return the fewest insertions, deletions and substitutions between two word lists."""
    row = list(range(len(recognised) + 1))
    for i, wanted in enumerate(expected, 1):
        diagonal, row[0] = row[0], i
        for j, got in enumerate(recognised, 1):
            change = diagonal + (wanted != got)
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, change)
    return row[-1]
