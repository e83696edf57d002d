"""Groups of stages on a real Ray cluster: reserved at once, spread, demanded, and removed."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.loops import until

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

import ray
from ray.autoscaler.v2.sdk import get_cluster_resource_state
from ray.util.placement_group import placement_group_table

from antiphon.errors import ModelLoadError
from antiphon.fabric.base import GroupStrategy, Placement, StageGroup
from antiphon.fabric.cluster.base import Hosting
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.ray_groups import bundle_demand, group_lack
from antiphon.fabric.cluster.ray_placement import CPU_SHARE, RayNode
from tests.fabric.cluster.ray_nodes import NUM_CPUS, RayCluster, RayNodes, nodes_of
from tests.fabric.cluster.test_ray_cluster import CONTEXT, connected, process_of, replicas
from tests.fabric.cluster.test_ray_cluster import toy as toy_task

# Ray leaves sockets and processes to the interpreter's end.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
slow = pytest.mark.slow  # a Ray cluster takes ten seconds to start, a replica two


def grouped(strategy: GroupStrategy, *num_cpus: float, **placed: Any) -> list[Placement]:
    engines = tuple(
        ((spec,), Placement(num_cpus=cpus, **placed))
        for spec, cpus in zip(toy_task().pipeline, num_cpus, strict=False)
    )
    labels = placed.get("labels", ())
    group = StageGroup(name="pair", strategy=strategy, engines=engines, labels=labels)
    return [replace(placement, group=group) for _, placement in engines]


def hosting(placement: Placement) -> Hosting:
    return Hosting(toy_task().pipeline[:1], CONTEXT, placement)


def test_a_bundle_is_a_replica_of_each_engine() -> None:
    assert bundle_demand(hosting(grouped("PACK", 1, 0.5)[0]), []) == {"CPU": 1.5}
    assert bundle_demand(hosting(grouped("PACK", 0, 0)[0]), []) == {"CPU": CPU_SHARE}
    gpus = grouped("PACK", 0, 1, num_gpus=0.5)
    assert bundle_demand(hosting(gpus[1]), []) == {"CPU": 1.0, "GPU": 1.0}


HALF = RayNode("half", {}, {"CPU": 4.0}, {"CPU": 2.0})
OTHER = RayNode("other", {"rack": "7"}, {"CPU": 2.0}, {"CPU": 2.0})


@pytest.mark.parametrize(
    ("strategy", "placed", "lack"),
    [
        ("STRICT_SPREAD", {"min_replicas": 2}, None),
        ("PACK", {"min_replicas": 2}, None),
        ("SPREAD", {"min_replicas": 3}, "there is room for 2 now"),
        (
            "STRICT_SPREAD",
            {"min_replicas": 3},
            "The group 'pair' needs 3 bundles of 2 CPU on different hosts at once (STRICT_SPREAD),"
            " and the hosts of the cluster hold 2.",
        ),
        ("PACK", {"min_replicas": 4}, "4 bundles of 2 CPU at once (PACK), and the hosts of the"),
        (
            "PACK",
            {"min_replicas": 2, "labels": (("rack", "7"),)},
            "(PACK, label rack=7), and the hosts of the cluster hold 1.",
        ),
    ],
)
def test_a_group_that_finds_no_room_names_what_is_missing(
    strategy: GroupStrategy, placed: dict[str, Any], lack: str | None
) -> None:
    found = group_lack(hosting(grouped(strategy, 1, 1, **placed)[0]), [HALF, OTHER])
    if lack is None:
        assert found is None
    else:
        assert found is not None
        assert lack in found


def alive() -> list[str]:
    return sorted(each["NodeID"] for each in ray.nodes() if each["Alive"])


def groups() -> list[dict[str, Any]]:
    return [each for each in placement_group_table().values() if each["state"] != "REMOVED"]


def group_demands() -> list[list[dict[str, float]]]:
    """Return the bundles of the groups that Ray's autoscaler is to find room for."""
    worker: Any = ray._private.worker.global_worker
    state = get_cluster_resource_state(worker.gcs_client)
    return [
        [dict(each.resources_bundle) for each in subset.resource_requests]
        for request in state.pending_gang_resource_requests
        for subset in request.bundle_selectors
    ]


