"""Stage replicas on a real Ray cluster of two nodes: placed, watched, replaced, scaled, shared."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

import ray

from antiphon.contracts.family import LoadContext, Ref
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, SpeechRequest
from antiphon.errors import EngineError, InvalidRequestError, ModelLoadError, ReplicaLostError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.ray_client import CONTROLLER
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.sockets import WireTls
from antiphon.fabric.wire.stage_client import StageConnection
from antiphon.families.registry import resolve
from antiphon.stages.base import StageRequest
from tests.fabric.cluster.ray_nodes import RayCluster, RayNodes, name_of

pytestmark = [
    pytest.mark.slow,  # a Ray cluster takes ten seconds to start, a replica two
    # Ray leaves sockets and processes to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

BUILD = Ref("antiphon.stages.build:build_stage")
CONTEXT = LoadContext(device="cpu")
TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."


@asynccontextmanager
async def connected(
    nodes: RayNodes,
    namespace: str,
    limits: ClusterLimits | None = None,
    build: Ref = BUILD,
    tls: WireTls | None = None,
) -> AsyncGenerator[RayCluster, None]:
    """Give a front end's cluster; its stages are given back at the end."""
    cluster = await RayCluster.connect(
        build, address=nodes.address, namespace=namespace, limits=limits, tls=tls
    )
    try:
        yield cluster
    finally:
        await cluster.close()


async def replicas(
    cluster: RayCluster, stage_id: str, is_it: Callable[[tuple[Replica, ...]], bool] | int
) -> tuple[Replica, ...]:
    """Return the replicas as soon as they are as they should be: so many, all serving."""
    async with aclosing(cluster.watch(stage_id)) as changes:
        async for found in changes:
            if isinstance(is_it, int):
                if len(found) == is_it and not any(each.is_draining for each in found):
                    return found
            elif is_it(found):
                return found
    raise AssertionError("the watch has ended")


@cache
def toy() -> Any:
    family, _ = resolve("toy")
    return family.tasks["speech"]


@cache
def prompt() -> Prompt:
    prompter = toy().prompter.resolve()(CONTEXT)
    made: Prompt = prompter.build(SpeechRequest(TEXT), prompter.capabilities.voices[0], 7)
    return made


async def spoken(cluster: RayCluster, replica: Replica, tls: WireTls | None = None) -> bytes:
    connection = await StageConnection.connect(replica.address, cluster.token, tls=tls)
    try:
        request = StageRequest("request", prompt())
        async with aclosing(connection.open(replica.stage, request)) as items:
            return b"".join(
                [each.samples.tobytes() async for each in items if isinstance(each, AudioChunk)]
            )
    finally:
        connection.close()


async def spoken_here() -> bytes:
    fabric = LocalFabric(BUILD.resolve())
    handle = await fabric.host(toy().pipeline, CONTEXT, Placement())
    async with aclosing(fabric.open(handle, StageRequest("request", prompt()))) as items:
        made = [each.samples.tobytes() async for each in items if isinstance(each, AudioChunk)]
    await fabric.release(handle)
    return b"".join(made)


async def process_of(replica: Replica, namespace: str) -> int:
    actor = ray.get_actor(name_of(replica), namespace=namespace)
    pid: int = (await actor.ping.remote())[1]
    return pid


async def test_audio_is_that_of_a_stage_in_this_process_to_the_byte(nodes: RayNodes) -> None:
    async with connected(nodes, "audio") as cluster:
        stage_id = await cluster.host(toy().pipeline, CONTEXT, Placement(num_replicas=2))
        expected = await spoken_here()
        assert expected
        for replica in await replicas(cluster, stage_id, 2):
            assert await spoken(cluster, replica) == expected


async def test_replicas_go_where_labels_say_and_are_spread_where_they_do_not(
    nodes: RayNodes,
) -> None:
    async with connected(nodes, "labels") as cluster:
        there = Placement(num_replicas=2, labels=(("part", "more"),))
        spread = Placement(num_replicas=2)
        for placement, num_nodes in ((there, 1), (spread, 2)):
            stage_id = await cluster.host(toy().pipeline, CONTEXT, placement)
            actors = [
                ray.get_actor(name_of(each), namespace="labels")
                for each in await replicas(cluster, stage_id, 2)
            ]
            found = {(await actor.ping.remote())[0] for actor in actors}
            assert len(found) == num_nodes
            if placement is there:
                assert found == {nodes.with_label("more")}


