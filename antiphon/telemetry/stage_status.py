"""Status that a stage publishes on each change: load, failure and the step under way."""

import pickle
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields
from operator import attrgetter
from typing import Any, Literal, TypeAlias

_STEP_BUCKETS_S = (
    *(1e-3, 2e-3, 3e-3, 5e-3, 7.5e-3, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1.0),
    *(3.0, 10.0, 30.0),
)
_HOST_BUCKETS_S = (
    *(2e-5, 5e-5, 1e-4, 1.5e-4, 2e-4, 2.5e-4, 3e-4, 4e-4, 5e-4, 7.5e-4, 1e-3, 1.5e-3, 2e-3),
    *(3e-3, 5e-3, 0.01, 0.03, 0.1, 1.0),
)
_ROW_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(slots=True)
class Histogram:
    """Counts of values by bucket.

    Attributes:
        bounds: upper bounds of the buckets, inclusive and ascending; one more bucket has none.
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: "Histogram") -> None:
        """Count the values of another histogram, which has the same bounds."""
        self.counts = [sum(both) for both in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


@dataclass(frozen=True, slots=True)
class EngineMetric:
    """How a field of `EngineStats` is exported.

    Attributes:
        kind: Metric type; a histogram's field holds one `Histogram` for each value of ``kind``.
        vllm_name: Name of vLLM's metric of the same meaning; empty: none.
    """

    kind: Literal["gauge", "counter", "histogram"]
    text: str
    vllm_name: str = ""


def _gauge(text: str, vllm_name: str = "") -> Any:
    return field(default=0, metadata={"metric": EngineMetric("gauge", text, vllm_name)})


def _counter(text: str, vllm_name: str = "") -> Any:
    return field(default=0, metadata={"metric": EngineMetric("counter", text, vllm_name)})


def _histogram(text: str) -> dict[str, EngineMetric]:
    return {"metric": EngineMetric("histogram", text)}


def _by_kind(bounds: tuple[float, ...], *kinds: str) -> Callable[[], dict[str, Histogram]]:
    return lambda: {kind: Histogram(bounds) for kind in kinds}


_step_seconds = _by_kind(
    _STEP_BUCKETS_S, *("decode", "prefill", "mixed", "codec", "generator", "denoise", "encode")
)
_step_rows = _by_kind(_ROW_BUCKETS, "decode", "prefill", "codec", "denoise", "encode")
_host_seconds = _by_kind(_HOST_BUCKETS_S, "schedule", "launch", "update", "gap")


@dataclass(slots=True)
class EngineStats:
    """What an engine has counted since it was started, and its state.

    The metric of a field is called ``antiphon_engine_`` and the field's name. Steps of kind
    ``decode`` make frames, ``prefill`` compute prompts, ``mixed`` do both, ``codec`` only decode
    chunks; ``generator`` is a chunk of a generator, ``denoise`` a step of a denoiser, ``encode`` a
    batch of an encoder. The host's time of kind ``gap`` is what the device waited for a step while
    there was work for it, 0 if the step was launched before the one in front of it was over.
    """

    requests_running: int = _gauge("Requests that hold a slot.", "num_requests_running")
    requests_waiting: int = _gauge("Requests in the queue for a slot.", "num_requests_waiting")
    requests_out_of_text: int = _gauge("Running requests whose next frame needs more text.")
    text_waits: int = _counter("Times that a running request had run out of text.")
    kv_blocks: int = _gauge("Blocks of the KV cache.")
    kv_cache_usage: float = _gauge("Share of the blocks that is in use.", "kv_cache_usage_perc")
    preemptions: int = _counter("Requests that lost their slots.", "num_preemptions")
    prefix_cache_queries: int = _counter(
        "Prompt positions looked up in the prefix cache.", "prefix_cache_queries"
    )
    prefix_cache_hits: int = _counter(
        "Prompt positions found in the prefix cache.", "prefix_cache_hits"
    )
    prefill_positions: int = _counter("Positions computed ahead of frames.", "prompt_tokens")
    frames: int = _counter("Frames made.", "generation_tokens")
    step_seconds: dict[str, Histogram] = field(
        default_factory=_step_seconds, metadata=_histogram("Duration of steps, by what they do.")
    )
    step_rows: dict[str, Histogram] = field(
        default_factory=_step_rows, metadata=_histogram("Rows of steps, by what they do.")
    )
    host_seconds: dict[str, Histogram] = field(
        default_factory=_host_seconds,
        metadata=_histogram("Time of the host in a step, by what it does."),
    )

    def record_host(self, **seconds: float) -> None:
        """Count the host's time in a step: ``schedule``, ``launch``, ``update`` and ``gap``."""
        for kind, duration_s in seconds.items():
            self.host_seconds[kind].observe(duration_s)

    def record_rows(self, **rows: int) -> None:
        """Count the rows of a step: ``decode``, ``prefill``, ``codec`` or ``encode``."""
        for kind, number in rows.items():
            if number:
                self.step_rows[kind].observe(number)

    def record_step(self, duration_s: float, *, decodes: bool, prefills: bool) -> None:
        """Count the duration of a step that made frames, or computed prompts, or did both."""
        if decodes:
            kind = "mixed" if prefills else "decode"
        else:
            kind = "prefill" if prefills else "codec"
        self.step_seconds[kind].observe(duration_s)

    @classmethod
    def summed(cls, several: Sequence["EngineStats"]) -> "EngineStats":
        """Return the statistics of several engines together, as if they were one."""
        total = cls(**{each.name: _summed(each, several) for each in fields(cls)})
        used = sum(each.kv_cache_usage * each.kv_blocks for each in several)
        total.kv_cache_usage = used / max(total.kv_blocks, 1)
        return total

    def snapshot(self) -> "EngineStats":
        """Return a copy, which may leave the engine's thread and its process."""
        copy: EngineStats = pickle.loads(pickle.dumps(self))  # ten times as fast as deepcopy
        return copy


