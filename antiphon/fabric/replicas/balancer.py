"""Load balancing of requests over replicas: by slack, by affinity, without failed replicas."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from random import Random

from antiphon.contracts.prompt import Prompt
from antiphon.telemetry.stage_status import EngineStats, StageStatus

_KEY_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineLimits:
    """Quarantine times of replicas that have failed.

    Attributes:
        first_s: quarantine after the first failure; it doubles with each failure without a success.
    """

    first_s: float = 0.25
    longest_s: float = 30.0

    def pause_s(self, num_failures: int) -> float:
        """Return the quarantine after a number of consecutive failures; 0 after none."""
        if not num_failures:
            return 0.0
        return min(self.first_s * 2.0 ** min(num_failures - 1, 32), self.longest_s)


@dataclass(slots=True)
class _Member:
    """State of a replica.

    Attributes:
        num_open: open requests of this balancer's owner.
        num_open_then: value of ``num_open`` when ``status`` arrived.
        free_at_s: end of its quarantine.
    """

    status: StageStatus = field(default_factory=StageStatus)
    num_open: int = 0
    num_open_then: int = 0
    num_failures: int = 0
    free_at_s: float = -inf

    @property
    def slack(self) -> int:
        """Free capacity, less the requests that were opened since the status was pushed."""
        num_others = max(0, self.status.num_open - self.num_open_then)
        return self.status.capacity - num_others - self.num_open


class Balancer:
    """Balances the requests of one stage over its replicas; pure but for the clock.

    Of two random replicas the one with more slack is chosen (power of two choices): statuses are
    late, and with the best of all replicas every front end would choose the same one. A request
    with a key goes to the replica that the key maps to, as long as that has slack. Keys are mapped
    by rendezvous hashing: equally in all front ends, and few change when replicas come and go.
    """

    def __init__(
        self,
        *,
        limits: QuarantineLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self._limits = limits or QuarantineLimits()
        self._clock = clock
        self._random = random or Random()
        self._members: dict[str, _Member] = {}

    def begin(self, replica: str) -> None:
        """Count a request that is opened at a replica."""
        self._member(replica).num_open += 1

    def end(self, replica: str) -> None:
        """Count the end of a request; does nothing if the replica was forgotten."""
        if (member := self._members.get(replica)) is not None:
            member.num_open -= 1

    def fail(self, replica: str) -> float:
        """Put a replica in quarantine; return its remaining time in seconds.

        Further failures during the quarantine change nothing: they have the same cause.
        """
        member, now_s = self._member(replica), self._clock()
        if now_s >= member.free_at_s:
            member.num_failures += 1
            member.free_at_s = now_s + self._limits.pause_s(member.num_failures)
        return member.free_at_s - now_s

    def is_quarantined(self, replica: str) -> bool:
        return self._clock() < self._member(replica).free_at_s

    def succeed(self, replica: str) -> None:
        """Record an item from a replica: its next quarantine is short again."""
        member = self._member(replica)
        if member.num_failures and self._clock() >= member.free_at_s:
            member.num_failures = 0

    def forget(self, replica: str) -> None:
        """Drop the state of a replica that no longer exists."""
        self._members.pop(replica, None)

    def choose(self, statuses: Mapping[str, StageStatus], key: bytes | None = None) -> str | None:
        """Return the replica for a request; ``None``: no replica is available.

        Args:
            key: cache key; requests with equal keys should go to the same replica.
        """
        now_s = self._clock()
        working = [
            id
            for id, status in statuses.items()
            if status.failure is None and now_s >= self._member(id).free_at_s
        ]
        if not working:
            return None
        for each in working:
            self._see(each, statuses[each])
        if key is not None:
            owner = max(working, key=lambda each: _score(key, each))
            if self._members[owner].slack > 0:
                return owner
        drawn = self._random.sample(working, min(2, len(working)))
        return max(drawn, key=lambda each: self._members[each].slack)

    def wait_s(self, replicas: Collection[str]) -> float:
        """Return the time until the first of these leaves its quarantine; ``inf`` for none."""
        frees_s = (self._member(each).free_at_s for each in replicas)
        return max(min(frees_s, default=inf) - self._clock(), 0.0)

    def slack(self, replica: str) -> int:
        """Return the free capacity of a replica."""
        return self._member(replica).slack

    def _member(self, replica: str) -> _Member:
        return self._members.setdefault(replica, _Member())

    def _see(self, replica: str, status: StageStatus) -> None:
        member = self._members[replica]
        if status is not member.status:
            member.status, member.num_open_then = status, member.num_open


def affinity_key(prompt: Prompt) -> bytes | None:
    """Return the cache key of a prompt's voice; ``None`` if replicas cache nothing of it."""
    frames = prompt.context_frames
    if frames is None:
        return None
    return blake2b(frames.tobytes(), digest_size=_KEY_BYTES).digest()


def summed(statuses: Collection[StageStatus]) -> StageStatus:
    """Return the combined status of a stage's replicas.

    The stage has failed, or is stalled, only if all replicas have, or are.
    """
    if not statuses:
        return StageStatus(num_replicas=0)  # its cluster starts one, or waits for a host
    failures = [each.failure for each in statuses]
    working = [each for each in statuses if each.failure is None] or [*statuses]
    began_s = [each.step_began_s for each in working]
    known_s = [each for each in began_s if each is not None]
    stats = [each.stats for each in statuses if each.stats is not None]
    return StageStatus(
        num_open=sum(each.num_open for each in statuses),
        capacity=sum(each.capacity for each in working if each.failure is None),
        failure=None if None in failures else failures[0],
        step_began_s=max(known_s) if len(known_s) == len(began_s) else None,
        num_bytes=sum(each.num_bytes for each in statuses),
        stats=EngineStats.summed(stats) if len(stats) > 1 else next(iter(stats), None),
        num_replicas=failures.count(None),
    )


def _score(key: bytes, replica: str) -> bytes:
    return blake2b(replica.encode(), key=key, digest_size=8).digest()
