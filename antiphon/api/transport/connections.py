"""All open connections: how many there are, and which one makes room for another.

A connection is busy while a request of it is under way, which `ConnectionLimits` bounds, and while
bytes of it wait for the parser: none is accepted while very many do (see `FeedQueue`). The others
(silent, half a request, kept alive, about to be closed) are idle. There is always room for a new
connection: where too many are idle, the one that has been so for longest is cut.
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.api.middleware.keys import address_key
from antiphon.config import LimitSettings
from antiphon.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

OTHER_FILES = 256
"""Descriptors that are kept for all else: models, the database, fetches, pipes."""
MIN_OPEN = 64

Cut = Callable[[str], None]
"""Ends a connection at once, for a reason of one word."""


@dataclass(slots=True, eq=False)
class Membership:
    """What is known of one connection.

    Attributes:
        address: whom it comes from.
        cut: ends it at once.
    """

    address: str
    cut: Cut


class Connections:
    """Counts connections, and cuts the oldest idle one where there are too many."""

    def __init__(
        self, limits: LimitSettings, metrics: Metrics, max_open: int = sys.maxsize
    ) -> None:
        """Begin without any; ``max_open`` is how many there may be, idle or not."""
        self._max_idle = limits.max_idle_connections
        self._max_idle_of_one = limits.idle_connections_per_address
        self._max_open = max_open
        self._metrics = metrics
        self._num_open = 0
        self._idle: dict[Membership, None] = {}  # in the order in which they became so
        self._idle_of: dict[str, dict[Membership, None]] = {}

    def __len__(self) -> int:
        return self._num_open

    def add(self, host: str, cut: Cut) -> Membership:
        """Add an idle connection; ``cut`` is called to make room for others, then `remove`."""
        member = Membership(address_key(host), cut)
        self._num_open += 1
        self._metrics.connections_open.set(self._num_open)
        self.idle(member)
        return member

    def remove(self, member: Membership) -> None:
        self.busy(member)
        self._num_open -= 1
        self._metrics.connections_open.set(self._num_open)

    def busy(self, member: Membership) -> None:
        """Keep a connection: it waits for this server, not for its client."""
        if member in self._idle:
            del self._idle[member]
            own = self._idle_of[member.address]
            del own[member]
            if not own:
                del self._idle_of[member.address]

    def idle(self, member: Membership) -> None:
        """Note that it waits for its client; the longest idle connection may be cut."""
        if member in self._idle:
            return
        own = self._idle_of.setdefault(member.address, {})
        self._idle[member] = own[member] = None
        if len(own) > self._max_idle_of_one:
            self._cut(next(iter(own)))
        elif len(self._idle) > self._max_idle or self._num_open > self._max_open:
            self._cut(next(iter(self._idle)))

    def _cut(self, member: Membership) -> None:
        self.busy(member)  # it is not chosen again
        member.cut("crowded")


def max_open_connections(limits: LimitSettings) -> int:
    """Raise the limit of descriptors as far as it goes; return how many connections it leaves.

    A warning is logged if that is less than the other limits allow.
    """
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # macOS: the hard limit may be more than is allowed
        logger.info("the limit of open files stays as it is: %s", error)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    left = max(MIN_OPEN, soft - OTHER_FILES)
    wanted = limits.max_requests + limits.max_sockets + limits.max_idle_connections
    if left < wanted:
        logger.warning(
            "%d open files are allowed: at most %d connections at once, of %d in the settings",
            *(soft, left, wanted),
        )
    return left
