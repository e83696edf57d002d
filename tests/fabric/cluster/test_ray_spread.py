"""Replicas on a real Ray cluster: spread over nodes, packed with what feeds them, or demanded."""

from typing import Any

import pytest

from tests.loops import until

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

import ray
from ray.autoscaler.v2.sdk import get_cluster_resource_state

from antiphon.fabric.base import Placement
from tests.fabric.cluster.ray_nodes import NUM_CPUS, RayNodes, nodes_of
from tests.fabric.cluster.test_ray_cluster import CONTEXT, connected, replicas, toy

pytestmark = [
    pytest.mark.slow,  # a Ray cluster takes ten seconds to start, a replica two
    # Ray leaves sockets and processes to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]


def demands() -> list[dict[str, float]]:
    worker: Any = ray._private.worker.global_worker
    state = get_cluster_resource_state(worker.gcs_client)
    return [dict(each.request.resources_bundle) for each in state.pending_resource_requests]


@pytest.mark.parametrize("is_codec_first", [False, True])
async def test_each_talker_has_a_codec_on_its_node(nodes: RayNodes, is_codec_first: bool) -> None:
    namespace = f"packed-{is_codec_first}"
    async with connected(nodes, namespace) as cluster:
        stages = toy().pipeline[::-1] if is_codec_first else toy().pipeline
        for spec in stages:
            stage_id = await cluster.host([spec], CONTEXT, Placement(num_replicas=2))
            found = await nodes_of(await replicas(cluster, stage_id, 2), namespace)
            assert found == sorted(each["NodeID"] for each in ray.nodes() if each["Alive"])


async def test_replicas_without_room_are_demand_to_the_autoscaler(nodes: RayNodes) -> None:
    async with connected(nodes, "demand") as cluster:
        whole = Placement(num_replicas=2, num_cpus=NUM_CPUS)
        stage_id = await cluster.host(toy().pipeline, CONTEXT, whole)
        before = await replicas(cluster, stage_id, 2)
        assert len(set(await nodes_of(before, "demand"))) == 2
        assert not demands()
        await cluster.controller.scale(stage_id, 3)
        await until(lambda: demands())
        assert demands() == [{"CPU": float(NUM_CPUS)}]
        added = nodes.add(part="added")  # as the autoscaler would
        after = await replicas(cluster, stage_id, 3)
        [new] = set(after) - set(before)
        assert await nodes_of([new], "demand") == [nodes.with_label("added")]
        await cluster.release(stage_id)
        nodes.kill(added)
