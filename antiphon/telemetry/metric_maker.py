"""Makes metrics of one registry that share a prefix and labels."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

OMNI_LABELS = ("model_name", "stage", "replica")
"""Labels of vLLM-Omni's metrics."""


class MetricMaker:
    """Makes metrics whose names begin with ``prefix``, with ``labels`` before their own."""

    def __init__(self, registry: CollectorRegistry, prefix: str, *labels: str) -> None:
        self._registry = registry
        self._prefix = prefix
        self._labels = labels

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        labels = (*self._labels, *labels)
        return Counter(f"{self._prefix}{name}", text, labels, registry=self._registry)

    def gauge(self, name: str, text: str) -> Gauge:
        """Return a gauge, which several front ends report as the sum over those that live."""
        name, registry = f"{self._prefix}{name}", self._registry
        return Gauge(name, text, self._labels, registry=registry, multiprocess_mode="livesum")

    def histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        name, labels = f"{self._prefix}{name}", (*self._labels, *labels)
        return Histogram(name, text, labels, registry=self._registry, buckets=buckets)
