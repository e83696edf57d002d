"""Admission control: as many streams as play without gaps; others get a Retry-After."""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from math import exp, inf
from statistics import fmean
from threading import Lock

from antiphon.contracts.engine_limits import MIN_RETRY_AFTER_S, STREAMS_ARE_MANY, AdmissionLimits
from antiphon.contracts.prompt import Prompt
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecShape
from antiphon.engine.request import EngineRequest
from antiphon.errors import OverloadedError

_LENGTH_WEIGHT = 0.05
_MIN_FRAMES_LEFT = 8  # of a request that has made more than expected
_STANDING_SHARE = 0.01  # of the longest wait, which a standing queue may cost a client
_STANDING_STEPS = 1.0  # steps that such a queue may last in addition
_MIN_STANDING_QUEUE = 4
_MAX_RETURNS = 2  # Retry-After backlog per slot, which clients that do not come back would fill
_TOGETHER = 0.75  # most time that streams may take together, of that which they take in turn
_STANDING_TURNOVERS = 0.25  # turnovers of all slots, after which a queue is a standing one
_STANDING_UNTIL = 0.5  # share of the time with a queue
_MIN_TURNOVER_S = 4.0  # in shorter ones arrivals vary too much
_RATE_S = 1.0  # time constant of the rate
_MAX_STEP_S = 0.25  # between two observations; beyond it the engine was idle


class StandingQueueDetector:
    """Distinguishes a standing queue of live requests from a burst.

    A burst drains. A standing queue adds delay without adding throughput (CoDel). A queue becomes
    a standing one once it has lasted for a quarter of the time in which all slots change hands, and
    remains one until it was empty for most of that time.

    Attributes:
        num_queued: live requests without a first frame.
        rate_hz: rate at which requests leave the queue.
        turnover_s: time in which all slots change hands; 0: unknown, and then no queue is standing.
    """

    def __init__(self) -> None:
        self.num_queued = 0
        self.rate_hz = 0.0
        self.turnover_s = 0.0
        self._is_standing = False
        self._observed_s = 0.0
        self._lasts_s = 0.0
        self._share = 0.0

    def is_standing(self, now_s: float) -> bool:
        """Whether the queue is a standing one, also long after the last step of an idle engine."""
        if not self._is_standing or self.turnover_s == 0.0:
            return False
        if self._lasts_s:
            return True
        passed_s = now_s - self._observed_s
        return self._share * exp(-passed_s / self._span_s) >= _STANDING_UNTIL

    def observe(self, num_queued: int, now_s: float) -> None:
        """Record the live requests that a planned step does not begin."""
        self._is_standing = self.is_standing(now_s)
        passed_s = min(now_s - self._observed_s, _MAX_STEP_S)
        num_begun, self.num_queued = max(self.num_queued - num_queued, 0), num_queued
        self._observed_s = now_s
        if self.turnover_s == 0.0 or passed_s <= 0.0:
            return
        span_s = self._span_s
        self.rate_hz += (num_begun / passed_s - self.rate_hz) * passed_s / _RATE_S
        has_queue = num_queued > 0
        self._lasts_s = self._lasts_s + passed_s if has_queue else 0.0
        self._share += (has_queue - self._share) * passed_s / span_s
        if self._lasts_s >= span_s * _STANDING_TURNOVERS:
            if not self._is_standing:
                self._is_standing, self._share = True, 1.0
        elif self._share < _STANDING_UNTIL:
            self._is_standing = False

    @property
    def _span_s(self) -> float:
        return max(self.turnover_s, _MIN_TURNOVER_S)


