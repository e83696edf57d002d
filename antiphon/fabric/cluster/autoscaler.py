"""Autoscaling of a stage's replicas by the use of their playback capacity.

The rule is that of Kubernetes' HorizontalPodAutoscaler: enough replicas to bring their load to a
target, at once when the load grows, and after a window in which fewer would always have been enough
when it shrinks.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.fabric.base import Placement
from antiphon.telemetry.stage_status import StageStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerLimits:
    """Bounds and time constants of a stage's autoscaling.

    Attributes:
        min_replicas: least number of replicas, at least 1.
        max_replicas: largest number of replicas, at least ``min_replicas``.
        target_load: open requests as a share of the playback capacity of all replicas.
        tolerance: relative difference from ``target_load`` that changes nothing.
        up_cooldown_s: time between two steps up, in which new replicas are loaded and counted.
        down_window_s: time for which fewer replicas must have been enough.
    """

    min_replicas: int
    max_replicas: int
    target_load: float = 0.7
    tolerance: float = 0.1
    up_cooldown_s: float = 10.0
    down_window_s: float = 120.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_replicas <= self.max_replicas:
            raise ValueError("replicas: 1 <= min_replicas <= max_replicas")
        if not 0 < self.target_load <= 1 or not 0 <= self.tolerance < 1:
            raise ValueError("target_load is a share above 0, tolerance a share below 1")

    @classmethod
    def of(cls, placement: Placement) -> "AutoscalerLimits | None":
        """Return the limits of a placement; ``None`` if its number of replicas is fixed."""
        low, high = placement.min_replicas, placement.max_replicas
        if high is None or high <= low:
            return None
        return cls(min_replicas=low, max_replicas=high)


class Autoscaler:
    """Autoscaler of one stage; pure, with the time as an argument."""

    def __init__(self, limits: AutoscalerLimits, *, now_s: float) -> None:
        """Begin without history: the first step down takes a whole window."""
        self.limits = limits
        self._began_s = now_s
        self._last_up_s = -math.inf
        self._needed: deque[tuple[float, int]] = deque()

    def wanted(self, statuses: Sequence[StageStatus], num_replicas: int, now_s: float) -> int:
        """Return the number of replicas that the stage is to have.

        Args:
            statuses: statuses of the replicas that serve and are not being drained.
            num_replicas: current target, replicas that are being loaded included.
            now_s: time of a monotonic clock, not before that of the last call.
        """
        current = self._clamped(num_replicas)
        needed = self._clamped(self._needed_by(statuses, current))
        self._needed.append((now_s, needed))
        while self._needed[0][0] < now_s - self.limits.down_window_s:
            self._needed.popleft()
        if needed > current:
            if now_s - self._last_up_s < self.limits.up_cooldown_s:
                return current
            self._last_up_s = now_s
            return needed
        if now_s - self._began_s < self.limits.down_window_s:
            return current
        return min(current, max(number for _, number in self._needed))

    def _needed_by(self, statuses: Sequence[StageStatus], current: int) -> int:
        """Return the number that the load requires; the current one if no replica has reported."""
        capacities = [each.capacity for each in statuses if each.capacity > 0]
        if not capacities:
            return current
        num_open = sum(each.num_open for each in statuses)
        capacity = sum(capacities) / len(capacities)
        load = num_open / (capacity * current)
        if abs(load / self.limits.target_load - 1) <= self.limits.tolerance:
            return current
        return math.ceil(num_open / (capacity * self.limits.target_load))

    def _clamped(self, number: int) -> int:
        return min(max(number, self.limits.min_replicas), self.limits.max_replicas)
