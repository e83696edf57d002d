"""What a fabric of replicas asks of whatever starts and watches the processes that hold stages."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.fabric.base import Placement
from antiphon.models.spec import LoadContext, StageSpec
from antiphon.telemetry.process_state import ProcessState


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


class OwnCluster(Cluster, Protocol):
    """The cluster as the process sees it that has opened it, rather than one of its front ends."""

    def processes(self) -> tuple[ProcessState, ...]:
        """Return the states of stage processes that this process is the parent of."""
        ...
