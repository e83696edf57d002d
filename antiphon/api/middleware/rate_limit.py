"""What one key may ask for: so much at once, and so much in a minute.

Where no key is asked for, the address stands for the caller.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.callers import caller_of
from antiphon.api.middleware.connection_limits import PROBES
from antiphon.api.middleware.keys import KeyRing
from antiphon.config import LimitSettings
from antiphon.errors import RateLimitError

MAX_CALLERS = 10_000
"""Callers that are remembered; of more, those are forgotten that were seen longest ago."""
_MINUTE_S = 60.0
_READING = ("GET", "HEAD", "OPTIONS")
MIN_READS = 32
"""Reading requests that a caller may have open where others are limited to fewer."""


class TokenBucket:
    """Tokens that are added steadily, up to those of a minute."""

    def __init__(self, per_minute: int, now_s: float) -> None:
        self._per_minute = per_minute
        self._filled_s = now_s
        self.num_tokens = float(per_minute)

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until there is a token, 0 if there is one."""
        per_s = self._per_minute / _MINUTE_S
        filled = self.num_tokens + (now_s - self._filled_s) * per_s
        self.num_tokens, self._filled_s = min(filled, float(self._per_minute)), now_s
        return max(0.0, (1 - self.num_tokens) / per_s)


@dataclass(slots=True)
class _Caller:
    """What one caller has open, and may still open."""

    bucket: TokenBucket
    num_open: int = 0
    num_reading: int = 0

    @property
    def is_in_use(self) -> bool:
        return bool(self.num_open or self.num_reading)


class RateLimits:
    """What all callers have open, and may still open."""

    def __init__(self, limits: LimitSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """Allow each caller what ``limits`` say; ``clock`` gives seconds."""
        self._per_minute = limits.key_requests_per_minute
        self._max_open = limits.key_concurrency
        self._clock = clock
        self._callers: OrderedDict[str, _Caller] = OrderedDict()

    @property
    def has_limits(self) -> bool:
        return bool(self._per_minute or self._max_open)

    @contextmanager
    def used(self, caller: str) -> Generator[Mapping[str, str], None, None]:
        """Count a request for as long as the block lasts; yield the rate-limit headers.

        Raises:
            RateLimitError: it is more than is allowed; it says when to come again.
        """
        state = self._caller(caller)
        if self._max_open and state.num_open >= self._max_open:
            message = f"Too many requests at once: at most {self._max_open} are allowed."
            raise RateLimitError(message, retry_after_s=1.0)
        if self._per_minute:
            if wait_s := state.bucket.wait_s(self._clock()):
                message = f"Rate limit reached: {self._per_minute} requests per minute."
                raise RateLimitError(message, retry_after_s=wait_s)
            state.bucket.num_tokens -= 1
        state.num_open += 1
        try:
            yield self._headers(state.bucket)
        finally:
            state.num_open -= 1

    @contextmanager
    def reading(self, caller: str) -> Generator[None, None, None]:
        """Count a request that only reads, an event stream perhaps: they have places of their own.

        Raises:
            RateLimitError: too many are open.
        """
        state, most = self._caller(caller), max(MIN_READS, self._max_open)
        if self._max_open and state.num_reading >= most:
            message = f"Too many requests at once: at most {most} that read are allowed."
            raise RateLimitError(message, retry_after_s=1.0)
        state.num_reading += 1
        try:
            yield
        finally:
            state.num_reading -= 1

    def _headers(self, bucket: TokenBucket) -> Mapping[str, str]:
        """Return OpenAI's rate-limit headers, if there is a limit."""
        if not self._per_minute:
            return {}
        missing = self._per_minute - bucket.num_tokens
        return {
            "x-ratelimit-limit-requests": str(self._per_minute),
            "x-ratelimit-remaining-requests": str(int(bucket.num_tokens)),
            "x-ratelimit-reset-requests": duration(missing * _MINUTE_S / self._per_minute),
        }

    def _caller(self, name: str) -> _Caller:
        state = self._callers.get(name)
        if state is None:
            state = self._callers[name] = _Caller(TokenBucket(self._per_minute, self._clock()))
            self._forget()
        self._callers.move_to_end(name)
        return state

    def _forget(self) -> None:
        """Forget those of before that have nothing open, if there are too many."""
        for name in tuple(self._callers)[: max(0, len(self._callers) - MAX_CALLERS)]:
            if not self._callers[name].is_in_use:
                del self._callers[name]


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
        if not _makes_work(scope):
            with self._limits.reading(caller):
                await self._app(scope, receive, send)
            return
        with self._limits.used(caller) as headers:

            async def telling(message: Message) -> None:
                if message["type"].endswith("http.response.start"):
                    MutableHeaders(scope=message).update(headers)
                await send(message)

            await self._app(scope, receive, telling)


def duration(seconds: float) -> str:
    """Spell a time as OpenAI's headers do: ``20ms``, ``1.5s``, ``6m0s``."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"


def _makes_work(scope: Scope) -> bool:
    if scope["type"] == "http":
        return scope["method"] not in _READING
    return bool(scope["type"] == "websocket")
