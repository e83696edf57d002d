"""Stage processes of one host: started, shared, restarted, and gone when nobody needs them."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.config.sources import process_environment
from antiphon.contracts.family import LoadContext, Ref
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, SpeechRequest
from antiphon.errors import ModelLoadError, OverloadedError, ReplicaLostError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster import restarted_process
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.cluster.client import ClusterClient
from antiphon.fabric.cluster.launch_process import LIMITS, ProcessClusterOptions, ProcessController
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.remote import connected_to_parent, served_to_front_ends
from antiphon.fabric.cluster.runtime_folder import runtime_folder
from antiphon.fabric.replicas.fabric import ReplicaFabric
from antiphon.fabric.wire.frames import WireLimits
from antiphon.fabric.wire.stage_client import StageConnection, StageConnections
from antiphon.families.registry import resolve
from antiphon.stages.base import StageRequest
from tests.fabric.cluster.refusing_stage import LOADED_FILE
from tests.loops import until
from tests.servers import is_running

TOKEN = "token of the tests"
CONTEXT = LoadContext(device="cpu")


@asynccontextmanager
async def started(
    builder: str = "antiphon.stages.build:build_stage", limits: ClusterLimits = LIMITS
) -> AsyncGenerator[tuple[ClusterClient, str], None]:
    """Give a cluster, and the folder of its sockets."""
    with runtime_folder() as folder:
        options = ProcessClusterOptions(
            builder=Ref(builder),
            folder=folder,
            token=TOKEN,
            environment=process_environment(),
            log_level="warning",
        )
        cluster = ClusterClient(ProcessController(options, limits))
        try:
            yield cluster, str(folder)
        finally:
            await cluster.close()


async def replicas(cluster: ClusterClient, stage_id: str, number: int) -> tuple[Replica, ...]:
    async with aclosing(cluster.watch(stage_id)) as changes:
        async for found in changes:
            if len(found) == number:
                return found
    raise AssertionError("the watch has ended")


async def spoken(replica: Replica) -> bytes:
    request = StageRequest("a", prompt("Hello there."))
    connection = await StageConnection.connect(replica.address, TOKEN)
    try:
        samples = b""
        async with aclosing(connection.open(replica.stage, request)) as items:
            async for item in items:
                if isinstance(item, AudioChunk):
                    samples += item.samples.tobytes()
        return samples
    finally:
        connection.close()


def prompt(text: str) -> Prompt:
    task = resolve("toy")[0].tasks["speech"]
    prompter = task.prompter.resolve()(CONTEXT)
    request = SpeechRequest(text, sampling=task.sampling)
    made: Prompt = prompter.build(request, prompter.capabilities.voices[0], 7)
    return made


def pipeline() -> Any:
    return resolve("toy")[0].tasks["speech"].pipeline


async def test_no_collection_goes_over_what_was_loaded() -> None:
    async with started("tests.fabric.cluster.refusing_stage:build_heap_stage") as (cluster, _):
        stage = await cluster.host(pipeline(), CONTEXT, Placement())
        [replica] = await replicas(cluster, stage, 1)
        connection = await StageConnection.connect(replica.address, TOKEN)
        request = StageRequest("a", Prompt(data=None, num_tokens=1, seed=0))
        with pytest.raises(OverloadedError) as caught:
            await anext(connection.open(replica.stage, request))
        connection.close()
        assert caught.value.retry_after_s is not None
        assert caught.value.retry_after_s > 10_000, "modules alone have more objects"


@asynccontextmanager
async def shared(
    cluster: ClusterClient,
    folder: str,
    *,
    keeps: bool = False,
    silent: list[int] | None = None,
    limits: WireLimits | None = None,
) -> AsyncGenerator[str, None]:
    """Serve a cluster to front ends, and give the address."""
    address, silent = f"unix:{folder}/cluster.sock", [] if silent is None else silent
    async with served_to_front_ends(
        cluster, address, TOKEN, keeps=keeps, on_silent=silent.append, limits=limits
    ):
        yield address


async def until_no_process(cluster: ClusterClient) -> None:
    while await cluster.controller.processes():
        await asyncio.sleep(0.02)


async def test_a_process_that_has_cut_its_parent_off_is_watched_again_and_serves_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restarted_process, "_LOOK_S", 0.05)
    async with started() as (cluster, _):
        stage = await cluster.host(pipeline(), CONTEXT, Placement())
        found = await replicas(cluster, stage, 1)
        states = await cluster.controller.processes()
        [child] = cluster.controller._launcher._processes.values()  # type: ignore[attr-defined]
        lost = child.current
        lost.close()  # as at the other side, when this process stood still
        await until(lambda: child.current is not lost)
        assert child.current.lost is None
        assert await replicas(cluster, stage, 1) == found
        assert await cluster.controller.processes() == states, "it was not started again"
        assert await spoken(found[0])


async def test_stages_are_hosted_once_for_all_and_gone_with_the_last() -> None:
    async with started() as (cluster, folder), shared(cluster, folder) as address:
        one, two = [await connected_to_parent(address, TOKEN) for _ in range(2)]
        ids = [await each.host(pipeline(), CONTEXT, Placement()) for each in (one, two)]
        assert len(set(ids)) == 1
        [replica] = await replicas(two, ids[0], 1)
        assert await spoken(replica)
        [state] = await one.controller.processes()
        assert state.is_up
        await one.close()
        with pytest.raises(ReplicaLostError):
            await one.controller.processes()
        assert await spoken(replica), "the other needs it"
        await two.release(ids[0])
        await until_no_process(two)
        assert not is_running(state.pid)
        await two.close()
        assert sorted(os.listdir(folder)) == ["cluster.sock", "lock"]


async def test_the_stages_of_a_lost_client_are_kept_for_its_successor() -> None:
    async with started() as (cluster, folder):
        async with shared(cluster, folder, keeps=True) as address:
            first = await connected_to_parent(address, TOKEN)
            id = await first.host(pipeline(), CONTEXT, Placement())
            before = await replicas(first, id, 1)
            await first.controller.close()  # as if it was killed: nothing is released
            for _ in range(2):
                client = await connected_to_parent(address, TOKEN)
                assert await client.host(pipeline(), CONTEXT, Placement()) == id
                assert await replicas(client, id, 1) == before
                await client.close()
            last = await connected_to_parent(address, TOKEN)
            assert await last.host(pipeline(), CONTEXT, Placement()) == id
            await last.release(id)
            assert await replicas(last, id, 1) == before
            await last.close()
            await first.close()
        await cluster.close()
        assert await cluster.controller.processes() == ()


async def test_the_stages_of_a_lost_client_are_unloaded_when_its_lease_has_expired() -> None:
    limits = replace(LIMITS, lease_s=1.0)
    async with (
        started(limits=limits) as (cluster, folder),
        shared(cluster, folder) as address,
    ):
        client = await connected_to_parent(address, TOKEN, limits)
        id = await client.host(pipeline(), CONTEXT, Placement())
        await replicas(client, id, 1)
        await asyncio.sleep(2 * limits.lease_s)
        assert await client.controller.processes(), "the lease is renewed"
        client._renewing.cancel()
        await until_no_process(client)
        await client.close()


async def test_a_client_that_is_silent_is_named_and_one_that_leaves_is_not() -> None:
    silent: list[int] = []
    limits = WireLimits(ping_s=0.05, silence_s=0.2)
    async with (
        started() as (cluster, folder),
        shared(cluster, folder, silent=silent, limits=limits) as address,
    ):
        leaving = await connected_to_parent(address, TOKEN)
        await leaving.close()
        client = await connected_to_parent(address, TOKEN)  # its sign of life is due later
        await until(lambda: silent)
        assert silent == [os.getpid()]
        await client.close()


async def test_a_client_connects_again_and_has_its_stages_hosted_again() -> None:
    limits = replace(LIMITS, lease_s=1.0)
    async with started(limits=limits) as (cluster, folder):
        async with shared(cluster, folder) as address:
            client = await connected_to_parent(address, TOKEN, limits)
            id = await client.host(pipeline(), CONTEXT, Placement())
            [before] = await replicas(client, id, 1)
            expected = await spoken(before)
        await until_no_process(cluster)
        with pytest.raises(ReplicaLostError):
            await client.controller.processes()
        async with shared(cluster, folder):
            [after] = await replicas(client, id, 1)
            assert after.id != before.id
            assert await spoken(after) == expected
            await client.controller.scale(id, 2)
            await replicas(client, id, 2)
            await client.release(id)
            await until_no_process(client)
            await client.close()


async def test_a_process_that_is_killed_is_started_again_and_says_the_same() -> None:
    async with started() as (cluster, folder):
        stage_id = await cluster.host(pipeline(), CONTEXT, Placement())
        [before] = await replicas(cluster, stage_id, 1)
        expected = await spoken(before)
        for _ in range(3):
            [state] = await cluster.controller.processes()
            os.kill(state.pid, signal.SIGKILL)
            await replicas(cluster, stage_id, 0)
            [after] = await replicas(cluster, stage_id, 1)
            assert after.id != before.id
            assert await spoken(after) == expected
            before = after
        assert [each.num_restarts for each in await cluster.controller.processes()] == [3]
        assert len(os.listdir(folder)) == 2, "the sockets of the dead are gone"


async def test_stages_that_were_ready_are_hosted_while_they_cannot_be_loaded_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(LOADED_FILE, str(tmp_path / "loaded"))
    async with started("tests.fabric.cluster.refusing_stage:build_once") as (cluster, _):
        stage_id = await cluster.host(pipeline(), CONTEXT, Placement())
        [state] = await cluster.controller.processes()
        os.kill(state.pid, signal.SIGKILL)
        await replicas(cluster, stage_id, 0)
        assert await cluster.host(pipeline(), CONTEXT, Placement()) == stage_id
        assert await replicas(cluster, stage_id, 0) == ()


async def test_replicas_are_added_and_drained() -> None:
    async with started() as (cluster, _):
        stage_id = await cluster.host(pipeline(), CONTEXT, Placement(num_replicas=2))
        found = await replicas(cluster, stage_id, 2)
        assert len({each.address for each in found}) == 2
        sounds = {await spoken(each) for each in found}
        assert len(sounds) == 1
        await cluster.controller.scale(stage_id, 1)
        [left] = await replicas(cluster, stage_id, 1)
        assert left in found, "none was restarted"
        assert len(await cluster.controller.processes()) == 1


async def test_replicas_are_added_while_requests_fill_their_capacity() -> None:
    async with started() as (cluster, _):
        placement = Placement(max_replicas=2, max_slots=1)
        stage_id = await cluster.host(pipeline(), CONTEXT, placement)
        [first] = await replicas(cluster, stage_id, 1)
        connection = await StageConnection.connect(first.address, TOKEN)
        stream = connection.open(first.stage, StageRequest("held", prompt("Hello. " * 50)))
        await anext(stream)
        assert first in await replicas(cluster, stage_id, 2)
        await stream.aclose()
        connection.close()


async def test_stages_that_two_models_share_are_unloaded_with_the_second() -> None:
    async with started() as (cluster, _):
        fabric = ReplicaFabric(cluster, StageConnections(TOKEN))
        one, two = [await fabric.host(pipeline(), CONTEXT, Placement()) for _ in range(2)]
        assert one == two
        [before] = await replicas(cluster, one.id, 1)
        await fabric.release(one)
        assert await replicas(cluster, one.id, 1) == (before,)
        await fabric.release(two)
        assert await cluster.controller.processes() == ()
        await fabric.close()


async def test_what_cannot_be_loaded_is_told_and_leaves_no_process() -> None:
    async with started() as (cluster, _):
        with pytest.raises(ModelLoadError):
            await cluster.host(pipeline(), CONTEXT, Placement(environment=(("PYTHONHOME", "/"),)))
        assert await cluster.controller.processes() == ()
