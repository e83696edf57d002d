"""Layout of prompts: text ids with the frames of the reference between them.

S2 reads a conversation:

    <|im_start|>system\\\n convert the provided text to speech <|im_end|>\\\n
    <|im_start|>user\\\n TEXT <|im_end|>\\\n
    <|im_start|>assistant\\\n <|voice|>

With a reference the first turn continues: " reference to the following:\\\n\\\nText:\\\n", its text
with its speaker, "\\\n\\\nSpeech:\\\n", its frames. S1 alternates texts and frames:

    <|interleave|> <|speaker:0|> TEXT OF REFERENCE, FRAMES <|im_end|> <|speaker:0|> TEXT

Parts are encoded separately, as in the official code.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.families.fish_speech.config import (
    IM_END,
    IM_START,
    INTERLEAVE,
    VOICE,
    Layout,
    SpecialTokens,
)

Codes: TypeAlias = NDArray[np.int64]

FRAME = -1
"""Placeholder id of a position that holds a frame."""
_KEY_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class FishSpeechPrompt:
    """Input of the models.

    Attributes:
        ids: text ids, and `FRAME` for each frame of the reference; the last one is text.
        reference: frames of the reference, ``[num_reference_frames, num_codebooks]``.
        max_frames: maximum number of generated frames.
    """

    ids: Codes
    reference: Codes
    max_frames: int

    @property
    def position_keys(self) -> tuple[int, ...]:
        """64-bit keys of all positions but the last, equal for equal contents."""
        keys = self.ids[:-1].tolist()
        places = np.flatnonzero(self.ids == FRAME).tolist()
        for place, frame in zip(places, self.reference, strict=True):
            digest = blake2b(np.ascontiguousarray(frame).tobytes(), digest_size=_KEY_BYTES)
            keys[place] = int.from_bytes(digest.digest(), "little")
        return tuple(keys)


@dataclass(frozen=True, slots=True, eq=False)
class FishSpeechRequest:
    """Host-side state of a request in a slot.

    Attributes:
        ids: ids of the prompt, and `FRAME` for each frame made before the slot was assigned.
        frames: frames of the reference, followed by those made before.
        num_before: number of frames before each position, ``[len(ids) + 1]``.
        max_frames: maximum number of generated frames.
    """

    ids: Codes
    frames: Codes
    num_before: Codes
    max_frames: int

    @classmethod
    def of(cls, prompt: FishSpeechPrompt, made: Codes) -> "FishSpeechRequest":
        """Start a request, or resume it after the frames that it has generated."""
        ids = np.concatenate((prompt.ids, np.full(len(made), FRAME)))
        num_before = np.concatenate(([0], np.cumsum(ids == FRAME)))
        frames = np.concatenate((prompt.reference, made))
        return cls(ids, frames, num_before, prompt.max_frames)

    def frames_between(self, start: int, end: int) -> Codes:
        """Return the frames at positions ``start`` to ``end - 1``."""
        return self.frames[self.num_before[start] : self.num_before[end]]


Encode: TypeAlias = Callable[[str], list[int]]
"""Function from plain text to ids."""

NEEDED = {
    Layout.S2: (IM_START, IM_END, VOICE),
    Layout.S1: (INTERLEAVE, IM_END),
}
"""Special tokens required by each format."""
_ASKED = "convert the provided text to speech"
_IMITATED = f"{_ASKED} reference to the following:\n\nText:\n"
_SPEAKER = re.compile(r"<\|speaker:\d+\|>")
_FIRST_SPEAKER = "<|speaker:0|>"


@dataclass(frozen=True, slots=True, eq=False)
class Imitated:
    """Transcript and frames of a reference voice."""

    text: str
    codes: Codes


def _turns(text: str) -> str:
    """Return a conversation with each speaker's turn on its own line, as in S2's training."""
    starts = [0, *(found.start() for found in _SPEAKER.finditer(text)), len(text)]
    turns = (text[start:stop].strip() for start, stop in pairwise(starts))
    return "\n".join(turn for turn in turns if turn)


class PromptLayout:
    """Builder of prompt ids."""

    def __init__(self, layout: Layout, encode: Encode, tokens: SpecialTokens) -> None:
        """Wrap a checkpoint's tokenizer, which has all tokens of `NEEDED`."""
        self._layout = layout
        self._encode = encode
        self._ids = tokens.ids

    def lay_out(self, text: str, voice: Imitated | None) -> tuple[Codes, int]:
        """Return the ids of a prompt, and the number of ids before the text.

        Returns:
            Ids, with `FRAME` for each frame of the voice; the last one is never a frame. And the
            number of leading ids that do not depend on the text.
        """
        if self._layout is Layout.S2:
            text = _turns(text)
            before, after = self._conversation(voice), self._end_of_turn
        else:
            before, after = self._interleaved(voice), []
        return np.array([*before, *self._encode(text), *after], np.int64), len(before)

    def _conversation(self, voice: Imitated | None) -> list[int]:
        if voice is None:
            system = self._encode(_ASKED)
        else:
            has_speaker = _SPEAKER.search(voice.text) is not None
            said = voice.text if has_speaker else f"{_FIRST_SPEAKER}{voice.text}"
            system = [
                *self._encode(_IMITATED),
                *self._encode(said),
                *self._encode("\n\nSpeech:\n"),
                *[FRAME] * len(voice.codes),
            ]
        end = [self._ids[IM_END], *self._encode("\n")]
        return [*self._begun("system"), *system, *end, *self._begun("user")]

    @property
    def _end_of_turn(self) -> list[int]:
        end = [self._ids[IM_END], *self._encode("\n")]
        return [*end, *self._begun("assistant"), self._ids[VOICE]]

    def _begun(self, role: str) -> list[int]:
        return [self._ids[IM_START], *self._encode(f"{role}\n")]

    def _interleaved(self, voice: Imitated | None) -> list[int]:
        speaker = self._encode(_FIRST_SPEAKER)
        ids = [self._ids[INTERLEAVE]]
        if voice is not None:
            ids += [*speaker, *self._encode(voice.text), *[FRAME] * len(voice.codes)]
            ids.append(self._ids[IM_END])
        return [*ids, *speaker]
