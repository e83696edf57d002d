"""State machine of a cluster's controller, without processes or clocks.

Replicas report by a `Heartbeat` every second, front ends renew a lease. A restarted controller
recovers its state from both.
"""

import logging
from collections.abc import Callable, Iterator

from antiphon.errors import InvalidRequestError
from antiphon.fabric.cluster.autoscaler import Autoscaler, AutoscalerLimits
from antiphon.fabric.cluster.base import Heartbeat, Hosting, ReplicaAction, StageView
from antiphon.fabric.cluster.members import NUM_BEATS, ClusterLimits, HostedReplica, HostedStage

logger = logging.getLogger(__name__)

_STALL_S = 5.0
"""Time between two ticks that counts as a stall of this process."""


class ClusterState:
    """Stages by id, and the front ends that use them; every time is of one monotonic clock.

    Attributes:
        num_changes: number of changes of all views, added and removed stages included.
    """

    def __init__(
        self,
        new_name: Callable[[str], str],
        *,
        now_s: float,
        limits: ClusterLimits | None = None,
        is_restarted: bool = False,
        first_version: int = 0,
    ) -> None:
        """Begin with nothing.

        Args:
            new_name: function that returns an unused name of a replica, given the id of its stage.
            is_restarted: whether replicas exist already, whose heartbeats are awaited before others
                are started.
            first_version: first version of each view.
        """
        self._limits = limits or ClusterLimits()
        self._new_name = new_name
        self._first_version = first_version
        self._hosted: dict[str, HostedStage] = {}
        self._stopped: set[str] = set()
        self._leases: dict[str, float] = {}
        self._ticked_s = now_s
        self.num_changes = 0
        self._settled_s = now_s + self._limits.settle_s if is_restarted else now_s

    # ------------------------------------------------------------------ front ends

    def host(self, owner: str, hosting: Hosting, now_s: float) -> str:
        """Record that a front end uses stages; return their id."""
        self._leases[owner] = now_s
        hosted = self._hosting(hosting, now_s)
        hosted.owners.add(owner)
        if hosted.failure is not None:  # of an earlier attempt
            hosted.failure = None
            self.num_changes += 1
        return hosting.id

    def release(self, owner: str, stage_id: str) -> None:
        """Record that a front end no longer uses a stage."""
        if (hosted := self._hosted.get(stage_id)) is not None:
            hosted.owners.discard(owner)
            hosted.kept_until_s = 0.0

    def renew(self, owner: str, now_s: float) -> frozenset[str]:
        """Renew a front end's lease; return the ids of its stages."""
        self._leases[owner] = now_s
        return frozenset(id for id, each in self._hosted.items() if owner in each.owners)

    def view(self, stage_id: str) -> StageView | None:
        """Return the view of a stage; ``None`` if it is not hosted."""
        hosted = self._hosted.get(stage_id)
        return None if hosted is None else hosted.view

    def unplaced(self, stage_id: str) -> Hosting | None:
        """Return the hosting of a stage of which no process has begun; ``None``: one has."""
        hosted = self._hosted.get(stage_id)
        if hosted is None or any(member.process for member in hosted.members.values()):
            return None
        return hosted.hosting

    def report(self, stage_id: str, replica_id: str) -> None:
        """Leave a replica out until its next heartbeats."""
        hosted = self._hosted.get(stage_id)
        for member in hosted.members.values() if hosted else ():
            if member.replica is not None and member.replica.id == replica_id:
                member.num_beats_missing = NUM_BEATS
        if hosted:
            self._refresh(hosted)

    def scale(self, stage_id: str, num_replicas: int) -> None:
        """Set the target number of replicas; raises InvalidRequestError."""
        hosted = self._hosted.get(stage_id)
        if hosted is None:
            raise InvalidRequestError(f"There is no stage '{stage_id}' in the cluster.")
        hosted.check_number(num_replicas)
        for each in self._hosted.values():
            if each.scaled_as == hosted.scaled_as:
                each.num_wanted = num_replicas

    def views(self) -> tuple[StageView, ...]:
        return tuple(hosted.view for hosted in self._hosted.values())

    # ------------------------------------------------------------------ replicas

    def beat(self, beat: Heartbeat, now_s: float) -> int:
        """Record the heartbeat of a replica, known or not.

        Returns the target number of replicas of its stage, which its next heartbeat carries.
        """
        if beat.name in self._stopped:  # the heartbeat was in flight
            return beat.num_wanted
        hosted = self._hosting(beat.hosting, now_s)
        member = hosted.members.get(beat.name)
        if member is None:  # this controller has been restarted
            member = hosted.members[beat.name] = HostedReplica(beat.name)
            hosted.num_wanted = beat.num_wanted
        if beat.process != member.process:
            if member.process and member.replica is None and member.retry_at_s is None:
                self._on_crash(hosted, member)
            member.process = beat.process
            member.retry_at_s = None
            member.num_beats_missing = 0
        member.seen_s = now_s
        member.node, member.bundle = beat.node, beat.bundle
        member.status = beat.status
        member.replica = beat.replica
        member.num_beats_missing = max(0, member.num_beats_missing - 1)
        member.num_beats_drained += member.is_draining
        if beat.replica is not None:
            hosted.was_ready = True
            member.num_failures = 0
        elif beat.failure is not None and member.retry_at_s is None:
            self._on_load_failure(hosted, member, beat.failure, now_s)
        self._refresh(hosted)
        return hosted.num_wanted

    def is_draining(self, stage_id: str) -> bool:
        hosted = self._hosted.get(stage_id)
        return hosted is not None and len(hosted.active) < len(hosted.members)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for each in self._hosted.values() for name in each.members)

    def placed(self) -> tuple[tuple[str, Hosting], ...]:
        """Return the nodes and hostings of the replicas whose nodes are known or planned."""
        return tuple(
            (member.node, hosted.hosting)
            for hosted in self._hosted.values()
            for member in hosted.members.values()
            if member.node
        )

    def bundles(self, stage_id: str | None = None) -> frozenset[str]:
        """Return the bundles that replicas of a stage, or of all stages, are in."""
        return frozenset(
            member.bundle
            for id, hosted in self._hosted.items()
            for member in hosted.members.values()
            if member.bundle and stage_id in (None, id)
        )

    def plan(self, name: str, *, node: str = "", bundle: str = "") -> None:
        """Record where a replica is to run; its heartbeats correct it."""
        for hosted in self._hosted.values():
            if (member := hosted.members.get(name)) is not None:
                member.node, member.bundle = node, bundle

    # ------------------------------------------------------------------ decisions

    def tick(self, now_s: float) -> list[ReplicaAction]:
        """Return the actions that are due; called about once a second, and after changes."""
        self._forgive_own_stall(now_s)
        for owner, renewed_s in tuple(self._leases.items()):
            if now_s - renewed_s > self._limits.lease_s:
                self._drop_owner(owner)
        self._scale_by_load(now_s)
        actions: list[ReplicaAction] = []
        for stage_id, hosted in tuple(self._hosted.items()):
            if not hosted.owners and now_s >= hosted.kept_until_s:
                actions += [ReplicaAction("stop", name) for name in hosted.members]
                del self._hosted[stage_id]
                self.num_changes += 1
            else:
                actions += self._tick_stage(stage_id, hosted, now_s)
                self._refresh(hosted)
        self._stopped |= {each.name for each in actions if each.kind == "stop"}
        return actions

    def _scale_by_load(self, now_s: float) -> None:
        """Set the numbers of replicas that the load asks for; engines of a group have the largest
        of theirs."""
        wanted: dict[str, int] = {}
        for hosted in self._hosted.values():
            if hosted.scaler is not None:
                serving = [each.status for each in hosted.active if each.is_ready]
                hosted.num_wanted = hosted.scaler.wanted(serving, hosted.num_wanted, now_s)
            key = hosted.scaled_as
            wanted[key] = max(wanted.get(key, 0), hosted.num_wanted)
        for hosted in self._hosted.values():
            hosted.num_wanted = wanted[hosted.scaled_as]

    def _tick_stage(
        self, stage_id: str, hosted: HostedStage, now_s: float
    ) -> Iterator[ReplicaAction]:
        for member in tuple(hosted.members.values()):
            yield from self._tick_member(hosted, member, now_s)
        if now_s >= self._settled_s:
            yield from self._match_number(stage_id, hosted, now_s)

    def _tick_member(
        self, hosted: HostedStage, member: HostedReplica, now_s: float
    ) -> Iterator[ReplicaAction]:
        silent_s = 0.0 if member.seen_s is None else now_s - member.seen_s
        if member.is_draining and self._is_drained(member, now_s):
            del hosted.members[member.name]
            yield ReplicaAction("stop", member.name)
        elif member.retry_at_s is not None and now_s >= member.retry_at_s:
            member.retry_at_s = now_s + self._limits.restart_after_s  # unless a process appears
            yield ReplicaAction("restart", member.name)
        elif silent_s > self._limits.restart_after_s:
            member.seen_s = now_s
            member.replica = None
            yield ReplicaAction("restart", member.name)
        elif silent_s > self._limits.dead_after_s:
            member.replica = None

    def _is_drained(self, member: HostedReplica, now_s: float) -> bool:
        if member.replica is None:
            return True
        if member.num_beats_drained >= NUM_BEATS and member.status.num_open == 0:
            return True
        assert member.draining_since_s is not None
        return now_s - member.draining_since_s > self._limits.drain_s

    def _match_number(
        self, stage_id: str, hosted: HostedStage, now_s: float
    ) -> Iterator[ReplicaAction]:
        active = hosted.active
        for member in hosted.members.values():
            if len(active) < hosted.num_wanted and member.is_draining:
                member.draining_since_s = None
                active.append(member)
        for _ in range(hosted.num_wanted - len(active)):
            name = self._new_name(stage_id)
            taken = {member.number for member in hosted.members.values()}
            number = next(each for each in range(len(taken) + 1) if each not in taken)
            hosted.members[name] = HostedReplica(name, number)
            yield ReplicaAction("start", name, hosted.hosting, number)
        # Replicas that are not ready go first, then those with the fewest requests, then the last.
        active.sort(key=lambda each: (each.is_ready, each.status.num_open, -each.number))
        for member in active[: max(0, len(active) - hosted.num_wanted)]:
            member.draining_since_s = now_s
            member.num_beats_drained = 0

    # ------------------------------------------------------------------ details

    def _hosting(self, hosting: Hosting, now_s: float) -> HostedStage:
        hosted = self._hosted.get(hosting.id)
        if hosted is None:
            limits = AutoscalerLimits.of(hosting.placement)
            hosted = self._hosted[hosting.id] = HostedStage(
                hosting=hosting,
                num_wanted=hosting.placement.num_replicas,
                kept_until_s=now_s + self._limits.lease_s,  # its front ends may not know us yet
                scaler=None if limits is None else Autoscaler(limits, now_s=now_s),
                version=self._first_version,
            )
        return hosted

    def _drop_owner(self, owner: str) -> None:
        del self._leases[owner]
        used = [hosted for hosted in self._hosted.values() if owner in hosted.owners]
        for hosted in used:
            hosted.owners.discard(owner)
        if used:  # else it has left
            lease_s = self._limits.lease_s
            logger.warning("front end %s missed heartbeats for %g s; lease dropped", owner, lease_s)

    def _on_crash(self, hosted: HostedStage, member: HostedReplica) -> None:
        """Count a process that ended during loading; another one has started."""
        member.num_failures += 1
        logger.warning("%s ended during loading", member.name)
        if not hosted.was_ready and member.num_failures >= self._limits.max_crashes:
            self._fail(
                hosted,
                f"The process of '{hosted.hosting.name}' ended {member.num_failures} times"
                " while it was loading; see the log of its host.",
            )

    def _on_load_failure(
        self, hosted: HostedStage, member: HostedReplica, failure: str, now_s: float
    ) -> None:
        if hosted.was_ready:
            logger.error("%s could not be loaded again: %s", member.name, failure)
        else:  # front ends that wait raise it
            self._fail(hosted, failure)
        wait_s = self._limits.retry_s * 2 ** min(member.num_failures, 4)
        member.num_failures += 1
        member.retry_at_s = now_s + wait_s

    def _fail(self, hosted: HostedStage, failure: str) -> None:
        hosted.failure = failure
        hosted.version += 1
        self.num_changes += 1

    def _refresh(self, hosted: HostedStage) -> None:
        self.num_changes += hosted.refresh()

    def _forgive_own_stall(self, now_s: float) -> None:
        """Extend leases and heartbeats by the time that this process was stalled."""
        stalled_s = now_s - self._ticked_s
        self._ticked_s = now_s
        if stalled_s < min(self._limits.dead_after_s / 3, _STALL_S):
            return
        self._leases = {owner: at_s + stalled_s for owner, at_s in self._leases.items()}
        for hosted in self._hosted.values():
            for member in hosted.members.values():
                if member.seen_s is not None:
                    member.seen_s += stalled_s
