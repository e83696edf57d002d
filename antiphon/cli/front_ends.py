"""Several HTTP front ends on one port, and the engines behind them: the parent of all processes.

It holds the port and the memory in which limits are counted, starts what dies again, and hands
signals on. It never looks at a request.
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from antiphon.api.middleware.shared_limit_table import SharedLimitTable, make_shared_memory
from antiphon.cli.banner import Banner, announce
from antiphon.cli.front_end import FrontEndPlan
from antiphon.cli.listen import bind
from antiphon.cli.progress import shown_progress
from antiphon.cli.uvicorn_server import GRACEFUL_SHUTDOWN_S, LAST_RESORT_S, configure
from antiphon.cli.watchdog import Watchdog
from antiphon.concurrency import cancel_and_wait
from antiphon.config import Settings
from antiphon.config.sources import cluster_token, process_environment
from antiphon.errors import AntiphonError, SettingsError
from antiphon.fabric.choice import open_cluster
from antiphon.fabric.cluster.child_process import ChildProcess
from antiphon.fabric.cluster.client import ClusterClient
from antiphon.fabric.cluster.remote import served_to_front_ends
from antiphon.fabric.cluster.restarted_process import STOP_S, RestartedChild
from antiphon.fabric.cluster.runtime_folder import runtime_folder
from antiphon.pipeline.model_loading import STAGE_BUILDER
from antiphon.telemetry.process_state import ProcessState
from antiphon.telemetry.shared_metrics import close_shared_metrics

logger = logging.getLogger(__name__)

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Read by prometheus_client when it is imported: metrics are kept in files of this folder."""
_MODULE = "antiphon.cli.front_end"


class FrontEndProcess(RestartedChild):
    """One front end: started, and started again when it dies."""

    def __init__(
        self, plan: FrontEndPlan, table: SharedLimitTable, environment: dict[str, str]
    ) -> None:
        """Start nothing yet; counts of a dead process in ``table`` are cleared."""
        super().__init__(plan.name)
        self._plan = plan
        self._table = table
        self._environment = environment
        self._is_restarting = False
        self._listens = asyncio.Event()
        self.is_stopping = False
        self.started: asyncio.Future[Banner] = asyncio.get_running_loop().create_future()

    async def keep_alive(self) -> None:
        """Run it until `is_stopping`; `started` receives its banner, or the error at the start."""
        while not self.is_stopping:
            try:
                child = await self.start(self._launch)
            except OSError:
                if self.is_stopping:  # its sockets are closed
                    return
                raise
            if self.is_stopping:  # since before there was a child to hand the signal to
                return await child.stop(0.0)
            try:
                news = await child.reported()
            except AntiphonError as error:
                news = error
            self._note(news)
            how = await child.ended()
            self._listens.clear()
            self._forget()
            if not self.is_stopping and not self._is_restarting:
                logger.error("%s has ended %s, and is started again", self.name, how)
            self._is_restarting = False

    async def restart(self) -> None:
        """Let it finish requests in flight, and restart it; return when it listens again."""
        await self._listens.wait()
        self._is_restarting = True
        self._listens.clear()
        logger.info("%s is started anew, as asked for", self._plan.name)
        self.send_signal(signal.SIGHUP)
        await self._listens.wait()

    def send_signal(self, number: int) -> None:
        """Hand a signal on."""
        if self.child is not None:
            self.child.send_signal(number)

    async def _launch(self) -> ChildProcess:
        return await ChildProcess.start(
            self.name,
            _MODULE,
            self._plan,
            environment=self._environment,
            descriptors=(*self._plan.sockets, self._plan.table),
        )

    def _note(self, news: Banner | AntiphonError) -> None:
        if isinstance(news, AntiphonError):
            if self.started.done() and not self.is_stopping:
                logger.error("%s cannot serve: %s", self.name, news.message)
            elif not self.started.done():
                self.started.set_exception(news)
        else:
            self._listens.set()
            if not self.started.done():
                self.started.set_result(news)

    def _forget(self) -> None:
        """Clear the counts that it will never take back."""
        self._table.clear_column(self._plan.index)
        close_shared_metrics(self._plan.metrics, self.name)