async def host_all(cluster: RayCluster, placements: Sequence[Placement]) -> list[str]:
    return [
        await cluster.host([spec], CONTEXT, placement)
        for spec, placement in zip(toy_task().pipeline, placements, strict=True)
    ]


async def restart_controller(cluster: RayCluster) -> None:
    """Kill the controller; return once Ray has started it again."""

    async def process() -> Any:
        controller = cluster.controller
        return await controller.call("__ray_call__", lambda _: os.getpid())

    before = await process()
    ray.kill(cluster.controller.actor, no_restart=False)
    while await process() == before:
        await asyncio.sleep(0.1)


async def until_removed() -> None:
    await until(lambda: not groups())


@slow
async def test_each_host_has_a_replica_of_each_engine_of_a_strict_group(nodes: RayNodes) -> None:
    async with connected(nodes, "strict", ClusterLimits(settle_s=3.0)) as cluster:
        placements = grouped("STRICT_SPREAD", 0.5, 0.5, num_replicas=2, min_replicas=2)
        stages = await host_all(cluster, placements)
        before = [await replicas(cluster, stage, 2) for stage in stages]
        for found in before:
            assert await nodes_of(found, "strict") == alive()
        [group] = groups()
        assert group["strategy"] == "STRICT_SPREAD"
        # A process that has died begins again in its bundle.
        victim = before[0][0]
        [home] = await nodes_of([victim], "strict")
        os.kill(await process_of(victim, "strict"), signal.SIGKILL)
        after = await replicas(cluster, stages[0], lambda now: len(now) == 2 and victim not in now)
        assert await nodes_of([*set(after) - set(before[0])], "strict") == [home]
        # A controller that has died knows the bundles again.
        await restart_controller(cluster)
        while [len(each.replicas) for each in await cluster.controller.stages()] != [2, 2]:
            await asyncio.sleep(0.1)
        await cluster.controller.scale(stages[1], 3)
        await until(lambda: len(groups()) >= 2)
        added = nodes.add(part="added")
        for stage in stages:
            found = await replicas(cluster, stage, 3)
            assert await nodes_of(found, "strict") == alive(), "each on a host of its own"
        await cluster.controller.scale(stages[0], 2)
        for stage in stages:
            await replicas(cluster, stage, 2)
    await until_removed()
    nodes.kill(added)


@slow
async def test_a_group_starts_as_a_whole_or_not_at_all(nodes: RayNodes) -> None:
    placements = grouped("STRICT_SPREAD", 1, 1, num_replicas=3, min_replicas=3)
    async with connected(nodes, "impossible", ClusterLimits(place_s=1.0)) as cluster:
        with pytest.raises(ModelLoadError, match="needs 3 bundles of 2 CPU on different hosts"):
            await host_all(cluster, placements)
    await until_removed()
    async with connected(nodes, "whole") as cluster:
        hosting = asyncio.create_task(host_all(cluster, placements))
        await until(lambda: group_demands())
        assert group_demands() == [[{"CPU": float(NUM_CPUS)}] * 3]
        assert not [each for each in await cluster.controller.stages() if each.replicas]
        added = nodes.add(part="added")  # as the autoscaler would
        for stage in await hosting:
            assert await nodes_of(await replicas(cluster, stage, 3), "whole") == alive()
    await until_removed()
    nodes.kill(added)


@slow
async def test_a_packed_group_is_on_one_host_with_its_labels(nodes: RayNodes) -> None:
    async with connected(nodes, "pack") as cluster:
        there = {"num_replicas": 2, "min_replicas": 2, "labels": (("part", "more"),)}
        for stage in await host_all(cluster, grouped("PACK", 0.2, 0.2, **there)):
            found = await nodes_of(await replicas(cluster, stage, 2), "pack")
            assert set(found) == {nodes.with_label("more")}
    await until_removed()
