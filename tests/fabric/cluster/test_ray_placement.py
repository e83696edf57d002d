"""Demands of replicas, and what a Ray cluster lacks for them, without a cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

from antiphon.contracts.family import LoadContext
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Hosting
from antiphon.fabric.cluster.ray_placement import (
    CPU_SHARE,
    NODE_LABEL,
    RayNode,
    actor_options,
    choose_node,
    demand_of,
    lack,
    node_options,
)
from antiphon.families.registry import resolve

SMALL = RayNode("small", {"rack": "7"}, {"CPU": 2.0}, {"CPU": 0.5})
LARGE = RayNode("large", {"gpu": "h200"}, {"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0, "GPU": 0.5})


NODES = (SMALL, LARGE)


def hosting(device: str = "cpu", **placed: Any) -> Hosting:
    family, _ = resolve("toy")
    context = LoadContext(device=device)
    return Hosting(family.tasks["speech"].pipeline, context, Placement(**placed))


def part(number: int, **placed: Any) -> Hosting:
    """Return one of the two stages of the model, which feed each other, on its own."""
    whole = hosting(**placed)
    return replace(whole, specs=whole.specs[number : number + 1])


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
    assert demand_of(hosted, NODES) == demand
    options = actor_options(hosted, NODES)
    assert options["num_cpus"] == demand.get("CPU", 0), "Ray's own default is one"
    assert options["num_gpus"] == demand.get("GPU", 0)


def test_there_is_a_runtime_environment_only_if_there_is_an_environment() -> None:
    assert "runtime_env" not in actor_options(hosting(), NODES)
    options = actor_options(hosting(environment=(("A", "1"),)), NODES)
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


def nodes(**num_gpus: float) -> list[RayNode]:
    """Return nodes by name, with so many GPUs and no CPUs."""
    return [RayNode(name, {}, {"GPU": gpus}, {"GPU": gpus}) for name, gpus in num_gpus.items()]


def placed(hosted: Sequence[Hosting], among: Sequence[RayNode]) -> list[str | None]:
    """Return the nodes of replicas that are started one after the other, before Ray accounts for
    any of them."""
    found: list[tuple[str, Hosting]] = []
    for each in hosted:
        node = choose_node(each, among, found)
        found.append((node or "", each))
    return [node or None for node, _ in found]


def test_replicas_are_spread_and_stages_that_feed_each_other_are_packed() -> None:
    talker, codec = part(0, num_gpus=1), part(1, num_gpus=1)
    pair = nodes(a=2, b=2)
    assert placed([talker, talker, codec, codec], pair) == ["a", "b", "a", "b"]
    assert placed([codec, codec, talker, talker], pair) == ["a", "b", "a", "b"]
    assert placed([talker, codec, talker, codec], pair) == ["a", "a", "b", "b"]
    assert placed([talker] * 4 + [codec], nodes(a=4, b=4)) == ["a", "b", "a", "b", "a"]
    assert placed([talker, codec, codec], nodes(a=3, b=3)) == ["a", "a", "a"]


def test_a_pack_begins_where_there_is_most_room_and_ends_where_there_is_none() -> None:
    talker, codec = part(0, num_gpus=1), part(1, num_gpus=1)
    assert placed([talker, codec], nodes(a=1, b=2)) == ["b", "b"]
    assert placed([talker, codec], nodes(a=1, b=1)) == ["a", "b"]
    assert placed([talker] * 3, nodes(a=1, b=1)) == ["a", "b", None]
    assert placed([talker] * 5, nodes(a=5, b=2)) == ["a", "b", "a", "b", "a"]
    tenth = part(0, num_gpus=0.1)
    assert placed([tenth] * 11, nodes(a=1)) == ["a"] * 10 + [None]


def test_a_node_is_a_preference_and_labels_are_a_condition() -> None:
    options = node_options(hosting(labels=(("rack", "7"),)), "small")
    assert options["label_selector"] == {"rack": "7", NODE_LABEL: "small"}
    assert options["fallback_strategy"] == [{"label_selector": {"rack": "7"}}]
    options = node_options(hosting(labels=(("rack", "7"),)), None)
    assert options["label_selector"] == {"rack": "7"}
    assert choose_node(hosting(labels=(("rack", "8"),)), NODES, []) is None
