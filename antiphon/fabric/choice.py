"""Choice of the fabric by a server's settings."""

from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path

from antiphon.config import ServerSettings, Settings
from antiphon.config.sources import cluster_token, process_environment, use_cluster_token
from antiphon.contracts.family import Ref
from antiphon.contracts.types import LoadProgress
from antiphon.errors import SettingsError, how_to_install
from antiphon.fabric.base import Fabric
from antiphon.fabric.cluster.client import RELEASE_S, ClusterClient
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.sockets import WireTls


async def open_fabric(
    settings: Settings,
    builder: Ref,
    stack: AsyncExitStack,
    *,
    cluster: ClusterClient | None = None,
    progress: LoadProgress | None = None,
) -> Fabric:
    """Return the fabric that the settings choose; ``stack`` closes it.

    Args:
        cluster: cluster shared with other front ends; ``None``: the fabric starts one if needed.
    """
    if cluster is None and settings.server.fabric == "local":
        return LocalFabric(builder.resolve())
    from antiphon.fabric.replicas.fabric import ReplicaFabric
    from antiphon.fabric.replicas.link import ReplicaLimits
    from antiphon.fabric.wire.stage_client import StageConnections

    if cluster is None:
        from antiphon.fabric.cluster.runtime_folder import runtime_folder

        folder = stack.enter_context(runtime_folder())
        cluster = await open_cluster(settings, builder, folder, stack, progress)
    connections = StageConnections(cluster_token(), tls=_tls(settings.server))
    limits = ReplicaLimits(stall_s=settings.limits.stall_s)
    fabric = ReplicaFabric(cluster, connections, limits=limits)
    stack.push_async_callback(fabric.close)
    return fabric


async def open_cluster(
    settings: Settings,
    builder: Ref,
    folder: Path,
    stack: AsyncExitStack,
    progress: LoadProgress | None,
) -> ClusterClient:
    """Return the cluster that the settings choose; `cluster_token` is its token from then on.

    It is scaled by its load, and by `antiphon scale`.

    Args:
        folder: folder of sockets, which only this user may enter.

    Raises:
        SettingsError: there is no such cluster.
    """
    server = settings.server
    if server.fabric == "ray":
        cluster = await _open_ray(settings, builder, folder)
        stack.push_async_callback(cluster.close)
        return cluster
    from antiphon.fabric.cluster.launch_process import ProcessClusterOptions, ProcessController
    from antiphon.fabric.cluster.remote import served_to_operators

    controller = ProcessController(
        ProcessClusterOptions(
            builder=builder,
            folder=folder,
            token=cluster_token(),
            environment=process_environment(),
            log_level=server.log_level,
            log_format=server.log_format,
            stall_s=settings.limits.stall_s,
            progress=progress,
        )
    )
    cluster = ClusterClient(controller)
    stack.push_async_callback(cluster.close)
    await stack.enter_async_context(served_to_operators(controller, folder))
    return cluster


async def _open_ray(settings: Settings, builder: Ref, folder: Path) -> ClusterClient:
    if find_spec("ray") is None:
        raise SettingsError(f"server.fabric: stages on Ray need it: {how_to_install('ray')}.")
    from antiphon.fabric.cluster.ray_driver import RayDriver
    from antiphon.fabric.cluster.ray_plan import RayDriverPlan, RayPlan

    server, limits = settings.server, limits_of(settings)
    controller = await RayDriver.start(
        RayDriverPlan(
            cluster=RayPlan(
                namespace=server.ray_namespace,
                build=builder,
                token=cluster_token(),
                limits=limits,
                tls=_tls(server),
            ),
            folder=folder,
            address=server.ray_address,
            log_level=server.log_level,
            log_format=server.log_format,
        )
    )
    use_cluster_token(controller.token)
    return ClusterClient(controller, limits, release_s=RELEASE_S)


def limits_of(settings: Settings) -> ClusterLimits:
    """Return the time limits of a cluster on Ray."""
    return ClusterLimits(place_s=settings.server.ray_place_s, stall_s=settings.limits.stall_s)


def _tls(server: ServerSettings) -> WireTls | None:
    return None if server.cluster_tls is None else WireTls.of_folder(server.cluster_tls)
