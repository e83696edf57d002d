"""A causal network with attention over a window, as a decoder of many streams."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from antiphon.nn.codec_layers.state import DecoderState, EmptyHistory, History, SlotHistory

Network: TypeAlias = Callable[[Tensor, History], Tensor]
"""Maps codes ``[B, num_quantizers, n]`` and what precedes them to f32 ``[B, num_samples]``."""


@dataclass(frozen=True, slots=True)
class WindowedDecoder:
    """An `antiphon.codec.grouped_decoder.BatchDecoder`.

    Attributes:
        network: built with one `StateLayout`.
        window: keys that a frame sees, itself included.
        num_keys: size of its rings of keys: a window before the frames of a pass, and they.
        row_size: numbers that the state of one stream takes, of that layout.
        like: a tensor of the network's type and device.
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
        """Make a slot ready for another stream."""
        state.reset(slot)

    @torch.no_grad()
    def decode(self, codes: Tensor, state: DecoderState, active: Tensor) -> Tensor:
        """Decode the next frames of the active slots and advance them.

        Args:
            codes: int64 ``[num_slots, num_quantizers, n]``, ``n`` at least 1.
            state: updated in place; inactive slots keep theirs, bit for bit.
            active: bool ``[num_slots]``.

        Returns:
            float32 ``[num_slots, n * samples_per_frame]``, zeros where not active.
        """
        passes = torch.split(codes, self.num_keys - self.window + 1, dim=2)
        audio = torch.cat([self._decode_pass(some, state, active) for some in passes], dim=1)
        return torch.where(active[:, None], audio, 0.0)

    @torch.no_grad()
    def decode_whole(self, codes: Tensor) -> Tensor:
        """Decode whole streams, ``[B, num_quantizers, n]``, in one pass and without a state."""
        return self.network(codes, EmptyHistory(codes.shape[2], self.window, codes.device))

    def _decode_pass(self, codes: Tensor, state: DecoderState, active: Tensor) -> Tensor:
        history = SlotHistory(state, active, codes.shape[2], self.window, self.num_keys)
        audio = self.network(codes, history)
        history.advance()
        return audio


@dataclass(frozen=True, slots=True)
class FrameByFrame:
    """The same as an `antiphon.codec.lockstep_decoder.FrameNetwork`."""

    decoder: WindowedDecoder

    def open(self, num_slots: int) -> DecoderState:
        """Return a state of fresh slots."""
        return self.decoder.open(num_slots)

    @torch.no_grad()
    def decode(self, frames: Tensor, rows: DecoderState) -> Tensor:
        """Decode a frame of each row, int64 ``[num_rows, num_quantizers]``, and advance them."""
        all_rows = torch.ones(len(frames), dtype=torch.bool, device=frames.device)
        return self.decoder.decode(frames[:, :, None], rows, all_rows)
