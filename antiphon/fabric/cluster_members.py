"""What a cluster's controller keeps of each stage and each replica, and its limits; data."""

from dataclasses import dataclass, field, replace

from antiphon.fabric.autoscaler import Autoscaler
from antiphon.fabric.cluster import Replica
from antiphon.fabric.hosting import Hosting, StageView
from antiphon.telemetry.stage_status import StageStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimits:
    """Times of a controller.

    Attributes:
        place_s: time without room for the first replica of a stage, after which hosting it
            fails.
        lease_s: after which a front end that says nothing is gone.
        dead_after_s: without a beat, after which a replica is left out.
        restart_after_s: without a beat, after which its process is killed and started again.
        stall_s: after which a replica that computes one step ends itself, to be started again.
        drain_s: that streams of a replica may take to end before it is stopped all the same.
        retry_s: before the first attempt to load a stage again, which could be loaded before; each
            further one waits twice as long, up to sixteen times this.
        settle_s: that a restarted controller gives replicas to report themselves.
        max_crashes: processes of one replica that may die while they load a stage that was never
            ready anywhere.
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
"""After a change, so many beats bring news of it for sure: one may have been under way."""


@dataclass(slots=True)
class ReplicaMember:
    """A replica that there should be, whatever process it is in at the moment."""

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
    num_beats_missing: int = 0  # before it is believed to be alive after a report
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
    """Stages of one engine, who uses them, and their replicas."""

    hosting: Hosting
    num_wanted: int
    kept_until_s: float
    scaler: Autoscaler | None
    view: StageView
    owners: set[str] = field(default_factory=set)
    members: dict[str, ReplicaMember] = field(default_factory=dict)
    was_ready: bool = False

    @property
    def active(self) -> list[ReplicaMember]:
        return [each for each in self.members.values() if not each.is_draining]

    def refreshed_view(self) -> StageView:
        """Return the view as it is now: the same one if nothing has changed."""
        replicas = tuple(
            replace(each.replica, is_draining=each.is_draining)
            for each in self.members.values()
            if each.replica is not None and each.is_ready
        )
        failure = None if replicas else self.view.failure
        if (replicas, failure) == (self.view.replicas, self.view.failure):
            return self.view
        return StageView(version=self.view.version + 1, replicas=replicas, failure=failure)
