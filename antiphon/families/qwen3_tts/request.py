"""What the host keeps of a request while its frames are made: prompt, text so far, limits."""

import sys
from dataclasses import dataclass

from antiphon.contracts.prompt import Piece
from antiphon.engine.model_runner.ar_model import Codes
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.input_ids import InputIds, columns_between, lead_frames
from antiphon.families.qwen3_tts.prompt_layout import Ids, MoreText, Qwen3TTSPrompt

_NO_LIMIT = sys.maxsize


@dataclass(slots=True, eq=False)
class Qwen3TTSRequest:
    """A request in a slot.

    Attributes:
        row: in which its speech is watched, see `LoopDetectors`.
        lead: the reference's frames, and those made before the slot was taken.
        text: the text track as it is by now.
        max_frames: that the text may take.
        first_end: frames before which it does not end.
        is_open: whether more text will come.
    """

    row: int
    prompt: Qwen3TTSPrompt
    lead: Codes
    text: list[int]
    max_frames: int
    first_end: int
    is_open: bool

    @classmethod
    def of(
        cls, prompt: Qwen3TTSPrompt, made: Codes, row: int, first_end: int = 0
    ) -> "Qwen3TTSRequest":
        """Begin a request, or go on after the frames that it has made."""
        lead = lead_frames(prompt, made)
        return cls(row, prompt, lead, [*prompt.text], prompt.max_frames, first_end, prompt.is_open)

    @property
    def frames_limit(self) -> int:
        """Frames that it makes at most, as far as it is known."""
        return _NO_LIMIT if self.is_open else self.max_frames

    def append(self, piece: Piece) -> tuple[int, Ids]:
        """Take in text; return what is beside frames to be made, and the first one's number."""
        more = piece.data
        assert isinstance(more, MoreText)
        assert self.is_open, "text came after its end"
        self.max_frames = more.max_frames
        self.is_open = piece.num_frames_allowed is not None
        first_frame = len(self.text) - self.prompt.num_reference_frames
        self.text += more.ids
        return max(0, first_frame), more.ids[max(0, -first_frame) :]

    def columns(self, config: Qwen3TTSConfig, start: int, end: int) -> InputIds:
        """Return what the model reads at positions ``start`` to ``end - 1``."""
        is_known = not self.is_open or len(self.text) >= end - len(self.prompt.prefix)
        assert is_known, "its text is not known yet"
        return columns_between(config, self.prompt, tuple(self.text), self.lead, start, end)
