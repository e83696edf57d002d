"""Ray placement groups: bundles that hold one replica of each engine of a stage group."""

import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ray.util.placement_group import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from antiphon.fabric.cluster.base import Hosting
from antiphon.fabric.cluster.ray_placement import (
    CPU_SHARE,
    NODE_LABEL,
    REMEDY,
    RayNode,
    amounts,
    demand_of,
    fits,
)

_BUNDLE = "#"


class RayGroups:
    """The placement groups of one namespace; Ray holds their state.

    The first placement group of a stage group has a bundle for each of its least number of
    replicas, which Ray reserves at once or not at all; each further replica has a placement group
    of its own. A placement group that waits for room is demand to Ray's autoscaler.
    """

    def __init__(self, namespace: str) -> None:
        """Use the placement groups of a Ray namespace, that of the calling process."""
        self._namespace = namespace

    def take(
        self, hosting: Hosting, nodes: Sequence[RayNode], taken: Collection[str]
    ) -> tuple[str, dict[str, Any]]:
        """Return a bundle for a further replica, and the options of its actor.

        Args:
            taken: bundles that hold replicas of this hosting.
        """
        known = tuple(self._known(hosting.group_id))
        free = [
            (name, index)
            for name, record in known
            for index in sorted(record["bundles"])
            if _bundle(name, index) not in taken
        ]
        if free:
            name, index = free[0]
            group = get_placement_group(name)
        else:
            name, index = f"{self._namespace}/{hosting.group_id}/{uuid.uuid4().hex[:8]}", 0
            group = _create(name, hosting, nodes, [record for _, record in known])
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
        return _bundle(name, index), {"scheduling_strategy": strategy}

    def remove_unused(self, used: Collection[str]) -> None:
        """Remove the placement groups none of whose bundles is used."""
        names = {bundle.rpartition(_BUNDLE)[0] for bundle in used}
        for name, _ in self._known():
            if name not in names:
                with suppress(ValueError):  # of another namespace
                    remove_placement_group(get_placement_group(name))

    def lack(self, hosting: Hosting, nodes: Sequence[RayNode]) -> str | None:
        """Return what keeps Ray from reserving a group; ``None``: it is reserved, or has room."""
        if any(record["state"] == "CREATED" for _, record in self._known(hosting.group_id)):
            return None
        return group_lack(hosting, nodes)

    def _known(self, group_id: str | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the names and records of the placement groups of one stage group, or of all."""
        prefix = "/".join([self._namespace, *([group_id] if group_id else []), ""])
        for record in placement_group_table().values():
            if record["state"] != "REMOVED" and record["name"].startswith(prefix):
                yield record["name"], record


def bundle_demand(hosting: Hosting, nodes: Sequence[RayNode]) -> dict[str, float]:
    """Return the resources of a bundle: those of one replica of each engine of the group."""
    demand = Counter[str]()
    for member in hosting.group_members():
        demand.update(demand_of(member, nodes))
    return dict(demand) or {"CPU": CPU_SHARE}  # a bundle reserves something


def group_lack(hosting: Hosting, nodes: Sequence[RayNode]) -> str | None:
    """Return which resources a cluster lacks for a group; ``None``: it has room."""
    group = hosting.placement.group
    assert group is not None
    demand, number = bundle_demand(hosting, nodes), hosting.placement.min_replicas
    matching = [node for node in nodes if node.has_labels(group.labels)]
    is_strict = group.strategy == "STRICT_SPREAD"
    labels = "".join(f", label {name}={value}" for name, value in group.labels)
    bundles = f"{number} bundle{'s' * (number > 1)} of {amounts(demand)}"
    where = " on different hosts" if is_strict and number > 1 else ""
    needs = f"The group '{group.name}' needs {bundles}{where} at once ({group.strategy}{labels})"
    most = sum(_num_bundles(demand, node.total, is_strict) for node in matching)
    if most < number:
        return f"{needs}, and the hosts of the cluster hold {most}. {REMEDY}"
    free = sum(_num_bundles(demand, node.free, is_strict) for node in matching)
    return None if free >= number else f"{needs}, and there is room for {free} now. {REMEDY}"


def _create(
    name: str, hosting: Hosting, nodes: Sequence[RayNode], existing: Sequence[Mapping[str, Any]]
) -> Any:
    """Return a new placement group, which Ray reserves as soon as there is room."""
    group = hosting.placement.group
    assert group is not None
    selector = dict(group.labels)
    taken = sorted({node for record in existing for node in record["bundles_to_node_id"].values()})
    if group.strategy == "STRICT_SPREAD" and any(taken):
        selector[NODE_LABEL] = f"!in({','.join(filter(None, taken))})"
    number = 1 if existing else hosting.placement.min_replicas
    return placement_group(
        [bundle_demand(hosting, nodes)] * number,
        strategy=group.strategy,
        name=name,
        lifetime="detached",
        bundle_label_selector=[selector] * number if selector else None,
    )


def _num_bundles(demand: Mapping[str, float], room: Mapping[str, float], is_strict: bool) -> int:
    """Return how many bundles fit into the resources of one host."""
    if is_strict or not fits(demand, room):
        return int(fits(demand, room))
    return int(min(room[name] / amount + 1e-6 for name, amount in demand.items()))


def _bundle(name: str, index: int) -> str:
    return f"{name}{_BUNDLE}{index}"
