"""Numbers, signs and abbreviations written out in English words, in text that arrives in pieces."""

from collections.abc import Callable
from functools import partial

from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.types import SpeechRequest
from antiphon.text.tokens import SpokenPiece, TokenizedText
from antiphon.text.written_out import pieces_of, spoken_text

_ENGLISH = ("en", "english", "auto", "")
_MAX_CHARACTERS_AT_ONCE = 2000
_MAX_HELD_CHARACTERS = 1000  # beyond, the text is read with what there is
_CONTEXT_TOKENS = 64  # what rules look at before their own token


class Normalizer:
    """Writes a text out that arrives in pieces; where it is cut plays no part.

    What a rule may still read together with what follows is held back: about two words.
    """

    def __init__(self, *, british: bool = False) -> None:
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
        """Return pieces as text, parted from the piece before them where that is needed."""
        before, self._last = self._last, pieces[-1]
        if before is None:
            return spoken_text(pieces, source)[0]
        is_written = before.is_changed or pieces[0].is_changed
        text = spoken_text(pieces, source)[0]
        joint = " " if is_written and before.words[-1:].isalnum() and text[:1].isalnum() else ""
        return f"{joint}{text}"


def normalizer_of(
    request: SpeechRequest, capabilities: SpeechCapabilities
) -> Callable[[], Normalizer] | None:
    """Return what makes the normalizers of a request, or ``None`` if none is needed.

    A family that reads text in words by itself needs none, and there is none of other languages
    than English.
    """
    language = (request.language or "").strip().lower().replace("_", "-")
    is_english = language.split("-")[0] in _ENGLISH
    if not request.normalize or capabilities.writes_out or not is_english:
        return None
    return partial(Normalizer, british=language == "en-gb")


def normalized(text: str) -> str:
    """Return a text with what can be read written out in words."""
    return Normalizer().push(text, is_last=True)
