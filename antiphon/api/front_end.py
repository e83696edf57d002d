"""One HTTP process of a server: alone, or beside others that listen on the same port."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from antiphon.api.middleware.limit_table import LimitTable, LocalLimitTable
from antiphon.config import LimitSettings
from antiphon.fabric.cluster.client import ClusterClient

MIN_SHARE = 16


def _alone(num_connections: int) -> list[int]:
    return [num_connections]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEnd:
    """What a front end shares with the others; by default there are none.

    Attributes:
        metrics: folder of the metrics that they share; ``None``: it has its own.
        connect: connects to the cluster that runs the stages; ``None``: see `open_fabric`.
        publish_connections: takes the number of its connections; returns those of all front ends.
    """

    index: int = 0
    number: int = 1
    table: LimitTable = field(default_factory=LocalLimitTable)
    metrics: Path | None = None
    connect: Callable[[], Awaitable[ClusterClient]] | None = None
    publish_connections: Callable[[int], list[int]] = _alone

    def share_of(self, limits: LimitSettings) -> LimitSettings:
        """Return limits with this one's share of what each front end counts for itself.

        Those are idle connections, which cost little, and of which the oldest may go at any time.
        """
        return limits.model_copy(
            update={
                name: max(MIN_SHARE, -(-vars(limits)[name] // self.number))
                for name in ("max_idle_connections", "idle_connections_per_address")
            }
        )
