"""The device that each replica loads on, as the builder of its stages sees it in its process."""

import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from antiphon.config import ModelSettings
from antiphon.config.sources import process_environment
from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.cluster.client import ClusterClient
from antiphon.fabric.cluster.launch_process import ProcessClusterOptions, ProcessController
from antiphon.fabric.cluster.runtime_folder import runtime_folder
from antiphon.fabric.local import LocalFabric
from antiphon.families.registry import family
from antiphon.placement.documents import profiles, read_placement
from antiphon.placement.model_placement import ModelPlacement
from antiphon.placement.settings_placement import without_all
from antiphon.stages.build import engine_groups
from tests.fabric.cluster.recorded_loads import (
    BUILDER,
    FILE_VARIABLE,
    build_recorded_stage,
    recorded,
)

CONTEXT = LoadContext(device="auto", memory_utilization=0.9)
PIPELINE = family("toy").tasks["speech"].pipeline
SPECS = family("glm_image").tasks["image"].pipeline
TWO_GPUS = {f"cuda:{number}": 80 * 2**30 for number in range(2)}


@asynccontextmanager
async def started(loads: Path) -> AsyncGenerator[ClusterClient, None]:
    with runtime_folder() as folder:
        environment = {**process_environment(), FILE_VARIABLE: str(loads)}
        options = ProcessClusterOptions(
            builder=BUILDER, folder=folder, token="token", environment=environment
        )
        cluster = ClusterClient(ProcessController(options))
        try:
            yield cluster
        finally:
            await cluster.close()


async def replicas(cluster: ClusterClient, stage_id: str, number: int) -> tuple[Replica, ...]:
    async with aclosing(cluster.watch(stage_id)) as changes:
        async for found in changes:
            if len(found) == number:
                return found
    raise AssertionError("the watch has ended")


async def hosted(cluster: ClusterClient, specs: Sequence[StageSpec], placement: Placement) -> str:
    stage_id = await cluster.host(specs, CONTEXT, placement)
    found = await replicas(cluster, stage_id, placement.num_replicas)
    labels = [placement.context_of(CONTEXT, number).device for number in range(len(found))]
    assert [each.device for each in found] == labels
    return stage_id


def devices(loads: Path) -> list[str]:
    return sorted(each.device for each in recorded(loads))


@pytest.mark.parametrize(
    ("placement", "loaded"),
    [
        (Placement(), ["auto"]),
        (Placement(device="cuda:1"), ["cuda:1"]),
        (Placement(devices=("cuda:0", "cuda:1"), num_replicas=2), ["cuda:0", "cuda:1"]),
        (Placement(devices=("cuda:1", "cpu"), num_replicas=3), ["cpu", "cuda:1", "cuda:1"]),
        (Placement(device="cuda:1", num_replicas=2, memory_fraction=0.4), ["cuda:1"] * 2),
    ],
)
async def test_each_replica_loads_on_its_own_device(
    placement: Placement, loaded: list[str], tmp_path: Path
) -> None:
    loads = tmp_path / "loads"
    async with started(loads) as cluster:
        await hosted(cluster, PIPELINE, placement)
        assert devices(loads) == loaded
        assert len({each.pid for each in recorded(loads)}) == placement.num_replicas
        assert {each.memory_fraction for each in recorded(loads)} == {placement.memory_fraction}


async def test_replicas_keep_their_devices_when_they_are_killed_added_and_removed(
    tmp_path: Path,
) -> None:
    loads = tmp_path / "loads"
    placement = Placement(
        devices=("cuda:0", "cuda:1", "cuda:2"), num_replicas=2, min_replicas=1, max_replicas=3
    )
    async with started(loads) as cluster:
        stage_id = await hosted(cluster, PIPELINE, placement)
        pids = {each.device: each.pid for each in recorded(loads)}
        for device in ("cuda:1", "cuda:0"):
            num_loads = len(recorded(loads))
            os.kill(pids[device], signal.SIGKILL)
            await replicas(cluster, stage_id, 1)
            await replicas(cluster, stage_id, 2)
            [again] = recorded(loads)[num_loads:]
            assert again.device == device
            assert again.pid != pids[device]
        num_loads = len(recorded(loads))
        for number, loaded in ((3, ["cuda:2"]), (1, []), (3, ["cuda:1", "cuda:2"])):
            await cluster.controller.scale(stage_id, number)
            found = await replicas(cluster, stage_id, number)
            assert [each.device for each in found] == [*placement.devices[:number]]
            assert sorted(each.device for each in recorded(loads)[num_loads:]) == loaded
            num_loads = len(recorded(loads))


