"""Prompt layout as two tracks of ids, text and codec, position by position; no tensors.

Every layout of the official code has one form:

- a *prefix* of columns (text id, codec id), either of which may be missing; - the *lead*: the codec
track from its begin-of-speech id on, followed by the reference's frames if any; then the generated
frames, one per position; - the *text track*: one text id for every position from begin-of-speech
on, padding after its end. Whole text is part of the prefix, and this track is empty; streaming text
is here, and may still grow during generation.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.types import Sampling
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig

NOTHING = -1
"""Column value: no text, or no code."""
SPEAKER = -2
"""Codec value of a column: the request's own speaker vector."""
FRAME = -3
"""Codec value of a column: a whole frame, of the reference or generated."""

Column: TypeAlias = tuple[int, int]
Ids: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Qwen3TTSPrompt:
    """Prompt as read by the runner.

    Attributes:
        prefix: (text id, codec id) of each position before begin-of-speech.
        text: text track so far.
        max_frames: frame budget of the text so far.
        is_open: whether the text track will grow.
        speaker: speaker vector, f32, ``[hidden_size]``, for columns that need it.
        reference: codes of the reference recording, int64, ``[num_frames, num_groups]``; a decoder
            is primed with them before the first frame.
        predictor_sampling: complete sampling of the groups after the first.
    """

    prefix: tuple[Column, ...]
    text: Ids
    max_frames: int
    is_open: bool = False
    speaker: NDArray[np.float32] | None = None
    reference: NDArray[np.int64] | None = None
    predictor_sampling: Sampling = Sampling()

    @property
    def num_reference_frames(self) -> int:
        return 0 if self.reference is None else len(self.reference)

    @property
    def num_prefilled(self) -> int:
        """Positions before the one that generates the first frame."""
        return len(self.prefix) + self.num_reference_frames

    @property
    def num_frames_allowed(self) -> int | None:
        """Frames that the text track suffices for; ``None`` if it is complete."""
        return max(0, len(self.text) - self.num_reference_frames) if self.is_open else None


@dataclass(frozen=True, slots=True)
class MoreText:
    """Addition of late text to a prompt.

    Attributes:
        ids: ids of the text track.
        max_frames: frame budget of the text so far.
    """

    ids: Ids
    max_frames: int


@dataclass(frozen=True, slots=True)
class Tracks:
    """A prompt's prefix and text track.

    Attributes:
        num_common: number of leading positions that do not depend on the spoken text: those of the
            voice, the language and the instructions; of a recording's frames only those beside the
            recording's own transcript.
    """

    prefix: tuple[Column, ...]
    text: Ids
    num_common: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The text parts of a prompt, as ids.

    Attributes:
        instructions: instructions before all else; may be empty.
        role: start of the turn.
        reference: transcript of the reference recording; empty without one.
        body: text to be spoken.
    """

    role: Ids
    body: Ids
    instructions: Ids = ()
    reference: Ids = ()

    @property
    def num_ids(self) -> int:
        return sum(map(len, (self.instructions, self.role, self.reference, self.body)))


def language_tag(config: Qwen3TTSConfig, language: str | None, speaker: str | None) -> Ids:
    """Return the codec ids that name a language, or leave it to the model.

    A speaker's dialect replaces Chinese, and an unspecified language.
    """
    tokens = config.talker.tokens
    if language in (None, "chinese") and speaker is not None:
        language = config.dialects.get(speaker, language)
    if language is None:
        return (tokens.nothink, tokens.think_bos, tokens.think_eos)
    return (tokens.think, tokens.think_bos, config.languages[language], tokens.think_eos)


def lay_out(
    config: Qwen3TTSConfig,
    spoken: Spoken,
    *,
    tag: Ids,
    speaker_id: int | None,
    streams_text: bool,
    is_open: bool = False,
) -> Tracks:
    """Lay out a prompt.

    Args:
        config: configuration of the checkpoint.
        spoken: text parts of the prompt.
        tag: result of `language_tag`.
        speaker_id: id of a built-in speaker, `SPEAKER`, or ``None`` for no speaker position.
        streams_text: whether text is read beside the frames rather than before them.
        is_open: whether more text will come; only with ``streams_text``.
    """
    assert streams_text or not is_open, "text that is read before the frames must be complete"
    text, codec = config.tokens, config.talker.tokens
    heading = [(id, NOTHING) for id in (*spoken.instructions, *spoken.role)]
    row = (*tag, *(() if speaker_id is None else (speaker_id,)), codec.pad)
    row_text = (text.tts_pad,) * (len(row) - 1) + (text.tts_bos,)
    prefix = (*heading, *zip(row_text, row, strict=True))
    said = (*spoken.reference, *spoken.body, *(() if is_open else (text.tts_eos,)))
    num_common = len(prefix) + len(spoken.reference)
    if streams_text:
        return Tracks(prefix, said, num_common)
    return Tracks((*prefix, *((id, codec.pad) for id in said)), (), num_common)
