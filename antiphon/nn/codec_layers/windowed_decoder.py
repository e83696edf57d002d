"""Codec decoder of many streams: a transformer with windowed attention, then convolutions.

All layers are causal. A `DecoderState` carries a window of keys and values and the columns before
each convolution.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from antiphon.nn.codec_layers.conv import (
    CausalConv,
    CausalTransposedConv,
    ConvNeXtBlock,
    UpsamplingBlock,
)
from antiphon.nn.codec_layers.quantizer import CodeTables
from antiphon.nn.codec_layers.state import DecoderState, EmptyHistory, History, SlotHistory
from antiphon.nn.codec_layers.transformer import CodecTransformer
from antiphon.nn.layers import Snake


@dataclass(frozen=True, slots=True)
class CodecNetwork:
    """Layers from codes to samples, built with one `StateLayout`.

    Attributes:
        pre_conv: convolution before the transformer; ``None``: there is none.
        bound: method that bounds samples to [-1, 1].
    """

    tables: CodeTables
    pre_conv: CausalConv | None
    transformer: CodecTransformer
    upsamplings: tuple[tuple[CausalTransposedConv, ConvNeXtBlock], ...]
    widen: CausalConv
    blocks: tuple[UpsamplingBlock, ...]
    last_snake: Snake
    last_conv: CausalConv
    bound: Literal["clamp", "tanh"]

    def __call__(self, codes: Tensor, history: History) -> Tensor:
        """Map ``[B, num_quantizers, n]`` to float32 ``[B, num_samples]``."""
        hidden = self.tables(codes)
        if self.pre_conv is not None:
            hidden = self.pre_conv(hidden, history)
        hidden = self.transformer(hidden, history)
        for upsample, refine in self.upsamplings:
            hidden = refine(upsample(hidden, history), history)
        hidden = self.widen(hidden, history)
        for block in self.blocks:
            hidden = block(hidden, history)
        samples = self.last_conv(self.last_snake(hidden), history).squeeze(2).float()
        return samples.tanh() if self.bound == "tanh" else samples.clamp(-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class WindowedDecoder:
    """Decoder of many streams at once, each at its own position.

    Attributes:
        window: keys visible to a frame, itself included.
        num_keys: size of a ring of keys: a window before the frames of a pass, and these.
        row_size: size of one stream's state, in numbers.
    """

    network: CodecNetwork
    window: int
    num_keys: int
    row_size: int

    @property
    def max_pass_frames(self) -> int:
        """Most frames of one pass; `decode` splits longer input into several."""
        return self.num_keys - self.window + 1

    def open(self, num_slots: int) -> DecoderState:
        """Return a state of fresh slots, on the decoder's device."""
        rows = self.network.tables.rows
        # NumPy leaves the memory of slots that were never used to the system.
        memory = torch.from_numpy(np.zeros((num_slots, self.row_size), np.float32)).to(rows)
        return DecoderState(memory, rows.new_zeros(num_slots, dtype=torch.int64))

    @torch.no_grad()
    def decode(self, codes: Tensor, state: DecoderState) -> Tensor:
        """Decode the next frames of all slots and advance them.

        The host never waits for the device here, and no allocation outlives the call: CUDA graphs
        can capture it.

        Args:
            codes: int64 ``[num_slots, num_quantizers, n]``, ``n`` at least 1; codes outside the
                codebooks are clamped.
            state: state updated in place.

        Returns:
            float32 ``[num_slots, n * samples_per_frame]`` in [-1, 1].
        """
        passes = torch.split(codes, self.max_pass_frames, dim=2)
        return torch.cat([self._decode_pass(some, state) for some in passes], dim=1)

    @torch.no_grad()
    def decode_whole(self, codes: Tensor) -> Tensor:
        """Decode whole streams, ``[B, num_quantizers, n]``, in one pass without a state."""
        return self.network(codes, EmptyHistory(codes.shape[2], self.window, codes.device))

    def _decode_pass(self, codes: Tensor, state: DecoderState) -> Tensor:
        history = SlotHistory(state, codes.shape[2], self.window, self.num_keys)
        audio = self.network(codes, history)
        history.advance()
        return audio
