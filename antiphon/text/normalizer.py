"""Numbers, signs and abbreviations written out in English words, in text that arrives in pieces."""

from collections.abc import Iterator, Sequence

from antiphon.text.offset_map import OffsetMap
from antiphon.text.plain_words import PlainWords, with_letter_names
from antiphon.text.sentence_language import SentenceLanguage
from antiphon.text.tokens import SpokenPiece, TokenizedText, plain_character
from antiphon.text.written_out import pieces_of

_MAX_CHARACTERS_AT_ONCE = 500
_MAX_HELD_CHARACTERS = 300  # beyond, the text is read with what there is
_MAX_GROUP_CHARACTERS = 200
_CONTEXT_TOKENS, _CONTEXT_CHARACTERS = 64, 400  # what rules look at before their own token
_ENTITY_SIGNS = frozenset("&;")
_FIRST_FOREIGN = "\u0370"  # Greek; single letters of it are variables


class Normalizer:
    """Writes a text out that arrives in pieces; where it is cut plays no part.

    What a rule may still read together with what follows is held back: about two words. Words
    beside each other are written out together or not at all, so that what is not understood as a
    whole stays as it is. So do sentences in another language: their first words are held back until
    the language is clear.
    """

    def __init__(
        self,
        offsets: OffsetMap | None = None,
        *,
        british: bool = False,
        is_english: bool = False,
        words_only: bool = False,
    ) -> None:
        """Begin a text.

        Args:
            offsets: map that gets the origins of what is written.
            is_english: whether all of the text is known to be English.
            words_only: whether what no rule reads is left out, or becomes plain letters.
        """
        self._offsets = offsets or OffsetMap()
        self._british = british
        self._context = self._held = ""
        self._group: list[tuple[SpokenPiece, str]] = []
        self._plain = PlainWords() if words_only else None
        self._language = None if is_english or words_only else SentenceLanguage()
        self._waiting: list[list[tuple[SpokenPiece, str]]] = []
        self._num_in_group = 0
        self._has_letters = self._is_foreign = self._is_written = False
        self._last = ""

    @property
    def unspoken(self) -> Sequence[str]:
        """What has been left out of a text that is written in words alone."""
        return self._plain.unspoken if self._plain is not None else ()

    def push(self, text: str, *, is_last: bool = False) -> str:
        """Return what has become certain with more text; nothing is held back of the last."""
        written = []
        start = 0
        while len(text) - start > _MAX_CHARACTERS_AT_ONCE:
            written.append(self._push(text[start : start + _MAX_CHARACTERS_AT_ONCE]))
            start += _MAX_CHARACTERS_AT_ONCE
        written.append(self._push(text[start:], is_last=is_last))
        if is_last and self._plain is not None:
            written.append(self._plain.end())
            self._offsets.exchange(0, len(written[-1]))
        return "".join(written)

    def _push(self, text: str, *, is_last: bool = False) -> str:
        source = f"{self._context}{self._held}{text}"
        end = len(self._context)
        tokens = TokenizedText(source, british=self._british, spells=self._plain is not None)
        limit = len(source) - _MAX_HELD_CHARACTERS
        written: list[str] = []
        for piece in pieces_of(tokens, tokens.place_of(end)):
            if not (is_last or tokens.reach < len(tokens) - 1 or piece.stop <= limit):
                break
            end = piece.stop
            self._group.append((piece, source[piece.start : end]))
            if self._is_group_complete():
                written += self._parts_of_known()
        if is_last:
            written += self._parts_of_known(is_last=True)
        place = tokens.place_of(end)
        first = max(place - _CONTEXT_TOKENS, tokens.place_of(end - _CONTEXT_CHARACTERS), 0)
        self._context, self._held = source[tokens.offset(first) : end], source[end:]
        return "".join(written)

    def _is_group_complete(self) -> bool:
        """Return whether a space after a word has come, or after a sentence.

        A number goes with the word after it.
        """
        piece, sent = self._group[-1]
        self._num_in_group += len(sent)
        self._has_letters = self._has_letters or piece.ends_sentence or any(map(str.isalpha, sent))
        return (sent.isspace() and self._has_letters) or self._num_in_group >= _MAX_GROUP_CHARACTERS

    def _parts_of_known(self, *, is_last: bool = False) -> Iterator[str]:
        """Yield the groups as text whose language is known."""
        self._waiting.append(self._group)
        sent = "".join(sent for _, sent in self._group)
        self._group, self._has_letters, self._num_in_group = [], False, 0
        if self._language is not None:
            self._language.add(sent)
        if is_last or self._language is None or self._language.is_known:
            waiting, self._waiting = self._waiting, []
            for group in waiting:
                yield from self._parts(group)

    def _parts(self, group: list[tuple[SpokenPiece, str]]) -> Iterator[str]:
        """Yield a group as text, separated from words before it where that is needed."""
        sent_text = "".join(sent for _, sent in group)
        if any(map(str.isalpha, sent_text)):
            self._is_foreign = _is_foreign(sent_text)
        is_other = self._language is not None and self._language.is_foreign
        kept_words = (piece.words for piece, _ in group if not piece.is_changed)
        has_digits = any(any(map(str.isdecimal, each)) for each in kept_words)
        is_kept = (self._is_foreign or is_other or has_digits) and not self._plain
        for piece, sent in group:
            is_entity = not piece.is_changed and set(sent) >= _ENTITY_SIGNS
            is_written = piece.is_changed and any(map(str.isalnum, piece.words)) and not is_kept
            is_read = is_written or (is_entity and not is_kept) or self._plain is not None
            part = piece.words if is_read else sent
            if self._plain is not None and piece.is_changed:
                part = with_letter_names(part)
                if not part or sent.isdecimal():
                    self._plain.begin_item(sent)
            is_separate = is_written or self._is_written
            if is_separate and self._last.isalnum() and part[:1].isalnum():
                part = f" {part}"
            if self._plain is not None:
                part = self._plain.push(part, part if piece.is_changed else sent)
            if part == sent:
                self._offsets.copy(len(part))
            else:
                self._offsets.exchange(len(sent), len(part))
            self._is_written, self._last = is_written, part[-1:] or self._last
            yield part


def normalized(text: str, *, british: bool = False) -> str:
    """Return a text with what can be read written out in words."""
    return Normalizer(british=british).push(text, is_last=True)


def _is_foreign(text: str) -> bool:
    """Return whether a text has words of another script than Latin."""
    letters = [each for each in text if each >= _FIRST_FOREIGN and each.isalpha()]
    foreign = [each for each in letters if not plain_character(each).encode().isalnum()]
    return len(foreign) > 1 or any(each > "\u03ff" for each in foreign)
