"""What a stage process does beside streams: loading, late text, statuses; and other families."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec, Task
from antiphon.contracts.prompt import Feed, Piece, Prompt
from antiphon.contracts.types import AudioChunk, SpeechRequest
from antiphon.errors import ModelLoadError, OverloadedError, ReplicaLostError
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire import status_push
from antiphon.fabric.wire.stage_client import StageConnection, remote_handle
from antiphon.fabric.wire.stage_server import StageServer
from antiphon.families.registry import resolve
from antiphon.stages.base import Stage, StageItem, StageRequest
from antiphon.stages.build import build_stage, engine_groups
from antiphon.telemetry.stage_status import Publish, StageStatus
from tests.fabric.cluster.refusing_stage import RefusingStage
from tests.fabric.wire.peers import TOKEN, turns
from tests.loops import until

SPEC = StageSpec("stub", StageKind.GENERATOR, ItemKind.TEXT, ItemKind.AUDIO, Ref("none:none"))
CONTEXT = LoadContext(device="cpu", dtype="float32", max_slots=4)
REQUEST = StageRequest("req", Prompt(data=None, num_tokens=1, seed=0))
TEXT = "Some words of a text."
TOY = resolve("toy")[0].tasks["speech"]


@asynccontextmanager
async def served(
    folder: Path, fabric: LocalFabric
) -> AsyncGenerator[tuple[StageServer, StageConnection], None]:
    server = StageServer(fabric, TOKEN)
    connection = await StageConnection.connect(await server.serve(f"unix:{folder}/w/s"), TOKEN)
    try:
        yield server, connection
    finally:
        connection.close()
        await server.close()
        for handle in fabric.handles:
            await fabric.release(handle)


class Stub(RefusingStage):
    """A stage that publishes what a test wants."""

    def __init__(self, publish: Publish) -> None:
        super().__init__(retry_after_s=3.0)
        self.publish = publish


class StubBuilder:
    """Builds stubs, when it may."""

    def __init__(self) -> None:
        self.built: list[Stub] = []
        self.steps: list[Callable[[LoadContext], object]] = []

    def __call__(self, specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
        for step in self.steps:
            step(context)
        self.built.append(Stub(publish))
        return self.built[-1]


async def audio_of(stream: AsyncGenerator[StageItem, None]) -> tuple[bytes, StageItem]:
    *chunks, last = [item async for item in stream]
    assert chunks
    audio = [chunk.samples for chunk in chunks if isinstance(chunk, AudioChunk)]
    return np.concatenate(audio).tobytes(), last


async def test_refusals_cross_with_their_time_to_retry(tmp_path: Path) -> None:
    async with served(tmp_path, LocalFabric(StubBuilder())) as (_, connection):
        stage = await connection.host([SPEC], CONTEXT)
        with pytest.raises(OverloadedError) as caught:
            await anext(connection.open(stage, REQUEST))
        assert caught.value.retry_after_s == 3.0
        connection.append(stage, "req", Piece(data="?", num_frames_allowed=None))
        connection.abort(stage, "req")
        await connection.release(stage)
        await connection.release(stage)
        with pytest.raises(ReplicaLostError):
            await anext(connection.open(stage, REQUEST))


async def test_loading_reports_progress_and_why_it_fails(tmp_path: Path) -> None:
    builder = StubBuilder()
    seen: list[tuple[str, int, int]] = []

    def load(context: LoadContext) -> None:
        assert context.progress is not None
        for number in range(1001):
            context.progress("weights", number, 1000)

    def fail(context: LoadContext) -> None:
        raise ModelLoadError("It is damaged.")

    async with served(tmp_path, LocalFabric(builder)) as (_, connection):
        context = replace(CONTEXT, progress=lambda *news: seen.append(news))
        builder.steps = [load]
        stage = await connection.host([SPEC], context)
        assert 1 <= len(seen) < 100
        assert seen == sorted(seen)
        builder.steps = [fail]
        with pytest.raises(ModelLoadError, match="damaged"):
            await connection.host([SPEC], context)
        assert [*connection._statuses] == [stage]


async def test_what_is_loaded_for_a_process_that_has_left_is_unloaded(tmp_path: Path) -> None:
    may_go_on = asyncio.Event()
    loop = asyncio.get_running_loop()
    builder = StubBuilder()
    builder.steps = [lambda _: asyncio.run_coroutine_threadsafe(may_go_on.wait(), loop).result()]
    fabric = LocalFabric(builder)
    async with served(tmp_path, fabric) as (server, connection):
        hosting = asyncio.create_task(connection.host([SPEC], CONTEXT))
        await asyncio.sleep(0.05)
        connection.close()
        with pytest.raises(ReplicaLostError):
            await hosting
        may_go_on.set()
        await until(lambda: bool(builder.built) and builder.built[0].is_closed)
        assert fabric.handles == ()
        assert not server._server.peers


async def test_statuses_are_pushed_a_few_times_a_second_and_the_last_one_always(
    tmp_path: Path,
) -> None:
    builder = StubBuilder()
    num_pushed = 0
    async with served(tmp_path, LocalFabric(builder)) as (_, connection):
        stage = await connection.host([SPEC], CONTEXT)
        note = connection._note_status

        def counted(*arguments: Any) -> None:
            nonlocal num_pushed
            num_pushed += 1
            note(*arguments)

        notices: Any = connection._peer._handlers.notices
        notices["status"] = counted
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for number in range(1, 2001):
            builder.built[0].publish(StageStatus(num_open=number, capacity=7))
            await asyncio.sleep(0)
        await until(lambda: connection.status(stage).num_open == 2000)
        assert connection.status(stage).capacity == 7
        num_looks = (loop.time() - began_s) / status_push.STATUS_S
        assert 1 <= num_pushed <= num_looks + 2
        step = StageStatus(num_open=2000, capacity=7, step_began_s=1.0)
        num_pushed, began_s = 0, loop.time()
        for _ in range(500):  # steps, which change no load
            builder.built[0].publish(replace(step))
            await asyncio.sleep(0.001)
        builder.built[0].publish(StageStatus(num_open=2000, capacity=7, failure="broken"))
        await until(lambda: connection.status(stage).failure == "broken")
        num_pushes = (loop.time() - began_s) / status_push.DETAILS_S
        assert 1 <= num_pushed <= num_pushes + 3
        assert connection.status("another") == StageStatus()
        newcomer = await StageConnection.connect(connection.address, TOKEN)
        assert newcomer.status(stage).num_open == 2000
        newcomer.close()


@pytest.mark.parametrize("is_apart", [False, True])
async def test_text_that_arrives_makes_the_audio_of_the_whole(
    tmp_path: Path, is_apart: bool
) -> None:
    """Piece by piece, and all of it before its request is open: another process opens it then."""
    async with (
        served(tmp_path / "1", LocalFabric(build_stage)) as (_, first),
        served(tmp_path / "2", LocalFabric(build_stage)) as (_, second),
    ):
        groups = engine_groups(TOY.pipeline, is_colocated=not is_apart)
        stages = [
            await connection.host(group, CONTEXT)
            for connection, group in zip((first, second), groups, strict=False)
        ]
        upstream = (remote_handle(first.address, stages[0]),) if is_apart else ()
        last = second if is_apart else first

        def opened(id: str, prompt: Prompt) -> AsyncGenerator[StageItem, None]:
            return last.open(stages[-1], StageRequest(id, prompt, upstream=upstream))

        request = SpeechRequest(TEXT, sampling=TOY.sampling)
        prompter = TOY.prompter.resolve()(LoadContext())
        voice = prompter.capabilities.voices[0]
        whole = await audio_of(opened("whole", prompter.build(request, voice, 1)))
        for id, num_early in (("one by one", 0), ("some early", 5), ("early", len(TEXT))):
            late: tuple[Prompt, Feed] = prompter.open(replace(request, input=""), voice, 1)
            prompt, feed = late
            pieces = [feed.push(letter) for letter in TEXT]
            append = partial(first.append, stages[0], id)
            for piece in pieces[:num_early]:
                if piece is not None:
                    append(piece)
            await turns()
            reading = asyncio.create_task(audio_of(opened(id, prompt)))
            await turns()
            for piece in pieces[num_early:]:
                if piece is not None:
                    append(piece)
                await asyncio.sleep(0)
            append(feed.close())
            assert await reading == whole


async def assert_same_as_here(
    folder: Path, task: Task, path: Path | None, text: str, *, max_frames: int | None
) -> None:
    """Assert that a task's audio is that of this process, fused and apart, alone and together."""
    context = replace(CONTEXT, path=path)
    prompter = task.prompter.resolve()(context)
    sampling = replace(task.sampling, max_frames=max_frames)
    request = SpeechRequest(text, sampling=sampling)
    prompts = [prompter.build(request, prompter.capabilities.voices[0], seed) for seed in range(3)]
    for is_colocated in {True, len(task.pipeline) == 1}:
        groups = engine_groups(task.pipeline, is_colocated=is_colocated)
        here = LocalFabric(build_stage)
        async with served(folder / f"{is_colocated}", here) as (_, connection):
            stages = [await connection.host(group, context) for group in groups]
            *before, last = here.handles

            upstream = tuple(remote_handle(connection.address, stage) for stage in stages[:-1])
            over = [
                audio_of(
                    connection.open(stages[-1], StageRequest(f"{each}", prompt, upstream=upstream))
                )
                for each, prompt in enumerate(prompts)
            ]
            alone = [
                await audio_of(
                    here.open(last, StageRequest("here", prompt, upstream=tuple(before)))
                )
                for prompt in prompts
            ]
            assert await asyncio.gather(*over) == alone


