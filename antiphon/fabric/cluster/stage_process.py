"""A process that runs stages, started as a child by a cluster."""

import asyncio
import logging
import signal
from dataclasses import dataclass

from antiphon.concurrency import set_interpreter_for_streams, settle_heap
from antiphon.contracts.family import Ref
from antiphon.fabric.cluster.child_process import begin, report_to_parent
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.wire.stage_server import StageServer
from antiphon.telemetry.logs import configure_logging

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProcessPlan:
    """Start data of a stage process."""

    name: str
    address: str
    token: str
    builder: Ref
    log_level: str = "info"
    log_format: str = "text"


async def serve_stages(plan: StageProcessPlan) -> None:
    """Serve stages until SIGTERM; report the bound address to the parent."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the parent decides
    fabric = LocalFabric(plan.builder.resolve())
    server = StageServer(fabric, plan.token, on_change=settle_heap)
    report_to_parent(await server.serve(plan.address))
    set_interpreter_for_streams()
    await ended.wait()
    await server.close()
    for handle in fabric.handles:
        await fabric.release(handle)


def main() -> None:
    plan: StageProcessPlan = begin()
    configure_logging(plan.log_level, plan.log_format, process=plan.name)
    try:
        import uvloop as loops
    except ImportError:
        loops = asyncio  # type: ignore[misc]
    loops.run(serve_stages(plan))


if __name__ == "__main__":
    main()
