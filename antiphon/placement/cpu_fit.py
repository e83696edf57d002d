"""Estimates of the memory and the speed of one stream of a model on a CPU.

A frame takes the time in which the weights of all its products are read, and what operators cost
besides; the codec's arithmetic runs beside it on another core, if there is one. The shares that are
reached, and the cost of operators, are chosen so that estimates for Qwen3-TTS 0.6B are what
docs/without-a-gpu.md has measured; nothing else has been.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.family import Family, Product
from antiphon.contracts.inspection import Footprint
from antiphon.errors import ModelLoadError, how_to_install
from antiphon.placement.fit import packed_weights
from antiphon.placement.host_cpu import HostCpu

_GIB = 2**30
_NUM_BYTES = {"float32": 4, "fp16": 2, "int8": 1}
IN_FLOATS = 2
"""A footprint counts numbers of two bytes."""
REACHED = {"float32": 0.95, "fp16": 0.8, "int8": 0.75}
"""Share of the memory's speed that products reach, by the type of their weights."""
REACHED_DECODER = 0.8
OPERATORS_MS = 0.11
"""Operators on a CPU in the place of one kernel of a GPU."""
MAX_MEMORY = 0.8
"""Share of the main memory that a model may take, beside the system and other programs."""
RUNTIME_GIB = 0.25
"""Python and PyTorch."""


@dataclass(frozen=True, slots=True)
class CpuFit:
    """One type of weights on a CPU.

    Attributes:
        weights: ``"float32"``, or the value of ``--quantize``.
        model_ms: time of a frame without its audio.
        decoder_ms: time of a frame's audio on one core.
        load: share of real time that one stream takes: below 1 it has no gaps.
    """

    weights: str
    memory_gib: float
    model_ms: float
    decoder_ms: float
    load: float


def cpu_fits(family: Family, path: Path, cpu: HostCpu, seconds: float) -> list[CpuFit]:
    """Estimate a checkpoint in each type of weights that is supported; reads no tensor.

    Args:
        seconds: audio duration of the stream.

    Raises:
        ModelLoadError: PyTorch is missing, what the family takes is unknown, or its configuration
            cannot be read.
    """
    if cpu.bandwidth_gbs is None or cpu.gflops is None:
        raise ModelLoadError(f"A CPU is measured with PyTorch: {how_to_install('torch')}.")
    measuring = family.measuring
    if family.footprint is None or measuring is None or measuring.frame_products is None:
        raise ModelLoadError(f"{path}: what '{family.name}' takes of a machine is not known.")
    footprint: Footprint = family.footprint.resolve()(path)
    products: list[Product] = measuring.frame_products.resolve()(path)
    num_positions = footprint.prompt_positions + round(seconds * footprint.frames_per_s)
    decoder_ms = footprint.decoder_flop / (cpu.gflops * REACHED_DECODER * 1e6)
    fits = []
    for weights in ("float32", *(cpu.engines if family.quantizes else ())):
        kept_bytes, read_bytes = _bytes(weights, footprint, products)
        kept_bytes += IN_FLOATS * footprint.position_bytes * num_positions
        model_ms = read_bytes / (cpu.bandwidth_gbs * REACHED[weights] * 1e6)
        model_ms += footprint.num_launches * OPERATORS_MS
        frame_ms = max(model_ms, decoder_ms) if cpu.cores > 1 else model_ms + decoder_ms
        load = frame_ms * footprint.frames_per_s / 1000
        fits.append(CpuFit(weights, kept_bytes / _GIB + RUNTIME_GIB, model_ms, decoder_ms, load))
    return fits


def _bytes(weights: str, footprint: Footprint, products: Sequence[Product]) -> tuple[int, int]:
    """Return the bytes of all weights, and of those that are read for a frame."""
    saved_bytes = _NUM_BYTES["float32"] - _NUM_BYTES[weights]
    num_kept, num_read = packed_weights(products)
    return (
        IN_FLOATS * footprint.weight_bytes - saved_bytes * num_kept,
        IN_FLOATS * footprint.read_bytes - saved_bytes * num_read,
    )


def recommended(fits: Sequence[CpuFit], memory_gib: float | None) -> CpuFit | None:
    """Return the fastest, or smallest, of those that the memory holds; ``None``: it holds none."""
    within = [
        each for each in fits if memory_gib is None or each.memory_gib <= MAX_MEMORY * memory_gib
    ]
    return min(within, key=lambda each: (each.load, each.memory_gib), default=None)
