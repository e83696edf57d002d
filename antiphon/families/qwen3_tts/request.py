"""Host state of a request in generation: prompt, text so far, limits."""

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
    """Request in a slot.

    Attributes:
        row: row of `LoopDetectors` that watches its codes.
        lead: reference frames, and frames generated before the slot was taken.
        text: text track so far.
        max_frames: frame budget of the text so far.
        first_end: number of frames before which it does not end.
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
        """Start a request, or resume it after its generated frames."""
        lead = lead_frames(prompt, made)
        return cls(row, prompt, lead, [*prompt.text], prompt.max_frames, first_end, prompt.is_open)

    @property
    def frames_limit(self) -> int:
        """Frame limit so far."""
        return _NO_LIMIT if self.is_open else self.max_frames

    def append(self, piece: Piece) -> tuple[int, Ids]:
        """Add text; return the ids beside frames to be generated, and the first frame's number."""
        more = piece.data
        assert isinstance(more, MoreText)
        assert self.is_open, "text came after its end"
        self.max_frames = more.max_frames
        self.is_open = piece.num_frames_allowed is not None
        first_frame = len(self.text) - self.prompt.num_reference_frames
        self.text += more.ids
        return max(0, first_frame), more.ids[max(0, -first_frame) :]

    def columns(self, config: Qwen3TTSConfig, start: int, end: int) -> InputIds:
        """Return the model's input at positions ``start`` to ``end - 1``."""
        is_known = not self.is_open or len(self.text) >= end - len(self.prompt.prefix)
        assert is_known, "its text is not known yet"
        return columns_between(config, self.prompt, tuple(self.text), self.lead, start, end)