class FrontEnds:
    """All front ends, and the cluster that runs the stages."""

    def __init__(self, settings: Settings, sockets: Sequence[socket.socket]) -> None:
        """Start nothing yet; ``sockets`` are bound."""
        self._settings = settings
        self._sockets = sockets
        self._processes: list[FrontEndProcess] = []
        self._ended = asyncio.Event()  # by a signal
        self._watchdog = Watchdog(0.0)

    async def serve(self) -> None:
        """Serve until SIGTERM or SIGINT; raises AntiphonError."""
        async with AsyncExitStack() as stack:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
            folder = stack.enter_context(runtime_folder())
            with shown_progress("loading", logger.info) as show:
                cluster = await open_cluster(self._settings, STAGE_BUILDER, folder, stack, show)
                await self._start(folder, cluster, stack)
                keeping = [asyncio.create_task(each.keep_alive()) for each in self._processes]
                stack.push_async_callback(self._stop_all, keeping)
                banner = await self._all_started()
            if banner is not None:
                announce(banner)
                restarting = asyncio.create_task(self._restart_when_asked())
                stack.push_async_callback(cancel_and_wait, restarting)
                await self._ended.wait()
                await asyncio.wait(keeping)

    async def _start(self, folder: Path, cluster: ClusterClient, stack: AsyncExitStack) -> None:
        number, token = self._settings.server.front_ends, cluster_token()
        address = f"unix:{folder}/cluster.sock"
        served = served_to_front_ends(
            cluster,
            address,
            token,
            keeps=not self._settings.models.idle_s,
            others=self._states,
            on_silent=self._kill,
        )
        await stack.enter_async_context(served)
        memory = make_shared_memory(number)
        stack.callback(os.close, memory)
        metrics = folder / "metrics"
        metrics.mkdir()
        environment = process_environment({METRICS_VARIABLE: str(metrics)})
        for index in range(number):
            plan = FrontEndPlan(
                name=f"front-end-{index}",
                settings=self._settings,
                index=index,
                number=number,
                sockets=tuple(each.fileno() for each in self._sockets),
                table=memory,
                metrics=metrics,
                cluster=address,
                token=token,
            )
            table = SharedLimitTable(memory, index, number)
            self._processes.append(FrontEndProcess(plan, table, environment))

    async def _all_started(self) -> Banner | None:
        """Return the banner once all front ends listen; ``None`` if a signal comes first."""
        started = asyncio.gather(*(each.started for each in self._processes))
        ended = asyncio.create_task(self._ended.wait())
        await asyncio.wait((started, ended), return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_wait(ended)
        if not started.done():
            await cancel_and_wait(started)
            return None
        return started.result()[0]

    async def _stop_all(self, keeping: Sequence["asyncio.Task[None]"]) -> None:
        await cancel_and_wait(*keeping)  # first, so that nothing is started again
        for each in self._processes:
            each.is_stopping = True
        await asyncio.gather(*(each.stop(0.0) for each in self._processes))

    async def _restart_when_asked(self) -> None:
        """Start one front end after the other anew on SIGHUP; the others serve meanwhile."""
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
        while True:
            await asked.wait()
            asked.clear()
            for each in self._processes:
                await each.restart()

    def _states(self) -> tuple[ProcessState, ...]:
        parent = ProcessState("parent", os.getpid(), is_up=True, num_restarts=0)
        return (parent, *(each.state for each in self._processes))

    def _kill(self, pid: int) -> None:
        """End a front end that does not answer, so that it is started again."""
        for process in self._processes:
            if process.state.pid == pid and not process.is_stopping:
                logger.error("%s does not answer, and is killed", process.state.name)
                process.send_signal(signal.SIGKILL)

    def _on_signal(self, number: int) -> None:
        """Hand a signal on: the first one drains, or gives a few seconds; a second one cuts."""
        self._ended.set()
        for bound in self._sockets:
            bound.close()  # clients are refused as soon as the front ends have closed theirs
        grace_s = float(GRACEFUL_SHUTDOWN_S)
        if number == signal.SIGTERM:
            grace_s = self._settings.limits.grace_s
        self._watchdog.end_within(grace_s + LAST_RESORT_S + 2 * STOP_S)
        for each in self._processes:
            each.is_stopping = True
            each.send_signal(number)


def run_front_ends(settings: Settings) -> None:
    """Serve with several front ends until Ctrl-C or SIGTERM; both end all processes well.

    Raises:
        SettingsError: the address cannot be listened on, or a setting needs a single process.
        ModelLoadError: the model cannot be served.
    """
    if settings.models.max_loaded or settings.models.max_gib:
        raise SettingsError(
            "models.max_loaded and models.max_gib need server.front_ends = 0: several front ends"
            " would each load what they are asked for."
        )
    configure(settings, "parent")
    sockets = bind(settings.server)
    try:
        asyncio.run(_serve(settings, sockets))
    finally:
        for each in sockets:
            each.close()


async def _serve(settings: Settings, sockets: Sequence[socket.socket]) -> None:
    await FrontEnds(settings, sockets).serve()
