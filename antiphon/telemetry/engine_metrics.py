"""The statistics of engines for `/metrics`, under our names and those of vLLM."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import accumulate
from operator import attrgetter
from typing import Any, TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from antiphon.telemetry.stage_status import EngineMetric, EngineStats, Histogram

Engines: TypeAlias = Iterable[tuple[str, str, EngineStats]]
"""Of each engine the model's served name, the stage's name, and a snapshot."""


class EngineCollector(Collector):
    """Reads the latest snapshots when it is scraped."""

    def __init__(self, read: Callable[[], Engines]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        engines = tuple(self._read())
        for each in fields(EngineStats):
            metric: EngineMetric = each.metadata["metric"]
            value = attrgetter(each.name)
            values = [((model, stage), value(stats)) for model, stage, stats in engines]
            yield _family(metric, f"antiphon_engine_{each.name}", ("model", "stage"), values)
            if metric.vllm_name:
                yield _family(metric, f"vllm:{metric.vllm_name}", ("model_name", "engine"), values)


def _family(
    metric: EngineMetric,
    name: str,
    labels: Sequence[str],
    values: Sequence[tuple[tuple[str, str], Any]],
) -> Metric:
    if metric.kind == "histogram":
        family = HistogramMetricFamily(name, metric.text, labels=(*labels, "kind"))
        for place, histograms in values:
            for kind, histogram in histograms.items():
                family.add_metric((*place, kind), _buckets(histogram), histogram.total)
        return family
    made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    plain = made(name, metric.text, labels=labels)
    for place, value in values:
        plain.add_metric(place, value)
    return plain


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, map(float, histogram.bounds)), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
