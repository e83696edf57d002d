"""The GPUs that Ray gives to replicas, and the device that each loads on; the GPUs are declared."""

import secrets
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

import ray

from antiphon.config import ModelSettings
from antiphon.config.diffusion import DiffusionSettings
from antiphon.contracts.family import LoadContext
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Hosting
from antiphon.fabric.cluster.ray_placement import alive_nodes, demand_of, own_context
from antiphon.families.registry import family
from antiphon.placement.documents import read_placement
from antiphon.placement.model_placement import ModelPlacement
from tests.fabric.cluster.ray_nodes import RayCluster, RayNodes, ray_nodes
from tests.fabric.cluster.recorded_loads import BUILDER, FILE_VARIABLE, recorded

pytestmark = [
    pytest.mark.slow,  # a Ray cluster takes ten seconds to start, a replica two
    # Ray leaves sockets and processes to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

SPEECH = tuple(family("qwen3_tts").tasks["speech"].pipeline)
DENOISER = (family("qwen_image").tasks["image"].pipeline[1],)


@pytest.fixture(scope="module")
def nodes() -> Generator[RayNodes, None, None]:
    with ray_nodes() as running:
        running.cluster.add_node(
            num_cpus=8, num_gpus=2, object_store_memory=80 * 2**20, include_dashboard=False
        )
        yield running


async def test_each_replica_has_a_gpu_of_its_own_and_loads_on_it(
    nodes: RayNodes, tmp_path: Path
) -> None:
    loads = tmp_path / "loads"
    file = read_placement(["several-hosts"], [f"defaults.environment.{FILE_VARIABLE}={loads}"])
    placed = ModelPlacement(file, "m", ModelSettings(source="m"), "ray").placement(SPEECH)
    cluster = await RayCluster.connect(
        BUILDER, address=nodes.address, namespace=secrets.token_hex(4)
    )
    try:
        context = LoadContext(device="auto")
        stage_id = await cluster.host(SPEECH, context, placed)
        async with aclosing(cluster.watch(stage_id)) as changes:
            async for found in changes:
                if len(found) == 2:
                    break
        assert sorted((each.device, each.visible) for each in recorded(loads)) == [
            ("auto", "0"),
            ("auto", "1"),
        ]
    finally:
        await cluster.close()


@pytest.mark.parametrize(
    ("placement", "context", "device", "num_gpus"),
    [
        (Placement(), LoadContext(device="auto"), "auto", 1.0),
        (Placement(), LoadContext(device="cuda:1"), "cuda", 1.0),
        (Placement(device="cpu"), LoadContext(device="cuda"), "cpu", 0.0),
        (Placement(devices=("cuda", "cuda")), LoadContext(), "cuda", 1.0),
        (Placement(num_gpus=0.4, memory_fraction=0.4), LoadContext(device="cuda"), "cuda", 0.4),
    ],
)
def test_a_replica_numbers_its_gpus_from_0(
    nodes: RayNodes, placement: Placement, context: LoadContext, device: str, num_gpus: float
) -> None:
    assert ray.is_initialized()
    hosting = Hosting(SPEECH, context, placement)
    loaded = own_context(hosting)
    assert (loaded.device, demand_of(hosting, alive_nodes()).get("GPU", 0.0)) == (device, num_gpus)
    assert loaded.memory_fraction == placement.memory_fraction


def test_a_denoiser_has_a_gpu_for_each_of_its_processes(nodes: RayNodes) -> None:
    context = LoadContext(device="cuda", diffusion=DiffusionSettings(cfg_parallel_size=2))
    assert demand_of(Hosting(DENOISER, context, Placement()), alive_nodes())["GPU"] == 2.0
    assert demand_of(Hosting(SPEECH, context, Placement()), alive_nodes())["GPU"] == 1.0
