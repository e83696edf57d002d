"""Fused GPU decoder of codes: a transformer over frames, doublings, blocks, samples.

Codecs of this shape differ in the layers before and after the transformer, and in how samples are
bounded to [-1, 1].
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon.nn.codec_layers.fused import (
    FusedAttentionLayer,
    FusedConvNeXtBlock,
    FusedUpsamplingBlock,
    convolve,
    convolve_snake,
)
from antiphon.nn.codec_layers.state import DoubleBufferedState
from antiphon.nn.kernels.causal_conv import ConvWeights
from antiphon.nn.kernels.codec_io import Bound, begin_frames, samples
from antiphon.nn.layers import Snake

_LARGEST = torch.finfo(torch.float16).max


@dataclass(frozen=True, slots=True)
class FusedDecoder:
    """Decodes frames of any slots, at most `max_frames` per slot and pass.

    Attributes:
        tables: code vectors, ``[num_quantizers, table_size, width]``.
        radians: radians per position of the rotary embedding, float32 ``[head_dim / 2]``.
        is_rotation_rounded: whether cosines and sines are rounded to bfloat16.
        entry: layers before the transformer, in order.
        output: layer after the transformer, with its final norm folded in; ``None``: the norm is
            part of the first doubling.
        num_exact: number of blocks that compute in the type of ``tables``; the others use float16.
        bound: method that bounds samples.
        row_size: numbers that the state of one stream takes.
    """

    tables: Tensor
    radians: Tensor
    is_rotation_rounded: bool
    entry: tuple[ConvWeights, ...]
    layers: tuple[FusedAttentionLayer, ...]
    output: ConvWeights | None
    norm_epsilon: float
    doublings: tuple[FusedConvNeXtBlock, ...]
    widen: ConvWeights
    first_snake: Snake
    blocks: tuple[FusedUpsamplingBlock, ...]
    num_exact: int
    last_conv: ConvWeights
    bound: Bound
    max_frames: int
    row_size: int

    def open(self, num_slots: int) -> DoubleBufferedState:
        return DoubleBufferedState(
            self.tables.new_zeros(num_slots, self.row_size),
            self.tables.new_zeros(num_slots, dtype=torch.int32),
            self.tables.new_zeros(num_slots, dtype=torch.int64),
        )

    def decode(
        self, codes: Tensor, table: Tensor, state: DoubleBufferedState, max_row_frames: int
    ) -> Tensor:
        """Decode the next frames of some slots and advance them.

        Args:
            codes: int64 ``[num_frames, num_quantizers]``; ids outside the codebooks are clamped
                into them.
            table: frame table of the pass, see `antiphon.nn.codec_layers.frame_table`; if a slot
                has two rows, its audio and state are undefined.
            max_row_frames: most frames of a row, from 1 to `max_frames`.

        Returns:
            float32 ``[num_frames, samples_per_frame]`` in [-1, 1].
        """
        assert 1 <= max_row_frames <= self.max_frames
        streams = (state.memory, state.turns, state.positions)
        hidden, rows = begin_frames(
            codes,
            self.tables,
            self.radians,
            table,
            streams,
            max_row_frames,
            is_rotation_rounded=self.is_rotation_rounded,
        )
        for conv in self.entry:
            hidden = convolve(hidden, conv, rows)
        for layer in self.layers:
            hidden = layer(hidden, rows)
        if self.output is not None:
            hidden = convolve(hidden, self.output, rows, norm_epsilon=self.norm_epsilon)
        for double in self.doublings:
            hidden = double(hidden, rows)
        hidden = convolve_snake(hidden, self.widen, rows, self.first_snake)
        for block in self.blocks[: self.num_exact]:
            hidden = block(hidden, rows)
        if self.num_exact < len(self.blocks):
            hidden = hidden.clamp(-_LARGEST, _LARGEST).half()
            rows = replace(rows, memory=rows.memory.view(torch.float16))
        for block in self.blocks[self.num_exact :]:
            hidden = block(hidden, rows)
        return samples(hidden, self.last_conv, rows, self.bound).view(len(codes), -1)
