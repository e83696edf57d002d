"""A real Ray cluster of two nodes on this machine, for tests; it needs the extra ``ray``."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

NUM_CPUS = 16
"""That a node claims to have: replicas take one each, which says nothing of their load."""
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
        """Start a node with labels; it is part of the cluster when this returns."""
        node = self.cluster.add_node(**_NODE, labels=labels)
        self.further.append(node)
        return node

    def with_label(self, part: str) -> str:
        """Return Ray's id of the node whose label ``part`` has this value."""
        import ray

        [found] = [each for each in ray.nodes() if each["Labels"].get("part") == part]
        return str(found["NodeID"])

    def kill(self, node: Any) -> None:
        """End a node at once, with all processes on it."""
        self.further.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)


@contextmanager
def ray_nodes() -> Generator[RayNodes, None, None]:
    """Run a cluster of two nodes, to which this process is connected."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**_NODE, "labels": {"part": "head"}})
    try:
        nodes = RayNodes(cluster)
        nodes.add(part="more")
        ray.init(cluster.address, namespace="antiphon", log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        cluster.shutdown()


def refuse(context: object) -> None:
    """Be the factory of a stage that cannot be loaded."""
    from antiphon.errors import ModelLoadError

    raise ModelLoadError("refused on purpose")
