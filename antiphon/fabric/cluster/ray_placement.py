"""Resources, labels and nearness of a replica's actor, in Ray's terms."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray._private.state import available_resources_per_node

from antiphon.contracts.family import LoadContext, StageKind
from antiphon.fabric.cluster.base import Hosting

NODE_LABEL = "ray.io/node-id"
"""A label that Ray gives every node."""
CPU_SHARE = 0.1
"""CPUs of a replica without a GPU, unless its placement sets them: a host of one core holds ten
engines, and a node without CPUs, such as a head, holds none."""


_TINY = 1e-6
"""Error of sums of fractional amounts."""
REMEDY = "Lower 'cpus' or 'gpus' in the placement, or add a host: antiphon stage."


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node of the cluster that is alive.

    Attributes:
        free: resources that nothing on the node has reserved, by name.
    """

    id: str
    labels: Mapping[str, str]
    total: Mapping[str, float]
    free: Mapping[str, float]

    def has_labels(self, wanted: Sequence[tuple[str, str]]) -> bool:
        """Return whether the node has labels; a value may be an expression, as ``in(a,b)``."""
        return all(_matches(value, self.labels.get(name)) for name, value in wanted)


def alive_nodes() -> tuple[RayNode, ...]:
    """Return the nodes of the cluster; blocks while Ray's head is queried."""
    free = available_resources_per_node()
    return tuple(
        RayNode(node["NodeID"], node["Labels"], node["Resources"], free.get(node["NodeID"], {}))
        for node in ray.nodes()
        if node["Alive"]
    )


def choose_node(
    hosting: Hosting, nodes: Sequence[RayNode], replicas: Sequence[tuple[str, Hosting]]
) -> str | None:
    """Return the id of the node for a further replica; ``None``: no node has room now.

    Replicas of a stage are spread over nodes, and a stage is packed with those that feed it or that
    it feeds: the node comes first that has most of these for each replica of the stage. Frames then
    stay on the host. Stages without a group are scaled one by one, which placement groups, whose
    bundles never change, do not allow.
    """
    demand = demand_of(hosting, nodes)
    own, near = Counter[str](), Counter[str]()
    taken: dict[str, dict[str, float]] = {node.id: {} for node in nodes}
    for node_id, placed in replicas:
        own[node_id] += placed == hosting
        near[node_id] += placed.feeds(hosting)
        for name, amount in demand_of(placed, nodes).items() if node_id in taken else ():
            taken[node_id][name] = taken[node_id].get(name, 0.0) + amount

    def has_room(node: RayNode) -> bool:
        # Ray's own account is late by what was planned just now.
        left = {name: each - taken[node.id].get(name, 0.0) for name, each in node.total.items()}
        return fits(demand, node.free) and fits(demand, left)

    def rank(node: RayNode) -> tuple[Any, ...]:
        num_own, num_near = own[node.id], near[node.id]
        room = node.free.get("GPU", 0.0), node.free.get("CPU", 0.0)
        return num_own - num_near, not num_near, num_own, *(-each for each in room), node.id

    labels = hosting.placement.labels
    fitting = [node for node in nodes if node.has_labels(labels) and has_room(node)]
    return min(fitting, key=rank).id if fitting else None


def actor_options(hosting: Hosting, nodes: Sequence[RayNode]) -> dict[str, Any]:
    """Return the resources and environment of a replica's actor."""
    demand = demand_of(hosting, nodes)
    options: dict[str, Any] = {
        "num_cpus": demand.get("CPU", 0.0),
        "num_gpus": demand.get("GPU", 0.0),
    }
    if hosting.placement.environment:
        options["runtime_env"] = {"env_vars": dict(hosting.placement.environment)}
    return options


