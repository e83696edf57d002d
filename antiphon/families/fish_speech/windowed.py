"""Decoder of many streams by a causal network with windowed attention."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from antiphon.nn.codec_layers.state import DecoderState, EmptyHistory, History, SlotHistory

Network: TypeAlias = Callable[[Tensor, History], Tensor]
"""Map of codes ``[B, num_quantizers, n]`` and their history to f32 ``[B, num_samples]``."""


@dataclass(frozen=True, slots=True)
class WindowedDecoder:
    """Windowed decoder; an `antiphon.codec.grouped_decoder.BatchDecoder`.

    Attributes:
        network: network built with one `StateLayout`.
        window: keys visible to a frame, itself included.
        num_keys: size of its rings of keys: a window before the frames of a pass, and these.
        row_size: size of one stream's state in that layout, in numbers.
        like: tensor of the network's type and device.
    """

    network: Network
    window: int
    num_keys: int
    row_size: int
    like: Tensor

    def open(self, num_slots: int) -> DecoderState:
        """Return a state of fresh slots, on the decoder's device."""
        return DecoderState(
            self.like.new_zeros(num_slots, self.row_size),
            self.like.new_zeros(num_slots, dtype=torch.int64),
        )

    def reset(self, state: DecoderState, slot: int) -> None:
        """Clear a slot for a new stream."""
        state.reset(slot)

    @torch.no_grad()
    def decode(self, codes: Tensor, state: DecoderState, active: Tensor) -> Tensor:
        """Decode the next frames of the active slots and advance them.

        Args:
            codes: int64 ``[num_slots, num_quantizers, n]``, ``n`` at least 1.
            state: state updated in place; inactive slots stay bit-identical.
            active: bool ``[num_slots]``.

        Returns:
            float32 ``[num_slots, n * samples_per_frame]``, zeros where not active.
        """
        passes = torch.split(codes, self.num_keys - self.window + 1, dim=2)
        audio = torch.cat([self._decode_pass(some, state, active) for some in passes], dim=1)
        return torch.where(active[:, None], audio, 0.0)

    @torch.no_grad()
    def decode_whole(self, codes: Tensor) -> Tensor:
        """Decode whole streams, ``[B, num_quantizers, n]``, in one pass without a state."""
        return self.network(codes, EmptyHistory(codes.shape[2], self.window, codes.device))

    def _decode_pass(self, codes: Tensor, state: DecoderState, active: Tensor) -> Tensor:
        history = SlotHistory(state, active, codes.shape[2], self.window, self.num_keys)
        audio = self.network(codes, history)
        history.advance()
        return audio


@dataclass(frozen=True, slots=True)
class FrameByFrame:
    """Adapter of a windowed decoder to `antiphon.codec.lockstep_decoder.FrameNetwork`."""

    decoder: WindowedDecoder

    def open(self, num_slots: int) -> DecoderState:
        """Return a state of fresh slots."""
        return self.decoder.open(num_slots)

    @torch.no_grad()
    def decode(self, frames: Tensor, rows: DecoderState) -> Tensor:
        """Decode one frame per row, int64 ``[num_rows, num_quantizers]``, and advance the rows."""
        all_rows = torch.ones(len(frames), dtype=torch.bool, device=frames.device)
        return self.decoder.decode(frames[:, :, None], rows, all_rows)
