"""Counters of limits: numbers by name, and token buckets; of one process, or shared by several.

Names hold what is counted and its owner, such as ``"http key 1a2b"``. All calls return within
microseconds, so that they may be made on an event loop.
"""

from collections import Counter, OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

MAX_BUCKETS = 10_000
"""Token buckets that are remembered; of more, those are forgotten that were used longest ago."""
_MINUTE_S = 60.0


@dataclass(slots=True)
class TokenBucket:
    """Tokens that are added steadily, up to those of a minute.

    Attributes:
        num_tokens: Tokens at the last refill.
        filled_s: Time of the last refill, on the monotonic clock, shared by processes of one host.
    """

    num_tokens: float
    filled_s: float

    def wait_s(self, per_minute: int, now_s: float) -> float:
        """Fill it up; return the seconds until there is a token, 0 if there is one."""
        per_s = per_minute / _MINUTE_S
        filled = self.num_tokens + (now_s - self.filled_s) * per_s
        self.num_tokens, self.filled_s = min(filled, float(per_minute)), now_s
        return max(0.0, (1 - self.num_tokens) / per_s)


class LimitTable(Protocol):
    """Counts and buckets by name; a name that was never used counts 0 and has no bucket."""

    def locked(self) -> AbstractContextManager[None]:
        """Lock the table while the block lasts, which awaits nothing."""

    def count(self, name: str) -> int:
        """Return a count, summed over all processes; inside `locked`."""

    def add(self, name: str, number: int) -> None:
        """Add to this process's part of a count; inside `locked`."""

    def bucket(self, name: str) -> TokenBucket | None:
        """Return a copy of a bucket; inside `locked`."""

    def keep(self, name: str, bucket: TokenBucket) -> None:
        """Store a bucket; inside `locked`."""


class LocalLimitTable:
    """The table of a process that shares nothing; for one thread."""

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        """Remember at most ``max_buckets`` token buckets."""
        self._max_buckets = max_buckets
        self._counts: Counter[str] = Counter()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        """Return how many counts are not 0."""
        return len(self._counts)

    def locked(self) -> AbstractContextManager[None]:
        return nullcontext()

    def count(self, name: str) -> int:
        return self._counts[name]

    def add(self, name: str, number: int) -> None:
        self._counts[name] += number
        if not self._counts[name]:
            del self._counts[name]

    def bucket(self, name: str) -> TokenBucket | None:
        return self._buckets.get(name)

    def keep(self, name: str, bucket: TokenBucket) -> None:
        self._buckets[name] = bucket
        self._buckets.move_to_end(name)
        if len(self._buckets) > self._max_buckets:
            self._buckets.popitem(last=False)
