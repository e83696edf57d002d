"""Where a pass of the flow puts the keys and values of its frames, and what each frame sees.

A slot's first places hold the recording, those after them a ring of the latest frames; its last
place is of nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.families.cosyvoice3.bounds import MAX_REFERENCE_TOKENS
from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, MelFlowConfig
from antiphon.families.cosyvoice3.dit import NUM_PASSES, DiTPass

CONTEXT_FRAMES = 200
"""Mel frames before a chunk, of those that were made, that it sees; the recording it sees whole."""

_ALIGNED = 16  # places; masks that are not are copied by attention on a GPU


@dataclass(frozen=True, slots=True)
class ChunkPass:
    """A pass over chunks of a stream.

    Attributes:
        slot: of the stream; the number of slots for a row that pads a batch.
        start: number of the first mel frame, with those of the recording. Below zero for the first
            pass of a stream that has fewer frames than the pass: the first ones are then none.
        num_pinned: mel frames of the recording.
        num_tokens: that are there, look-ahead and those that are none included.
        phase: mel frames, modulo those of a chunk, where chunks end; see `phase_of`.
    """

    NUM_NUMBERS = 5

    slot: int
    start: int
    num_pinned: int
    num_tokens: int
    phase: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """What `MelFlow.go_on` is told of it, `NUM_NUMBERS` of them."""
        return (self.slot, self.start, self.num_pinned, self.num_tokens, self.phase)


@dataclass(frozen=True, slots=True)
class PassPlaces:
    """The frames of a pass, and the slots that they are in.

    Attributes:
        spans: of each stream its slot, the number of its first new frame, frames of its recording,
            where chunks end, and the end of its frames, int64 ``[num_rows, 5]``; what
            `antiphon.nn.kernels.chunk_attention.ChunkRows` has as its numbers.
        num_frames: of a row.
        chunk_frames: of a chunk.
        ring_frames: of a slot's ring.
    """

    spans: Tensor
    num_frames: int
    chunk_frames: int
    ring_frames: int

    @classmethod
    def of(
        cls, numbers: Tensor, num_frames: int, chunk_frames: int, context_frames: int
    ) -> "PassPlaces":
        """Take `ChunkPass.numbers` of each row."""
        slot, start, num_pinned, num_tokens, phase = numbers.unbind(1)
        limit = start + MEL_FRAMES_PER_TOKEN * num_tokens
        spans = torch.stack((slot, start, num_pinned, phase, limit), dim=1)
        return cls(spans, num_frames, chunk_frames, context_frames + chunk_frames)

    @property
    def frames(self) -> Tensor:
        """Their numbers, int64 ``[num_rows, num_frames]``."""
        return self.spans[:, 1:2] + torch.arange(self.num_frames, device=self.spans.device)

    def seen(
        self,
        rotation: tuple[Tensor, Tensor],
        context: Tensor,
        alone: ChunkPass | None,
        num_places: int | None,
    ) -> tuple[DiTPass, Tensor]:
        """Return what the transformer's layers are told, and the context that it is about.

        Args:
            rotation: of the frames, see `antiphon.families.cosyvoice3.dit.DiT.rotation`.
            context: of all slots, see `antiphon.families.cosyvoice3.dit.DiT.solve`.
            alone: the pass, if it is one that the host knows.
            num_places: of a slot that the pass reads; ``None``: all.
        """
        num_slots, capacity = context.shape[2], context.shape[4]
        slot, _, num_pinned, phase, limit = self.spans[:, :, None].unbind(1)
        numbers, ring = self.frames, self.ring_frames
        places = torch.where(
            numbers < num_pinned, numbers, num_pinned + (numbers - num_pinned) % ring
        )
        # Rows of padding, and frames that are none, write where nobody looks.
        is_put = (numbers >= 0) & (slot < num_slots)
        places = torch.where(is_put, places, capacity - 1)
        offsets = torch.arange(num_places or capacity, device=slot.device) - num_pinned
        newest = numbers[:, -1:] - num_pinned
        held = newest - (newest - offsets) % ring
        is_held = (offsets < 0) | ((offsets < ring) & (held >= 0))
        held = num_pinned + torch.where(offsets < 0, offsets, held)
        # Each chunk sees itself and what is before it, but nothing after the stream's end.
        ends = phase + (((numbers - phase).clamp(min=0) // self.chunk_frames) + 1) * (
            self.chunk_frames
        )
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
    """Return where a stream's chunks end, in mel frames, modulo those of a chunk.

    A first chunk that would be short is part of the second one.

    Args:
        num_pinned: mel frames of the recording.
        ahead: tokens of speech in the first chunk with speech.
        config: of the flow.
    """
    return (num_pinned + MEL_FRAMES_PER_TOKEN * ahead) % config.chunk_frames


def slot_frames(config: MelFlowConfig, context_frames: int = CONTEXT_FRAMES) -> int:
    """Return for how many mel frames a stream has room: its recording's and those of its ring."""
    frames = MEL_FRAMES_PER_TOKEN * MAX_REFERENCE_TOKENS + context_frames + config.chunk_frames
    return -(-(frames + 1) // _ALIGNED) * _ALIGNED  # one is of no frame


def cache_dtype(device: torch.device) -> torch.dtype:
    """Return what keys and values are kept in."""
    return torch.float16 if device.type == "cuda" else torch.float32


def doubled(index: Tensor) -> Tensor:
    """Return the rows of both passes, int64 ``[NUM_PASSES * n]``, of slots' numbers."""
    passes = torch.arange(NUM_PASSES, device=index.device)
    return (NUM_PASSES * index[:, None] + passes).flatten()
