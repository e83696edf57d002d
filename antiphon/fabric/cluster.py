"""What a fabric of replicas asks of whatever starts and watches the processes that hold stages."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.errors import InvalidRequestError
from antiphon.fabric.autoscaler import AutoscalerLimits
from antiphon.fabric.base import Placement
from antiphon.telemetry.process_state import ProcessState
from antiphon.telemetry.stage_status import StageStatus


@dataclass(frozen=True, slots=True)
class Replica:
    """A running copy of an engine's stages; data.

    Attributes:
        id: unique in the cluster, and never used again: what is restarted has a new one.
        address: where its process listens: ``unix:PATH`` or ``tcp:HOST:PORT``.
        stage: the id by which its process knows the stages.
        host: of its process, for people.
        device: that it was given, for people; ``None``: the process chose.
        is_draining: whether it takes no further requests.
    """

    id: str
    address: str
    stage: str
    host: str = ""
    device: str | None = None
    is_draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSummary:
    """A stage of a cluster, for people.

    Attributes:
        id: of the hosted stages, which `Cluster.scale` takes.
        name: of the stages.
        num_wanted: replicas that there should be.
        num_front_ends: that use it.
        replicas: that are loaded, and what each has published last.
        num_loading: replicas that are not.
        limits: between which it is scaled by its load; ``None``: it is not.
    """

    id: str
    name: str
    num_wanted: int
    num_front_ends: int
    replicas: tuple[tuple[Replica, StageStatus], ...]
    num_loading: int
    limits: AutoscalerLimits | None = None


class Cluster(Protocol):
    """Starts processes that hold stages, restarts what dies, and tells who is there.

    Every front end has one: the processes behind it are shared. Stages of equal specs, context and
    placement are hosted once, and unloaded when every front end that hosts them has released them,
    or is gone.
    """

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> str:
        """Return the id of an engine's stages, once one replica of them at least is ready.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        ...

    def watch(self, stage_id: str) -> AsyncGenerator[tuple[Replica, ...], None]:
        """Yield the replicas that there are, now and after each change, for ever."""
        ...

    def report(self, stage_id: str, replica_id: str) -> None:
        """Say that a replica does not answer; it is left out until it is found alive."""
        ...

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Start replicas, or drain and stop some, until there are so many."""
        ...

    async def release(self, stage_id: str) -> None:
        """Give stages back."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


class ClusterControl(Protocol):
    """What an operator does with a cluster."""

    async def stages(self) -> tuple[StageSummary, ...]:
        """Return all stages, whoever hosts them."""
        ...

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Set how many replicas a stage has; see `Cluster.scale`.

        Raises:
            InvalidRequestError: there is no such stage, or its bounds do not allow so many.
        """
        ...


class OwnCluster(Cluster, Protocol):
    """The cluster as the process sees it that has opened it, rather than one of its front ends."""

    def processes(self) -> tuple[ProcessState, ...]:
        """Return the states of stage processes that this process is the parent of."""
        ...


def check_number(stage_id: str, num_replicas: int, limits: AutoscalerLimits | None) -> None:
    """Refuse a number of replicas that a stage cannot have.

    Raises:
        InvalidRequestError: there would be none, or its bounds do not allow so many.
    """
    if num_replicas < 1:
        raise InvalidRequestError("A stage has at least 1 replica.")
    if limits is not None and not limits.min_replicas <= num_replicas <= limits.max_replicas:
        raise InvalidRequestError(
            f"The placement of '{stage_id}' allows {limits.min_replicas} to"
            f" {limits.max_replicas} replicas, between which it is scaled by its load."
        )


def unknown_stage(stage_id: str) -> InvalidRequestError:
    """Return the error of a stage that nobody hosts."""
    return InvalidRequestError(f"There is no stage '{stage_id}' in the cluster.")
