"""State of a stage and of its replicas in a cluster's controller, and the controller's limits."""

from dataclasses import dataclass, field, replace

from antiphon.errors import InvalidRequestError
from antiphon.fabric.cluster.autoscaler import Autoscaler
from antiphon.fabric.cluster.base import Hosting, Replica, StageView
from antiphon.telemetry.stage_status import StageStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimits:
    """Time limits of a controller.

    Attributes:
        place_s: time without room for the first replica of a stage after which hosting fails.
        lease_s: time without renewal after which a front end's lease is dropped.
        dead_after_s: time without a heartbeat after which a replica is left out.
        restart_after_s: time without a heartbeat after which its process is restarted.
        stall_s: duration of one step after which a replica ends itself, to be restarted.
        drain_s: time that open streams of a draining replica may take.
        retry_s: delay before a failed load is retried; it doubles with each failure, up to sixteen
            times this.
        settle_s: time in which replicas report to a restarted controller.
        max_crashes: number of processes of one replica that may end while they load a stage that
            was never ready.
    """

    place_s: float = 120.0
    lease_s: float = 30.0
    dead_after_s: float = 15.0
    restart_after_s: float = 30.0
    stall_s: float = 120.0
    drain_s: float = 300.0
    retry_s: float = 2.0
    settle_s: float = 5.0
    max_crashes: int = 3


NUM_BEATS = 2
"""Heartbeats after a change of which one certainly includes it: one may have been in flight."""


@dataclass(slots=True)
class HostedReplica:
    """A replica of the target state, whichever process runs it."""

    name: str
    number: int = 0
    seen_s: float | None = None
    process: str = ""
    node: str = ""
    bundle: str = ""
    num_failures: int = 0
    retry_at_s: float | None = None
    replica: Replica | None = None
    status: StageStatus = field(default_factory=StageStatus)
    num_beats_missing: int = 0  # required after a report that it does not answer
    draining_since_s: float | None = None
    num_beats_drained: int = 0

    @property
    def is_draining(self) -> bool:
        return self.draining_since_s is not None

    @property
    def is_ready(self) -> bool:
        return self.replica is not None and not self.num_beats_missing


@dataclass(slots=True)
class HostedStage:
    """Stages of one engine, the front ends that use them, and their replicas.

    Attributes:
        failure: error of loading; ``None``: no failure.
    """

    hosting: Hosting
    num_wanted: int
    kept_until_s: float
    scaler: Autoscaler | None
    version: int
    owners: set[str] = field(default_factory=set)
    members: dict[str, HostedReplica] = field(default_factory=dict)
    serving: tuple[Replica, ...] = ()
    failure: str | None = None
    was_ready: bool = False

    @property
    def active(self) -> list[HostedReplica]:
        return [each for each in self.members.values() if not each.is_draining]

    @property
    def scaled_as(self) -> str:
        """Id that all engines with one number of replicas have."""
        return self.hosting.group_id or self.hosting.id

    def refresh(self) -> bool:
        """Update what front ends see; return whether it has changed."""
        serving = tuple(
            replace(each.replica, is_draining=each.is_draining)
            for each in self.members.values()
            if each.replica is not None and each.is_ready
        )
        failure = None if serving else self.failure
        if (serving, failure) == (self.serving, self.failure):
            return False
        self.serving, self.failure = serving, failure
        self.version += 1
        return True

    @property
    def view(self) -> StageView:
        ready = [each for each in self.members.values() if each.is_ready]
        return StageView(
            id=self.hosting.id,
            name=self.hosting.name,
            version=self.version,
            replicas=self.serving,
            statuses=tuple(replace(each.status, stats=None) for each in ready),
            num_wanted=self.num_wanted,
            num_loading=len(self.members) - len(ready),
            limits=None if self.scaler is None else self.scaler.limits,
            was_ready=self.was_ready,
            failure=self.failure,
        )

    def check_number(self, num_replicas: int) -> None:
        """Check a target number of replicas; raises InvalidRequestError."""
        if num_replicas < 1:
            raise InvalidRequestError("A stage has at least 1 replica.")
        limits = None if self.scaler is None else self.scaler.limits
        if limits is not None and not limits.min_replicas <= num_replicas <= limits.max_replicas:
            raise InvalidRequestError(
                f"The placement of '{self.hosting.id}' allows {limits.min_replicas} to"
                f" {limits.max_replicas} replicas, between which it is scaled by its load."
            )
