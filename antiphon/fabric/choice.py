"""Which fabric a server's settings ask for."""

from contextlib import AsyncExitStack
from importlib.util import find_spec

from antiphon.config import Settings
from antiphon.config_sources import cluster_token, process_environment
from antiphon.errors import SettingsError, how_to_install
from antiphon.fabric.base import Fabric
from antiphon.fabric.cluster import Cluster
from antiphon.fabric.local import LocalFabric
from antiphon.models.spec import Ref
from antiphon.types import LoadProgress


async def open_fabric(
    settings: Settings,
    builder: Ref,
    stack: AsyncExitStack,
    *,
    cluster: Cluster | None = None,
    progress: LoadProgress | None = None,
) -> Fabric:
    """Return the fabric that the settings choose; ``stack`` closes it.

    Args:
        settings: of the server.
        builder: of stages; see `StageBuilder`.
        stack: of the server.
        cluster: that the fabric shares with others; ``None``: it starts its own, if it needs one.
        progress: of loading.
    """
    if cluster is None and settings.server.fabric == "local":
        return LocalFabric(builder.resolve())
    from antiphon.fabric.first_replica import FirstReplicaFabric

    token = cluster_token()
    if cluster is None and settings.server.fabric == "ray":
        cluster, token = await _open_ray(settings, builder, token)
    elif cluster is None:
        cluster = await _open_cluster(settings, builder, stack, token, progress)
    fabric = FirstReplicaFabric(cluster, token)
    stack.push_async_callback(fabric.close)
    return fabric


async def _open_cluster(
    settings: Settings,
    builder: Ref,
    stack: AsyncExitStack,
    token: str,
    progress: LoadProgress | None,
) -> Cluster:
    from antiphon.fabric.process_cluster import ProcessCluster, ProcessClusterOptions
    from antiphon.fabric.runtime_folder import runtime_folder

    options = ProcessClusterOptions(
        builder=builder,
        folder=stack.enter_context(runtime_folder()),
        token=token,
        environment=process_environment(),
        log_level=settings.server.log_level,
        log_format=settings.server.log_format,
        stall_s=settings.limits.stall_s,
        progress=progress,
    )
    cluster = ProcessCluster(options)
    stack.push_async_callback(cluster.close)
    return cluster


async def _open_ray(settings: Settings, builder: Ref, token: str) -> tuple[Cluster, str]:
    """Return the cluster on Ray and the token of its stage processes; its fabric closes it."""
    if find_spec("ray") is None:
        raise SettingsError(f"server.fabric: stages on Ray need it: {how_to_install('ray')}.")
    from antiphon.fabric.ray_cluster import RayCluster

    server = settings.server
    cluster = await RayCluster.connect(
        builder, token=token, address=server.ray_address, namespace=server.ray_namespace
    )
    return cluster, cluster.token
