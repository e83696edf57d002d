"""Loudness and true peak by FFmpeg's filter ``ebur128``."""

import math
from fractions import Fraction

import av
import numpy as np
from av.filter import Graph

from antiphon.contracts.types import Samples


def loudness_of(samples: Samples, sample_rate_hz: int) -> tuple[float, float]:
    """Return the integrated loudness in LUFS and the true peak in dBTP of mono audio."""
    graph = Graph()
    source = graph.add_abuffer(sample_rate=sample_rate_hz, format="flt", layout="mono")
    meter = graph.add("ebur128", "metadata=1:peak=true")
    sink = graph.add("abuffersink")
    graph.link_nodes(source, meter, sink).configure()
    block = sample_rate_hz // 10
    padded = np.pad(samples, (0, sample_rate_hz)).astype(np.float32)
    measured: dict[str, str] = {}
    for start in range(0, len(padded) - block + 1, block):
        piece = padded[start : start + block].reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(piece, format="flt", layout="mono")
        frame.sample_rate = sample_rate_hz
        frame.pts, frame.time_base = start, Fraction(1, sample_rate_hz)
        source.push(frame)
        while True:
            try:
                measured = dict(sink.pull().metadata)
            except BlockingIOError:
                break
    peak = float(measured["lavfi.r128.true_peak"])
    return float(measured["lavfi.r128.I"]), 20 * math.log10(peak)
