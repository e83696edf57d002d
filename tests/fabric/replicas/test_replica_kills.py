"""Streams over replicas that are killed: every one is the undisturbed one, sample for sample."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import AudioChunk, Samples, SpeechRequest
from antiphon.engine.plan import StepPlan
from antiphon.errors import EngineFailedError
from antiphon.fabric.replicas.fabric import ReplicaFabric
from antiphon.fabric.replicas.link import ReplicaLimits
from antiphon.families.toy.prompt import ToyPrompter
from antiphon.offline import collect
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from antiphon.stages.base import StageRequest
from antiphon.stages.build import EngineStage
from tests.fabric.replicas.local_cluster import LIMITS, InProcessCluster
from tests.fabric.replicas.replica_streams import (
    DEADLINE_S,
    TEXT,
    heard,
    prompt_of,
    served,
    toy,
    undisturbed,
)


class Killer:
    """Kills the replicas of a stream at chosen moments."""

    def __init__(self, fabric: ReplicaFabric, cluster: InProcessCluster) -> None:
        self._fabric = fabric
        self._cluster = cluster

    def kill(self, request_id: str, number: int = -1) -> None:
        """Kill the replica that makes one of the stages of a request, if there is one now."""
        stream = self._fabric._streams.get(request_id)
        if stream is None or stream._attempt is None:
            return
        place = stream._attempt.places[number]
        self._cluster.kill(place.group.stage_id, place.link.replica.id)

    def kill_any(self, random: Random) -> None:
        stage_id = random.choice(sorted(self._cluster.hosted))
        if replicas := sorted(self._cluster.hosted[stage_id].processes):
            self._cluster.kill(stage_id, random.choice(replicas))


def late(model: SpeechModel, seed: int, text: str = TEXT) -> tuple[Prompt, list[Piece]]:
    """Return the prompt of the first letter, and the rest of the text letter by letter."""
    assert isinstance(model.prompter, ToyPrompter)
    request = SpeechRequest(text[:1], sampling=model.task.sampling)
    prompt, feed = model.prompter.open(request, model.capabilities.voices[0], seed)
    pieces = [feed.push(letter) for letter in text[1:]]
    return prompt, [*(each for each in pieces if each is not None), feed.close()]


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kills=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1)), max_size=6),
    is_late=st.booleans(),
    is_colocated=st.booleans(),
)
async def test_any_schedule_of_kills_gives_the_undisturbed_samples(
    tmp_path_factory: pytest.TempPathFactory,
    kills: list[tuple[int, int]],
    is_late: bool,
    is_colocated: bool,
) -> None:
    folder = tmp_path_factory.mktemp("kills")
    async with served(folder, toy(is_colocated=is_colocated)) as (model, fabric, cluster):
        killer = Killer(fabric, cluster)

        def on_item(number: int) -> None:
            for at, stage in kills:
                if at == number:
                    killer.kill("r", stage if not is_colocated else 0)

        prompt, pieces = late(model, 5) if is_late else (prompt_of(model, 5), [])
        found = await heard(model, StageRequest("r", prompt), pieces, on_item)
        np.testing.assert_array_equal(found, (await undisturbed([5]))[5])
        await model.close()


@pytest.mark.parametrize("is_colocated", [True, False], ids=["fused", "apart"])
async def test_random_kills_under_many_streams_lose_nothing(
    tmp_path: Path, is_colocated: bool
) -> None:
    num_kills, num_streams, text = 60, 8, TEXT[:40]
    random = Random(7)
    expected = await undisturbed(range(num_streams), text)
    async with served(tmp_path, toy(is_colocated=is_colocated), 3) as (model, fabric, cluster):
        killer = Killer(fabric, cluster)
        num_done = 0

        async def speak(number: int) -> None:
            nonlocal num_done
            turn = 0
            while cluster.num_killed < num_kills:
                turn += 1
                name = f"{number}-{turn}"
                prompt, pieces = (
                    late(model, number, text) if turn % 2 else (prompt_of(model, number, text), [])
                )
                found = await heard(model, StageRequest(name, prompt), pieces)
                np.testing.assert_array_equal(found, expected[number])
                num_done += 1

        async def kill() -> None:
            while cluster.num_killed < num_kills:
                await asyncio.sleep(random.uniform(0.0, 0.03))
                killer.kill_any(random)

        await asyncio.gather(kill(), *(speak(number) for number in range(num_streams)))
        assert num_done >= num_streams
        assert fabric.num_migrations + fabric.num_retries, "no stream was hit"
        await model.close()


async def test_whole_requests_survive_with_all_their_segments(tmp_path: Path) -> None:
    text = "One sentence here. " * 30
    local = await SpeechModel.load(toy())
    request = SpeechRequest(text, seed=3)
    speech = Speech({local.name: local}, SpeechSettings())
    expected = await collect(speech.stream(request))
    speech.close()
    await local.close()
    async with served(tmp_path) as (model, fabric, cluster):
        speech = Speech({model.name: model}, SpeechSettings())
        random, killer = Random(1), Killer(fabric, cluster)

        async def kill() -> None:
            while True:
                await asyncio.sleep(random.uniform(0.0, 0.05))
                killer.kill_any(random)

        killing = asyncio.create_task(kill())
        found = await collect(speech.stream(SpeechRequest(text, seed=3)))
        killing.cancel()
        np.testing.assert_array_equal(found.samples, expected.samples)
        assert (found.usage, found.finish_reason) == (expected.usage, expected.finish_reason)
        assert cluster.num_killed >= 2
        speech.close()
        await model.close()


def engine_of(cluster: InProcessCluster, replica: str) -> Any:
    [hosted] = cluster.hosted.values()
    [stage] = hosted.processes[replica].stages._stages.values()
    assert isinstance(stage, EngineStage)
    return stage._engine


async def heard_after_trouble(
    model: SpeechModel, fabric: ReplicaFabric, trouble: Callable[[str], Awaitable[None]]
) -> Samples:
    """Return the samples of a long stream, whose replica gets into trouble after a chunk."""
    async with aclosing(model.open(StageRequest("r", prompt_of(model, 1, TEXT * 4)))) as items:
        first = await anext(items)
        assert isinstance(first, AudioChunk)
        attempt = fabric._streams["r"]._attempt
        assert attempt is not None
        await trouble(attempt.places[0].link.replica.id)
        rest = [each.samples async for each in items if isinstance(each, AudioChunk)]
    assert fabric.num_migrations >= 1
    return np.concatenate([first.samples, *rest])


@pytest.mark.parametrize("kind", ["broken", "stopped", "hanging"])
async def test_a_stream_leaves_a_replica_that_is_in_trouble(tmp_path: Path, kind: str) -> None:
    expected = (await undisturbed([1], TEXT * 4))[1]
    limits = replace(LIMITS, stall_s=0.5)
    goes_on = threading.Event()
    async with served(tmp_path, limits=limits) as (model, fabric, cluster):

        async def trouble(replica: str) -> None:
            engine = engine_of(cluster, replica)
            if kind == "stopped":
                await engine.close()
                return

            def launch(plan: StepPlan) -> Any:
                if kind == "broken":
                    raise ValueError("broken on purpose")
                goes_on.wait(DEADLINE_S)
                return original(plan)

            original = engine._core.runner.launch
            engine._core.runner.launch = launch

        found = await heard_after_trouble(model, fabric, trouble)
        goes_on.set()
        np.testing.assert_array_equal(found, expected)
        assert model.status.failure is None, "there is another one"
        await model.close()


async def test_a_generator_makes_all_again_and_the_listener_hears_only_what_is_new(
    tmp_path: Path,
) -> None:
    text = "The quick brown fox jumps over the lazy dog, and runs away."
    hibari = ModelSettings(source="hibari", device="cpu")
    local = await SpeechModel.load(hibari)
    expected = await heard(local, StageRequest("r", prompt_of(local, 1, text)))
    await local.close()
    async with served(tmp_path, hibari) as (model, fabric, cluster):
        killer = Killer(fabric, cluster)
        request = StageRequest("r", prompt_of(model, 1, text))
        found = await heard(model, request, on_item=lambda number: killer.kill("r"))
        np.testing.assert_array_equal(found, expected)
        assert fabric.num_migrations >= 1
        await model.close()


async def test_a_request_that_breaks_every_replica_is_given_up(tmp_path: Path) -> None:
    limits = ReplicaLimits(look_s=0.2, max_losses=3)
    async with served(tmp_path, limits=limits, num_replicas=5) as (model, _, cluster):
        [hosted] = cluster.hosted.values()

        def launch(plan: StepPlan) -> Any:
            raise ValueError("broken on purpose")

        for replica in hosted.processes:
            engine_of(cluster, replica)._core.runner.launch = launch
        with pytest.raises(EngineFailedError):
            await heard(model, StageRequest("r", prompt_of(model, 1)))
        failed = [engine_of(cluster, each).failure for each in hosted.processes]
        assert 1 <= len([each for each in failed if each is not None]) <= 3
        await model.close()
