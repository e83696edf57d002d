"""Process of a server's Ray driver, which serves the cluster's controller to the server."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import ray

from antiphon.errors import AntiphonError, SettingsError
from antiphon.fabric.cluster.child_process import begin, report_to_parent
from antiphon.fabric.cluster.launch_ray import connect_controller
from antiphon.fabric.cluster.ray_client import RayControllerClient
from antiphon.fabric.cluster.ray_placement import alive_nodes
from antiphon.fabric.cluster.ray_plan import RayDriverPlan
from antiphon.fabric.cluster.remote import calls_of
from antiphon.fabric.wire.rpc import RpcHandlers
from antiphon.fabric.wire.sockets import RpcServer
from antiphon.telemetry.logs import configure_logging

logger = logging.getLogger(__name__)

_RETRY_S = 2.0
_NUM_LOOKS = 2


async def drive(plan: RayDriverPlan) -> None:
    """Serve the controller until SIGTERM; report the address of the Ray cluster (``None``: begun by
    this process) and the token of its connections to the parent.

    Raises:
        SettingsError: there is no such Ray cluster.
    """
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()
    assert this is not None
    loop.add_signal_handler(signal.SIGTERM, this.cancel)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the parent decides
    controller = await _connected(plan)
    token: str = await controller.call("token")
    handlers = RpcHandlers(calls=calls_of(controller))
    server = RpcServer(lambda _: handlers, token)
    await server.serve(plan.socket)
    try:
        report_to_parent((controller.address, token))
        threading.Thread(target=_end_when_cut_off, name="cluster watch", daemon=True).start()
        await asyncio.Event().wait()
    finally:
        await server.close()


def _end_when_cut_off() -> None:
    """End the process when its node has left the cluster, or another cluster has taken its address:
    calls of such a driver never return. The parent starts another driver."""
    node_id = ray.get_runtime_context().get_node_id()
    num_missing = 0
    while num_missing < _NUM_LOOKS:
        time.sleep(_RETRY_S)
        is_there = any(node.id == node_id for node in alive_nodes())  # waits while the head is away
        num_missing = 0 if is_there else num_missing + 1
    logger.error("Ray's processes of this host have ended, or their cluster has.")
    os._exit(1)


async def _connected(plan: RayDriverPlan) -> RayControllerClient:
    while True:
        try:
            return await connect_controller(plan.cluster, plan.address)
        except SettingsError as error:
            if not plan.is_restart:
                raise
            logger.warning("%s", error.message)
        await asyncio.sleep(_RETRY_S)


def main() -> None:
    plan: RayDriverPlan = begin()
    configure_logging(plan.log_level, plan.log_format, process="ray-driver")
    try:
        with suppress(asyncio.CancelledError):
            asyncio.run(drive(plan))
        ray.shutdown()
    except AntiphonError as error:
        report_to_parent(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
