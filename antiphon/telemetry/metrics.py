"""What a server measures: each stream once, told under our own names and under vLLM-Omni's.

Labels take few values: models by their served names, kinds of voices, formats, routes as they are
written in the API's description. Nothing that a client makes up becomes a label.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
)

from antiphon.telemetry.engine_metrics import EngineCollector, Engines
from antiphon.telemetry.logs import audio_format
from antiphon.telemetry.stream_stats import StreamStats
from antiphon.telemetry.vllm_omni_metrics import VllmOmniMetrics

_LATENCY_BUCKETS_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.35, 0.6, 1, 2, 5, 10, 30)
_FACTOR_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 5)
_HTTP_BUCKETS_S = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_LAG_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_FAULT_LABELS = ("model", "voice", "format", "stage")


class Metrics:
    """Prometheus metrics in a registry of their own, so that several servers share a process.

    Attributes:
        engines: returns the latest statistics of all engines when the metrics are scraped.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._add_streams(self.registry)
        self._add_connections(self.registry)
        self._peer = VllmOmniMetrics(self.registry)
        self.memory_reserved = Gauge(
            "antiphon_memory_reserved_bytes",
            "Memory that requests hold.",
            registry=self.registry,
        )
        self.engines: Callable[[], Engines] = tuple
        self.registry.register(EngineCollector(lambda: self.engines()))
        ProcessCollector(registry=self.registry)

    def _add_streams(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, ("model", *labels), registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, ("model",), registry=registry, buckets=buckets)

        labels = ("model",)
        self.active = Gauge(
            "antiphon_speech_active", "Streams open now.", labels, registry=registry
        )
        self.waiting = Gauge(
            "antiphon_speech_waiting", "Those without audio so far.", labels, registry=registry
        )
        self.ended = counter("antiphon_speech_ended", "Streams ended, by reason.", "reason")
        self.failed = Counter(
            "antiphon_speech_failed", "Streams that failed.", _FAULT_LABELS, registry=registry
        )
        self.aborted = Counter(
            "antiphon_speech_aborted",
            "Streams whose listener left.",
            _FAULT_LABELS,
            registry=registry,
        )
        self.first_audio_s = histogram(
            "antiphon_first_audio_seconds",
            "From the request to its first audio, before encoding.",
            _LATENCY_BUCKETS_S,
        )
        self.real_time_factor = histogram(
            "antiphon_real_time_factor",
            "Seconds of work for a second of audio, waiting listeners left out.",
            _FACTOR_BUCKETS,
        )
        self.underruns = counter(
            "antiphon_underruns", "Moments at which a listener without buffer heard a gap."
        )
        self.underrun_s = counter("antiphon_underrun_seconds", "Seconds of such gaps.")
        self.audio_s = counter("antiphon_audio_seconds", "Seconds of audio made.")
        self.input_tokens = counter("antiphon_input_tokens", "Text units read.")

    def _add_connections(self, registry: CollectorRegistry) -> None:
        self.http_requests = Counter(
            "antiphon_http_requests",
            "HTTP requests answered.",
            ("method", "route", "status"),
            registry=registry,
        )
        self.http_s = Histogram(
            "antiphon_http_request_seconds",
            "From the request to the end of its answer.",
            ("route",),
            registry=registry,
            buckets=_HTTP_BUCKETS_S,
        )
        self.http_open = Gauge(
            "antiphon_http_requests_open", "HTTP requests under way.", registry=registry
        )
        self.sockets_open = Gauge("antiphon_sockets_open", "WebSockets open.", registry=registry)
        self.connections_open = Gauge(
            "antiphon_connections_open", "TCP connections, idle ones too.", registry=registry
        )
        self.connections_cut = Counter(
            "antiphon_connections_cut",
            "Connections that were cut, by reason.",
            ("reason",),
            registry=registry,
        )
        self.event_loop_lag_s = Histogram(
            "antiphon_event_loop_lag_seconds",
            "How late the event loop comes to what is due.",
            registry=registry,
            buckets=_LAG_BUCKETS_S,
        )
        self.owner_requests = Counter(
            "antiphon_owner_requests",
            "HTTP requests and WebSockets, by the owner of their key.",
            ("owner",),
            registry=registry,
        )
        self.jobs_ended = Counter(
            "antiphon_jobs_ended",
            "Jobs that were completed or have failed.",
            ("state",),
            registry=registry,
        )
        self.job_faults = Counter(
            "antiphon_job_faults",
            "What went wrong with the queue itself.",
            ("kind",),
            registry=registry,
        )
        self.errors = Counter(
            "antiphon_errors",
            "Requests that failed, by the code in their answer.",
            ("code", "stage"),
            registry=registry,
        )

    @contextmanager
    def observe(
        self, model: str, voice_kind: str = "builtin"
    ) -> Generator[StreamStats, None, None]:
        """Measure a stream, which the block tells of its audio and its end.

        Args:
            model: its served name.
            voice_kind: one of few words, such as ``builtin`` or ``uploaded``.
        """

        def on_audio(duration_s: float, is_first: bool) -> None:
            audio_s.inc(duration_s)
            if is_first:
                self.waiting.labels(model).dec()
                self._peer.speak(model)

        stats = StreamStats(time.monotonic, on_audio)
        audio_s = self.audio_s.labels(model)
        reason = "error"
        self.active.labels(model).inc()
        self.waiting.labels(model).inc()
        self._peer.begin(model)
        try:
            yield stats
        except (GeneratorExit, asyncio.CancelledError):
            reason = "abort"
            raise
        finally:
            self._record(model, stats, stats.reason or reason, voice_kind)

    def _record(self, model: str, meter: StreamStats, reason: str, voice_kind: str) -> None:
        """Tell all about a stream that has ended."""
        self.active.labels(model).dec()
        self.ended.labels(model, reason).inc()
        self.input_tokens.labels(model).inc(meter.usage.input_tokens)
        if meter.first_audio_s is None:
            self.waiting.labels(model).dec()
        else:
            self.first_audio_s.labels(model).observe(meter.first_audio_s)
            if reason in ("stop", "length"):
                self.real_time_factor.labels(model).observe(meter.real_time_factor)
            self.underruns.labels(model).inc(meter.num_underruns)
            self.underrun_s.labels(model).inc(meter.underrun_s)
        faults = {"error": self.failed, "abort": self.aborted}
        if reason in faults:
            stage = "start" if meter.first_audio_s is None else "stream"
            faults[reason].labels(model, voice_kind, audio_format.get(), stage).inc()
        self._peer.record(model, meter, reason)
