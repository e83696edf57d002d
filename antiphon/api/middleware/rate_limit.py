"""What one key may ask for: so much at once, and so much in a minute.

Where no key is asked for, an address stands for whoever calls from it.
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


@dataclass(slots=True)
class _Account:
    """One caller's: tokens fill up steadily, and each request takes one."""

    num_tokens: float
    filled_s: float
    num_open: int = 0
    num_reading: int = 0

    @property
    def is_in_use(self) -> bool:
        return bool(self.num_open or self.num_reading)


class RateLimits:
    """Accounts of all callers."""

    def __init__(self, limits: LimitSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """Allow each caller what ``limits`` say; ``clock`` gives seconds."""
        self._per_minute = limits.key_requests_per_minute
        self._max_open = limits.key_concurrency
        self._clock = clock
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    @property
    def has_limits(self) -> bool:
        return bool(self._per_minute or self._max_open)

    @contextmanager
    def used(self, caller: str) -> Generator[Mapping[str, str], None, None]:
        """Count a request for as long as the block lasts; give the headers that tell the rest.

        Raises:
            RateLimitError: it is more than is allowed; it says when to come again.
        """
        account = self._account(caller)
        if self._max_open and account.num_open >= self._max_open:
            message = f"Too many requests at once: at most {self._max_open} are allowed."
            raise RateLimitError(message, retry_after_s=1.0)
        if self._per_minute:
            self._take(account)
        account.num_open += 1
        try:
            yield self._told(account)
        finally:
            account.num_open -= 1

    @contextmanager
    def reading(self, caller: str) -> Generator[None, None, None]:
        """Count a request that only reads, an event stream perhaps: they have places of their own.

        Raises:
            RateLimitError: too many are open.
        """
        account, most = self._account(caller), max(MIN_READS, self._max_open)
        if self._max_open and account.num_reading >= most:
            message = f"Too many requests at once: at most {most} that read are allowed."
            raise RateLimitError(message, retry_after_s=1.0)
        account.num_reading += 1
        try:
            yield
        finally:
            account.num_reading -= 1

    def _take(self, account: _Account) -> None:
        now_s = self._clock()
        per_s = self._per_minute / _MINUTE_S
        filled = account.num_tokens + (now_s - account.filled_s) * per_s
        account.num_tokens, account.filled_s = min(filled, float(self._per_minute)), now_s
        if account.num_tokens < 1:
            raise RateLimitError(
                f"Rate limit reached: {self._per_minute} requests per minute.",
                retry_after_s=(1 - account.num_tokens) / per_s,
            )
        account.num_tokens -= 1

    def _told(self, account: _Account) -> Mapping[str, str]:
        """Return OpenAI's headers, if there is a rate to be told."""
        if not self._per_minute:
            return {}
        missing = self._per_minute - account.num_tokens
        return {
            "x-ratelimit-limit-requests": str(self._per_minute),
            "x-ratelimit-remaining-requests": str(int(account.num_tokens)),
            "x-ratelimit-reset-requests": duration(missing * _MINUTE_S / self._per_minute),
        }

    def _account(self, caller: str) -> _Account:
        account = self._accounts.get(caller)
        if account is None:
            account = self._accounts[caller] = _Account(float(self._per_minute), self._clock())
            self._forget()
        self._accounts.move_to_end(caller)
        return account

    def _forget(self) -> None:
        """Forget those of before that have nothing open, if there are too many."""
        for name in tuple(self._accounts)[: max(0, len(self._accounts) - MAX_CALLERS)]:
            if not self._accounts[name].is_in_use:
                del self._accounts[name]


class RateLimitMiddleware:
    """Counts what makes work (WebSockets, HTTP requests that do not just read), and the rest."""

    def __init__(self, app: ASGIApp, quotas: RateLimits, keys: KeyRing) -> None:
        self._app = app
        self._quotas = quotas
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_free = scope["type"] == "lifespan" or scope["path"] in PROBES
        if is_free or not self._quotas.has_limits:
            await self._app(scope, receive, send)
            return
        caller = caller_of(scope, self._keys)
        if not _makes_work(scope):
            with self._quotas.reading(caller):
                await self._app(scope, receive, send)
            return
        with self._quotas.used(caller) as told:

            async def telling(message: Message) -> None:
                if message["type"].endswith("http.response.start"):
                    MutableHeaders(scope=message).update(told)
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
