"""One front end of several: an HTTP server in a process of its own, which a parent starts."""

import socket
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from antiphon.config import Settings
from antiphon.errors import AntiphonError
from antiphon.fabric.cluster.child_process import begin, report_to_parent


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEndPlan:
    """Start parameters of a front end; data.

    Attributes:
        table: descriptor of the memory in which limits count.
        cluster: address at which their parent serves the cluster.
    """

    name: str
    settings: Settings
    index: int
    number: int
    sockets: tuple[int, ...]
    table: int
    metrics: Path
    cluster: str
    token: str


def run_front_end(plan: FrontEndPlan) -> None:
    """Serve until SIGTERM or SIGINT; send the parent the banner, or the error that ends it.

    Raises:
        AntiphonError: The front end cannot serve.
    """
    from antiphon.api.front_end import FrontEnd
    from antiphon.api.middleware.shared_limit_table import SharedLimitTable
    from antiphon.cli.uvicorn_server import ApiServer, configure
    from antiphon.fabric.choice import limits_of
    from antiphon.fabric.cluster.remote import connected_to_parent
    from antiphon.telemetry.shared_metrics import open_shared_metrics

    configure(plan.settings, plan.name)
    open_shared_metrics(plan.metrics, plan.name)
    table = SharedLimitTable(plan.table, plan.index, plan.number)
    front_end = FrontEnd(
        index=plan.index,
        number=plan.number,
        table=table,
        metrics=plan.metrics,
        connect=partial(connected_to_parent, plan.cluster, plan.token, limits_of(plan.settings)),
        publish_connections=partial(table.publish, "connections"),
    )
    sockets = [socket.socket(fileno=each) for each in plan.sockets]
    ApiServer(plan.settings, front_end, report_to_parent).run(sockets)


def main() -> None:
    """Run as a child process."""
    plan: FrontEndPlan = begin()
    try:
        run_front_end(plan)
    except AntiphonError as error:
        report_to_parent(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
