"""Instructions and engines that PyTorch uses on this CPU, and their measured speed."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from antiphon.nn.cpu.packed_layers import kinds
from antiphon.nn.cpu.threads import model_threads

_NUM_FLOATS = 2**25  # 128 MiB, which no usual cache holds
_MATRIX = 1024
_NUM_TRIALS = 20


@dataclass(frozen=True, slots=True)
class CpuSpeed:
    """Speed of a CPU; the attributes are those of `antiphon.placement.host_cpu.HostCpu`."""

    threads: int
    vectors: str
    engines: dict[str, str]
    bandwidth_gbs: float
    gflops: float


def measured_speed() -> CpuSpeed:
    """Measure the speed of memory and of products, in about a second."""
    before, threads = torch.get_num_threads(), model_threads(None)
    floats, matrix = torch.ones(_NUM_FLOATS), torch.ones(_MATRIX, _MATRIX)
    try:
        torch.set_num_threads(threads)
        bandwidth_gbs = floats.nbytes / _shortest_s(floats.sum) / 1e9
        torch.set_num_threads(1)
        gflops = 2 * _MATRIX**3 / _shortest_s(lambda: matrix @ matrix) / 1e9
    finally:
        torch.set_num_threads(before)
    vectors = torch.backends.cpu.get_cpu_capability()
    engines = {weights: engine for weights, (engine, _) in kinds().items()}
    return CpuSpeed(threads, vectors, engines, bandwidth_gbs, gflops)


def _shortest_s(work: Callable[[], object]) -> float:
    """Return the shortest of several times: other programs only make them longer."""
    times_s = []
    for _ in range(_NUM_TRIALS):
        begun_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - begun_s)
    return min(times_s)
