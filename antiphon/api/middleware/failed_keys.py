"""Limit of failed authentications per address.

An address may be that of many (a proxy's, a household's): callers with a right key go on
while the others wait.
"""

import time
from collections.abc import Callable

from antiphon.api.middleware.limit_table import LimitTable, TokenBucket
from antiphon.errors import RateLimitError


class FailedKeys:
    """Wrong keys of all addresses, and the right ones that they have come with."""

    def __init__(
        self,
        per_minute: int,
        table: LimitTable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow some wrong keys.

        Args:
            per_minute: Failures of one address in a minute; 0: any number.
        """
        self._per_minute = per_minute
        self._table = table
        self._clock = clock

    def check(self, address: str, owner: str | None) -> None:
        """Count a key that was given; ``owner`` is whose it is, ``None`` if it is wrong.

        Raises:
            RateLimitError: there were too many wrong ones, whether this one is right or not.
        """
        if not self._per_minute:
            return
        now_s = self._clock()
        known = f"right key {address} {owner}"
        with self._table.locked():
            if owner is not None and self._table.bucket(known) is not None:
                self._table.keep(known, TokenBucket(0.0, now_s))
                return
            name = f"wrong keys {address}"
            bucket = self._table.bucket(name) or TokenBucket(self._per_minute, now_s)
            wait_s = bucket.wait_s(self._per_minute, now_s)
            if not wait_s and owner is None:
                bucket.num_tokens -= 1
            self._table.keep(name, bucket)
            if not wait_s and owner is not None:
                self._table.keep(known, TokenBucket(0.0, now_s))
        if wait_s:
            message = "Too many wrong API keys from this address."
            raise RateLimitError(message, retry_after_s=wait_s)
