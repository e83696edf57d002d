"""Actor of a cluster on Ray that starts, watches and stops replicas.

It is named, detached and restarted by Ray. Front ends and replicas call it; it calls only Ray, so
that no unresponsive process blocks it.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from antiphon.fabric.cluster.base import Heartbeat, Hosting, ReplicaAction
from antiphon.fabric.cluster.controller import ClusterController
from antiphon.fabric.cluster.ray_client import (
    CONTROLLER,
    RayControllerClient,
    connect_ray,
    end_with_raylet,
    keep_signal_handlers,
)
from antiphon.fabric.cluster.ray_groups import RayGroups
from antiphon.fabric.cluster.ray_placement import (
    actor_options,
    alive_nodes,
    choose_node,
    lack,
    node_options,
)
from antiphon.fabric.cluster.ray_plan import RayPlan, ReplicaTask
from antiphon.fabric.cluster.ray_replica import RayReplica
from antiphon.fabric.cluster.state import ClusterState

logger = logging.getLogger(__name__)

_SEPARATOR = "/"


class RayController(ClusterController):
    """The actor: a `ClusterController` whose replicas are Ray actors that send heartbeats."""

    _launcher: "_RayLauncher"

    def __init__(self, plan: RayPlan) -> None:
        """Begin; called by Ray, also when it restarts the actor."""
        end_with_raylet()
        self._plan = plan
        # Replicas that exist before the controller are those of a controller that died.
        found = frozenset(_replica_names(plan.namespace))
        state = ClusterState(
            _new_name,
            now_s=time.monotonic(),
            limits=plan.limits,
            is_restarted=bool(found),
            first_version=time.time_ns(),  # above all of an earlier controller
        )
        super().__init__(state, _RayLauncher(plan, state, found))

    async def token(self) -> str:
        """Return the token of the cluster's connections."""
        return self._plan.token

    async def beat(self, beat: Heartbeat) -> int:
        """Record a replica's heartbeat; return the target number of replicas of its stage."""
        return self.record(beat)

    async def lack(self, stage_id: str) -> str | None:
        hosting = self._state.unplaced(stage_id)
        if hosting is None:
            return None
        found = await asyncio.to_thread(self._launcher.lack, hosting)
        return found or "There is room, but its process has not started; see Ray's logs."


class _RayLauncher:
    """The `Launcher` whose replicas are detached Ray actors."""

    def __init__(self, plan: RayPlan, state: ClusterState, found: frozenset[str]) -> None:
        """Launch nothing yet.

        Args:
            state: state of the cluster, which holds the nodes and bundles of replicas.
            found: names of replicas that an earlier controller has started.
        """
        self._plan = plan
        self._state = state
        self._found = found
        self._controller = ray.get_runtime_context().current_actor
        self._groups = RayGroups(plan.namespace)
        self._began_s = time.monotonic()

    async def wait_until_reachable(self) -> None:
        # Without Ray's head nothing can be started or stopped, and a front end whose driver has
        # ended cannot come back.
        await asyncio.to_thread(alive_nodes)

    def beats(self) -> Sequence[Heartbeat]:
        return ()

    async def launch(self, actions: Sequence[ReplicaAction]) -> None:
        for action in actions:
            await asyncio.to_thread(self._do, action)
        if self._found and time.monotonic() - self._began_s > self._plan.limits.lease_s:
            await asyncio.to_thread(self._stop_unknown)
        # Until all replicas have reported, a group without any may still be in use.
        if not self._found and any(action.kind == "stop" for action in actions):
            await asyncio.to_thread(self._groups.remove_unused, self._state.bundles())

    def lack(self, hosting: Hosting) -> str | None:
        """Return what keeps Ray from placing a replica; ``None``: it has room."""
        look = lack if hosting.group_id is None else self._groups.lack
        return look(hosting, alive_nodes())

    def _do(self, action: ReplicaAction) -> None:
        """Execute an action; blocks for some milliseconds."""
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
        except ValueError:  # the actor no longer exists
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
        task = ReplicaTask(name=name, hosting=hosting, plan=plan, bundle=bundle)
        options = {
            **actor_options(hosting, nodes),
            **where,
            "name": name,
            "namespace": plan.namespace,
            "lifetime": "detached",
            "max_restarts": -1,
        }
        ray.remote(RayReplica).options(**options).remote(task, self._controller)

    def _actor(self, name: str) -> Any:
        return ray.get_actor(name, namespace=self._plan.namespace)

    def _stop_unknown(self) -> None:
        """Stop replicas of an earlier controller that have not reported to this one."""
        for name in self._found - self._state.names:
            self._do(ReplicaAction("stop", name))
        self._found = frozenset()
        self._groups.remove_unused(self._state.bundles())


def _new_name(stage_id: str) -> str:
    return f"{stage_id}{_SEPARATOR}{uuid.uuid4().hex[:8]}"


def _replica_names(namespace: str) -> list[str]:
    found = ray.util.list_named_actors(all_namespaces=True)
    return [
        actor["name"]
        for actor in found
        if actor["namespace"] == namespace and _SEPARATOR in actor["name"]
    ]


async def connect_controller(plan: RayPlan, address: str | None) -> RayControllerClient:
    """Connect this process to Ray, and start a controller if there is none; raises SettingsError.

    Args:
        address: address of the Ray cluster; ``None``: the one that Ray finds, else a new one on
            this host.
    """

    def start() -> Any:
        options = {
            "name": CONTROLLER,
            "namespace": plan.namespace,
            "lifetime": "detached",
            "get_if_exists": True,
            "max_restarts": -1,
            "num_cpus": 0,
            "max_concurrency": 10_000,
        }
        return ray.remote(RayController).options(**options).remote(plan)

    found = await asyncio.to_thread(connect_ray, address, plan.namespace)
    keep_signal_handlers()
    return await asyncio.to_thread(RayControllerClient, start, found)
