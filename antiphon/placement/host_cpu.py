"""The CPU and the main memory of this machine, as far as models on it depend on them."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from antiphon.concurrency import num_usable_cores

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class HostCpu:
    """A CPU and its memory.

    Attributes:
        cores: cores that this process may run on.
        threads: threads of a model's products by default; 0 without PyTorch.
        vectors: widest instructions that PyTorch uses, such as ``"AVX512"``; ``None`` without it.
        engines: Engines of products with packed weights, by the value of ``--quantize``.
        memory_gib: main memory; ``None``: unknown.
        bandwidth_gbs: speed of reading memory by all threads, 10^9 bytes a second.
        gflops: float32 products of one thread, 10^9 operations a second.
    """

    name: str
    cores: int
    threads: int
    vectors: str | None
    engines: Mapping[str, str]
    memory_gib: float | None
    bandwidth_gbs: float | None
    gflops: float | None

    @classmethod
    def of_host(cls) -> "HostCpu":
        """Return this machine's; measures memory and arithmetic in about a second."""
        name, cores, memory_gib = cpu_name(), num_usable_cores(), _memory_gib()
        if find_spec("torch") is None:
            return cls(name, cores, 0, None, {}, memory_gib, None, None)
        from antiphon.nn.cpu.speed import measured_speed

        return cls(name, cores, memory_gib=memory_gib, **asdict(measured_speed()))


def cpu_name() -> str:
    """Return the name of the processor, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    if not {*names} <= os.sysconf_names.keys():  # Windows
        return None
    page_bytes, num_pages = map(os.sysconf, names)
    return page_bytes * num_pages / _GIB
