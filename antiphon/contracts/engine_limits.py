"""Admission limits and playback policy of an engine, as data."""

from dataclasses import dataclass
from math import inf

from antiphon.config import ModelSettings
from antiphon.errors import OverloadedError

_DEFAULTS = ModelSettings()
MIN_RETRY_AFTER_S = 1.0
STREAMS_ARE_MANY = "The server is speaking as many streams as it can without gaps."
_FEW_STREAMS = 2  # with no more, a slot is free so rarely that clients may wait longer for it
_FEW_STREAMS_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Limits of admission.

    Attributes:
        max_waiting: live requests that may wait for a slot.
        max_waiting_offline: offline requests that may.
        max_wait_s: predicted wait of a live request for a slot, after a burst; a hundredth of it
            if more requests arrive than can be served, see `StandingQueueDetector`.
        max_load: share of real time that all streams together may need.
        max_retry_after_s: longest time after which a refused request is asked to return.
    """

    max_waiting: int = _DEFAULTS.max_waiting
    max_waiting_offline: int = 16_384
    max_wait_s: float = _DEFAULTS.max_wait_s
    max_load: float = _DEFAULTS.max_load
    max_retry_after_s: float = inf

    def check(
        self,
        num_ahead: int,
        wait_s: float,
        *,
        is_live: bool,
        num_streams: int | None = None,
        message: str = STREAMS_ARE_MANY,
    ) -> None:
        """Admit a request to the queue; raises OverloadedError.

        Args:
            num_ahead: requests of its priority that wait already.
            num_streams: capacity in live streams, see `is_met`.
        """
        if not self.is_met(num_ahead, wait_s, is_live=is_live, num_streams=num_streams):
            raise OverloadedError(message, retry_after_s=self.retry_after_s(wait_s))

    def is_met(
        self, num_ahead: int, wait_s: float, *, is_live: bool, num_streams: int | None = None
    ) -> bool:
        """Whether a request may wait; see `check`.

        Args:
            num_streams: live streams that there is capacity for, as far as it is known. With one
                or two, the wait for one of them to end may be ten times as long.
        """
        max_waiting = self.max_waiting if is_live else self.max_waiting_offline
        max_wait_s = self.max_wait_s
        if num_streams is not None and num_streams <= _FEW_STREAMS:
            max_wait_s *= _FEW_STREAMS_PATIENCE
        return num_ahead < max_waiting and not (is_live and wait_s > max_wait_s)

    def retry_after_s(self, wait_s: float) -> float:
        """Return the time after which a refused request should return, by its predicted wait."""
        return min(max(wait_s, MIN_RETRY_AFTER_S), self.max_retry_after_s)


@dataclass(frozen=True, slots=True)
class PlaybackPolicy:
    """How slack decides the sizes of codec chunks, and which of them a step decodes.

    A stream's deadline is the time at which its client runs out of audio; its slack is the time
    until then. Offline requests, and those of a runner without a codec, have no deadline.

    The first chunk is as small as it can be without a gap. Later ones may be up to ``spacing``
    times as large if decoding takes at most ``1 / growth`` of the slack and leaves ``margin_s``.
    First audio of an elastic decoder is held back until it covers the gap to the next.

    A step decodes few more frames than it makes, earliest deadlines first, so that streams that
    begin together are spread over steps. It may always decode a few dozen, which take a GPU little
    longer than one. Streams with less slack than ``comfort_s`` are exempt, and those in danger get
    partial chunks. See also `CausalChunks` and `BatchedChunks` of the engine.

    Attributes:
        start: duration of a first chunk in long steps, or of a first sound that is followed by
            chunks of several frames, besides the steps that make them.
        growth: Ratio of playback speed to decoding speed that a larger chunk must reach.
        margin_s: slack below which a stream is in danger.
        comfort_s: slack above which a stream can wait.
        spacing: Largest ratio of a chunk's size to that of the one before.
        spread: frames that a step decodes per frame that it makes; the last chunk may exceed it.
        least: Codec time that a step may always use, in times of a single frame.
        idle_s: Codec time of a step that makes no frame, in seconds.
        worth: share of the codec's time that leaving chunks to the next step must save.
        first_frames: Frames of a first chunk, unless its request has its own.
        largest_frames: Largest chunk, though not below the codec's smallest; ``None``: no limit.
    """

    start: float = 1.75
    growth: float = 2.0
    margin_s: float = 0.06
    comfort_s: float = 0.5
    spacing: int = 4
    spread: float = 1.1
    least: float = 2.0
    idle_s: float = 0.02
    first_frames: int = 1
    worth: float = 0.15
    largest_frames: int | None = None
