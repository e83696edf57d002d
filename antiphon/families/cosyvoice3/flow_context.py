"""Keys and values of the flow: places in a pass, attention ranges of frames, and streams that fit.

The first places of a slot hold the reference, followed by a ring of the latest frames. The last
place is a scratch place.
"""

import logging
import os
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.families.cosyvoice3.checkpoint import weight_bytes
from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, MelFlowConfig
from antiphon.families.cosyvoice3.dit import NUM_PASSES, NUM_STEPS, DiTPass
from antiphon.families.cosyvoice3.options import MAX_REFERENCE_TOKENS

CONTEXT_FRAMES = 200
"""Generated mel frames before a chunk that it attends to, in addition to the whole reference."""

_ALIGNED = 16  # places; attention on a GPU copies masks that are not aligned
_log = logging.getLogger(__name__)
_SHARE = 0.8
"""Share of a device's memory; the rest is for activations and other processes."""
_NETWORKS = 1.5  # times their sizes in float32, with the language model's cache


class ChunkPass(NamedTuple):
    """A pass over chunks of a stream: numbers in the order that `MelFlow.go_on` reads.

    Attributes:
        slot: slot of the stream; the number of slots for a row that pads a batch.
        start: number of the first mel frame, counted from the start of the reference. Negative in
            the first pass of a stream with fewer frames than the pass, which begins with padding.
        num_pinned: mel frames of the reference.
        num_tokens: tokens in the pass, including look-ahead and padding.
        phase: end of the chunks in mel frames, modulo the frames per chunk; see `phase_of`.
    """

    slot: int
    start: int
    num_pinned: int
    num_tokens: int
    phase: int


