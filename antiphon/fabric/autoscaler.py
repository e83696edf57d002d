"""How many replicas of a stage there should be, by how full their playback capacity is.

The rule is that of Kubernetes' HorizontalPodAutoscaler: so many replicas that their load comes to a
target, at once when it grows, and only after a window in which fewer would always have done when it
shrinks.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.fabric.base import Placement
from antiphon.telemetry.stage_status import StageStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerLimits:
    """Between what, and how readily, a stage is scaled.

    Attributes:
        min_replicas: at least 1.
        max_replicas: at least ``min_replicas``.
        target_load: open requests as a share of the playback capacity of all replicas.
        tolerance: relative difference from ``target_load`` that changes nothing.
        up_cooldown_s: between two steps up, so that new replicas are loaded and counted.
        down_window_s: for which fewer replicas must have been enough.
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
    """Decides for one stage; pure, with the time as an argument."""

    def __init__(self, limits: AutoscalerLimits, *, now_s: float) -> None:
        """Begin without history: the first step down takes a whole window."""
        self.limits = limits
        self._began_s = now_s
        self._last_up_s = -math.inf
        self._needed: deque[tuple[float, int]] = deque()

    def wanted(self, statuses: Sequence[StageStatus], num_replicas: int, now_s: float) -> int:
        """Return how many replicas there should be.

        Args:
            statuses: of those that serve and are not being drained.
            num_replicas: that there should be so far, those that are being loaded included.
            now_s: of a monotonic clock; never before that of the last call.
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
        """Return what the load of this moment asks for; as many as now if nothing is known."""
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
