"""Contract of a cluster: starts and watches the processes that run stages."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.errors import InvalidRequestError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.autoscaler import AutoscalerLimits
from antiphon.telemetry.process_state import ProcessState
from antiphon.telemetry.stage_status import StageStatus


@dataclass(frozen=True, slots=True)
class Replica:
    """A running copy of an engine's stages.

    Attributes:
        id: id that is unique in the cluster and not reused: a restarted replica has a new one.
        address: listening address of its process: ``unix:PATH`` or ``tcp:HOST:PORT``.
        stage: id of the stages within its process.
        host: host of its process, for display.
        device: device that it was given, for display; ``None``: chosen by the process.
        is_draining: whether it takes no new requests.
    """

    id: str
    address: str
    stage: str
    host: str = ""
    device: str | None = None
    is_draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSummary:
    """Summary of a stage, for operators.

    Attributes:
        id: id of the stages, as `Cluster.scale` takes it.
        num_wanted: target number of replicas.
        num_front_ends: number of front ends that use it.
        replicas: loaded replicas with their last statuses.
        num_loading: number of replicas that are being loaded.
        limits: limits of autoscaling; ``None``: the number is fixed.
    """

    id: str
    name: str
    num_wanted: int
    num_front_ends: int
    replicas: tuple[tuple[Replica, StageStatus], ...]
    num_loading: int
    limits: AutoscalerLimits | None = None


class Cluster(Protocol):
    """Starts processes that run stages, restarts those that end, and reports the replicas.

    Every front end has one; the processes are shared. Stages of equal specs, context and placement
    are hosted once, and unloaded when every front end that hosts them has released them or ended.
    """

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        """Return the id of an engine's stages, once at least one replica is ready.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        ...

    def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        """Yield the replicas, now and after each change."""
        ...

    def report(self, stage_id: str, replica_id: str) -> None:
        """Report a replica that does not answer; it is left out until it is found alive."""
        ...

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Start replicas, or drain and stop some, to reach a number."""
        ...

    async def release(self, stage_id: str) -> None:
        """Release stages."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


class ClusterControl(Protocol):
    """Interface of an operator to a cluster."""

    async def stages(self) -> tuple[StageSummary, ...]:
        """Return all stages of all front ends."""
        ...

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Set the number of replicas of a stage; see `Cluster.scale`.

        Raises:
            InvalidRequestError: there is no such stage, or its bounds do not allow so many.
        """
        ...


class OwnCluster(Cluster, Protocol):
    """Cluster in the process that has opened it, rather than in one of its front ends."""

    def processes(self) -> tuple[ProcessState, ...]:
        """Return the states of the child processes that run stages."""
        ...


def check_number(stage_id: str, num_replicas: int, limits: AutoscalerLimits | None) -> None:
    """Check the number of replicas of a stage.

    Raises:
        InvalidRequestError: the number is 0, or outside the bounds.
    """
    if num_replicas < 1:
        raise InvalidRequestError("A stage has at least 1 replica.")
    if limits is not None and not limits.min_replicas <= num_replicas <= limits.max_replicas:
        raise InvalidRequestError(
            f"The placement of '{stage_id}' allows {limits.min_replicas} to"
            f" {limits.max_replicas} replicas, between which it is scaled by its load."
        )


def unknown_stage(stage_id: str) -> InvalidRequestError:
    """Return the error of a stage that is not hosted."""
    return InvalidRequestError(f"There is no stage '{stage_id}' in the cluster.")
