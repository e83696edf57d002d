"""The processes of one server, and their metrics: each once, whichever of them is asked."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A process of a server; data.

    Attributes:
        pid: its number, or the last one that it had; 0: it never ran.
    """

    name: str
    pid: int
    is_up: bool
    num_restarts: int


class ProcessStateCollector(Collector):
    """Reports running processes, how often they were restarted, and what they take of the host."""

    def __init__(self, states: Iterable[ProcessState]) -> None:
        self._states = tuple(states)

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "antiphon_process_up", "Whether a process of the server runs.", labels=("process",)
        )
        restarts = CounterMetricFamily(
            "antiphon_process_restarts", "Times a process was started again.", labels=("process",)
        )
        for state in self._states:
            up.add_metric((state.name,), float(state.is_up))
            restarts.add_metric((state.name,), float(state.num_restarts))
        yield up
        yield restarts
        yield from _resources(state for state in self._states if state.is_up)


def _resources(states: Iterable[ProcessState]) -> Iterator[Metric]:
    """Yield the library's figures of one process, for several; a restart begins a new series."""
    families: dict[str, Metric] = {}
    for state in states:
        labels = {"process": state.name, "pid": str(state.pid)}
        for metric in ProcessCollector(pid=partial(int, state.pid), registry=None).collect():
            new = Metric(metric.name, metric.documentation, metric.type)
            family = families.setdefault(metric.name, new)
            family.samples += [each._replace(labels=labels) for each in metric.samples]
    yield from families.values()
