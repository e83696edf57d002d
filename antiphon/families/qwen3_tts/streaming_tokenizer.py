"""Incremental tokenization of arriving text into the ids of the whole text.

The tokenizer first cuts text into words, and an id never crosses a cut. So ids are final up to a
cut that no further text can change: between a letter or digit and a space or mark.
"""

import unicodedata
from collections.abc import Callable

from antiphon.contracts.prompt import Piece
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.speech_budget import slow_frames
from antiphon.families.qwen3_tts.prompt_layout import Ids, MoreText


class TextCutter:
    """Incremental tokenizer that returns ids as soon as they are final.

    Attributes:
        num_slow_frames: `slow_frames` of the text whose ids were returned.
    """

    def __init__(self, encode: Callable[[str], Ids]) -> None:
        self._encode = encode
        self.num_slow_frames = 0
        self._waiting = ""
        self._is_blank = True

    def push(self, text: str) -> Ids:
        """Add text; return the ids that have become final."""
        self._is_blank = self._is_blank and not text.strip()
        waiting = self._waiting + text
        cut = _last_certain_cut(waiting)
        self._waiting = waiting[cut:]
        return self._ids(waiting[:cut])

    def close(self) -> Ids:
        """Return the remaining ids.

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
    """Source of the pieces of a request whose text is still arriving."""

    def __init__(
        self,
        cutter: TextCutter,
        num_frames_allowed: int,
        end_id: int,
        budget: Callable[[int], int],
    ) -> None:
        """Continue a prompt.

        Args:
            cutter: tokenizer that returned the prompt's text.
            num_frames_allowed: frames that the prompt's text suffices for; negative while text
                beside the reference is missing.
            end_id: id that ends a text.
            budget: function from slow frames to the frame limit, see `frame_budget`.
        """
        self._budget = budget
        self._cutter = cutter
        self._num_frames_allowed = num_frames_allowed
        self._end_id = end_id

    def push(self, text: str) -> Piece | None:
        """Add text; return its piece, or ``None`` if no id is final yet."""
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
    """Return the last cut between words that further text cannot change, or 0."""
    for place in range(len(text) - 1, 0, -1):
        before, after = unicodedata.category(text[place - 1]), unicodedata.category(text[place])
        if before[0] in "LN" and after[0] in "ZPS":
            return place
    return 0