@dataclass(frozen=True, slots=True)
class PassPlaces:
    """The frames of a pass and their slots.

    Attributes:
        spans: slot, number of the first new frame, number of reference frames, phase of chunks and
            end of frames of each row, int64 ``[num_rows, 5]``, as in
            `antiphon.nn.kernels.chunk_attention.ChunkRows`.
        ring_frames: frames in a slot's ring.
    """

    spans: Tensor
    num_frames: int
    chunk_frames: int
    ring_frames: int

    @classmethod
    def of(
        cls, numbers: Tensor, num_frames: int, chunk_frames: int, context_frames: int
    ) -> "PassPlaces":
        """Build the places from the `ChunkPass` of each row."""
        slot, start, num_pinned, num_tokens, phase = numbers.unbind(1)
        limit = start + MEL_FRAMES_PER_TOKEN * num_tokens
        spans = torch.stack((slot, start, num_pinned, phase, limit), dim=1)
        return cls(spans, num_frames, chunk_frames, context_frames + chunk_frames)

    @property
    def frames(self) -> Tensor:
        """Frame numbers, int64 ``[num_rows, num_frames]``."""
        return self.spans[:, 1:2] + torch.arange(self.num_frames, device=self.spans.device)

    def seen(
        self,
        rotation: tuple[Tensor, Tensor],
        context: Tensor,
        alone: ChunkPass | None,
        num_places: int | None,
    ) -> tuple[DiTPass, Tensor]:
        """Return the frame positions for the transformer, and the context that they refer to.

        Args:
            rotation: result of `DiT.rotation`.
            context: keys and values of all slots, see `DiT.solve`.
            alone: the only row's pass, if it is available on the host.
            num_places: places of a slot that the pass reads; ``None``: all.
        """
        num_slots, capacity = context.shape[2], context.shape[4]
        slot, _, num_pinned, phase, limit = self.spans[:, :, None].unbind(1)
        numbers, ring, chunk = self.frames, self.ring_frames, self.chunk_frames
        in_ring = num_pinned + (numbers - num_pinned) % ring
        places = torch.where(numbers < num_pinned, numbers, in_ring)
        # Rows of padding and frames of padding write to the scratch place.
        is_put = (numbers >= 0) & (slot < num_slots)
        places = torch.where(is_put, places, capacity - 1)
        offsets = torch.arange(num_places or capacity, device=slot.device) - num_pinned
        newest = numbers[:, -1:] - num_pinned
        held = newest - (newest - offsets) % ring
        is_held = (offsets < 0) | ((offsets < ring) & (held >= 0))
        held = num_pinned + torch.where(offsets < 0, offsets, held)
        # A chunk attends to itself and earlier frames, but to nothing after the stream's end.
        ends = phase + (((numbers - phase).clamp(min=0) // chunk) + 1) * chunk
        seen = is_held[:, None] & (held[:, None] < ends.minimum(limit)[:, :, None])
        mask = torch.zeros(seen.shape, dtype=context.dtype, device=seen.device)
        mask = mask.masked_fill(~seen, float("-inf"))[:, None]
        slots = slot[:, 0].clamp(max=num_slots - 1)
        if alone is not None:
            context, slots = context[:, :, alone.slot : alone.slot + 1], torch.zeros_like(slots)
        halves = doubled(slots).view(-1, NUM_PASSES, 1)
        where = DiTPass(
            cos=rotation[0][:, None],
            sin=rotation[1][:, None],
            slots=None if alone is not None else slots,
            places=(halves * capacity + places[:, None]).flatten(),
            num_seen=seen.shape[2],
            mask=mask.repeat_interleave(NUM_PASSES, dim=0) if len(mask) > 1 else mask,
        )
        return where, context


def phase_of(num_pinned: int, ahead: int, config: MelFlowConfig) -> int:
    """Return the end of a stream's chunks in mel frames, modulo the frames per chunk.

    A first chunk that would be short is merged into the second one. ``num_pinned`` are mel frames
    of the reference, ``ahead`` speech tokens in the first chunk with speech.
    """
    return (num_pinned + MEL_FRAMES_PER_TOKEN * ahead) % config.chunk_frames


def slot_frames(config: MelFlowConfig, context_frames: int = CONTEXT_FRAMES) -> int:
    """Return the capacity of a slot in mel frames: those of the reference and of the ring."""
    frames = MEL_FRAMES_PER_TOKEN * MAX_REFERENCE_TOKENS + context_frames + config.chunk_frames
    return -(-(frames + 1) // _ALIGNED) * _ALIGNED  # one is the scratch place


def cache_dtype(device: torch.device) -> torch.dtype:
    """Return the type of cached keys and values."""
    return torch.float16 if device.type == "cuda" else torch.float32


def doubled(index: Tensor) -> Tensor:
    """Return the row indices of both passes, int64 ``[NUM_PASSES * n]``, from slot numbers."""
    passes = torch.arange(NUM_PASSES, device=index.device)
    return (NUM_PASSES * index[:, None] + passes).flatten()


def stream_bytes(config: MelFlowConfig, device: torch.device) -> int:
    """Return the size of keys and values for the longest reference and its speech."""
    numbers = 2 * NUM_STEPS * NUM_PASSES * config.num_layers * config.num_heads * config.head_dim
    return slot_frames(config) * numbers * cache_dtype(device).itemsize


def slots_that_fit(context: LoadContext, config: MelFlowConfig, device: torch.device) -> int:
    """Return the number of concurrent streams: the configured number, reduced to what fits.

    This prevents a stream from failing for lack of memory. Language model and decoder compute the
    same number, whether they share a device or not.
    """
    size = stream_bytes(config, device)
    networks = weight_bytes(context.checkpoint) * _NETWORKS
    room = _memory_bytes(device) * (context.memory_fraction or 1.0) * _SHARE - networks
    num_slots = min(context.max_slots, max(1, int(room // size)))
    if num_slots < context.max_slots:
        _log.warning(
            "%d requests run at once, not %d: each may take %.1f GiB on %s",
            *(num_slots, context.max_slots, size / 2**30, device),
        )
    return num_slots


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
