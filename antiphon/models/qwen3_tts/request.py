"""What the host keeps of a request while its frames are made: prompt, text so far, limits."""

from dataclasses import dataclass, field

from antiphon.engine.model_runner.ar_model import Codes
from antiphon.models.base import Piece
from antiphon.models.qwen3_tts.config import Qwen3TTSConfig
from antiphon.models.qwen3_tts.input_ids import InputIds, columns_between, lead_frames
from antiphon.models.qwen3_tts.prompt_layout import Ids, MoreText, Qwen3TTSPrompt
from antiphon.models.qwen3_tts.stopping import LoopDetector


@dataclass(slots=True, eq=False)
class Qwen3TTSRequest:
    """An `antiphon.engine.model_runner.ar_model.ARRequest`.

    Attributes:
        lead: the reference's frames, and those made before the slot was taken.
        text: the text track as it is by now.
        max_frames: that the text may take.
        is_open: whether more text will come.
    """

    prompt: Qwen3TTSPrompt
    lead: Codes
    text: list[int]
    max_frames: int
    is_open: bool
    loop_detector: LoopDetector = field(default_factory=LoopDetector)

    @classmethod
    def of(cls, prompt: Qwen3TTSPrompt, made: Codes) -> "Qwen3TTSRequest":
        """Begin a request, or go on after the frames that it has made."""
        lead = lead_frames(prompt, made)
        request = cls(prompt, lead, [*prompt.text], prompt.max_frames, prompt.is_open)
        for code in made[:, 0].tolist():
            request.loop_detector.observe(code)
        return request

    def observe(self, frame: Codes, number: int) -> bool:
        is_looping = self.loop_detector.observe(int(frame[0]))
        return is_looping or (not self.is_open and number >= self.max_frames)

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
