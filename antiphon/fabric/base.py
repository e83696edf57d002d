"""Contract of a fabric: hosts stages, opens requests at them, and publishes their statuses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.prompt import Piece
from antiphon.stages.base import StageHandle, StageRequest, StageStream
from antiphon.telemetry.stage_status import StageStatus

GroupStrategy: TypeAlias = Literal["PACK", "SPREAD", "STRICT_SPREAD"]
"""Distribution of a group's bundles over hosts, in Ray's terms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGroup:
    """Engines whose replicas are reserved together: bundle N holds replica N of each engine.

    Attributes:
        strategy: distribution of the bundles over hosts; a bundle is on one host.
        engines: stages and placement, without a group, of each engine.
        labels: ``(name, value)`` pairs that the host of a bundle must have.
    """

    name: str
    strategy: GroupStrategy
    engines: tuple[tuple[tuple[StageSpec, ...], "Placement"], ...]
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Placement of one engine's stages: devices, replicas and resources.

    Attributes:
        device: device that overrides that of `LoadContext`; ``None``: no override.
        devices: devices that the replicas take in turn, instead of ``device``.
        min_replicas: lower bound of autoscaling, which is off if ``max_replicas`` is equal.
        max_replicas: upper bound of autoscaling; ``None``: ``num_replicas``.
        num_gpus: GPUs that each replica reserves on Ray; a fraction shares one.
        num_cpus: CPUs that each replica reserves on Ray; ``None``: none beside a GPU, else a small
            share.
        max_slots: number of slots that overrides that of `LoadContext`; ``None``: no override.
        memory_fraction: fraction of a device's memory that a replica may use; ``None``: no bound.
        labels: ``(name, value)`` pairs that the host of a replica must have.
        settings: fields of `LoadContext` that are overridden, with their values.
        group: engines that the replicas are reserved with; ``None``: none.
    """

    device: str | None = None
    devices: tuple[str, ...] = ()
    num_replicas: int = 1
    min_replicas: int = 1
    max_replicas: int | None = None
    num_gpus: float = 0.0
    num_cpus: float | None = None
    max_slots: int | None = None
    memory_fraction: float | None = None
    labels: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()
    group: StageGroup | None = None

    @property
    def num_most(self) -> int:
        """Replicas that there may be."""
        return max(self.num_replicas, self.max_replicas or 1)

    def context_of(self, context: LoadContext, number: int) -> LoadContext:
        """Return the context that a replica is loaded with, its device included.

        This is the only place where the device of a replica is decided. The process that loads the
        replica gets this context and no placement.
        """
        device = self.devices[number % len(self.devices)] if self.devices else self.device
        return replace(
            context,
            device=device or context.device,
            max_slots=self.max_slots or context.max_slots,
            has_fixed_slots=self.max_slots is not None or context.has_fixed_slots,
            memory_fraction=self.memory_fraction or context.memory_fraction,
            **dict(self.settings),
        )


class Fabric(Protocol):
    """Hosts stages, of one model or of several."""

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> StageHandle:
        """Load stages that share a device, off the event loop; raises ModelLoadError."""

    def open(self, handle: StageHandle, request: StageRequest) -> StageStream:
        """Open a request at a stage, and at those before it, which it pulls."""

    def append(self, handle: StageHandle, request_id: str, piece: Piece) -> None:
        """Append text to a request that is open at a stage."""

    def abort(self, handle: StageHandle, request_id: str) -> None:
        """End a request that is open at a stage."""

    def status(self, handle: StageHandle) -> StageStatus:
        """Return the last status that a stage has published."""

    @property
    def num_open(self) -> int:
        """Number of open requests of all stages."""

    async def drain(self) -> None:
        """Return when no request is open."""

    async def release(self, handle: StageHandle) -> None:
        """Unload a stage."""
