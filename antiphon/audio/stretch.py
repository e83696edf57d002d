"""Changes how fast a stream is spoken and keeps its pitch, with ffmpeg's ``atempo`` filter."""

import math
from contextlib import suppress
from fractions import Fraction

import av
import numpy as np
from av.filter import Graph
from av.filter.context import FilterContext

from antiphon.audio.wav import silence
from antiphon.contracts.types import Samples

MIN_SPEED, MAX_SPEED = 0.25, 4.0

_MAX_STAGE_OCTAVES = 1.0  # beyond it, a stage drops samples instead of blending them
_BLOCK_MS = 20


class Stretcher:
    """A `Transform` that makes speech faster (``speed`` above 1) or slower.

    Of ``n`` samples come exactly ``round(n / speed)``. The first leave after about 60 ms of
    input, 80 ms if slower than 0.5, 200 ms if faster than 2.

    The filter's output depends a little on the frames that it is fed, and it loses a part of the
    last ones. So it is fed frames of one fixed length whatever the cuts of the input, at the end
    silence, and its output is cut to length. Several channels are cut at the same places, so that
    they stay in step.
    """

    def __init__(self, sample_rate_hz: int, speed: float, channels: int = 1) -> None:
        """Build the filters; ``speed`` is 0.25 to 4.0."""
        assert MIN_SPEED <= speed <= MAX_SPEED, speed
        self._sample_rate_hz = sample_rate_hz
        self._speed = speed
        self._layout = f"{channels}c"
        self._none = silence(0, channels)
        self._graph, self._source, self._sink = _tempo_graph(sample_rate_hz, speed, self._layout)
        self._block_samples = sample_rate_hz * _BLOCK_MS // 1000
        self._pending = self._none
        self._num_pushed = 0
        self._num_fed = 0
        self._num_returned = 0

    def push(self, samples: Samples) -> Samples:
        self._num_pushed += len(samples)
        ready = self._stretched(samples)
        self._num_returned += len(ready)
        return ready

    def flush(self) -> Samples:
        num_missing = round(self._num_pushed / self._speed) - self._num_returned
        tail = self._none
        block = np.zeros((self._block_samples, *tail.shape[1:]), np.float32)
        while len(tail) < num_missing:
            tail = np.concatenate([tail, self._stretched(block)])
        return tail[:num_missing]

    def _stretched(self, samples: Samples) -> Samples:
        """Feed whole blocks, keep the remainder for later; return what the filters give."""
        waiting = np.concatenate([self._pending, samples.astype(np.float32, copy=False)])
        num_whole = len(waiting) - len(waiting) % self._block_samples
        self._pending = waiting[num_whole:]
        ready = [self._none]
        for start in range(0, num_whole, self._block_samples):
            self._feed(waiting[start : start + self._block_samples])
            with suppress(BlockingIOError):  # until the filters want more
                while True:
                    frame = self._sink.pull()
                    assert isinstance(frame, av.AudioFrame)
                    stretched = frame.to_ndarray().astype(np.float32, copy=False)
                    ready.append(stretched.reshape(-1, *self._none.shape[1:]))
        return np.concatenate(ready)

    def _feed(self, block: Samples) -> None:
        frame = av.AudioFrame.from_ndarray(block.reshape(1, -1), format="flt", layout=self._layout)
        frame.sample_rate = self._sample_rate_hz
        frame.time_base = Fraction(1, self._sample_rate_hz)
        frame.pts = self._num_fed
        self._num_fed += len(block)
        self._source.push(frame)


def _tempo_graph(
    sample_rate_hz: int, speed: float, layout: str
) -> tuple[Graph, FilterContext, FilterContext]:
    """Return a filter graph, which must be kept alive, its source and its sink."""
    num_stages = max(1, math.ceil(abs(math.log2(speed)) / _MAX_STAGE_OCTAVES))
    stage_speed = speed ** (1 / num_stages)
    graph = Graph()
    graph.threads = 1  # or each graph starts a thread per core, all idle
    source = graph.add_abuffer(sample_rate=sample_rate_hz, format="flt", layout=layout)
    stages = [graph.add("atempo", repr(stage_speed)) for _ in range(num_stages)]
    sink = graph.add("abuffersink")
    graph.link_nodes(source, *stages, sink).configure()
    return graph, source, sink
