"""Metrics of a server: streams, engines, connections, jobs.

Labels take few values: models by their served names, kinds of voices, formats, routes as they are
written in the API's description. Nothing that a client makes up becomes a label.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from antiphon.errors import ReplicaLostError
from antiphon.telemetry.chat_stats import ChatMetrics
from antiphon.telemetry.engine_metrics import EngineCollector, Engines
from antiphon.telemetry.metric_maker import MetricMaker
from antiphon.telemetry.picture_stats import PictureMetrics
from antiphon.telemetry.process_state import ProcessState, ProcessStateCollector
from antiphon.telemetry.stream_stats import StreamMetrics

_HTTP_BUCKETS_S = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
MAX_ASKED_S = 2.0
"""Timeout of a scrape for the figures of other processes."""
_LAG_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """Prometheus metrics in a registry of their own, so that several servers share a process.

    Front ends of one server share theirs by files (prometheus_client's multiprocess mode): each
    counts for itself, and any of them can report all counts, those of dead processes included.

    Attributes:
        engines: returns the latest statistics of all engines when the metrics are scraped.
        processes: returns the states of the server's processes, if there are several.
    """

    def __init__(self, shared: Path | None = None) -> None:
        """Count from zero; ``shared`` is the folder of the files, ``None`` in a single process."""
        self._shared = shared
        self.registry = registry = CollectorRegistry()
        self.observe = StreamMetrics(registry).observe
        self.observe_picture = PictureMetrics(registry).observe
        self.observe_chat = ChatMetrics(registry).observe
        self.engines: Callable[[], Engines] = tuple
        self.processes: Callable[[], Awaitable[Sequence[ProcessState]]] = _no_processes
        registry.register(EngineCollector(lambda: self.engines()))
        ProcessCollector(registry=registry)
        ours = MetricMaker(registry, "antiphon_")
        text = "HTTP requests answered."
        self.http_requests = ours.counter("http_requests", text, "method", "route", "status")
        text = "From the request to the end of its answer."
        self.http_s = ours.histogram("http_request_seconds", text, _HTTP_BUCKETS_S, "route")
        self.http_open = ours.gauge("http_requests_open", "HTTP requests under way.")
        self.sockets_open = ours.gauge("sockets_open", "WebSockets open.")
        self.connections_open = ours.gauge("connections_open", "TCP connections, idle ones too.")
        text = "Connections that were cut, by reason."
        self.connections_cut = ours.counter("connections_cut", text, "reason")
        text = "How late the event loop comes to what is due."
        self.event_loop_lag_s = ours.histogram(
            "event_loop_lag_seconds", text, _LAG_BUCKETS_S, "front_end"
        )
        text = "HTTP requests and WebSockets, by the owner of their key."
        self.owner_requests = ours.counter("owner_requests", text, "owner")
        text = "Jobs that were completed or have failed."
        self.jobs_ended = ours.counter("jobs_ended", text, "state")
        text = "What went wrong with the queue itself."
        self.job_faults = ours.counter("job_faults", text, "kind")
        text = "Requests that failed, by the code in their answer."
        self.errors = ours.counter("errors", text, "code", "stage")
        text = "Times that requests were begun again at another replica, before their first audio."
        self._stream_retries = ours.counter("stream_retries", text)
        text = "Times that streams went on at another replica."
        self._stream_migrations = ours.counter("stream_migrations", text)
        self.memory_reserved = ours.gauge("memory_reserved_bytes", "Memory that requests hold.")

    def count_moves(self, retries: int, migrations: int) -> None:
        """Count how often a stream was begun again, or went on, at another replica."""
        self._stream_retries.inc(retries)
        self._stream_migrations.inc(migrations)

    async def exposition(self) -> bytes:
        """Return all metrics in Prometheus's text format.

        Those of other processes are left out if the process that knows them does not answer.
        """
        if self._shared is None:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        engines = tuple(self.engines())
        registry.register(EngineCollector(lambda: engines))
        with suppress(TimeoutError, ReplicaLostError):
            async with asyncio.timeout(MAX_ASKED_S):
                registry.register(ProcessStateCollector(await self.processes()))
        MultiProcessCollector(registry, str(self._shared))  # type: ignore[no-untyped-call]
        return await asyncio.to_thread(generate_latest, registry)


async def _no_processes() -> Sequence[ProcessState]:
    return ()
