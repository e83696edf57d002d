"""Splits long text into segments that one prompt can hold; knows no model."""

import hashlib
import re
from collections.abc import Iterable, Iterator

from sentencex import segment as split_sentences

_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")


def segments(text: str, max_characters: int, language: str = "en") -> list[str]:
    """Split ``text`` at sentence ends into pieces of at most ``max_characters``.

    Neighbouring sentences share a segment while they fit; a sentence that is too long by itself is
    split at clause marks, then at spaces, then anywhere. No word is lost: the segments, without
    spaces, joined, are the text without spaces.
    """
    return list(_pack(_sentences(text, language), max_characters))


def paragraphs(text: str) -> list[str]:
    """Split ``text`` at blank lines; what has no letter, no digit stays with its neighbour."""
    found: list[str] = []
    for paragraph in _PARAGRAPH_END.split(text):
        is_spoken = any(each.isalnum() for each in paragraph)
        if found and not (is_spoken and any(each.isalnum() for each in found[-1])):
            found[-1] = f"{found[-1]}\n{paragraph}"
        else:
            found.append(paragraph)
    return [stripped for each in found if (stripped := each.strip())]


def segment_seed(seed: int, index: int) -> int:
    """Return the seed of a request's segment; the first segment has the request's own."""
    if index == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 11


def _sentences(text: str, language: str) -> Iterator[str]:
    for sentence in split_sentences(language, text):
        if stripped := sentence.strip():
            yield stripped


def _pack(pieces: Iterable[str], max_characters: int) -> Iterator[str]:
    """Join neighbours while they fit; break what does not fit by itself."""
    packed = ""
    for piece in pieces:
        joined = f"{packed} {piece}" if packed else piece
        if len(joined) <= max_characters:
            packed = joined
            continue
        if packed:
            yield packed
        *whole, packed = _break(piece, max_characters)
        yield from whole
    if packed:
        yield packed


def _break(sentence: str, max_characters: int) -> list[str]:
    """Cut a sentence that is too long at the latest clause mark, else space, that fits."""
    pieces = []
    while len(sentence) > max_characters:
        cut = cut_position(sentence[: max_characters + 1], max_characters)
        pieces.append(sentence[:cut].strip())
        sentence = sentence[cut:].strip()
    return [*pieces, sentence]


def cut_position(head: str, max_characters: int) -> int:
    """Return where to cut so that the first piece is neither too long nor needlessly short."""
    clause = max(head[:max_characters].rfind(mark) for mark in ",;:，、；：—") + 1
    if clause > max_characters // 3:
        return clause
    space = head.rfind(" ")
    return space if space > max_characters // 3 else max_characters
