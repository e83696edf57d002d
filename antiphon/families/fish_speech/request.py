"""What the models read of a prompt, and what the host keeps of a request in a slot."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Codes: TypeAlias = NDArray[np.int64]

FRAME = -1
"""Among a prompt's ids: a whole frame."""
_KEY_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class FishSpeechPrompt:
    """What the models read.

    Attributes:
        ids: of text, and `FRAME` where a frame of the reference is; the last one is of text.
        reference: these frames, ``[num_reference_frames, num_codebooks]``.
        max_frames: that the text may take.
    """

    ids: Codes
    reference: Codes
    max_frames: int

    @property
    def position_keys(self) -> tuple[int, ...]:
        """A 64-bit number for each position before the first frame, equal where these are."""
        keys = self.ids[:-1].tolist()
        places = np.flatnonzero(self.ids == FRAME).tolist()
        for place, frame in zip(places, self.reference, strict=True):
            digest = blake2b(np.ascontiguousarray(frame).tobytes(), digest_size=_KEY_BYTES)
            keys[place] = int.from_bytes(digest.digest(), "little")
        return tuple(keys)


@dataclass(frozen=True, slots=True, eq=False)
class FishSpeechRequest:
    """A request in a slot.

    Attributes:
        ids: of the prompt, and a `FRAME` for each frame that was made before it had the slot.
        frames: those of the reference, and these.
        num_before: frames before each position, ``[len(ids) + 1]``.
        max_frames: see `FishSpeechPrompt`.
    """

    ids: Codes
    frames: Codes
    num_before: Codes
    max_frames: int

    @classmethod
    def of(cls, prompt: FishSpeechPrompt, made: Codes) -> "FishSpeechRequest":
        """Begin a request, or go on after the frames that it has made."""
        ids = np.concatenate((prompt.ids, np.full(len(made), FRAME)))
        num_before = np.concatenate(([0], np.cumsum(ids == FRAME)))
        frames = np.concatenate((prompt.reference, made))
        return cls(ids, frames, num_before, prompt.max_frames)

    def frames_between(self, start: int, end: int) -> Codes:
        """Return the frames at positions ``start`` to ``end - 1``."""
        return self.frames[self.num_before[start] : self.num_before[end]]