async def test_engines_of_a_device_share_a_process_unless_their_memory_has_other_bounds(
    tmp_path: Path,
) -> None:
    loads = tmp_path / "loads"
    async with started(loads) as cluster:
        for spec, fraction in zip(SPECS, (0.5, 0.3, 0.3, None), strict=True):
            placed = Placement(device="cuda:1", memory_fraction=fraction)
            await hosted(cluster, [spec], placed)
        first, second, third, last = recorded(loads)
        assert [each.memory_fraction for each in recorded(loads)] == [0.5, 0.3, 0.3, None]
        assert second.pid == third.pid
        assert len({first.pid, second.pid, last.pid}) == 3


async def test_this_process_loads_the_first_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = tmp_path / "loads"
    monkeypatch.setenv(FILE_VARIABLE, str(loads))
    placement = Placement(devices=("cuda:1", "cuda:0"), num_replicas=2)
    await LocalFabric(build_recorded_stage).host(PIPELINE, CONTEXT, placement)
    assert devices(loads) == ["cuda:1"]


def chains(name: str, task: str, placed: ModelPlacement) -> list[tuple[StageSpec, ...]]:
    found = family(name).tasks[task]
    groups = engine_groups(found.pipeline, is_colocated=placed.is_colocated(found.pipeline))
    return [*([] if found.encoder is None else [(found.encoder,)]), *groups]


@pytest.mark.parametrize(
    ("profile", "name", "loaded"),
    [
        ("cpu", "qwen3_tts", {"voice encoder": ["cpu"], "talker+codec": ["cpu"]}),
        ("one-gpu", "qwen3_tts", {"voice encoder": ["cuda:0"], "talker+codec": ["cuda:0"]}),
        ("one-gpu", "kokoro", {"voice": ["auto"]}),
        (
            "all-gpus",
            "qwen3_tts",
            {"voice encoder": ["cuda:0"], "talker+codec": ["cuda:0", "cuda:1"]},
        ),
        (
            "talker-codec-apart",
            "qwen3_tts",
            {"voice encoder": ["cuda:1"], "talker": ["cuda:0"], "codec": ["cuda:1"]},
        ),
        (
            "four-talkers-one-codec",
            "qwen3_tts",
            {
                "voice encoder": ["cuda:4"],
                "talker": ["cuda:0", "cuda:1", "cuda:2", "cuda:3"],
                "codec": ["cuda:4"],
            },
        ),
        (
            "all-gpus",
            "glm_image",
            {
                "image tokenizer": ["cuda:0"],
                "prior": ["cuda:0", "cuda:1"],
                "text_encoder": ["auto"],
                "denoiser": ["cuda:0", "cuda:1"],
                "vae": ["auto"],
            },
        ),
    ],
)
async def test_a_shipped_profile_loads_each_replica_where_it_says(
    profile: str, name: str, loaded: dict[str, list[str]], tmp_path: Path
) -> None:
    file = without_all(read_placement([profile]), lambda: TWO_GPUS)
    placed = ModelPlacement(file, name, ModelSettings(source=name), "process")
    [task] = family(name).tasks
    loads = tmp_path / "loads"
    async with started(loads) as cluster:
        for specs in chains(name, task, placed):
            await hosted(cluster, specs, placed.placement(specs))
        found: dict[str, list[str]] = {}
        for each in recorded(loads):
            found.setdefault(each.stages, []).append(each.device)
        assert {stages: sorted(each) for stages, each in found.items()} == loaded


def test_every_shipped_profile_of_this_host_is_tried() -> None:
    marks = test_a_shipped_profile_loads_each_replica_where_it_says.pytestmark  # type: ignore[attr-defined]
    (cases,) = [mark.args[1] for mark in marks if mark.name == "parametrize"]
    tried = {profile for profile, *_ in cases}
    assert profiles().keys() - tried == {"several-hosts"}
