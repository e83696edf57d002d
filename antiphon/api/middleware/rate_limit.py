"""Rate limits of one key: requests at once, and requests in a minute.

Where no key is asked for, the address stands for the caller.
"""

import math
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.api.middleware.base import MORE_HEADERS
from antiphon.api.middleware.connection_limits import PROBES, makes_work
from antiphon.api.middleware.keys import KeyRing, caller_of
from antiphon.api.middleware.limit_table import LimitTable, TokenBucket
from antiphon.config import LimitSettings
from antiphon.errors import RateLimitError

_MINUTE_S = 60.0
MIN_READS = 32
"""Reading requests that a caller may have open where others are limited to fewer."""


class RateLimits:
    """What all callers have open, and may still open."""

    def __init__(
        self,
        limits: LimitSettings,
        table: LimitTable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Limit each caller by ``limits``."""
        self._table = table
        self._per_minute = limits.key_requests_per_minute
        self._max_open = limits.key_concurrency
        self._clock = clock

    @property
    def has_limits(self) -> bool:
        return bool(self._per_minute or self._max_open)

    @contextmanager
    def used(self, caller: str) -> Generator[Mapping[str, str], None, None]:
        """Count a request during the block; yield the rate-limit headers; raises RateLimitError."""
        headers: Mapping[str, str] = {}
        with self._counted(f"working {caller}", self._max_open, "are"):
            if self._per_minute:
                headers = self._take_token(f"rate {caller}")
            yield headers

    @contextmanager
    def reading(self, caller: str) -> Generator[None, None, None]:
        """Count a request that only reads, an event stream perhaps: they have places of their own.

        Raises:
            RateLimitError: too many are open.
        """
        with self._counted(f"reading {caller}", max(MIN_READS, self._max_open), "that read are"):
            yield

    @contextmanager
    def _counted(self, name: str, most: int, which: str) -> Generator[None, None, None]:
        if not self._max_open:
            yield
            return
        with self._table.locked():
            if self._table.count(name) >= most:
                message = f"Too many requests at once: at most {most} {which} allowed."
                raise RateLimitError(message, retry_after_s=1.0)
            self._table.add(name, 1)
        try:
            yield
        finally:
            with self._table.locked():
                self._table.add(name, -1)

    def _take_token(self, name: str) -> Mapping[str, str]:
        """Take a token from a bucket; return OpenAI's rate-limit headers."""
        with self._table.locked():
            now_s = self._clock()
            bucket = self._table.bucket(name) or TokenBucket(self._per_minute, now_s)
            wait_s = bucket.wait_s(self._per_minute, now_s)
            if not wait_s:
                bucket.num_tokens -= 1
            self._table.keep(name, bucket)
        if wait_s:
            message = f"Rate limit reached: {self._per_minute} requests per minute."
            raise RateLimitError(message, retry_after_s=wait_s)
        missing = self._per_minute - bucket.num_tokens
        return {
            "x-ratelimit-limit-requests": str(self._per_minute),
            "x-ratelimit-remaining-requests": str(int(bucket.num_tokens)),
            "x-ratelimit-reset-requests": duration(missing * _MINUTE_S / self._per_minute),
        }


class RateLimitMiddleware:
    """Counts what makes work (WebSockets, HTTP requests that do not just read), and the rest."""

    def __init__(self, app: ASGIApp, limits: RateLimits, keys: KeyRing) -> None:
        self._app = app
        self._limits = limits
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES or not self._limits.has_limits:
            await self._app(scope, receive, send)
            return
        caller = caller_of(scope, self._keys)
        if not makes_work(scope):
            with self._limits.reading(caller):
                await self._app(scope, receive, send)
            return
        with self._limits.used(caller) as headers:
            scope[MORE_HEADERS] = headers
            await self._app(scope, receive, send)


def duration(seconds: float) -> str:
    """Spell a time as OpenAI's headers do: ``20ms``, ``1.5s``, ``6m0s``."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"
