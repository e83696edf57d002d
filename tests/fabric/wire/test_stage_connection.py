"""Stages over a connection do what they do in this process: the same items, text, ends, errors."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Ended, SpeechRequest
from antiphon.errors import InvalidRequestError, ReplicaLostError
from antiphon.fabric.base import Placement
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.stage_client import StageConnection, remote_handle
from antiphon.fabric.wire.stage_server import StageServer
from antiphon.families.registry import resolve
from antiphon.stages.base import StageItem, StageRequest
from antiphon.stages.build import build_stage, engine_groups
from tests.fabric.replicas.local_cluster import UNLIMITED
from tests.loops import until

CONTEXT = LoadContext(device="cpu", admission=UNLIMITED)
TASK = resolve("toy")[0].tasks["speech"]
FUSED = engine_groups(TASK.pipeline, is_colocated=True)
APART = engine_groups(TASK.pipeline, is_colocated=False)
PROMPTER = TASK.prompter.resolve()(LoadContext())
TEXT = "A text of several words, which is spoken in a few chunks."
TOKEN = "a token"


def prompt_of(text: str, seed: int = 1) -> Prompt:
    request = SpeechRequest(text, sampling=TASK.sampling)
    built: Prompt = PROMPTER.build(request, PROMPTER.capabilities.voices[0], seed)
    return built


@asynccontextmanager
async def served(
    address: str, fabric: LocalFabric | None = None
) -> AsyncGenerator[tuple[StageServer, StageConnection], None]:
    fabric = fabric or LocalFabric(build_stage)
    server = StageServer(fabric, TOKEN)
    bound = await server.serve(address)
    connection = await StageConnection.connect(bound, TOKEN)
    try:
        yield server, connection
    finally:
        connection.close()
        await server.close()
        for handle in fabric.handles:
            await fabric.release(handle)


@pytest.fixture(params=["unix", "tcp"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"unix:{tmp_path}/wire/s" if request.param == "unix" else "tcp:127.0.0.1:0"


async def all_of(stream: AsyncGenerator[StageItem, None]) -> tuple[bytes, StageItem]:
    *chunks, last = [item async for item in stream]
    audio = [chunk.samples for chunk in chunks if isinstance(chunk, AudioChunk)]
    return np.concatenate(audio).tobytes(), last


async def undisturbed(text: str, seed: int = 1) -> tuple[bytes, StageItem]:
    """Return the same, of a stage in this process."""
    fabric = LocalFabric(build_stage)
    handle = await fabric.host(FUSED[0], CONTEXT, Placement())
    found = await all_of(fabric.open(handle, StageRequest("req", prompt_of(text, seed))))
    await fabric.release(handle)
    return found


async def test_audio_is_that_of_this_process_to_the_last_bit(address: str) -> None:
    async with served(address) as (_, connection):
        stage = await connection.host(FUSED[0], CONTEXT)
        found = await all_of(connection.open(stage, StageRequest("req", prompt_of(TEXT))))
        assert found == await undisturbed(TEXT)


async def test_many_streams_of_one_connection_are_those_that_come_alone(tmp_path: Path) -> None:
    async with served(f"unix:{tmp_path}/wire/s") as (_, connection):
        stage = await connection.host(FUSED[0], CONTEXT)
        streams = [
            connection.open(stage, StageRequest(f"req-{seed}", prompt_of(TEXT, seed)))
            for seed in range(16)
        ]
        found = await asyncio.gather(*map(all_of, streams))
        assert list(found) == [await undisturbed(TEXT, seed) for seed in range(16)]


async def test_stages_pull_from_stages_of_other_processes(tmp_path: Path) -> None:
    async with (
        served(f"unix:{tmp_path}/wire/1") as (_, talkers),
        served("tcp:127.0.0.1:0") as (_, codecs),
    ):
        talker = await talkers.host(APART[0], CONTEXT)
        codec = await codecs.host(APART[1], CONTEXT)
        upstream = (remote_handle(talkers.address, talker),)
        request = StageRequest("req", prompt_of(TEXT), upstream=upstream)
        assert await all_of(codecs.open(codec, request)) == await undisturbed(TEXT)


async def test_closing_frees_the_request_and_its_id_at_once(address: str) -> None:
    fabric = LocalFabric(build_stage)
    async with served(address, fabric) as (_, connection):
        stage = await connection.host(FUSED[0], CONTEXT)
        request = StageRequest("req", prompt_of(TEXT))
        for _ in range(3):
            async with aclosing(connection.open(stage, request)) as items:
                await anext(items)
        async with aclosing(connection.open(stage, request)) as items:
            await anext(items)
            with pytest.raises(InvalidRequestError, match="open already"):
                await anext(connection.open(stage, request))
        await until(lambda: not fabric.num_open)
        await until(lambda: not connection.status(stage).num_open)


async def test_abort_ends_a_stream_in_order(tmp_path: Path) -> None:
    async with served(f"unix:{tmp_path}/wire/s") as (_, connection):
        stage = await connection.host(FUSED[0], CONTEXT)
        stream = connection.open(stage, StageRequest("req", prompt_of(TEXT * 20)))
        await anext(stream)
        connection.abort(stage, "req")
        assert [item async for item in stream][-1] == Ended("abort")


async def test_a_lost_connection_ends_streams_and_aborts_requests(address: str) -> None:
    fabric = LocalFabric(build_stage)
    async with served(address, fabric) as (server, connection):
        stage = await connection.host(FUSED[0], CONTEXT)
        streams = [
            connection.open(stage, StageRequest(f"req-{number}", prompt_of(TEXT)))
            for number in range(4)
        ]
        for stream in streams:
            await anext(stream)
        assert fabric.num_open == 4
        connection.close()
        for stream in streams:
            with pytest.raises(ReplicaLostError):
                [item async for item in stream]
        assert connection.closed.is_set()
        with pytest.raises(ReplicaLostError):
            await anext(connection.open(stage, StageRequest("late", prompt_of(TEXT))))
        await until(lambda: not (fabric.num_open or server._server.peers))


async def test_a_stage_that_is_not_there_counts_as_lost(tmp_path: Path) -> None:
    async with served(f"unix:{tmp_path}/wire/s") as (_, connection):
        with pytest.raises(ReplicaLostError, match="no stage 'gone'"):
            await anext(connection.open("gone", StageRequest("req", prompt_of(TEXT))))
