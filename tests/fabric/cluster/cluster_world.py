"""A controller's state machine with pretended processes and a clock."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from antiphon.contracts.family import ItemKind, LoadContext, Ref, StageKind, StageSpec
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Heartbeat, Hosting, Replica, ReplicaAction
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.cluster.state import ClusterState
from antiphon.telemetry.stage_status import StageStatus

LIMITS = ClusterLimits()
SPEC = StageSpec(
    "stage", StageKind.GENERATOR, ItemKind.TEXT, ItemKind.AUDIO, Ref("nowhere:nothing")
)


def hosting(**placement: Any) -> Hosting:
    return Hosting((SPEC,), LoadContext(), Placement(**placement))


class World:
    """A controller's state, and pretended processes that do what it says."""

    def __init__(self, limits: ClusterLimits = LIMITS) -> None:
        self.now_s = 0.0
        self.numbers = count()
        self.limits = limits
        self.state = self.new_state()
        self.hostings: dict[str, Hosting] = {}
        self.processes: dict[str, str] = {}
        self.told: dict[str, int] = {}
        self.open: dict[str, int] = {}
        self.silent: set[str] = set()
        self.failing: dict[str, str] = {}
        self.done: list[ReplicaAction] = []

    def new_state(self, *, is_restarted: bool = False) -> ClusterState:
        def new_name(stage_id: str) -> str:
            return f"{stage_id}/{next(self.numbers)}"

        return ClusterState(
            new_name, now_s=self.now_s, limits=self.limits, is_restarted=is_restarted
        )

    def tick(self) -> list[ReplicaAction]:
        actions = self.state.tick(self.now_s)
        for action in actions:
            if action.kind == "start":
                assert action.name not in self.hostings, "names are never used again"
                assert action.hosting is not None
                self.hostings[action.name] = action.hosting
            if action.kind == "stop":
                self.hostings.pop(action.name, None)
                self.processes.pop(action.name, None)
            else:
                self.processes[action.name] = f"process-{next(self.numbers)}"
        self.done += actions
        return actions

    def beat(self, name: str) -> None:
        process, failure = self.processes[name], self.failing.get(name)
        ready = Replica(process, f"tcp:host:{process}", "stage-0")
        beat = Heartbeat(
            name=name,
            hosting=self.hostings[name],
            process=process,
            num_wanted=self.told.get(name, self.hostings[name].placement.num_replicas),
            replica=None if failure else ready,
            status=StageStatus(num_open=self.open.get(name, 0), capacity=10),
            failure=failure,
        )
        self.told[name] = self.state.beat(beat, self.now_s)

    def run(self, seconds: int, owners: Iterable[str] = ()) -> None:
        for _ in range(seconds):
            self.now_s += 1.0
            for owner in owners:
                self.state.renew(owner, self.now_s)
            for name in tuple(self.processes):
                if name not in self.silent:
                    self.beat(name)
            self.tick()

    def kill(self, name: str) -> None:
        """End a process; another one begins in its place, as Ray does it."""
        self.processes[name] = f"process-{next(self.numbers)}"


def serving(world: World, stage_id: str) -> list[str]:
    view = world.state.view(stage_id)
    assert view is not None
    return [each.id for each in view.replicas if not each.is_draining]


def started(num_replicas: int = 2, **placement: Any) -> tuple[World, str]:
    world = World()
    what = hosting(num_replicas=num_replicas, **placement)
    stage_id = world.state.host("front", what, world.now_s)
    world.tick()
    world.run(2, ["front"])
    assert len(serving(world, stage_id)) == num_replicas
    return world, stage_id
