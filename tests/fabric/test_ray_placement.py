"""Demands of replicas, and what a Ray cluster lacks for them, without a cluster."""

from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

import ray

from antiphon.fabric.base import Placement
from antiphon.fabric.hosting import Hosting
from antiphon.fabric.ray_placement import CPU_SHARE, RayNode, actor_options, demand_of, lack
from antiphon.models.registry import resolve
from antiphon.models.spec import LoadContext

SMALL = RayNode("small", {"rack": "7"}, {"CPU": 2.0}, {"CPU": 0.5})
LARGE = RayNode("large", {"gpu": "h200"}, {"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0, "GPU": 0.5})


@pytest.fixture(autouse=True)
def _gpus_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"GPU": 2.0})


def hosting(device: str = "cpu", **placed: Any) -> Hosting:
    family, _ = resolve("toy")
    context = LoadContext(device=device)
    return Hosting(family.tasks["speech"].pipeline, context, Placement(**placed))


@pytest.mark.parametrize(
    ("hosted", "demand"),
    [
        (hosting(), {"CPU": CPU_SHARE}),
        (hosting(num_cpus=2), {"CPU": 2}),
        (hosting(num_cpus=0), {}),
        (hosting("auto"), {"GPU": 1.0}),
        (hosting("cuda"), {"GPU": 1.0}),
        (hosting(num_gpus=0.5), {"GPU": 0.5}),
        (hosting(num_gpus=0.5, num_cpus=4), {"CPU": 4, "GPU": 0.5}),
    ],
)
def test_a_replica_reserves_what_is_placed_and_little_else(
    hosted: Hosting, demand: dict[str, float]
) -> None:
    assert demand_of(hosted) == demand
    options = actor_options(hosted)
    assert options["num_cpus"] == demand.get("CPU", 0), "Ray's own default is one"
    assert options["num_gpus"] == demand.get("GPU", 0)


def test_there_is_a_runtime_environment_only_if_there_is_an_environment() -> None:
    assert "runtime_env" not in actor_options(hosting())
    options = actor_options(hosting(environment=(("A", "1"),)))
    assert options["runtime_env"] == {"env_vars": {"A": "1"}}


@pytest.mark.parametrize(
    ("hosted", "reason"),
    [
        (hosting(), None),
        (hosting(num_cpus=8), None),
        (hosting(num_cpus=9), "needs 9 CPU on one host, and no host has more than 8 CPU."),
        (hosting(num_gpus=1), "needs 1 GPU on one host; of 2 GPU in the cluster, 0.5 GPU are free"),
        (hosting(num_gpus=3), "no host has more than 2 GPU"),
        (
            hosting(num_cpus=1, labels=(("rack", "7"),)),
            "1 CPU on one host with the labels rack=7; of 2 CPU in the cluster, 0.5 CPU are free",
        ),
        (hosting(labels=(("gpu", "b200"),)), "No host of the cluster has the labels gpu=b200."),
        (hosting(labels=(("gpu", "in(b200, h200)"),)), None),
        (hosting(labels=(("gpu", "!h200"), ("rack", "!in(8,9)"))), None),
        (hosting(labels=(("gpu", "!in(h200)"), ("rack", "!7"))), "No host"),
    ],
)
def test_what_is_lacking_is_named(hosted: Hosting, reason: str | None) -> None:
    found = lack(hosted, [SMALL, LARGE])
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert reason in found


def test_a_cluster_without_hosts_lacks_everything() -> None:
    assert lack(hosting(), []) is not None
