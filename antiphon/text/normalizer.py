"""Numbers, signs and abbreviations written out in English words, in text that arrives in pieces."""

from antiphon.text.offset_map import OffsetMap
from antiphon.text.tokens import SpokenPiece, TokenizedText
from antiphon.text.written_out import pieces_of, spoken_parts

_MAX_CHARACTERS_AT_ONCE = 2000
_MAX_HELD_CHARACTERS = 1000  # beyond, the text is read with what there is
_CONTEXT_TOKENS = 64  # what rules look at before their own token


class Normalizer:
    """Writes a text out that arrives in pieces; where it is cut plays no part.

    What a rule may still read together with what follows is held back: about two words.
    """

    def __init__(self, offsets: OffsetMap | None = None, *, british: bool = False) -> None:
        """Begin a text.

        Args:
            offsets: map that gets the origins of what is written.
            british: British usage.
        """
        self._offsets = offsets or OffsetMap()
        self._british = british
        self._context = self._held = ""
        self._last: SpokenPiece | None = None

    def push(self, text: str, *, is_last: bool = False) -> str:
        """Return what has become certain with more text; nothing is held back of the last."""
        written = []
        start = 0
        while len(text) - start > _MAX_CHARACTERS_AT_ONCE:
            written.append(self._push(text[start : start + _MAX_CHARACTERS_AT_ONCE]))
            start += _MAX_CHARACTERS_AT_ONCE
        written.append(self._push(text[start:], is_last=is_last))
        return "".join(written)

    def _push(self, text: str, *, is_last: bool = False) -> str:
        source = f"{self._context}{self._held}{text}"
        begin = len(self._context)
        tokens = TokenizedText(source, british=self._british)
        limit = len(source) - _MAX_HELD_CHARACTERS
        pieces = [
            piece
            for piece in pieces_of(tokens, tokens.place_of(begin))
            if is_last or tokens.reach < len(tokens) - 1 or piece.stop <= limit
        ]
        if not pieces:
            self._held = source[begin:]
            return ""
        written = self._joined(pieces, source)
        end = pieces[-1].stop
        first = tokens.offset(max(0, tokens.place_of(end) - _CONTEXT_TOKENS))
        self._context, self._held = source[first:end], source[end:]
        return written

    def _joined(self, pieces: list[SpokenPiece], source: str) -> str:
        """Return pieces as text, separated from the piece before them where that is needed."""
        before, self._last = self._last, pieces[-1]
        parts = [*spoken_parts(pieces, source, before)]
        for piece, part in zip(pieces, parts, strict=True):
            if part == source[piece.start : piece.stop]:
                self._offsets.copy(len(part))
            else:
                self._offsets.exchange(piece.stop - piece.start, len(part))
        return "".join(parts)


def normalized(text: str) -> str:
    """Return a text with what can be read written out in words."""
    return Normalizer().push(text, is_last=True)
