"""Prompt layout as two tracks of ids, text and codec, position by position; no tensors.

Every layout of the official code has one form:

- a *prefix* of columns (text id, codec id), either of which may be missing;
- the *lead*: the codec track from its begin-of-speech id on, followed by the reference's frames if
  any; then the generated frames, one per position;
- the *text track*: one text id for every position from begin-of-speech on, padding after its end.

Whole text is part of the prefix, and the text track is empty; streaming text is in the track, and
may still grow during generation.

A preempted request resumes as if its generated frames were further reference frames.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prompt import Piece
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
    """Addition of late text to a prompt; ``max_frames``: frame budget of the text so far."""

    ids: Ids
    max_frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The text parts of a prompt, as ids.

    Attributes:
        instructions: instructions before all else; may be empty.
        reference: transcript of the reference recording; empty without one.
        num_slow_frames: `slow_frames` of that text.
        is_open: whether more of it will come.
    """

    role: Ids
    body: Ids
    num_slow_frames: int = 0
    is_open: bool = False
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
    config: Qwen3TTSConfig, spoken: Spoken, *, tag: Ids, speaker_id: int | None, streams_text: bool
) -> tuple[tuple[Column, ...], Ids, int]:
    """Lay out a prompt.

    Args:
        tag: result of `language_tag`.
        speaker_id: id of a built-in speaker, `SPEAKER`, or ``None`` for no speaker position.
        streams_text: whether text is read beside the frames rather than before them.

    Returns:
        The prefix, the text track, and the number of leading positions that do not depend on the
        spoken text: those of the voice, the language and the instructions; of a recording's frames
        only those beside the recording's own transcript.
    """
    assert streams_text or not spoken.is_open, "text read before the frames must be complete"
    text, codec = config.tokens, config.talker.tokens
    heading = [(id, NOTHING) for id in (*spoken.instructions, *spoken.role)]
    row = (*tag, *(() if speaker_id is None else (speaker_id,)), codec.pad)
    row_text = (text.tts_pad,) * (len(row) - 1) + (text.tts_bos,)
    prefix = (*heading, *zip(row_text, row, strict=True))
    text_ids = (*spoken.reference, *spoken.body, *(() if spoken.is_open else (text.tts_eos,)))
    num_common = len(prefix) + len(spoken.reference)
    if streams_text:
        return prefix, text_ids, num_common
    return (*prefix, *((id, codec.pad) for id in text_ids)), (), num_common


Codes: TypeAlias = NDArray[np.int64]

_KEY_BYTES = 8
_MASK = (1 << 32) - 1


@dataclass(frozen=True, slots=True, eq=False)
class InputIds:
    """Consecutive positions.

    Attributes:
        text: text ids, or `NOTHING`, int64 ``[num_positions]``.
        codec: codec ids, or `NOTHING`, `SPEAKER` or `FRAME`, int64 ``[num_positions]``.
        frames: codes of each `FRAME`, in order, int64 ``[num_frames, num_groups]``.
    """

    text: NDArray[np.int64]
    codec: NDArray[np.int64]
    frames: Codes


def position_keys(config: Qwen3TTSConfig, prompt: Qwen3TTSPrompt) -> tuple[int, ...]:
    """Return a 64-bit key for each known position before the first frame.

    Keys are equal if and only if the model's input at their positions is equal.
    """
    num_known, num_prefix = prompt.num_prefilled, len(prompt.prefix)
    if prompt.is_open:
        num_known = num_prefix + min(len(prompt.text), prompt.num_reference_frames)
    speaker = 0 if prompt.speaker is None else _digest(prompt.speaker.astype(np.float32))
    # Plain integers: most prompts have a few dozen columns, for which arrays take longer.
    keys = [
        _key(text, codec) ^ (speaker if codec == SPEAKER else 0) for text, codec in prompt.prefix
    ]
    if num_known > num_prefix:
        no_frames = np.empty((0, config.talker.num_groups), np.int64)
        request = Qwen3TTSRequest.of(prompt, no_frames, row=0)
        lead = request.columns(config, num_prefix, num_known)
        digests = (0, *map(_digest, lead.frames))  # begin-of-speech is first
        columns = zip(lead.text.tolist(), lead.codec.tolist(), digests, strict=True)
        keys += [_key(text, codec) ^ digest for text, codec, digest in columns]
    return tuple(keys)


def _key(text: int, codec: int) -> int:
    """Return a number for a column's ids; no other column has it."""
    return (text & _MASK) << 32 | (codec & _MASK)


def _digest(array: NDArray[np.generic]) -> int:
    digest = blake2b(np.ascontiguousarray(array).tobytes(), digest_size=_KEY_BYTES)
    return int.from_bytes(digest.digest(), "little")


@dataclass(slots=True, eq=False)
class Qwen3TTSRequest:
    """Request in a slot.

    Attributes:
        row: row of `LoopDetectors` that watches its codes.
        lead: reference frames, and frames generated before the slot was taken.
        text: text track so far.
        max_frames: frame budget of the text so far.
        first_end: number of frames before which it does not end.
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
        lead = made if prompt.reference is None else np.concatenate((prompt.reference, made))
        return cls(row, prompt, lead, [*prompt.text], prompt.max_frames, first_end, prompt.is_open)

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
        """Return the model's input at positions ``start`` to ``end - 1``, up to the next frame's.

        The text track covers them beside the lead, or has ended.
        """
        num_prefix = len(self.prompt.prefix)
        assert not self.is_open or len(self.text) >= end - num_prefix, "its text is not known yet"
        assert start < end <= num_prefix + len(self.lead), "there are no such positions"
        prefix = np.array(self.prompt.prefix[start:end], np.int64).reshape(-1, 2)
        first, last = max(0, start - num_prefix), max(0, end - num_prefix)
        beside = self.text[first:last]
        padding = (config.tokens.tts_pad,) * (last - first - len(beside))
        codec = np.full(last - first, FRAME, np.int64)
        if first == 0 < last:
            codec[0] = config.talker.tokens.bos
        return InputIds(
            text=np.concatenate((prefix[:, 0], np.array((*beside, *padding), np.int64))),
            codec=np.concatenate((prefix[:, 1], codec)),
            frames=self.lead[max(0, first - 1) : max(0, last - 1)],
        )
