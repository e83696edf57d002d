"""Checks of a placement against a model's stages, without loading any."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from antiphon.config.diffusion import devices_of_ranks
from antiphon.contracts.family import LoadContext, StageKind, StageSpec
from antiphon.fabric.base import Placement
from antiphon.placement.model_placement import ModelPlacement

_AUTO = "auto"
_RUNTIME_BYTES = 2**30
"""A GPU process takes about so much before any weight: its context, kernels and graphs."""
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One engine as it would run.

    Attributes:
        stages: stages that share the engine, first to last.
        num_ranks: processes of a replica, which take its device and the GPUs after it.
        num_bytes: estimated, of one replica: weights as stored, and a cache of a set size.
    """

    model: str
    stages: tuple[str, ...]
    placement: Placement
    devices: tuple[str, ...]
    num_bytes: int
    max_batch: int
    num_ranks: int = 1

    @property
    def name(self) -> str:
        return "+".join(self.stages)


def engine_row(
    placed: ModelPlacement, specs: Sequence[StageSpec], placement: Placement, context: LoadContext
) -> EngineRow:
    """Return how one engine would run."""
    loaded = placement.context_of(context, 0)
    default = "cuda" if placed.fabric == "ray" and placement.num_gpus else context.device
    devices = placement.devices or (placement.device or default,)
    num_bytes = sum(spec.num_bytes(loaded) for spec in specs)
    names = tuple(spec.name for spec in specs)
    num_ranks = placed.num_ranks if specs[0].kind is StageKind.DIFFUSION else 1
    return EngineRow(placed.name, names, placement, devices, num_bytes, loaded.max_slots, num_ranks)


def problems(rows: Sequence[EngineRow], fabric: str, gpus: Mapping[str, int]) -> Iterator[str]:
    """Yield why engines cannot run on this host; nothing if Ray looks for hosts.

    Args:
        gpus: GPUs of this host: bytes of memory by name.
    """
    if fabric == "ray":
        return
    needed: dict[str, int] = {}
    for row in rows:
        yield from _missing(row, gpus)
        yield from _shared(row)
        for device, number in _replicas_by_device(row, row.placement.num_most).items():
            if device != "cpu":
                taken = number * (row.num_bytes + _RUNTIME_BYTES)
                needed[device] = needed.get(device, 0) + taken
    for device, num_bytes in needed.items():
        if device in gpus and num_bytes > gpus[device]:
            yield (
                f"{device}: about {num_bytes / _GIB:.1f} GiB are needed, and it has"
                f" {gpus[device] / _GIB:.1f} GiB. Give engines other devices, fewer replicas, or"
                " less cache_gib."
            )


def notes(rows: Sequence[EngineRow], kinds: Mapping[str, StageKind], fabric: str) -> Iterator[str]:
    """Yield notes on placements that are allowed but have no effect or a cost."""
    for row in rows:
        placement = row.placement
        has_chunks = any(name == "playback" for name, _ in placement.settings)
        if has_chunks and not any(kinds[stage] is StageKind.DECODER for stage in row.stages):
            yield f"{row.name}: it has no codec, so its sizes of chunks have no effect."
        if placement.num_gpus and fabric != "ray":
            yield f"{row.name}: gpus is for Ray; here devices name where replicas run."
        if placement.num_cpus is not None and fabric != "ray":
            yield f"{row.name}: cpus is for Ray; nothing is reserved here."
        if kinds[row.stages[0]] is StageKind.ENCODER:
            yield f"{row.name}: it runs only if the checkpoint needs it, such as to clone voices."
        if kinds[row.stages[0]] is StageKind.DECODER:
            yield f"{row.name}: it runs apart, so every frame travels to it from the stage before."
            yield from _too_few_slots(row, rows)
    if fabric == "ray":
        yield "Devices and memory are those of other hosts: they are checked where stages start."


def _too_few_slots(decoder: EngineRow, rows: Sequence[EngineRow]) -> Iterator[str]:
    """Yield a note if streams of the stage before wait for a slot of the decoder."""
    feeding = rows[rows.index(decoder) - 1]
    made = feeding.max_batch * feeding.placement.num_replicas
    decoded = decoder.max_batch * decoder.placement.num_replicas
    if decoded < made:
        yield (
            f"{decoder.name}: {made} streams of {feeding.name} share {decoded} slots, so some wait."
            " Give it a larger max_batch, or more replicas."
        )


def _missing(row: EngineRow, gpus: Mapping[str, int]) -> Iterator[str]:
    used = _replicas_by_device(row, len(row.devices))
    if missing := [device for device in used if device not in {"cpu", _AUTO, *gpus}]:
        has = ", ".join(gpus) if gpus else "no GPU that PyTorch sees"
        yield f"{row.name}: there is no device {', '.join(missing)}; this host has {has}."


def _shared(row: EngineRow) -> Iterator[str]:
    """Yield an error for more replicas on a GPU than fit, unless each has a share of it."""
    for device, number in _replicas_by_device(row, row.placement.num_most).items():
        share = row.placement.num_gpus or row.placement.memory_fraction or 1.0
        if device not in ("cpu", _AUTO) and number > 1 and number * share > 1:
            yield (
                f"{row.name}: {number} replicas on {device}. Name more devices, or name the part"
                " of one each may use: gpus or memory_fraction."
            )


def _replicas_by_device(row: EngineRow, num_replicas: int) -> Counter[str]:
    """Return the number of replicas that have a rank on each device."""
    firsts = (row.devices[number % len(row.devices)] for number in range(num_replicas))
    return Counter(device for first in firsts for device in devices_of_ranks(first, row.num_ranks))
