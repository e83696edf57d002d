"""How often one address may come with a wrong key.

An address may be that of many (a proxy's, a household's): callers with a right key go on
while the others wait.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from antiphon.api.middleware.rate_limit import TokenBucket
from antiphon.errors import RateLimitError

MAX_ADDRESSES = 10_000
"""That are remembered; of more, those are forgotten that were seen longest ago."""
MAX_OWNERS = 64


@dataclass(slots=True)
class _Record:
    """One address's: each wrong key takes a token."""

    bucket: TokenBucket
    owners: "OrderedDict[str, None]" = field(default_factory=OrderedDict)


class FailedKeys:
    """Records of all addresses."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Allow ``per_minute`` wrong keys of one address, 0: any number; ``clock`` in seconds."""
        self._per_minute = per_minute
        self._clock = clock
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def check(self, address: str, owner: str | None) -> None:
        """Count a key that was given; ``owner`` is whose it is, ``None`` if it is wrong.

        Raises:
            RateLimitError: there were too many wrong ones, whether this one is right or not.
        """
        if not self._per_minute:
            return
        record = self._record(address)
        if owner is not None and owner in record.owners:
            record.owners.move_to_end(owner)
            return
        if wait_s := record.bucket.wait_s(self._clock()):
            message = "Too many wrong API keys from this address."
            raise RateLimitError(message, retry_after_s=wait_s)
        if owner is None:
            record.bucket.num_tokens -= 1
        else:
            record.owners[owner] = None
            if len(record.owners) > MAX_OWNERS:
                record.owners.popitem(last=False)

    def _record(self, address: str) -> _Record:
        fresh = _Record(TokenBucket(self._per_minute, self._clock()))
        record = self._records.setdefault(address, fresh)
        self._records.move_to_end(address)
        if len(self._records) > MAX_ADDRESSES:
            self._records.popitem(last=False)
        return record