async def test_a_codec_runs_where_its_talker_does_as_long_as_there_is_room(nodes: RayNodes) -> None:
    async with connected(nodes, "near") as cluster:
        talker, codec = toy().pipeline
        there = Placement(labels=(("part", "more"),))
        found: list[Replica] = []
        for spec, placement in ((talker, there), (codec, Placement(num_replicas=2))):
            stage_id = await cluster.host([spec], CONTEXT, placement)
            found += await replicas(cluster, stage_id, placement.num_replicas)
        actors = [ray.get_actor(name_of(each), namespace="near") for each in found]
        assert {(await actor.ping.remote())[0] for actor in actors} == {nodes.with_label("more")}


async def test_a_killed_replica_comes_back_with_a_new_id(nodes: RayNodes) -> None:
    async with connected(nodes, "killed") as cluster:
        stage_id = await cluster.host(toy().pipeline, CONTEXT, Placement(num_replicas=2))
        before = await replicas(cluster, stage_id, 2)
        connection = await StageConnection.connect(before[0].address, cluster.token)
        os.kill(await process_of(before[0], "killed"), signal.SIGKILL)
        await connection.closed.wait()
        with pytest.raises(ReplicaLostError):
            async for _ in connection.open(before[0].stage, StageRequest("late", prompt())):
                pass
        cluster.report(stage_id, before[0].id)
        remaining = await replicas(cluster, stage_id, lambda found: before[0] not in found)
        assert before[1] in remaining
        after = await replicas(cluster, stage_id, 2)
        assert before[1] in after
        assert before[0].id not in {each.id for each in after}
        [new] = set(after) - set(before)
        assert await spoken(cluster, new) == await spoken_here()


async def test_a_replica_that_hangs_is_replaced(nodes: RayNodes) -> None:
    limits = ClusterLimits(dead_after_s=3.0, restart_after_s=6.0)
    async with connected(nodes, "hangs", limits) as cluster:
        stage_id = await cluster.host(toy().pipeline, CONTEXT, Placement(num_replicas=2))
        before = await replicas(cluster, stage_id, 2)
        os.kill(await process_of(before[0], "hangs"), signal.SIGSTOP)
        await replicas(cluster, stage_id, lambda found: before[0] not in found)
        after = await replicas(cluster, stage_id, 2)
        assert before[0].id not in {each.id for each in after}


async def test_a_replica_whose_engine_has_failed_is_replaced(nodes: RayNodes) -> None:
    breaking = Ref("tests.fabric.cluster.ray_nodes:build_breaking")
    async with connected(nodes, "failed", build=breaking) as cluster:
        stage_id = await cluster.host(toy().pipeline, CONTEXT, Placement())
        [before] = await replicas(cluster, stage_id, 1)
        with pytest.raises(EngineError, match="on purpose"):
            await spoken(cluster, before)
        await replicas(cluster, stage_id, lambda found: before not in found and len(found) == 1)


def test_without_ray_s_token_nobody_is_let_in(nodes: RayNodes) -> None:
    command = [sys.executable, "-m", "antiphon", "scale", "--address", nodes.address]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for token, problem in ((secrets.token_hex(32), "Cannot connect to Ray"), (None, "namespace")):
        environment = known if token is None else {**known, "RAY_AUTH_TOKEN": token}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        *_, last = done.stderr.splitlines()  # after what Ray itself has to say
        assert last.startswith("antiphon: ")
        assert problem in last


async def test_replicas_speak_tls_with_whom_the_authority_has_signed_for(
    nodes: RayNodes, tmp_path: Path
) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True)

    made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *made, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=cluster")
    openssl("req", *made, "-keyout", "key.pem", "-out", "our.csr", "-subj", "/CN=stage")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
    openssl("x509", "-req", "-in", "our.csr", *signing, "-out", "cert.pem")
    tls = WireTls.of_folder(tmp_path)
    async with connected(nodes, "tls", tls=tls) as cluster:
        stage_id = await cluster.host(toy().pipeline, CONTEXT, Placement())
        [replica] = await replicas(cluster, stage_id, 1)
        assert await spoken(cluster, replica, tls=tls) == await spoken_here()
        with pytest.raises(ReplicaLostError):
            await spoken(cluster, replica)


