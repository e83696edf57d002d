"""Finds sentence ends, looking at a bounded stretch of text at a time.

The library that knows them takes time that grows with the square of what it is given where a text
has no spaces, and holds the interpreter's lock meanwhile. So it is never given more than
`MAX_CHARACTERS`: less than a millisecond's work.
"""

from sentencex import segment as split_sentences

MAX_CHARACTERS = 1200
"""The most that the library is given at once."""

_CONTEXT_CHARACTERS = 200
_FOLLOWING_CHARACTERS = 16


def last_sentence_end(text: str, start: int, max_characters: int) -> int:
    """Return where the last sentence that ends in time ends, its spaces included, or ``start``.

    Args:
        text: Text of any length; little of it is looked at.
        start: Start of a sentence.
        max_characters: Characters between the start and the end, without spaces.
    """
    reach = min(max_characters, MAX_CHARACTERS - _FOLLOWING_CHARACTERS)
    window = text[start : start + reach + _FOLLOWING_CHARACTERS]
    position = last = 0
    for sentence in _split(window):
        end = position + len(sentence.rstrip())
        position += len(sentence)
        if end > reach or position >= len(window):
            break
        last = position
    return start + last


def ends_sentence(text: str, end: int) -> bool:
    """Whether a sentence ends before ``text[end]``, judged with that character and a little before.

    ``text`` is what has come of a segment, and one character more at least.
    """
    start = max(0, end - _CONTEXT_CHARACTERS)
    num_before = len(text[start:end].rstrip())
    following = text[end] if text[end].isalnum() else "A"  # what a quotation begins with
    position = 0
    for sentence in _split(text[start:end] + following):
        position += len(sentence)
        if num_before <= position <= end - start:
            return True
    return False


def _split(text: str) -> list[str]:
    assert len(text) <= MAX_CHARACTERS
    sentences: list[str] = split_sentences("en", text)
    return sentences
