"""What a placement means to Ray: resources, labels and nearness of a replica's actor."""

from dataclasses import replace
from typing import Any

import ray

from antiphon.fabric.base import Placement
from antiphon.fabric.hosting import Hosting

NODE_LABEL = "ray.io/node-id"
"""A label that Ray gives every node."""


def actor_options(hosting: Hosting, *, near: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the options that Ray places a replica's actor by.

    Replicas of a stage are spread over nodes. If stages that feed it, or that it feeds, run on some
    nodes already, those are preferred: frames then stay on the host.

    Args:
        hosting: of the replica.
        near: ids of those nodes.
    """
    placement = hosting.placement
    labels = dict(placement.labels)
    options: dict[str, Any] = {
        "num_cpus": 1,
        "num_gpus": num_gpus_of(hosting),
        "scheduling_strategy": "SPREAD",
        "runtime_env": {"env_vars": dict(placement.environment)},
    }
    if near:
        options["label_selector"] = {**labels, NODE_LABEL: f"in({','.join(near)})"}
        options["fallback_strategy"] = [{"label_selector": labels}]
    elif labels:
        options["label_selector"] = labels
    return options


def num_gpus_of(hosting: Hosting) -> float:
    """Return the GPUs of a replica: as placed, else one if it is to run on CUDA at all."""
    if hosting.placement.num_gpus:
        return hosting.placement.num_gpus
    device = _device(hosting)
    has_gpus = ray.cluster_resources().get("GPU", 0) > 0
    return float(device.startswith("cuda") or (device == "auto" and has_gpus))


def own_placement(hosting: Hosting) -> Placement:
    """Return the placement as the replica's own process sees it: its GPUs are numbered from 0."""
    device = _device(hosting)
    is_cuda = device.startswith("cuda")
    return replace(hosting.placement, device="cuda" if is_cuda else device, devices=())


def _device(hosting: Hosting) -> str:
    return hosting.placement.device_of(0) or hosting.context.device