def _summed(each: Field[Any], several: Sequence[EngineStats]) -> Any:
    values = [attrgetter(each.name)(stats) for stats in several]
    if each.metadata["metric"].kind != "histogram":
        return sum(values)
    total = {kind: Histogram(first.bounds) for kind, first in values[0].items()}
    for kind, histogram in total.items():
        for value in values:
            histogram.add(value[kind])
    return total


@dataclass(frozen=True, slots=True)
class StageStatus:
    """The state of a stage; data, which can be pickled.

    Attributes:
        capacity: live requests that it can serve at once without gaps.
        failure: Error that stopped it for good; ``None`` while it works.
        step_began_s: Start of the longest step under way on the host's monotonic clock; ``None``
            between steps.
        num_bytes: Memory estimated at load time, in bytes.
        stats: Engine statistics, a few times a second; ``None`` without an engine.
        num_replicas: Reachable replicas; 0 while none runs, or is being started again.
    """

    num_open: int = 0
    capacity: int = 0
    failure: str | None = None
    step_began_s: float | None = None
    num_bytes: int = 0
    stats: EngineStats | None = None
    num_replicas: int = 1

    def stalled_s(self) -> float:
        """Return the seconds that the longest step under way has taken so far, 0 between steps."""
        return 0.0 if self.step_began_s is None else time.monotonic() - self.step_began_s

    def fault(self, stall_s: float) -> str | None:
        """Return the failure, or that a step hangs for longer than ``stall_s``; ``None``: none."""
        if self.failure is None and (stalled_s := self.stalled_s()) > stall_s:
            return f"a step has taken {stalled_s:.0f} seconds"
        return self.failure

    @classmethod
    def merged(cls, statuses: Iterable["StageStatus"]) -> "StageStatus":
        """Return the status of a chain of stages, whose capacity is that of its narrowest."""
        found = tuple(statuses)
        began_s = [each.step_began_s for each in found if each.step_began_s is not None]
        return cls(
            num_open=sum(each.num_open for each in found),
            capacity=min((each.capacity for each in found), default=0),
            failure=next((each.failure for each in found if each.failure), None),
            step_began_s=min(began_s, default=None),
            num_bytes=sum(each.num_bytes for each in found),
            num_replicas=min((each.num_replicas for each in found), default=1),
        )


Publish: TypeAlias = Callable[[StageStatus], None]
"""Called with each new status, in the thread that changed it; returns at once."""


class StatusPublisher:
    """Keeps the status of one engine and publishes its changes; safe for threads."""

    def __init__(self, publish: Publish | None = None) -> None:
        """Start idle; ``publish`` takes each change."""
        self.status = StageStatus()
        self._fields: dict[str, Any] = {}
        self._publish = publish
        self._lock = threading.Lock()
        self._steps_began_s: dict[int, float] = {}

    def update(self, *, opened: int = 0, **changes: Any) -> None:
        """Change fields of the status; ``opened`` is added to its open requests."""
        with self._lock:
            self._fields |= changes
            self._fields["num_open"] = self.status.num_open + opened
            self.status = StageStatus(**self._fields)  # a third of the time of `replace`
            if self._publish is not None:
                self._publish(self.status)

    @contextmanager
    def step(self) -> Generator[None, None, None]:
        """Publish that the calling thread computes a step, for as long as the block lasts."""
        thread = threading.get_ident()
        self._steps_began_s[thread] = time.monotonic()
        self._update_step()
        try:
            yield
        finally:
            del self._steps_began_s[thread]
            self._update_step()

    def _update_step(self) -> None:
        self.update(step_began_s=min(tuple(self._steps_began_s.values()), default=None))