class Reservations:
    """Ids of streams or requests by priority; safe for threads."""

    def __init__(self) -> None:
        self._is_live: dict[str, bool] = {}
        self._lock = Lock()

    def count(self, *, is_live: bool) -> int:
        with self._lock:
            return sum(kept is is_live for kept in self._is_live.values())

    def add(self, name: str, *, is_live: bool) -> None:
        with self._lock:
            self._is_live[name] = is_live

    def remove(self, name: str) -> bool:
        """Remove an id; return whether it was there."""
        with self._lock:
            return self._is_live.pop(name, None) is not None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected capacity and ends of requests; made in the engine's thread, read in any.

    Attributes:
        ends_s: times at which the requests in slots end, ascending; empty: unknown.
        step_s: time of one frame of each.
    """

    num_streams: int
    ends_s: tuple[float, ...] = ()
    made_s: float = 0.0
    step_s: float = 0.0

    @property
    def turnover_s(self) -> float:
        """Time in which all slots change hands: twice what their requests have left on average."""
        if not self.ends_s:
            return 0.0
        return max(2 * (fmean(self.ends_s) - self.made_s), 0.0)

    def end_s(self, number: int) -> float:
        """Return when request ``number`` of those in slots, or after them, ends; -inf: unknown."""
        if not self.ends_s:
            return -inf
        turns, index = divmod(number, len(self.ends_s))
        return self.ends_s[index] + turns * max(self.ends_s[-1] - self.made_s, 0.0)


class AdmissionControl:
    """Admits requests by the latest forecast; may be called in any thread.

    Retry-After values are spread, so that one client returns per free slot. Clients that return
    are not in any forecast yet.

    Attributes:
        queue: detector of a standing queue of live requests; used in the engine's thread.
        reserved: streams that were admitted and count as open, before their first requests.
        leaving: open requests that end before the next step, and count as closed.
    """

    def __init__(self, num_slots: int, limits: AdmissionLimits | None = None) -> None:
        self.forecast = Forecast(num_slots)
        self.queue = StandingQueueDetector()
        self.reserved = Reservations()
        self.leaving = Reservations()
        self._limits = limits or AdmissionLimits()
        self._lock = Lock()
        self._returns_s: deque[float] = deque(maxlen=_MAX_RETURNS * num_slots)

    def expect(self, forecast: Forecast) -> None:
        """Admit by another forecast from now on."""
        self.forecast, self.queue.turnover_s = forecast, forecast.turnover_s

    def check(self, num_open: int, now_s: float, *, is_live: bool) -> None:
        """Admit one more request beside ``num_open`` of its priority; raises OverloadedError."""
        forecast = self.forecast
        num_open = max(num_open - self.leaving.count(is_live=is_live), 0)
        num_open += self.reserved.count(is_live=is_live)
        num_ahead = num_open - forecast.num_streams
        if num_ahead < 0:
            return  # it fits; who waits for a first frame waits for what is faster than it plays
        if is_live and self.queue.is_standing(now_s) and self._limits.max_wait_s < inf:
            num_too_many = self.queue.num_queued - self._max_standing_queue(forecast)
            if num_too_many >= 0:
                raise self._refusal(num_too_many, now_s)
        wait_s = max(forecast.end_s(num_ahead) - now_s, 0.0)
        num_streams = forecast.num_streams
        if not self._limits.is_met(num_ahead, wait_s, is_live=is_live, num_streams=num_streams):
            raise self._refusal(num_ahead, now_s)

    def _max_standing_queue(self, forecast: Forecast) -> float:
        """Return the longest standing queue: what begins in the wait that it may cost."""
        wait_s = self._limits.max_wait_s * _STANDING_SHARE + _STANDING_STEPS * forecast.step_s
        return max(self.queue.rate_hz * wait_s, _MIN_STANDING_QUEUE)

    def _refusal(self, num_before: float, now_s: float) -> OverloadedError:
        """Return a refusal with the time to come back.

        ``num_before`` requests must end before, besides those of clients that return earlier.
        """
        with self._lock:
            while self._returns_s and self._returns_s[0] <= now_s:
                self._returns_s.popleft()
            end_s = self.forecast.end_s(int(num_before) + len(self._returns_s))
            last_s = self._returns_s[-1] if self._returns_s else -inf
            return_s = max(end_s, last_s, now_s + MIN_RETRY_AFTER_S)
            self._returns_s.append(return_s)
        retry_after_s = self._limits.retry_after_s(return_s - now_s)
        return OverloadedError(STREAMS_ARE_MANY, retry_after_s=retry_after_s)


class LengthEstimator:
    """Estimates the frames of prompts, from finished requests."""

    def __init__(self) -> None:
        self._frames_per_token: float | None = None

    def observe(self, prompt: Prompt, num_frames: int) -> None:
        ratio = num_frames / max(prompt.num_tokens, 1)
        before = ratio if self._frames_per_token is None else self._frames_per_token
        self._frames_per_token = before + (ratio - before) * _LENGTH_WEIGHT

    def num_frames_left(self, request: EngineRequest) -> float:
        """Return the expected number of further frames; 0 if nothing is known."""
        if self._frames_per_token is None:
            return 0.0
        expected = self._frames_per_token * max(request.prompt.num_tokens, 1)
        if request.max_frames is not None:
            expected = min(expected, request.max_frames)
        return max(expected - request.num_frames, _MIN_FRAMES_LEFT)


def live_capacity(costs: CostModel, codec: CodecShape, num_slots: int, max_load: float) -> int:
    """Return how many streams get a frame in ``max_load`` of a frame's time.

    Where even one is slower than it plays: the most that are worth computing together.
    """
    if not costs.is_trusted:
        return num_slots

    def load(num_streams: int) -> float:
        step_s = costs.rows_s(num_streams) + costs.codec_s(num_streams)
        return (step_s + costs.mean_prefill_s) / codec.frame_s

    sizes = range(1, num_slots + 1)
    if (alone := load(1)) > 1.0:
        return max((1, *(size for size in sizes if load(size) <= _TOGETHER * size * alone)))
    return max(1, bisect_right(sizes, max_load, key=load))
