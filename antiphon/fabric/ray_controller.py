"""The one small actor of a cluster on Ray that starts, watches and stops replicas.

It is named, detached and restarted by Ray. Front ends and replicas call it; it calls nobody but Ray
itself, so that nobody's silence holds it up.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError

from antiphon.contracts.family import Ref
from antiphon.fabric.cluster import StageSummary
from antiphon.fabric.cluster_members import ClusterLimits
from antiphon.fabric.cluster_state import ClusterState
from antiphon.fabric.hosting import Beat, Hosting, ReplicaAction, StageView
from antiphon.fabric.ray_control import end_with_raylet
from antiphon.fabric.ray_groups import RayGroups
from antiphon.fabric.ray_placement import (
    actor_options,
    alive_nodes,
    choose_node,
    lack,
    node_options,
)
from antiphon.fabric.ray_replica import RayReplica, ReplicaTask
from antiphon.fabric.wire.sockets import WireTls

logger = logging.getLogger(__name__)

T = TypeVar("T")

_TICK_S = 0.5
_SEPARATOR = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPlan:
    """What a cluster is begun with; data.

    Attributes:
        namespace: of the controller and of the replicas.
        token: of the connections between all processes of the cluster.
        build: a `StageBuilder`, for the replicas.
        limits: times of the controller.
        tls: of the connections; files that every host has at the same place.
    """

    namespace: str
    token: str = field(repr=False)
    build: Ref
    limits: ClusterLimits
    tls: WireTls | None = None


class RayController:
    """The actor: a `ClusterState`, a clock, and Ray's calls to start and to kill.

    Its methods are what `RayCluster` calls; they raise what `ClusterState` raises.
    """

    def __init__(self, plan: ControllerPlan) -> None:
        """Begin; called by Ray, also when it restarts the actor."""
        end_with_raylet()
        self._plan = plan
        self._me = ray.get_runtime_context().current_actor
        self._groups = RayGroups(plan.namespace)
        # Replicas that are there before us are those of a controller that died.
        self._found = frozenset(self._replica_names())
        self._state = ClusterState(
            _new_name,
            now_s=time.monotonic(),
            limits=plan.limits,
            is_restarted=bool(self._found),
            first_version=time.time_ns(),  # above all of an earlier controller
        )
        self._began_s = time.monotonic()
        self._changed = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ of front ends

    async def token(self) -> str:
        """Return the token of the cluster's connections."""
        return self._plan.token

    async def host(self, owner: str, hosting: Hosting) -> str:
        """Note that a front end uses stages, and start them; return their id."""
        return self._after(lambda: self._state.host(owner, hosting, time.monotonic()))

    async def release(self, owner: str, stage_id: str) -> None:
        """Note that a front end does not use a stage any more."""
        self._after(lambda: self._state.release(owner, stage_id))

    async def renew(self, owner: str) -> frozenset[str]:
        """Keep a front end's stages; return which are known as its own."""
        return self._after(lambda: self._state.renew(owner, time.monotonic()))

    async def poll(self, stage_id: str, version: int, wait_s: float) -> StageView | None:
        """Return a stage's view when it is not ``version``, at the latest after ``wait_s``.

        ``None``: the stage is not known (any more).
        """
        self._ensure_ticking()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        while True:
            view = self._state.view(stage_id)
            left_s = end_s - loop.time()
            if view is None or view.version != version or left_s <= 0:
                return view
            changed = self._changed
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await changed.wait()

    async def unplaced(self, stage_id: str) -> str | None:
        """Return what a stage waits for of which no process has begun; ``None``: one has."""
        hosting = self._state.unplaced(stage_id)
        if hosting is None:
            return None
        look = lack if hosting.group_id is None else self._groups.lack
        found = await asyncio.to_thread(lambda: look(hosting, alive_nodes()))
        return found or "There is room, but its process has not begun; Ray's logs say why."

    async def report(self, stage_id: str, replica_id: str) -> None:
        """Leave a replica out that does not answer a front end, until it beats again."""
        self._after(lambda: self._state.report(stage_id, replica_id))

    async def scale(self, stage_id: str, num_replicas: int) -> None:
        """Set how many replicas a stage has.

        Raises:
            InvalidRequestError: there is no such stage, or its bounds do not allow so many.
        """
        self._after(lambda: self._state.scale(stage_id, num_replicas))

    async def summaries(self) -> tuple[StageSummary, ...]:
        """Return all stages, for people."""
        return self._state.summaries()

    # ------------------------------------------------------------------ of replicas

    async def beat(self, beat: Beat) -> int:
        """Take in what a replica says of itself; return how many of its stage there should be."""
        return self._after(lambda: self._state.beat(beat, time.monotonic()))

    # ------------------------------------------------------------------ decisions

    def _after(self, change: Callable[[], T]) -> T:
        """Make a change, and wake front ends if it concerns them."""
        self._ensure_ticking()
        before = self._state.num_changes
        result = change()
        if self._state.num_changes != before:
            self._changed.set()
            self._changed = asyncio.Event()
        return result

    def _ensure_ticking(self) -> None:
        """Begin to decide: Ray calls `__init__` outside of the event loop."""
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().create_task(self._tick_forever())

    async def _tick_forever(self) -> None:
        while True:
            # Without Ray's head nothing can be started or stopped, and a front end whose driver
            # has ended cannot come back: this waits for it, and no lease ends meanwhile.
            await asyncio.to_thread(alive_nodes)
            actions = self._after(lambda: self._state.tick(time.monotonic()))
            for action in actions:
                await asyncio.to_thread(self._do, action)
            if self._found and time.monotonic() - self._began_s > self._plan.limits.lease_s:
                await asyncio.to_thread(self._stop_unknown)
            # Until all replicas have reported, a group without any may still be in use.
            if not self._found and any(action.kind == "stop" for action in actions):
                await asyncio.to_thread(self._groups.remove_unused, self._state.bundles())
            await asyncio.sleep(_TICK_S)

    def _do(self, action: ReplicaAction) -> None:
        """Do what the state has decided; blocks for some milliseconds."""
        logger.warning("%s %s", action.kind, action.name)
        try:
            match action.kind:
                case "start":
                    assert action.hosting is not None
                    self._start(action.name, action.hosting)
                case "stop":
                    ray.kill(self._actor(action.name), no_restart=True)
                case "restart":
                    ray.kill(self._actor(action.name), no_restart=False)
        except ValueError:  # there is no such actor any more
            logger.warning("there is no actor %s to %s", action.name, action.kind)
        except RayError as error:
            logger.warning("cannot %s %s: %s", action.kind, action.name, error)

    def _start(self, name: str, hosting: Hosting) -> None:
        plan, nodes, bundle = self._plan, alive_nodes(), ""
        if hosting.group_id is not None:
            taken = self._state.bundles(hosting.id)
            bundle, where = self._groups.take(hosting, nodes, taken)
            self._state.plan(name, bundle=bundle)
        else:
            node = choose_node(hosting, nodes, self._state.placed())
            where = node_options(hosting, node)
            if node is not None:
                self._state.plan(name, node=node)
        task = ReplicaTask(
            name=name,
            hosting=hosting,
            build=plan.build,
            token=plan.token,
            tls=plan.tls,
            stall_s=plan.limits.stall_s,
            bundle=bundle,
        )
        options = {
            **actor_options(hosting, nodes),
            **where,
            "name": name,
            "namespace": plan.namespace,
            "lifetime": "detached",
            "max_restarts": -1,
        }
        ray.remote(RayReplica).options(**options).remote(task, self._me)

    def _actor(self, name: str) -> Any:
        return ray.get_actor(name, namespace=self._plan.namespace)

    def _replica_names(self) -> list[str]:
        found = ray.util.list_named_actors(all_namespaces=True)
        return [
            each["name"]
            for each in found
            if each["namespace"] == self._plan.namespace and _SEPARATOR in each["name"]
        ]

    def _stop_unknown(self) -> None:
        """Stop replicas of an earlier controller that have never reported to this one."""
        for name in self._found - self._state.names:
            self._do(ReplicaAction("stop", name))
        self._found = frozenset()
        self._groups.remove_unused(self._state.bundles())


def _new_name(stage_id: str) -> str:
    return f"{stage_id}{_SEPARATOR}{uuid.uuid4().hex[:8]}"