def node_options(hosting: Hosting, node: str | None) -> dict[str, Any]:
    """Return the options by which Ray chooses the node of a replica's actor.

    Args:
        node: id of the preferred node; ``None``: Ray chooses. An actor for which there is no room
            is demand to Ray's autoscaler.
    """
    labels = dict(hosting.placement.labels)
    options: dict[str, Any] = {"scheduling_strategy": "SPREAD"}
    if node is not None:
        options["label_selector"] = {**labels, NODE_LABEL: node}
        options["fallback_strategy"] = [{"label_selector": labels}]
    elif labels:
        options["label_selector"] = labels
    return options


def demand_of(hosting: Hosting, nodes: Sequence[RayNode]) -> dict[str, float]:
    """Return the resources that a replica reserves: those of its placement, else a GPU if it is to
    run on CUDA, else a small share of a CPU."""
    num_gpus, num_cpus = _num_gpus(hosting, nodes), hosting.placement.num_cpus
    if num_cpus is None:
        num_cpus = 0.0 if num_gpus else CPU_SHARE
    demand = {"CPU": num_cpus, "GPU": num_gpus}
    return {name: amount for name, amount in demand.items() if amount}


def lack(hosting: Hosting, nodes: Sequence[RayNode]) -> str | None:
    """Return what keeps Ray from placing a replica; ``None``: a node has room for it."""
    placement, demand = hosting.placement, demand_of(hosting, nodes)
    labels = ", ".join(f"{name}={value}" for name, value in placement.labels)
    whose = f" with the labels {labels}" if labels else ""
    matching = [node for node in nodes if node.has_labels(placement.labels)]
    if not matching:
        return f"No host of the cluster has the labels {labels}." if labels else "It has no host."
    if any(fits(demand, node.free) for node in matching):
        return None
    needs = f"It needs {amounts(demand)} on one host{whose}"
    if not any(fits(demand, node.total) for node in matching):
        most = {name: max(node.total.get(name, 0.0) for node in matching) for name in demand}
        return f"{needs}, and no host has more than {amounts(most)}. {REMEDY}"
    total = {name: sum(node.total.get(name, 0.0) for node in matching) for name in demand}
    free = {name: sum(node.free.get(name, 0.0) for node in matching) for name in demand}
    return f"{needs}; of {amounts(total)} in the cluster, {amounts(free)} are free. {REMEDY}"


def own_context(hosting: Hosting) -> LoadContext:
    """Return the context that a replica is loaded with: its process's GPUs are numbered from 0."""
    context = hosting.placement.context_of(hosting.context, 0)  # all replicas are alike on Ray
    is_cuda = context.device.startswith("cuda")
    return replace(context, device="cuda" if is_cuda else context.device)


def _num_gpus(hosting: Hosting, nodes: Sequence[RayNode]) -> float:
    """Return the GPUs of a replica: as placed, else one for each of its processes on CUDA."""
    if hosting.placement.num_gpus:
        return hosting.placement.num_gpus
    context = own_context(hosting)
    has_gpus = any(node.total.get("GPU", 0) for node in nodes)
    if context.device != "cuda" and not (context.device == "auto" and has_gpus):
        return 0.0
    is_parallel = any(spec.kind is StageKind.DIFFUSION for spec in hosting.specs)
    return float(context.diffusion.num_processes if is_parallel else 1)


def fits(demand: Mapping[str, float], room: Mapping[str, float]) -> bool:
    """Return whether a node has room for a demand."""
    return all(room.get(name, 0.0) > amount - _TINY for name, amount in demand.items())


def amounts(resources: Mapping[str, float]) -> str:
    """Return resources as text."""
    return " and ".join(f"{amount:g} {name}" for name, amount in resources.items())


def _matches(wanted: str, value: str | None) -> bool:
    """Return whether a label has a wanted value, in Ray's syntax: ``a``, ``!a``, ``in(a,b)``."""
    if wanted.startswith("!"):
        return not _matches(wanted[1:], value)
    if wanted.startswith("in(") and wanted.endswith(")"):
        return value in [each.strip() for each in wanted[3:-1].split(",")]
    return value == wanted
