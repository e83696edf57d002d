"""The same measurements under the names that vLLM-Omni gives them, for its dashboards and alerts.

Only what means the same here is told. A server is one replica, and its pipeline one stage.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from antiphon.telemetry.stream_stats import StreamStats

CONTINUITY_THRESHOLD_S = 0.1
"""A stream with fewer seconds of gaps counts as continuous, as in the peer's benchmark."""
_LABELS = ("model_name", "stage", "replica")
_PLACE = ("speech", "0")
_TIME_BUCKETS_S = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1, 2, 5, 10, 30, 60)
_FACTOR_BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 5)


class VllmOmniMetrics:
    """Kept up by `antiphon.telemetry.metrics.Metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"vllm_omni:{name}", text, _LABELS, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"vllm_omni:{name}", text, (*_LABELS, *labels), registry=registry)

        def histogram(
            name: str, text: str, buckets: tuple[float, ...] = _TIME_BUCKETS_S
        ) -> Histogram:
            return Histogram(f"vllm_omni:{name}", text, _LABELS, registry=registry, buckets=buckets)

        self._running = gauge("num_requests_running", "Requests whose audio is being made.")
        self._waiting = gauge("num_requests_waiting", "Requests without audio so far.")
        self._latency_s = histogram("e2e_request_latency_s", "From a request to its end.")
        self._success = counter("requests_success", "Requests completed.", "finished_reason")
        self._failed = counter("requests_failed", "Requests that failed.", "reason")
        self._prompt_tokens = counter("prompt_tokens", "Text units read.")
        self._tokens = counter("generation_tokens", "Frames made.")
        self._frames = counter("audio_frames", "Frames made.")
        self._ttfp_s = histogram("audio_ttfp_s", "Time to the first audio.")
        self._duration_s = histogram("audio_duration_s", "Audio of a request.")
        self._rtf = histogram("audio_rtf", "Real-time factor.", _FACTOR_BUCKETS)
        self._underrun_s = histogram("audio_underrun_s", "Gaps of a request.")
        self._continuous = counter(
            "audio_continuity_ok", "Requests without gaps to speak of.", "threshold_ms"
        )
        self._aborted = counter("speech_stream_aborted", "Streams that were not heard.", "reason")
        self._completed = counter("speech_stream_completed", "Streams heard to their end.")

    def begin(self, model: str) -> None:
        """A request has come."""
        self._waiting.labels(model, *_PLACE).inc()

    def speak(self, model: str) -> None:
        """Its first audio has come."""
        self._waiting.labels(model, *_PLACE).dec()
        self._running.labels(model, *_PLACE).inc()

    def record(self, model: str, meter: StreamStats, reason: str) -> None:
        """It has ended."""
        place = (model, *_PLACE)
        has_spoken = meter.first_audio_s is not None
        (self._running if has_spoken else self._waiting).labels(*place).dec()
        self._latency_s.labels(*place).observe(meter.elapsed_s)
        self._prompt_tokens.labels(*place).inc(meter.usage.input_tokens)
        self._tokens.labels(*place).inc(meter.usage.output_tokens)
        self._frames.labels(*place).inc(meter.usage.output_tokens)
        if meter.first_audio_s is not None:
            self._ttfp_s.labels(*place).observe(meter.first_audio_s)
        if reason == "error":
            self._failed.labels(*place, reason).inc()
        if reason in ("error", "abort"):
            self._aborted.labels(*place, reason).inc()
            return
        self._success.labels(*place, reason).inc()
        self._completed.labels(*place).inc()
        self._duration_s.labels(*place).observe(meter.audio_s)
        self._rtf.labels(*place).observe(meter.real_time_factor)
        self._underrun_s.labels(*place).observe(meter.underrun_s)
        if meter.underrun_s <= CONTINUITY_THRESHOLD_S:
            self._continuous.labels(*place, f"{CONTINUITY_THRESHOLD_S * 1000:g}").inc()
