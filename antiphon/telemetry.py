"""Logs that carry the request's id, and the metrics of one server."""

import asyncio
import contextvars
import logging
import time
from collections.abc import Generator
from contextlib import aclosing, contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from antiphon.types import Ended, SpeechStream

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")

_LATENCY_BUCKETS_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.35, 0.6, 1, 2, 5, 10, 30)


class Metrics:
    """Prometheus metrics in a registry of their own, so that several servers share a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("model",)
        self.active = Gauge(
            "antiphon_speech_active", "Streams open now.", labels, registry=self.registry
        )
        self.ended = Counter(
            "antiphon_speech_ended",
            "Streams ended, by reason.",
            ("model", "reason"),
            registry=self.registry,
        )
        self.first_audio_s = Histogram(
            "antiphon_first_audio_seconds",
            "From the request to its first audio, before encoding.",
            labels,
            registry=self.registry,
            buckets=_LATENCY_BUCKETS_S,
        )
        self.audio_s = Counter(
            "antiphon_audio_seconds", "Seconds of audio made.", labels, registry=self.registry
        )
        self.input_tokens = Counter(
            "antiphon_input_tokens", "Text units read.", labels, registry=self.registry
        )

    async def observed(self, model: str, events: SpeechStream) -> SpeechStream:
        """Pass a stream through and measure it."""
        started_s, reason = time.monotonic(), "error"
        is_first = True
        audio_s = self.audio_s.labels(model)
        self.active.labels(model).inc()
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Ended):
                        reason = event.reason
                        self.input_tokens.labels(model).inc(event.usage.input_tokens)
                    else:
                        audio_s.inc(event.duration_s)
                        if is_first:
                            elapsed_s = time.monotonic() - started_s
                            self.first_audio_s.labels(model).observe(elapsed_s)
                            is_first = False
                    yield event
        except (GeneratorExit, asyncio.CancelledError):
            reason = "abort"
            raise
        finally:
            self.active.labels(model).dec()
            self.ended.labels(model, reason).inc()


class _RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        return True


def configure_logging(level: str) -> None:
    """Log to stderr, one line an event, each with the id of the request that it belongs to."""
    handler = logging.StreamHandler()
    handler.addFilter(_RequestIdFilter())
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(request_id)s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


@contextmanager
def request_scope(id: str) -> Generator[None, None, None]:
    """Name the request in all logs inside the block."""
    token = request_id.set(id)
    try:
        yield
    finally:
        request_id.reset(token)
