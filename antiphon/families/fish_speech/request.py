"""Prompt of the models, and host-side state of a request in a slot."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

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
