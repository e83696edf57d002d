"""Admits as many streams as can be played without gaps; refuses others with a time to retry."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
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
_STANDING_SHARE = 0.01  # of the longest wait, which a line that stands may cost a listener
_STANDING_STEPS = 1.0  # that such a line may last beside it
_MIN_STANDING_LINE = 4
_STANDING_TURNOVERS = 0.25  # of the slots, after which a line stands
_STANDING_UNTIL = 0.5  # share of the time with a line
_MIN_TURNOVER_S = 4.0  # in shorter ones arrivals vary too much
_RATE_S = 1.0  # for which a rate counts
_MAX_STEP_S = 0.25  # between two looks at the line; beyond it nobody looked
_MAX_RETURNS = 2  # for each slot: callers who do not wait shall not make others wait for long


class Places:
    """Room that is kept for streams by their ids, or left; may be called in any thread."""

    def __init__(self) -> None:
        self._is_live: dict[str, bool] = {}
        self._left: dict[str, bool] = {}
        self._lock = Lock()

    def num_kept(self, *, is_live: bool) -> int:
        """Return for how many streams of a priority there is."""
        with self._lock:
            return sum(each is is_live for each in self._is_live.values())

    def keep(self, stream_id: str, *, is_live: bool) -> None:
        """Keep room for a stream."""
        with self._lock:
            self._is_live[stream_id] = is_live

    def take(self, stream_id: str) -> bool:
        """Give a stream's room to whoever asks; return whether there was any."""
        with self._lock:
            return self._is_live.pop(stream_id, None) is not None

    def num_left(self, *, is_live: bool) -> int:
        """Return how many open requests of a priority have been left by their listeners."""
        with self._lock:
            return sum(each is is_live for each in self._left.values())

    def leave(self, request_id: str, *, is_live: bool) -> None:
        """Note that a request is left, which ends before the next step."""
        with self._lock:
            self._left[request_id] = is_live

    def end(self, request_id: str) -> None:
        """Note that a request has ended."""
        with self._lock:
            self._left.pop(request_id, None)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected; made in the engine's thread, read in any.

    Attributes:
        num_streams: live streams that there is capacity for.
        ends_s: when the requests that hold slots end, ascending; empty: not known.
        made_s: when it was made.
        step_s: that a step takes.
    """

    num_streams: int
    ends_s: tuple[float, ...] = ()
    made_s: float = 0.0
    step_s: float = 0.0

    @property
    def turnover_s(self) -> float:
        """In how long all slots change hands: twice what their requests have left on average."""
        if not self.ends_s:
            return 0.0
        return max(2 * (fmean(self.ends_s) - self.made_s), 0.0)

    def end_s(self, number: int) -> float:
        """Return when request ``number`` ends of those that hold slots, or will; -inf: unknown."""
        if not self.ends_s:
            return -inf
        turns, index = divmod(number, len(self.ends_s))
        return self.ends_s[index] + turns * max(self.ends_s[-1] - self.made_s, 0.0)


class StandingLine:
    """Tells requests that more arrive than can be served, from a burst that passes.

    After a burst the line of those who wait for their first frame becomes shorter by itself, and
    whoever is in it waits once. A line that stays only makes every listener wait, and serves nobody
    more. (The queue management CoDel parts good queues from bad ones so.)

    Attributes:
        num_in_line: who waits for their first frame.
        is_standing: from when there has been a line for a quarter of the time in which the slots
            change hands, until there has been none for most of that time.
        rate_hz: at which requests have left the line.
        turnover_s: in which all slots change hands; 0: not known, and then nothing stands.
    """

    def __init__(self) -> None:
        self.num_in_line = 0
        self.is_standing = False
        self.rate_hz = 0.0
        self.turnover_s = 0.0
        self._observed_s = 0.0
        self._lasts_s = 0.0
        self._share = 0.0

    def stands(self, now_s: float) -> bool:
        """Whether the line stands, also a while after the last look: nobody looks at an idle one.

        Args:
            now_s: the time.
        """
        if not self.is_standing or self.turnover_s == 0.0:
            return False
        if self._lasts_s:
            return True
        passed_s = now_s - self._observed_s
        return self._share * exp(-passed_s / self._span_s) >= _STANDING_UNTIL

    def observe(self, num_in_line: int, now_s: float) -> None:
        """Look at the line after a step is planned.

        Args:
            num_in_line: live requests that this step does not begin.
            now_s: the time.
        """
        self.is_standing = self.stands(now_s)
        passed_s = min(now_s - self._observed_s, _MAX_STEP_S)
        num_begun, self.num_in_line = max(self.num_in_line - num_in_line, 0), num_in_line
        self._observed_s = now_s
        if self.turnover_s == 0.0 or passed_s <= 0.0:
            return
        turnover_s = self._span_s
        self.rate_hz += (num_begun / passed_s - self.rate_hz) * passed_s / _RATE_S
        has_line = num_in_line > 0
        self._lasts_s = self._lasts_s + passed_s if has_line else 0.0
        self._share += (has_line - self._share) * passed_s / turnover_s
        if self._lasts_s >= turnover_s * _STANDING_TURNOVERS:
            if not self.is_standing:
                self.is_standing, self._share = True, 1.0
        elif self._share < _STANDING_UNTIL:
            self.is_standing = False

    @property
    def _span_s(self) -> float:
        return max(self.turnover_s, _MIN_TURNOVER_S)


class Admission:
    """Admits requests by the latest forecast; may be called in any thread.

    Who is refused is told when there should be room: as many are told the same moment as will find
    room in it, and those who come back then are not yet in any forecast.

    Attributes:
        forecast: replaced as a whole by `expect`, never changed.
        line: of live requests; looked at by the engine's thread.
        places: of streams that were admitted before their first request, and of requests that end.
    """

    def __init__(self, num_slots: int, limits: AdmissionLimits | None = None) -> None:
        self.forecast = Forecast(num_slots)
        self.line = StandingLine()
        self.places = Places()
        self._limits = limits or AdmissionLimits()
        self._lock = Lock()
        self._returns_s: deque[float] = deque(maxlen=_MAX_RETURNS * num_slots)

    def expect(self, forecast: Forecast) -> None:
        """Admit by another forecast from now on."""
        self.forecast, self.line.turnover_s = forecast, forecast.turnover_s

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
        num_left = self.places.num_left(is_live=is_live)
        num_open = max(num_open - num_left, 0) + self.places.num_kept(is_live=is_live)
        num_ahead = num_open - forecast.num_streams
        if num_ahead < 0:
            # There is room for another stream in real time. Requests that wait for their first
            # frame wait for streams that are made faster than they are played.
            return
        if is_live and self.line.stands(now_s) and self._limits.max_wait_s < inf:
            num_too_many = self.line.num_in_line - self._max_standing_line(forecast)
            if num_too_many >= 0:
                retry_after_s = self._retry_after_s(num_too_many, now_s)
                raise OverloadedError(STREAMS_ARE_MANY, retry_after_s=retry_after_s)
        wait_s = max(forecast.end_s(num_ahead) - now_s, 0.0)
        num_streams = forecast.num_streams
        if not self._limits.is_met(num_ahead, wait_s, is_live=is_live, num_streams=num_streams):
            retry_after_s = self._retry_after_s(num_ahead, now_s)
            raise OverloadedError(STREAMS_ARE_MANY, retry_after_s=retry_after_s)

    def _max_standing_line(self, forecast: Forecast) -> float:
        """Return how many may wait while the line stands: what begins in its longest wait."""
        wait_s = self._limits.max_wait_s * _STANDING_SHARE + _STANDING_STEPS * forecast.step_s
        return max(self.line.rate_hz * wait_s, _MIN_STANDING_LINE)

    def _retry_after_s(self, num_before: float, now_s: float) -> float:
        """Return when a request should come back for which as many must end before.

        Beside them, those will come who were told an earlier time.
        """
        with self._lock:
            while self._returns_s and self._returns_s[0] <= now_s:
                self._returns_s.popleft()
            end_s = self.forecast.end_s(int(num_before) + len(self._returns_s))
            return_s = max(end_s, now_s + MIN_RETRY_AFTER_S)
            if self._returns_s:
                return_s = max(return_s, self._returns_s[-1])
            self._returns_s.append(return_s)
        return self._limits.retry_after_s(return_s - now_s)


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
    return Forecast(num_streams, tuple(ends_s), now_s, frame_s)


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