@pytest.mark.parametrize("name", ["toy", "hibari"])
async def test_families_sound_the_same(tmp_path: Path, name: str) -> None:
    task = resolve(name)[0].tasks["speech"]
    await assert_same_as_here(tmp_path, task, None, TEXT, max_frames=None)


@pytest.mark.slow  # loads a real architecture twice
async def test_a_model_of_random_weights_sounds_the_same(
    tmp_path: Path, checkpoint: Callable[[Any, str], Path]
) -> None:
    path = checkpoint("tiny", "custom_voice")
    task = resolve(str(path))[0].tasks["speech"]
    await assert_same_as_here(tmp_path, task, path, "Some words.", max_frames=12)


async def test_a_stream_of_a_killed_upstream_is_lost(tmp_path: Path) -> None:
    async with (
        served(tmp_path / "1", LocalFabric(build_stage)) as (talkers, first),
        served(tmp_path / "2", LocalFabric(build_stage)) as (_, second),
    ):
        groups = engine_groups(TOY.pipeline, is_colocated=False)
        talker = await first.host(groups[0], CONTEXT)
        codec = await second.host(groups[1], CONTEXT)
        prompt, _ = TOY.prompter.resolve()(LoadContext()).open(
            SpeechRequest(TEXT, sampling=TOY.sampling),
            TOY.prompter.resolve()(LoadContext()).capabilities.voices[0],
            1,
        )
        request = StageRequest("req", prompt, upstream=(remote_handle(first.address, talker),))
        async with aclosing(second.open(codec, request)) as items:
            await anext(items)  # text is awaited after it
            await talkers.close()
            with pytest.raises(ReplicaLostError):
                [item async for item in items]
        await until(lambda: second.status(codec).num_open == 0)
