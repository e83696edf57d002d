"""Turns text that arrives in pieces into the ids that the whole text would have.

The tokenizer first cuts text into words, and an id never reaches across a cut. So ids are final
up to a place that is a cut whatever follows: between a letter or digit and a space or mark.
"""

import unicodedata
from collections.abc import Callable

from antiphon.contracts.prompt import Piece
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.speech_budget import slow_frames
from antiphon.families.qwen3_tts.prompt_layout import Ids, MoreText


class TextCutter:
    """Gives the ids of a text as early as they are certain.

    Attributes:
        num_slow_frames: of the text whose ids were given; see `slow_frames`.
    """

    def __init__(self, encode: Callable[[str], Ids]) -> None:
        self._encode = encode
        self.num_slow_frames = 0
        self._waiting = ""
        self._is_blank = True

    def push(self, text: str) -> Ids:
        """Take in more text; return the ids that have become certain."""
        self._is_blank = self._is_blank and not text.strip()
        waiting = self._waiting + text
        cut = _last_certain_cut(waiting)
        self._waiting = waiting[cut:]
        return self._ids(waiting[:cut])

    def close(self) -> Ids:
        """Return the ids of what is left.

        Raises:
            InvalidRequestError: the whole text was empty.
        """
        if self._is_blank:
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        ids, self._waiting = self._ids(self._waiting), ""
        return ids

    def _ids(self, text: str) -> Ids:
        self.num_slow_frames += slow_frames(text)
        return self._encode(text) if text else ()


class StreamingTokenizer:
    """Makes the pieces of a request whose text is still arriving."""

    def __init__(
        self,
        cutter: TextCutter,
        num_frames_allowed: int,
        end_id: int,
        budget: Callable[[int], int],
    ) -> None:
        """Continue a prompt.

        Args:
            cutter: has given the prompt its text.
            num_frames_allowed: that the prompt's text suffices for; negative while text beside
                the reference is missing.
            end_id: closes a text.
            budget: limit of frames, see `frame_budget`.
        """
        self._budget = budget
        self._cutter = cutter
        self._num_frames_allowed = num_frames_allowed
        self._end_id = end_id

    def push(self, text: str) -> Piece | None:
        """Take in more text; return what it adds, if anything is certain yet."""
        ids = self._cutter.push(text)
        if not ids:
            return None
        self._num_frames_allowed += len(ids)
        num_frames_allowed = max(0, self._num_frames_allowed)
        return Piece(
            data=self._more(ids), num_frames_allowed=num_frames_allowed, num_tokens=len(ids)
        )

    def close(self) -> Piece:
        """Return the last piece; raises InvalidRequestError if the whole text was empty."""
        ids = self._cutter.close()
        data = self._more((*ids, self._end_id))
        return Piece(data=data, num_frames_allowed=None, num_tokens=len(ids))

    def _more(self, ids: Ids) -> MoreText:
        return MoreText(ids, self._budget(self._cutter.num_slow_frames))


def _last_certain_cut(text: str) -> int:
    """Return the last place that parts two words however the text goes on, or 0."""
    for place in range(len(text) - 1, 0, -1):
        before, after = unicodedata.category(text[place - 1]), unicodedata.category(text[place])
        if before[0] in "LN" and after[0] in "ZPS":
            return place
    return 0
