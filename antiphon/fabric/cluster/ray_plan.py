"""Start data of the processes of a cluster on Ray; a server reads it without Ray."""

from dataclasses import dataclass, field
from pathlib import Path

from antiphon.contracts.family import Ref
from antiphon.fabric.cluster.base import Hosting
from antiphon.fabric.cluster.members import ClusterLimits
from antiphon.fabric.wire.sockets import WireTls

OUTLIVE_HEAD = {"RAY_gcs_rpc_server_reconnect_timeout_s": "86400"}
"""Variables of Ray's processes. By default each of them exits when Ray's head has not answered for
60 s; a process reads the variable when it starts, and workers inherit that of their raylet."""
DRIVER_NAME = "ray-driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class RayPlan:
    """Start data of a cluster's controller.

    Attributes:
        build: `StageBuilder` of the replicas.
        tls: TLS of the connections; every host has the files at the same path.
    """

    namespace: str
    build: Ref
    token: str = field(repr=False)
    limits: ClusterLimits = field(default_factory=ClusterLimits)
    tls: WireTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTask:
    """Start data of a replica's process.

    Attributes:
        bundle: bundle of a placement group that the process is in.
    """

    name: str
    hosting: Hosting
    plan: RayPlan
    bundle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayDriverPlan:
    """Start data of a server's driver process.

    Attributes:
        cluster: start data of the cluster, if this driver begins it.
        address: address of the Ray cluster; ``None``: see `connect_ray`.
        is_restart: whether an earlier driver was connected: an unreachable cluster is awaited.
    """

    cluster: RayPlan
    folder: Path
    address: str | None
    is_restart: bool = False
    number: int = 0
    log_level: str = "info"
    log_format: str = "text"

    @property
    def socket(self) -> str:
        """Address at which the driver serves the controller."""
        return f"unix:{self.folder}/{DRIVER_NAME}-{self.number}.sock"
