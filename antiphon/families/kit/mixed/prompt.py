"""Text ids and frames of a prompt, and the keys of its positions."""

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

FRAME = -1
"""Placeholder id of a position that holds a frame."""
_FRAME_KEY = 1 << 63


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MixedPrompt:
    """Positions of a prompt, or of a request that continues it.

    Attributes:
        ids: text ids, and `FRAME` for each frame, int64 ``[num_positions]``.
        frames: frames in the order of their positions, ``[num_frames, frame_size]``.
        max_frames: maximum number of generated frames.
    """

    ids: NDArray[np.int64]
    frames: NDArray[Any]
    max_frames: int

    def followed_by(self, made: NDArray[Any]) -> Self:
        """Return the positions after which a request resumes that has generated these frames."""
        ids = np.concatenate((self.ids, np.full(len(made), FRAME)))
        return replace(self, ids=ids, frames=np.concatenate((self.frames, made)))

    def frames_between(self, start: int, end: int) -> NDArray[Any]:
        """Return the frames at positions ``start`` to ``end - 1``."""
        is_frame = self.ids[:end] == FRAME
        return self.frames[np.count_nonzero(is_frame[:start]) : np.count_nonzero(is_frame)]

    @property
    def position_keys(self) -> tuple[int, ...]:
        """Keys of all positions but the last, equal for equal contents; those of frames larger."""
        keys = self.ids.tolist()
        for place, frame in zip(np.flatnonzero(self.ids == FRAME), self.frames, strict=True):
            keys[place] = frame_key(frame)
        return tuple(keys[:-1])


def frame_key(frame: NDArray[Any]) -> int:
    """Return a 64-bit key of a frame, larger than any text id."""
    digest = blake2b(np.ascontiguousarray(frame).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") | _FRAME_KEY
