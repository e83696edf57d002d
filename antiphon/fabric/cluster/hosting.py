"""Messages between front ends, a cluster's controller and its replicas."""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Literal

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Replica
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
        """Names of the stages."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Heartbeat of a replica, sent every second.

    Attributes:
        name: name of the replica, kept when its process is restarted.
        hosting: hosting that it was started for.
        process: unique id of the process, another one after a restart.
        node: id of the node that its process runs on.
        bundle: bundle of a placement group that the process was started in.
        replica: replica, once its stages are loaded.
        failure: error of loading.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """View of a stage for front ends.

    Attributes:
        replicas: replicas that serve, draining ones included.
        failure: error of loading; ``None``: no failure.
    """

    version: int = 0
    replicas: tuple[Replica, ...] = ()
    failure: str | None = None


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:10]
