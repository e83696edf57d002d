"""How often one address may come with a wrong key.

An address may be that of many (a proxy's, a household's): callers with a right key go on
while the others wait.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from antiphon.errors import RateLimitError

MAX_ADDRESSES = 10_000
"""That are remembered; of more, those are forgotten that were seen longest ago."""
MAX_OWNERS = 64
_MINUTE_S = 60.0


@dataclass(slots=True)
class _Record:
    """One address's: tries fill up steadily, and each wrong key takes one."""

    num_tries: float
    filled_s: float
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
        if record.num_tries < 1:
            wait_s = (1 - record.num_tries) * _MINUTE_S / self._per_minute
            message = "Too many wrong API keys from this address."
            raise RateLimitError(message, retry_after_s=wait_s)
        if owner is None:
            record.num_tries -= 1
        else:
            record.owners[owner] = None
            if len(record.owners) > MAX_OWNERS:
                record.owners.popitem(last=False)

    def _record(self, address: str) -> _Record:
        now_s, full = self._clock(), float(self._per_minute)
        record = self._records.setdefault(address, _Record(full, now_s))
        self._records.move_to_end(address)
        if len(self._records) > MAX_ADDRESSES:
            self._records.popitem(last=False)
        filled = record.num_tries + (now_s - record.filled_s) * full / _MINUTE_S
        record.num_tries, record.filled_s = min(filled, full), now_s
        return record
