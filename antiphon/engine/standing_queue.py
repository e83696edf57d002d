"""Detection of a standing queue, which forms when arrivals exceed capacity."""

from math import exp

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
