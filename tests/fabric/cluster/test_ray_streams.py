"""Streams through a real Ray cluster: whole and equal, whatever is killed, added or removed."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cache, partial
from typing import Any

import httpx
import pytest

from tests.loops import until

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

import ray

from antiphon.config import ServerSettings
from antiphon.contracts.family import LoadContext, Ref
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Ended, SpeechRequest
from antiphon.fabric.base import Fabric, Placement
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.replicas.fabric import ReplicaFabric
from antiphon.fabric.wire.stage_client import StageConnections
from antiphon.families.registry import resolve
from antiphon.stages.base import StageHandle, StageRequest
from tests.chaos.siege import SCALE
from tests.fabric.cluster.ray_nodes import RayCluster, RayNodes
from tests.fabric.replicas.local_cluster import UNLIMITED
from tests.servers import DEADLINE_S, TOY, start_server, wait_until

KILLS = [(0, False), (1, True), (3, False)]
if SCALE == 1.0:
    KILLS = [(num_chunks, is_apart) for num_chunks in (0, 1, 3) for is_apart in (False, True)]
"""After how many chunks a replica is killed, and whether the codec is apart."""
pytestmark = [
    pytest.mark.slow,  # a Ray cluster takes ten seconds to start, a replica two
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

BUILD = Ref("antiphon.stages.build:build_stage")
CONTEXT = LoadContext(device="cpu", admission=UNLIMITED)
NUM_STREAMS = 16
TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. " * 4
TIMEOUT_S = 6 * DEADLINE_S


@cache
def toy() -> Any:
    family, _ = resolve("toy")
    return family.tasks["speech"]


@cache
def prompt(seed: int) -> Prompt:
    prompter = toy().prompter.resolve()(CONTEXT)
    made: Prompt = prompter.build(SpeechRequest(TEXT), prompter.capabilities.voices[0], seed)
    return made


class Streams:
    """Requests of different seeds, read a piece at a time."""

    def __init__(self, fabric: Fabric, chain: tuple[StageHandle, ...], number: int) -> None:
        *upstream, last = chain
        self.samples = [b""] * number
        self.ended: list[Ended | None] = [None] * number
        self._streams = [
            fabric.open(
                last, StageRequest(f"{id(self)}-{seed}", prompt(seed), upstream=tuple(upstream))
            )
            for seed in range(number)
        ]

    async def read(self, num_chunks: int | None = None) -> None:
        """Read so many chunks of each stream, or all that is left."""
        reading = [self._read(index, num_chunks) for index in range(len(self._streams))]
        await asyncio.gather(*reading)

    async def _read(self, index: int, num_chunks: int | None) -> None:
        stream, num_read = self._streams[index], 0
        while num_chunks is None or num_read < num_chunks:
            match await anext(stream, None):
                case AudioChunk(samples=samples):
                    self.samples[index] += samples.tobytes()
                    num_read += 1
                case Ended() as ended:
                    self.ended[index] = ended
                case None:
                    return

    async def close(self) -> None:
        for stream in self._streams:
            await stream.aclose()


async def undisturbed(number: int) -> list[bytes]:
    fabric = LocalFabric(BUILD.resolve())
    handle = await fabric.host(toy().pipeline, CONTEXT, Placement())
    streams = Streams(fabric, (handle,), number)
    await streams.read()
    await fabric.release(handle)
    return streams.samples


@asynccontextmanager
async def connected(nodes: RayNodes, namespace: str) -> AsyncGenerator[RayCluster, None]:
    cluster = await RayCluster.connect(BUILD, address=nodes.address, namespace=namespace)
    try:
        yield cluster
    finally:
        await cluster.close()


@asynccontextmanager
async def fabric_of(cluster: RayCluster) -> AsyncGenerator[ReplicaFabric, None]:
    fabric = ReplicaFabric(cluster, StageConnections(cluster.token))
    try:
        yield fabric
    finally:
        await fabric.close()


async def replicas(cluster: RayCluster, handle: StageHandle, number: int) -> tuple[Replica, ...]:
    async with aclosing(cluster.watch(handle.id)) as changes:
        async for found in changes:
            if len(found) == number and not any(each.is_draining for each in found):
                return found
    raise AssertionError("the watch has ended")


async def connected_to(fabric: ReplicaFabric, handle: StageHandle, number: int) -> None:
    """Wait until a front end can open streams at so many replicas, between which it chooses."""
    await until(lambda: fabric.status(handle).num_replicas >= number)


async def ping(replica: Replica, namespace: str) -> tuple[str, int]:
    actor = ray.get_actor(replica.id.rpartition("/")[0], namespace=namespace)
    found: tuple[str, int] = await actor.ping.remote()
    return found


async def process_of(replica: Replica, namespace: str) -> int:
    return (await ping(replica, namespace))[1]


def assert_whole(streams: Streams, expected: list[bytes]) -> None:
    assert [each is not None and each.reason for each in streams.ended] == ["stop"] * len(expected)
    assert [len(each) for each in streams.samples] == [len(each) for each in expected]
    assert streams.samples == expected


@pytest.mark.parametrize(("num_chunks", "is_apart"), KILLS)
async def test_streams_survive_a_killed_replica(
    nodes: RayNodes, num_chunks: int, is_apart: bool
) -> None:
    namespace = f"killed-{num_chunks}-{is_apart}"
    expected = await undisturbed(NUM_STREAMS)
    groups = [[spec] for spec in toy().pipeline] if is_apart else [toy().pipeline]
    async with connected(nodes, namespace) as cluster, fabric_of(cluster) as fabric:
        placement = Placement(num_replicas=2)
        chain = tuple([await fabric.host(each, CONTEXT, placement) for each in groups])
        for handle in chain:  # in turn: a talker, then a codec
            doomed, *_ = await replicas(cluster, handle, 2)
            await connected_to(fabric, handle, 2)
            pid = await process_of(doomed, namespace)
            before = fabric.num_migrations
            streams = Streams(fabric, chain, NUM_STREAMS)
            await streams.read(num_chunks)
            reading = asyncio.create_task(streams.read())
            await asyncio.sleep(0)  # all of them are being opened, or go on
            os.kill(pid, signal.SIGKILL)
            await reading
            assert_whole(streams, expected)
            assert not num_chunks or fabric.num_migrations > before
            await replicas(cluster, handle, 2)


async def test_scaling_up_and_down_under_load_loses_no_stream(nodes: RayNodes) -> None:
    expected = await undisturbed(NUM_STREAMS)
    async with connected(nodes, "scaled") as cluster, fabric_of(cluster) as fabric:
        handle = await fabric.host(toy().pipeline, CONTEXT, Placement())
        is_over = asyncio.Event()
        rounds = 0

        async def load() -> None:
            nonlocal rounds
            while not is_over.is_set():
                streams = Streams(fabric, (handle,), NUM_STREAMS)
                await streams.read()
                assert_whole(streams, expected)
                rounds += 1

        loading = [asyncio.create_task(load()) for _ in range(2)]
        for number in (3, 1, 2, 1):
            await cluster.controller.scale(handle.id, number)
            await replicas(cluster, handle, number)
            before = rounds
            while rounds < before + 2:
                over, _ = await asyncio.wait(loading, timeout=0.05)
                assert [each.result() for each in over] == []
        is_over.set()
        await asyncio.gather(*loading)


async def test_streams_survive_a_killed_node_which_is_replaced(nodes: RayNodes) -> None:
    expected = await undisturbed(NUM_STREAMS)
    async with connected(nodes, "node") as cluster, fabric_of(cluster) as fabric:
        doomed = nodes.add(part="doomed")
        handle = await fabric.host(toy().pipeline, CONTEXT, Placement(num_replicas=3))
        before = await replicas(cluster, handle, 3)
        await connected_to(fabric, handle, 3)
        found = dict([await ping(each, "node") for each in before])
        assert nodes.with_label("doomed") in found, "they are spread"
        pid = found[nodes.with_label("doomed")]
        streams = Streams(fabric, (handle,), NUM_STREAMS)
        await streams.read(2)
        nodes.kill(doomed)
        # Ray's workers notice only a while later, in which they could end their streams.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await streams.read()
        assert_whole(streams, expected)
        assert fabric.num_migrations > 0
        nodes.add(part="another")
        after = await replicas(cluster, handle, 3)
        assert {each.id for each in before} != {each.id for each in after}


async def test_two_front_ends_share_replicas_and_see_each_other_s_load(nodes: RayNodes) -> None:
    expected = await undisturbed(NUM_STREAMS)
    async with (
        connected(nodes, "two") as one,
        connected(nodes, "two") as other,
        fabric_of(one) as first,
        fabric_of(other) as second,
    ):
        placement = Placement(num_replicas=2)
        handles = [await each.host(toy().pipeline, CONTEXT, placement) for each in (first, second)]
        assert handles[0] == handles[1]
        before = await replicas(one, handles[0], 2)
        for fabric, handle in zip((first, second), handles, strict=True):
            await connected_to(fabric, handle, 2)
        both = [
            Streams(fabric, (handle,), NUM_STREAMS)
            for fabric, handle in zip((first, second), handles, strict=True)
        ]
        await asyncio.gather(*(each.read(1) for each in both))
        for fabric, handle in zip((first, second), handles, strict=True):
            while fabric.status(handle).num_open < 2 * NUM_STREAMS:
                await asyncio.sleep(0.01)
        for doomed in before:  # one after the other, so that each stream loses its replica
            os.kill(await process_of(doomed, "two"), signal.SIGKILL)
            await asyncio.gather(*(each.read(2) for each in both))
            while doomed.id in {each.id for each in await replicas(one, handles[0], 2)}:
                await asyncio.sleep(0.05)
        await asyncio.gather(*(each.read() for each in both))
        for streams in both:
            assert_whole(streams, expected)
        assert first.num_migrations >= NUM_STREAMS
        assert second.num_migrations >= NUM_STREAMS


def spoken(client: httpx.Client, seed: int, begun: threading.Barrier | None = None) -> bytes:
    """Return the audio of a request; at its first bytes, wait for the others at ``begun``."""
    body = {"input": TEXT * 2, "response_format": "pcm", "seed": seed}
    audio = b""
    with client.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert answer.status_code == 200
        for piece in answer.iter_raw(4096):
            if begun is not None and not audio:
                begun.wait(TIMEOUT_S)
            audio += piece
    return audio


def test_clients_of_a_server_on_ray_hear_everything(nodes: RayNodes) -> None:
    """HTTP requests under way when a replica is killed give the bytes of a server without Ray."""
    seeds = range(NUM_STREAMS)
    with (
        start_server(TOY) as running,
        httpx.Client(base_url=running.base_url) as client,
        ThreadPoolExecutor(NUM_STREAMS) as threads,
    ):
        expected = [*threads.map(partial(spoken, client), seeds)]
    server = ServerSettings(
        fabric="ray",
        ray_address=nodes.address,
        ray_namespace="http",
        placement_set=("defaults.replicas=2",),
    )
    settings = TOY.model_copy(update={"server": server})
    begun = threading.Barrier(NUM_STREAMS + 1)
    with (
        start_server(settings, send_buffer_bytes=32 * 1024) as running,
        httpx.Client(base_url=running.base_url) as client,
        ThreadPoolExecutor(NUM_STREAMS) as threads,
    ):
        [model] = running.state.speech.models.values()
        wait_until(lambda: model.status.num_replicas == 2)
        names = [
            each["name"]
            for each in ray.util.list_named_actors(all_namespaces=True)
            if each["namespace"] == "http" and each["name"].startswith("talker+codec")
        ]
        assert len(names) == 2
        pid: int = ray.get(ray.get_actor(names[0], namespace="http").ping.remote())[1]
        heard = [threads.submit(spoken, client, seed, begun) for seed in seeds]
        begun.wait(TIMEOUT_S)
        os.kill(pid, signal.SIGKILL)
        assert [each.result() == audio for each, audio in zip(heard, expected, strict=True)] == [
            True
        ] * NUM_STREAMS
        assert isinstance(model.fabric, ReplicaFabric)
        assert model.fabric.num_migrations > 0
