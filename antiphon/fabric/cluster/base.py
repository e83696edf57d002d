"""Records and contracts of a cluster, which runs stages in processes of their own.

Five records describe a stage and its copies: `Hosting` (what a front end has requested),
`HostedStage` and `HostedReplica` (the state of the controller), `Replica` (a running copy and its
address) and `StageView` (what a controller reports to front ends and operators).
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.autoscaler import AutoscalerLimits
from antiphon.telemetry.process_state import ProcessState
from antiphon.telemetry.stage_status import StageStatus


@dataclass(frozen=True, slots=True)
class Hosting:
    """Stages of one engine, how they are loaded and where: the request of a front end.

    Attributes:
        specs: specs of the stages, first to last.
        context: load context, without `LoadContext.progress`, which cannot be pickled.
    """

    specs: tuple[StageSpec, ...]
    context: LoadContext
    placement: Placement

    def __post_init__(self) -> None:
        object.__setattr__(self, "context", replace(self.context, progress=None))

    @property
    def name(self) -> str:
        return "+".join(spec.name for spec in self.specs)

    def feeds(self, other: "Hosting") -> bool:
        """Return whether items flow between the two: adjacent stages of one model."""
        into = self.specs[-1].produces is other.specs[0].consumes
        out_of = other.specs[-1].produces is self.specs[0].consumes
        return self.context.path == other.context.path and (into or out_of)

    @property
    def id(self) -> str:
        """Id of equal hostings in all processes (pickles of equal values may differ)."""
        return f"{self.name}-{_digest(self)}"

    @property
    def group_id(self) -> str | None:
        """Id of the group that the placement names, equal for all engines of the group."""
        group = self.placement.group
        return None if group is None else f"{group.name}-{_digest((group, self.context))}"

    def group_members(self) -> tuple["Hosting", ...]:
        """Return the hostings of all engines of the group; this one alone without a group."""
        group = self.placement.group
        engines = ((self.specs, self.placement),) if group is None else group.engines
        return tuple(Hosting(specs, self.context, placement) for specs, placement in engines)


@dataclass(frozen=True, slots=True)
class Replica:
    """A running copy of an engine's stages.

    Attributes:
        id: id that is unique in the cluster and not reused: a restarted replica has a new one.
        address: listening address of its process: ``unix:PATH`` or ``tcp:HOST:PORT``.
        stage: id of the stages within its process.
        device: device that it was given, for display; ``None``: chosen by the process.
    """

    id: str
    address: str
    stage: str
    host: str = ""
    device: str | None = None
    is_draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """State of a hosted stage, for front ends and operators.

    Attributes:
        version: number that grows with each change of ``replicas`` and ``failure``.
        replicas: replicas that serve, draining ones included.
        statuses: last statuses of ``replicas``, without statistics.
        num_loading: number of replicas that do not serve yet.
        limits: limits of autoscaling; ``None``: the number is fixed.
        failure: error of loading; ``None``: no failure.
    """

    id: str
    name: str
    version: int = 0
    replicas: tuple[Replica, ...] = ()
    statuses: tuple[StageStatus, ...] = ()
    num_wanted: int = 1
    num_loading: int = 0
    limits: AutoscalerLimits | None = None
    was_ready: bool = False
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Heartbeat of a replica, sent every second.

    Attributes:
        name: name of the replica, kept when its process is restarted.
        process: unique id of the process, another one after a restart.
        bundle: bundle of a placement group that the process was started in.
        num_wanted: target number of replicas of its stage, as last received; a restarted
            controller recovers it from here.
    """

    name: str
    hosting: Hosting
    process: str
    num_wanted: int
    node: str = ""
    bundle: str = ""
    replica: Replica | None = None
    status: StageStatus = field(default_factory=StageStatus)
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaAction:
    """What a launcher is to do with a replica; ``hosting`` and ``number`` are those of a start."""

    kind: Literal["start", "stop", "restart"]
    name: str
    hosting: Hosting | None = None
    number: int = 0


class Controller(Protocol):
    """Decides which replicas run; in this process, or in another one (`RemoteController`).

    Stages of equal hostings run once. They are unloaded when each owner has released them, or when
    its lease has expired. Every call may be repeated.
    """

    async def host(self, owner: str, hosting: Hosting) -> str:
        """Record that a front end uses stages, and start them; return their id."""

    async def release(self, owner: str, stage_id: str) -> None:
        """Record that a front end no longer uses stages."""

    async def renew(self, owner: str) -> frozenset[str]:
        """Renew a front end's lease; return the ids of its stages."""

    async def poll(self, stage_id: str, version: int, wait_s: float) -> StageView | None:
        """Return the view of a stage when it is not ``version``, at the latest after ``wait_s``.

        ``None``: the stage is not hosted.
        """

    async def lack(self, stage_id: str) -> str | None:
        """Return what a stage without a process waits for; ``None``: a process has started."""

    async def report(self, stage_id: str, replica_id: str) -> None:
        """Report a replica that does not answer; it is left out until it is found alive."""

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Start replicas, or drain and stop some, to reach a number; raises InvalidRequestError."""

    async def stages(self) -> tuple[StageView, ...]:
        """Return all stages of all front ends."""

    async def processes(self) -> tuple[ProcessState, ...]:
        """Return the states of the processes of this host."""

    async def close(self) -> None:
        """End what belongs to this process: children, and the connection."""


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:10]