async def test_front_ends_share_stages_until_the_last_has_left(nodes: RayNodes) -> None:
    limits = ClusterLimits(lease_s=6.0)
    async with connected(nodes, "shared", limits) as one:
        async with connected(nodes, "shared", limits) as other:
            ids = {await each.host(toy().pipeline, CONTEXT, Placement()) for each in (one, other)}
            assert len(ids) == 1
            assert one.token == other.token
        [stage_id] = ids
        await asyncio.sleep(1.0)
        [replica] = await replicas(one, stage_id, 1)
        assert await spoken(one, replica) == await spoken_here()
        await one.release(stage_id)
        while await one.controller.stages():
            await asyncio.sleep(0.1)


async def test_the_stages_of_a_dead_front_end_are_unloaded(nodes: RayNodes) -> None:
    limits = ClusterLimits(lease_s=3.0)
    async with connected(nodes, "dead", limits) as dead:
        await dead.host(toy().pipeline, CONTEXT, Placement())
        dead._renewing.cancel()
        while await dead.controller.stages():
            await asyncio.sleep(0.1)


async def test_a_killed_controller_knows_everything_again(nodes: RayNodes) -> None:
    limits = ClusterLimits(lease_s=6.0, settle_s=3.0)
    async with connected(nodes, "controller", limits) as cluster:
        stage_id = await cluster.host(toy().pipeline, CONTEXT, Placement())
        await cluster.controller.scale(stage_id, 2)
        before = await replicas(cluster, stage_id, 2)
        controller = ray.get_actor(CONTROLLER, namespace="controller")
        ray.kill(controller, no_restart=False)
        after = await replicas(cluster, stage_id, 2)
        assert set(after) == set(before), "none was stopped, none was started"
        await asyncio.sleep(limits.lease_s + 2)
        assert set(await replicas(cluster, stage_id, 2)) == set(before)


async def test_a_replica_is_drained_before_it_is_removed(nodes: RayNodes) -> None:
    async with connected(nodes, "drained") as cluster:
        stage_id = await cluster.host(toy().pipeline, CONTEXT, Placement(num_replicas=2))
        expected = await spoken_here()
        found = await replicas(cluster, stage_id, 2)
        connections = [await StageConnection.connect(each.address, cluster.token) for each in found]
        streams = [
            connection.open(each.stage, StageRequest("held", prompt()))
            for connection, each in zip(connections, found, strict=True)
        ]
        begun = [await anext(stream) for stream in streams]
        await asyncio.sleep(2.0)  # beats tell the controller of both
        await cluster.controller.scale(stage_id, 1)
        await replicas(cluster, stage_id, lambda now: any(each.is_draining for each in now))
        await asyncio.sleep(3.0)
        assert len(await replicas(cluster, stage_id, lambda now: len(now) == 2)) == 2
        for first, stream in zip(begun, streams, strict=True):
            rest = [each async for each in stream]
            audio = [each for each in (first, *rest) if isinstance(each, AudioChunk)]
            assert b"".join(each.samples.tobytes() for each in audio) == expected
        await replicas(cluster, stage_id, 1)
        with pytest.raises(InvalidRequestError, match="at least 1"):
            await cluster.controller.scale(stage_id, 0)
        for connection in connections:
            connection.close()


async def test_a_model_that_cannot_be_loaded_says_why(nodes: RayNodes) -> None:
    async with connected(nodes, "wrong") as cluster:
        wrong = Ref("tests.fabric.cluster.ray_nodes:refuse")
        spec = toy().pipeline[0]
        broken = type(spec)(spec.name, spec.kind, spec.consumes, spec.produces, wrong)
        with pytest.raises(ModelLoadError, match="refused on purpose"):
            await cluster.host([broken], CONTEXT, Placement())
        while await cluster.controller.stages():
            await asyncio.sleep(0.1)


async def test_a_node_that_dies_is_replaced_by_another(nodes: RayNodes) -> None:
    async with connected(nodes, "node") as cluster:
        doomed = nodes.add(part="doomed")
        placement = Placement(num_replicas=2, labels=(("part", "doomed"),))
        stage_id = await cluster.host(toy().pipeline, CONTEXT, placement)
        before = await replicas(cluster, stage_id, 2)
        nodes.kill(doomed)
        for each in before:
            cluster.report(stage_id, each.id)
        await replicas(cluster, stage_id, 0)
        nodes.add(part="doomed")  # in this thread: it installs signal handlers
        after = await replicas(cluster, stage_id, 2)
        assert not {each.id for each in before} & {each.id for each in after}
        assert await spoken(cluster, after[0]) == await spoken_here()
