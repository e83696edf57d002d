"""Lets in as many streams as can be kept gapless, and tells the others when to come back."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecShape
from antiphon.engine.request import EngineRequest
from antiphon.errors import OverloadedError
from antiphon.models.base import Prompt

_TYPICAL_CHUNK_FRAMES = 4
_LENGTH_WEIGHT = 0.05
_MIN_FRAMES_LEFT = 8  # of a request that has made more than expected
_MIN_RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """How much is let in.

    Attributes:
        max_waiting: listeners who may wait for a slot.
        max_waiting_bulk: bulk requests that may.
        max_wait_s: that a listener may have to wait for a slot, as predicted.
        max_load: of real time, that all streams together may need.
    """

    max_waiting: int = 256
    max_waiting_bulk: int = 16_384
    max_wait_s: float = 2.0
    max_load: float = 0.85


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected; made in the engine's thread, read in any.

    Attributes:
        num_streams: live streams that there is room for.
        ends_s: when the requests that hold slots end, ascending; empty: nothing is known.
    """

    num_streams: int
    ends_s: tuple[float, ...] = ()


class Admission:
    """Decides at the door; safe to be asked in any thread."""

    def __init__(self, num_slots: int, limits: AdmissionLimits | None = None) -> None:
        self.limits = limits or AdmissionLimits()
        self.forecast = Forecast(num_slots)  # replaced as a whole, never changed

    def check(self, num_open: int, now_s: float, *, is_live: bool) -> None:
        """Let one more request in.

        Args:
            num_open: requests of its kind, live or bulk, that are in already.
            now_s: the time.
            is_live: which kind.

        Raises:
            OverloadedError: says when a place should be free.
        """
        forecast, limits = self.forecast, self.limits
        num_ahead = num_open - forecast.num_streams
        if num_ahead < 0:
            return
        wait_s = 0.0
        if forecast.ends_s:
            end_s = forecast.ends_s[min(num_ahead, len(forecast.ends_s) - 1)]
            wait_s = max(end_s - now_s, 0.0)
        check_wait(limits, num_ahead, wait_s, is_live=is_live)


def check_wait(limits: AdmissionLimits, num_ahead: int, wait_s: float, *, is_live: bool) -> None:
    """Let somebody wait for a place.

    Args:
        limits: of waiting.
        num_ahead: requests of its kind, live or bulk, that wait already.
        wait_s: that is expected.
        is_live: which kind.

    Raises:
        OverloadedError: it would take too long; says when a place should be free.
    """
    max_waiting = limits.max_waiting if is_live else limits.max_waiting_bulk
    if num_ahead >= max_waiting or (is_live and wait_s > limits.max_wait_s):
        raise OverloadedError(
            "The server is speaking as many streams as it can without gaps.",
            retry_after_s=max(wait_s, _MIN_RETRY_AFTER_S),
        )


class Lengths:
    """How many frames a prompt becomes, learned from those that have ended."""

    def __init__(self) -> None:
        self._frames_per_token: float | None = None

    def observe(self, prompt: Prompt, num_frames: int) -> None:
        """Take in how long a request became."""
        ratio = num_frames / max(prompt.num_tokens, 1)
        before = self._frames_per_token
        self._frames_per_token = (
            ratio if before is None else before + (ratio - before) * _LENGTH_WEIGHT
        )

    def num_frames_left(self, request: EngineRequest) -> float:
        """Return how many frames a request is expected to make yet; 0 if nothing is known."""
        if self._frames_per_token is None:
            return 0.0
        expected = self._frames_per_token * max(request.prompt.num_tokens, 1)
        if request.frames_limit is not None:
            expected = min(expected, request.frames_limit)
        return max(expected - request.num_frames, _MIN_FRAMES_LEFT)


def forecast(
    requests: Iterable[EngineRequest],
    num_slots: int,
    lengths: Lengths,
    frame_s: float,
    now_s: float,
) -> Forecast:
    """Return when the requests that hold slots will end.

    Args:
        requests: that hold slots.
        num_slots: streams that there is room for.
        lengths: that requests have.
        frame_s: time in which each makes a frame.
        now_s: the time.
    """
    ends_s = sorted(now_s + lengths.num_frames_left(each) * frame_s for each in requests)
    return Forecast(num_slots, tuple(ends_s))


def live_capacity(times: CostModel, codec: CodecShape, num_slots: int, max_load: float) -> int:
    """Return how many live streams can be kept gapless: each needs a frame in a frame's time.

    Args:
        times: of steps.
        codec: says how long a frame sounds.
        num_slots: that there are.
        max_load: of real time, that may be used.
    """
    if not times.is_trusted:
        return num_slots
    num_frames = min(_TYPICAL_CHUNK_FRAMES, codec.chunk_sizes[-1])

    def load(num_streams: int) -> float:
        num_chunks = -(-num_streams // num_frames)
        step_s = times.rows_s(num_streams) + times.chunks_s(num_chunks, num_frames)
        return (step_s + times.mean_prefill_s) / codec.frame_s

    fitting = bisect_right(range(1, num_slots + 1), max_load, key=load)
    return max(1, fitting)
