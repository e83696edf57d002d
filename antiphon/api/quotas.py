"""What one key may ask for: so much at once, and so much in a minute.

Where no key is asked for, an address stands for whoever calls from it.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.keys import KeyRing
from antiphon.config import LimitSettings
from antiphon.errors import RateLimitError

MAX_CALLERS = 10_000
"""Callers that are remembered; of more, those are forgotten that were seen longest ago."""
_MINUTE_S = 60.0
_READING = ("GET", "HEAD", "OPTIONS")
_HOST_BITS = 64
"""One household has so many IPv6 addresses."""


@dataclass(slots=True)
class _Account:
    """One caller's: tokens fill up steadily, and each request takes one."""

    num_tokens: float
    filled_s: float
    num_open: int = 0


class Quotas:
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
            if not self._accounts[name].num_open:
                del self._accounts[name]


class QuotaMiddleware:
    """Counts what makes work: WebSockets, and all HTTP requests that do not just read."""

    def __init__(self, app: ASGIApp, quotas: Quotas, keys: KeyRing) -> None:
        self._app = app
        self._quotas = quotas
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._quotas.has_limits or not _makes_work(scope):
            await self._app(scope, receive, send)
            return
        with self._quotas.used(self._caller(scope)) as told:

            async def telling(message: Message) -> None:
                if message["type"].endswith("http.response.start"):
                    MutableHeaders(scope=message).update(told)
                await send(message)

            await self._app(scope, receive, telling)

    def _caller(self, scope: Scope) -> str:
        owner = self._keys.owner(Headers(scope=scope))
        return f"key {owner}" if owner else f"address {address_of(scope)}"


def address_of(scope: Scope) -> str:
    """Return whom a connection comes from, as far as it can be told apart from others."""
    client = scope.get("client")
    return address_key(client[0] if client else "")


def address_key(host: str) -> str:
    """Return what stands for an address, and for all that one household has of IPv6."""
    try:
        address = ip_address(host)
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> _HOST_BITS << _HOST_BITS))
    return str(address)


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
