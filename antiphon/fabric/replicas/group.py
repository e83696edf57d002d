"""Replicas of one engine's stages, as a cluster reports them, and the choice among them."""

import asyncio
import logging
from collections.abc import Collection
from contextlib import aclosing, suppress
from operator import is_not

from antiphon.errors import AntiphonError
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.cluster.client import ClusterClient
from antiphon.fabric.replicas.balancer import Balancer, QuarantineLimits, summed
from antiphon.fabric.replicas.link import ReplicaLimits, ReplicaLink
from antiphon.fabric.wire.stage_client import StageConnections
from antiphon.telemetry.stage_status import StageStatus

logger = logging.getLogger(__name__)

_WATCH_AGAIN_S = 1.0


class ReplicaGroup:
    """Follows the replicas of one hosted stage, with a link to each.

    Attributes:
        num_users: number of unreleased `host` calls; kept by its owner.
        balancer: choice among the replicas, and the counts that it is made by.
        is_closed: whether no replica will be added.
    """

    def __init__(
        self,
        stage_id: str,
        cluster: ClusterClient,
        connections: StageConnections,
        limits: ReplicaLimits,
        quarantine: QuarantineLimits | None = None,
    ) -> None:
        self.stage_id = stage_id
        self.num_users = 0
        self.is_closed = False
        self._cluster = cluster
        self._connections = connections
        self._limits = limits
        self.balancer = Balancer(limits=quarantine)
        self._links: dict[str, ReplicaLink] = {}
        self._summed: tuple[list[StageStatus], StageStatus] = ([], summed([]))
        self._changed = asyncio.Event()
        self._watching = asyncio.create_task(self._watch(), name=f"watch {stage_id}")

    @property
    def status(self) -> StageStatus:
        """Combined last statuses of all replicas."""
        statuses = [each.status for each in self._links.values() if each.is_open]
        # It is read a dozen times a request, and changes a few times a second; the statistics of
        # each replica take 60 us to sum.
        if len(statuses) != len(self._summed[0]) or any(map(is_not, statuses, self._summed[0])):
            self._summed = statuses, summed(statuses)
        return self._summed[1]

    @property
    def reachable(self) -> tuple[str, ...]:
        """Ids of replicas that take requests, those in quarantine included."""
        return tuple(
            id for id, each in self._links.items() if each.is_open and not each.replica.is_draining
        )

    def choose(
        self, *, key: bytes | None = None, avoid: Collection[str] = ()
    ) -> ReplicaLink | None:
        """Return the replica for a request; ``None``: none takes it now.

        Args:
            key: cache key; see `Balancer.choose`.
            avoid: ids of replicas that have refused it.
        """
        statuses = {id: self._links[id].status for id in self.reachable if id not in avoid}
        chosen = self.balancer.choose(statuses, key)
        return None if chosen is None else self._links[chosen]

    async def wait(self, longest_s: float) -> None:
        """Wait until `choose` may return another result, or `wake` was called."""
        free_s = self.balancer.wait_s(self.reachable) or _WATCH_AGAIN_S
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(longest_s, free_s, _WATCH_AGAIN_S))):
                await self._changed.wait()

    def wake(self) -> None:
        self._changed.set()

    def lose(self, replica_id: str) -> float:
        """Put a replica in quarantine and report it; return the remaining seconds."""
        if replica_id not in self._links:
            return _WATCH_AGAIN_S
        if not self.balancer.is_quarantined(replica_id):
            self._cluster.report(self.stage_id, replica_id)
        self.wake()
        return self.balancer.fail(replica_id)

    def close(self) -> None:
        self.is_closed = True
        self._watching.cancel()
        for link in self._links.values():
            link.close()
        self._links.clear()
        self.wake()

    async def _watch(self) -> None:
        while True:
            try:
                async with aclosing(self._cluster.watch(self.stage_id)) as changes:
                    async for replicas in changes:
                        self._update(replicas)
            except AntiphonError as error:
                logger.warning("the cluster does not answer: %s", error)
            await asyncio.sleep(_WATCH_AGAIN_S)

    def _update(self, replicas: Collection[Replica]) -> None:
        present = {each.id: each for each in replicas}
        for id in self._links.keys() - present.keys():
            self._links.pop(id).close()
            self.balancer.forget(id)
        for id, replica in present.items():
            if (link := self._links.get(id)) is not None:
                link.replica = replica
                continue
            self._links[id] = ReplicaLink(
                replica,
                self._connections,
                self._limits,
                on_change=self.wake,
                on_loss=self.lose,
            )
        self.wake()
