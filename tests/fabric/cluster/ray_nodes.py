"""A real Ray cluster on this machine, for tests; it needs the extra ``ray``."""

import os
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import pytest

from antiphon.contracts.family import LoadContext, Ref, StageSpec
from antiphon.contracts.prompt import Piece
from antiphon.errors import EngineError, ModelLoadError
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.cluster.client import ClusterClient
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.ray_plan import RayPlan
from antiphon.fabric.wire.sockets import WireTls
from antiphon.stages.base import Stage, StageRequest, StageStream
from antiphon.telemetry.stage_status import Publish, StageStatus

if TYPE_CHECKING:
    from antiphon.fabric.cluster.ray_client import RayControllerClient

NUM_CPUS = 2
"""CPUs of a node, as few as a small host has."""
_NODE = {
    "num_cpus": NUM_CPUS,
    "num_gpus": 0,
    "object_store_memory": 80 * 2**20,
    "include_dashboard": False,
}


@dataclass
class RayNodes:
    """The nodes; the first is the head, which is kept."""

    cluster: Any
    further: list[Any] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self, **labels: str) -> Any:
        node = self.cluster.add_node(**_NODE, labels=labels)
        self.further.append(node)
        return node

    def with_label(self, part: str) -> str:
        """Return Ray's id of the node whose label ``part`` has this value."""
        import ray

        [found] = [each for each in ray.nodes() if each["Labels"].get("part") == part]
        return str(found["NodeID"])

    def kill_head(self) -> None:
        """End the head's server, as if its process had crashed; its node goes on."""
        self.cluster.head_node.kill_gcs_server()

    def start_head(self) -> None:
        self.cluster.head_node.start_gcs_server()

    def kill(self, node: Any) -> None:
        self.further.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)


@contextmanager
def ray_nodes(
    num_further: int = 1, *, variables: Mapping[str, str] | None = None, **head: Any
) -> Generator[RayNodes, None, None]:
    """Run a cluster that asks for a token, to which this process is connected.

    Args:
        num_further: nodes beside the head, with the label ``part=more``.
        variables: environment of Ray's processes.
        head: further arguments of the head node.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", os.environ.get("RAY_AUTH_TOKEN", secrets.token_hex(32)))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # idle processes, one for each CPU
        for name, value in (variables or {}).items():
            patch.setenv(name, value)
        import ray
        from ray.cluster_utils import Cluster

        # Ray reads its variables when it is imported, which an earlier test may have done.
        raylet: Any = ray._raylet
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()
        cluster = Cluster(
            initialize_head=True, head_node_args={**_NODE, "labels": {"part": "head"}, **head}
        )
        try:
            nodes = RayNodes(cluster)
            for _ in range(num_further):
                nodes.add(part="more")
            ray.init(cluster.address, namespace="antiphon", log_to_driver=False)
            yield nodes
        finally:
            ray.shutdown()
            cluster.shutdown()


class RayCluster(ClusterClient):
    """A front end's cluster, in a process that is a Ray driver itself."""

    controller: "RayControllerClient"
    token: str

    @classmethod
    async def connect(
        cls,
        build: Ref,
        *,
        address: str,
        namespace: str,
        limits: ClusterLimits | None = None,
        tls: WireTls | None = None,
    ) -> Self:
        from antiphon.fabric.cluster.launch_ray import connect_controller

        limits = limits or ClusterLimits()
        plan = RayPlan(
            namespace=namespace, build=build, token=secrets.token_hex(32), limits=limits, tls=tls
        )
        cluster = cls(await connect_controller(plan, address), limits)
        cluster.token = await cluster.controller.call("token")
        return cluster


def refuse(context: object) -> None:
    """Be the factory of a stage that cannot be loaded."""
    raise ModelLoadError("refused on purpose")


class _Breaking:
    """Fails for good at its first request."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish

    async def open(self, request: StageRequest, upstream: StageStream | None) -> StageStream:
        self._publish(StageStatus(failure="broken on purpose"))
        raise EngineError("broken on purpose")
        yield  # it is a generator

    def append(self, request_id: str, piece: Piece) -> None:
        """Take no notice."""

    def abort(self, request_id: str) -> None:
        """Take no notice."""

    async def close(self) -> None:
        """Hold nothing."""


def build_breaking(specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
    publish(StageStatus(capacity=1))
    return _Breaking(publish)


def name_of(replica: Replica) -> str:
    return replica.id.rpartition("/")[0]


async def nodes_of(found: Sequence[Replica], namespace: str) -> list[str]:
    import ray

    actors = [ray.get_actor(name_of(each), namespace=namespace) for each in found]
    return sorted([(await actor.ping.remote())[0] for actor in actors])
