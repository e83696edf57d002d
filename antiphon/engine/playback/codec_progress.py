"""Playback state of a request: its client's clock and the codec's progress."""

from dataclasses import dataclass
from math import inf

import numpy as np

from antiphon.contracts.types import Samples


@dataclass(slots=True)
class PlaybackClock:
    """The audio that a client has buffered.

    Attributes:
        deadline_s: time at which the client runs out of audio; ``inf`` before the first audio and
            for an offline request.
    """

    deadline_s: float = inf

    def extend(self, now_s: float, duration_s: float) -> None:
        """Add audio that is there now; it is played after the buffered audio, or at once."""
        begins_s = now_s if self.deadline_s == inf else max(self.deadline_s, now_s)
        self.deadline_s = begins_s + duration_s


@dataclass(slots=True)
class CodecProgress:
    """How far the codec is with the frames of a request; written by the `ChunkPlanner`.

    Attributes:
        num_decoded: frames in planned chunks; the last chunks may reach past the end.
        num_decoding: frames of these in chunks that are in flight.
        num_delivered: frames whose audio was delivered.
        num_late: frames past the end that chunks reach to; see `CodecShape.late_frames`.
        chunk_frames: frames of the next chunk.
        num_to_replay: frames that the decoder of the request's slot must be given again, since
            their audio was made before it had this slot.
        num_replayed: frames of these in planned replays.
        received_s: arrival of the latest frame from the stage before; ``-inf``: none has arrived.
        held: first audio, kept back until it covers the gap to the next chunk; ``None`` once it is
            delivered.
    """

    num_decoded: int = 0
    num_decoding: int = 0
    num_delivered: int = 0
    num_late: int = 0
    chunk_frames: int = 0
    num_to_replay: int = 0
    num_replayed: int = 0
    received_s: float = -inf
    held: "Samples | None" = None

    @property
    def is_replaying(self) -> bool:
        """Whether the slot's decoder is still being given frames again."""
        return self.num_replayed < self.num_to_replay

    def resume(self, num_frames: int) -> None:
        """Continue after frames whose audio was delivered elsewhere."""
        self.num_decoded = self.num_delivered = num_frames

    def start(self, num_to_replay: int) -> None:
        self.num_replayed, self.num_to_replay = 0, num_to_replay

    def plan(self, num_frames: int) -> None:
        """Decode frames in the plan being made."""
        self.num_decoded += num_frames
        self.num_decoding += num_frames

    def join_held(self, samples: Samples) -> Samples:
        """Return audio after the audio kept back before it, which is released."""
        held, self.held = self.held, None
        return samples if held is None else np.concatenate((held, samples))
