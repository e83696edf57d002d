"""Estimates of how many streams of a model fit on a card and how fast it serves them.

A frame of all streams takes the time in which memory is read (all weights that are used, and the
keys and values of all streams) or in which the model's arithmetic is done, whichever is longer;
then the decoder's arithmetic; and what every kernel costs besides. How much of its stated bandwidth
and arithmetic a card reaches, and what a kernel costs, are chosen so that estimates for an H200 are
what docs/performance.md has for it with 1 to 256 streams; on other cards, and with more streams,
nothing of this has been measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from antiphon.config import ModelSettings
from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Footprint
from antiphon.engine.runner import BLOCK_POSITIONS, num_blocks_of
from antiphon.nn.cuda.memory_plan import (
    CONTEXT_BYTES,
    FEW_SLOTS,
    SLOT_RESERVE_BYTES,
    MemoryPlan,
    unpacked_bytes,
)
from antiphon.placement.cards import Card

GIB = 2**30
REACHED_BANDWIDTH = 0.75
REACHED_MODEL_TFLOPS = 0.6
REACHED_DECODER_TFLOPS = 0.2
KERNEL_US = 2.35
WIDE_KERNEL_US = 4.8
"""With so many streams that products need tensor cores."""
RESIDENT_US = 1.0
"""What a program that stays on the device does in the place of a kernel."""
LATE_LAUNCH_US = 1.2
"""More on a card that begins no kernel early."""
MAX_LOAD = 0.85
"""Share of real time that may be used before playback underruns now and then."""
_LAYER_PARTS = (".qkv", ".out", ".up", ".down")
"""Ends of the names of products of decoder layers, whose weights may be int8."""
_MAX_STREAMS = 4096
_FEW_STREAMS = 4


@dataclass(frozen=True, slots=True)
class Speed:
    """An estimate for some streams.

    Attributes:
        frame_ms: time in which every stream makes a frame.
        measured_ms: measured frame time on this card; ``None``: not measured.
    """

    num_streams: int
    frame_ms: float
    load: float
    measured_ms: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    """Capacity of a card for a model.

    Attributes:
        runtime_gib: besides weights and streams: CUDA, and what a server keeps free, of which its
            graphs and codec take what they need.
        cache_gib: left for streams; negative if not even the weights fit.
        stream_gib: memory that a stream of the wanted length takes at its end, plus the server's
            allowance for its codec.
        num_gapless: streams that fit and are generated fast enough for gapless playback.
    """

    weight_gib: float
    runtime_gib: float
    cache_gib: float
    stream_gib: float
    num_streams: int
    num_gapless: int
    speeds: tuple[Speed, ...]


def fit(
    footprint: Footprint,
    card: Card,
    seconds: float,
    streams: tuple[int, ...],
    utilization: float | None = None,
    quantized: Sequence[Product] = (),
) -> Fit:
    """Estimate what a card holds: its memory is shared out as a server does it.

    Args:
        seconds: audio duration of a stream.
        streams: numbers of them to estimate the speed for.
        utilization: share of the card's memory that the server may use; ``None``: its default.
        quantized: products of a frame, if those of decoder layers have int8 weights.
    """
    footprint = _in_types(footprint, 2 if card.has_bfloat16 else 4, quantized)
    share = utilization or ModelSettings().gpu_memory_utilization or 1.0
    num_positions = footprint.prompt_positions + round(seconds * footprint.frames_per_s)
    num_total = int(card.memory_gib * GIB)
    num_free = num_total - footprint.weight_bytes - CONTEXT_BYTES
    plan = MemoryPlan(num_free, num_total, share, unpacked_bytes(_in_layers(quantized)))
    kept_bytes = num_blocks_of(num_positions) * BLOCK_POSITIONS * footprint.position_bytes
    stream_bytes = kept_bytes + SLOT_RESERVE_BYTES  # a slot for each
    num_left = max(plan.num_left(0), min(plan.num_spare(0), FEW_SLOTS * stream_bytes))
    weight_gib, cache_gib = footprint.weight_bytes / GIB, num_left / GIB
    num_streams = max(0, num_left // stream_bytes)

    def speed(number: int) -> Speed:
        frame_ms = _frame_ms(footprint, card, number, num_positions)
        load = frame_ms * footprint.frames_per_s / 1000
        return Speed(number, frame_ms, load, footprint.measured_ms.get(card.name, {}).get(number))

    within = range(1, min(num_streams, _MAX_STREAMS) + 1)
    num_gapless = next(
        (number - 1 for number in within if speed(number).load > MAX_LOAD), len(within)
    )
    return Fit(
        weight_gib=weight_gib,
        runtime_gib=card.memory_gib - weight_gib - cache_gib,
        cache_gib=cache_gib,
        stream_gib=stream_bytes / GIB,
        num_streams=num_streams,
        num_gapless=num_gapless,
        speeds=tuple(speed(number) for number in streams),
    )


def _in_types(footprint: Footprint, num_bytes: int, quantized: Sequence[Product]) -> Footprint:
    """Return a footprint with numbers of so many bytes instead of two, and of int8 weights."""
    factor, (num_kept, num_read) = num_bytes // 2, packed_weights(quantized)
    return replace(
        footprint,
        weight_bytes=factor * footprint.weight_bytes - (num_bytes - 1) * num_kept,
        read_bytes=factor * footprint.read_bytes - (num_bytes - 1) * num_read,
        position_bytes=factor * footprint.position_bytes,
    )


def packed_weights(products: Sequence[Product]) -> tuple[int, int]:
    """Return the weights of a frame's products in decoder layers: all, and how many are read."""
    in_layers = _in_layers(products)
    num_kept = sum({each.weight: each.num_weights for each in in_layers}.values())
    return num_kept, sum(each.num_weights for each in in_layers)


def _in_layers(products: Sequence[Product]) -> list[Product]:
    return [each for each in products if each.weight.endswith(_LAYER_PARTS)]


def _frame_ms(footprint: Footprint, card: Card, num_streams: int, num_positions: int) -> float:
    kept = num_streams * num_positions / 2 * footprint.position_bytes
    read_ms = (footprint.read_bytes + kept) / (card.bandwidth_gbs * REACHED_BANDWIDTH * 1e6)
    model_ms = decoder_ms = 0.0
    if card.tflops is not None:
        model_ms = num_streams * footprint.stream_flop / (card.tflops * REACHED_MODEL_TFLOPS * 1e9)
        decoder_ms = footprint.decoder_flop / (card.tflops * REACHED_DECODER_TFLOPS * 1e9)
    kernel_us = KERNEL_US if num_streams <= _FEW_STREAMS else WIDE_KERNEL_US
    if not card.launches_early:
        kernel_us += LATE_LAUNCH_US
    num_launches, num_resident = footprint.num_launches, 0
    if card.keeps_programs and num_streams <= footprint.resident_streams:
        num_resident = footprint.num_resident
    launch_ms = ((num_launches - num_resident) * kernel_us + num_resident * RESIDENT_US) / 1000
    return max(read_ms, model_ms) + num_streams * decoder_ms + launch_ms
