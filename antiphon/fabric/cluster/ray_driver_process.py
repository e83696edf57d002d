"""Process of a server's Ray driver, which serves its cluster to the server."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from contextlib import AsyncExitStack, suppress

import ray

from antiphon.errors import AntiphonError, SettingsError
from antiphon.fabric.cluster.child_process import begin, report_to_parent
from antiphon.fabric.cluster.ray_cluster import RayCluster
from antiphon.fabric.cluster.ray_driver import DriverStarted, RayDriverPlan
from antiphon.fabric.cluster.ray_placement import alive_nodes
from antiphon.fabric.cluster.service import ClusterServer
from antiphon.telemetry.logs import configure_logging

logger = logging.getLogger(__name__)

_RETRY_S = 2.0
_NUM_LOOKS = 2


async def drive(plan: RayDriverPlan) -> None:
    """Serve the cluster until SIGTERM; report to the parent once it is connected.

    Raises:
        SettingsError: there is no such Ray cluster.
    """
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()
    assert this is not None
    loop.add_signal_handler(signal.SIGTERM, this.cancel)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the parent decides
    async with AsyncExitStack() as stack:
        cluster = await _connected(plan)
        stack.push_async_callback(cluster.close)
        server = ClusterServer(cluster, cluster.token)
        stack.push_async_callback(server.close)
        await server.serve(plan.socket)
        report_to_parent(DriverStarted(cluster.address, cluster.token))
        threading.Thread(target=_end_when_cut_off, name="cluster watch", daemon=True).start()
        await asyncio.Event().wait()


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


async def _connected(plan: RayDriverPlan) -> RayCluster:
    while True:
        try:
            return await RayCluster.connect(
                plan.build,
                token=plan.token,
                address=plan.address,
                namespace=plan.namespace,
                limits=plan.limits,
                tls=plan.tls,
            )
        except SettingsError as error:
            if not plan.is_restart:
                raise
            logger.warning("%s", error.message)
        await asyncio.sleep(_RETRY_S)


def main() -> None:
    """Run as a child process."""
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
