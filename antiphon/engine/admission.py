"""Admits as many streams as can be played without gaps; refuses others with a time to retry."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from antiphon.config import ModelSettings
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecShape
from antiphon.engine.request import EngineRequest
from antiphon.errors import OverloadedError
from antiphon.models.base import Prompt

_DEFAULTS = ModelSettings()
_LENGTH_WEIGHT = 0.05
_MIN_FRAMES_LEFT = 8  # of a request that has made more than expected
_MIN_RETRY_AFTER_S = 1.0
_STREAMS_ARE_MANY = "The server is speaking as many streams as it can without gaps."


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """How much is admitted.

    Attributes:
        max_waiting: live requests that may wait for a slot.
        max_waiting_offline: offline requests that may.
        max_wait_s: predicted wait of a live request for a slot.
        max_load: share of real time that all streams together may need.
    """

    max_waiting: int = _DEFAULTS.max_waiting
    max_waiting_offline: int = 16_384
    max_wait_s: float = _DEFAULTS.max_wait_s
    max_load: float = _DEFAULTS.max_load

    def check(
        self, num_ahead: int, wait_s: float, *, is_live: bool, message: str = _STREAMS_ARE_MANY
    ) -> None:
        """Let a request wait.

        Args:
            num_ahead: requests of its priority that wait already.
            wait_s: that is predicted.
            is_live: its priority.
            message: of the refusal.

        Raises:
            OverloadedError: it would have to wait for too long; says when to retry.
        """
        max_waiting = self.max_waiting if is_live else self.max_waiting_offline
        if num_ahead >= max_waiting or (is_live and wait_s > self.max_wait_s):
            raise OverloadedError(message, retry_after_s=max(wait_s, _MIN_RETRY_AFTER_S))


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected; made in the engine's thread, read in any.

    Attributes:
        num_streams: live streams that there is capacity for.
        ends_s: when the requests that hold slots end, ascending; empty: not known.
    """

    num_streams: int
    ends_s: tuple[float, ...] = ()


class Admission:
    """Admits requests by the latest forecast; may be called in any thread.

    Attributes:
        forecast: replaced as a whole, never changed.
    """

    def __init__(self, num_slots: int, limits: AdmissionLimits | None = None) -> None:
        self.forecast = Forecast(num_slots)
        self._limits = limits or AdmissionLimits()

    def check(self, num_open: int, now_s: float, *, is_live: bool) -> None:
        """Admit one more request.

        Args:
            num_open: requests of its priority that are open.
            now_s: the time.
            is_live: its priority.

        Raises:
            OverloadedError: says when a slot should be free.
        """
        forecast = self.forecast
        num_ahead = num_open - forecast.num_streams
        if num_ahead < 0:
            return
        wait_s = 0.0
        if forecast.ends_s:
            end_s = forecast.ends_s[min(num_ahead, len(forecast.ends_s) - 1)]
            wait_s = max(end_s - now_s, 0.0)
        self._limits.check(num_ahead, wait_s, is_live=is_live)


class LengthEstimator:
    """How many frames a prompt becomes, learned from finished requests."""

    def __init__(self) -> None:
        self._frames_per_token: float | None = None

    def observe(self, prompt: Prompt, num_frames: int) -> None:
        """Learn from a finished request."""
        ratio = num_frames / max(prompt.num_tokens, 1)
        before = self._frames_per_token
        self._frames_per_token = (
            ratio if before is None else before + (ratio - before) * _LENGTH_WEIGHT
        )

    def num_frames_left(self, request: EngineRequest) -> float:
        """Return how many frames a request should still make; 0 if nothing is known."""
        if self._frames_per_token is None:
            return 0.0
        expected = self._frames_per_token * max(request.prompt.num_tokens, 1)
        if request.max_frames is not None:
            expected = min(expected, request.max_frames)
        return max(expected - request.num_frames, _MIN_FRAMES_LEFT)


def forecast(
    requests: Iterable[EngineRequest],
    num_streams: int,
    lengths: LengthEstimator,
    frame_s: float,
    now_s: float,
) -> Forecast:
    """Return when the requests that hold slots will end, at ``frame_s`` a frame of each."""
    ends_s = sorted(now_s + lengths.num_frames_left(each) * frame_s for each in requests)
    return Forecast(num_streams, tuple(ends_s))


def live_capacity(costs: CostModel, codec: CodecShape, num_slots: int, max_load: float) -> int:
    """Return how many streams can be played without gaps: each needs a frame in a frame's time.

    Args:
        costs: of steps.
        codec: gives the duration of a frame.
        num_slots: that there are.
        max_load: share of real time that may be used.
    """
    if not costs.is_trusted:
        return num_slots

    def load(num_streams: int) -> float:
        step_s = costs.rows_s(num_streams) + costs.codec_s(num_streams)
        return (step_s + costs.mean_prefill_s) / codec.frame_s

    fitting = bisect_right(range(1, num_slots + 1), max_load, key=load)
    return max(1, fitting)
