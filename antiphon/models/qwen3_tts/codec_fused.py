"""The codec's decoder as a GPU runs it: half precision, few kernels, the state read in place."""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.models.qwen3_tts.codec import CodecDecoder
from antiphon.nn.codec_layers.fused import (
    FusedAttentionLayer,
    FusedConvNeXtBlock,
    FusedUpsamplingBlock,
    KernelLayout,
    convolve,
    convolve_snake,
)
from antiphon.nn.codec_layers.state import DoubleBufferedState
from antiphon.nn.kernels.causal_conv import ConvWeights
from antiphon.nn.kernels.codec_io import begin_frames, samples
from antiphon.nn.layers import Snake


@dataclass(frozen=True, slots=True)
class FusedDecoder:
    """Decodes frames of any slots, at most `max_frames` of each at a time."""

    tables: Tensor
    radians: Tensor
    pre_conv: ConvWeights
    input: ConvWeights
    layers: tuple[FusedAttentionLayer, ...]
    output: ConvWeights
    doublings: tuple[FusedConvNeXtBlock, ...]
    widen: ConvWeights
    first_snake: Snake
    blocks: tuple[FusedUpsamplingBlock, ...]
    last_conv: ConvWeights
    norm_epsilon: float
    max_frames: int
    row_size: int

    @classmethod
    def of(cls, decoder: CodecDecoder, dtype: torch.dtype = torch.float16) -> "FusedDecoder":
        """Lay out a float32 decoder's weights on its GPU; nothing of it is kept."""
        layout = KernelLayout(dtype)
        transformer = decoder.transformer
        assert transformer.input
        assert transformer.norm
        assert transformer.output
        following = (*(block.snake for block in decoder.blocks[1:]), decoder.last_snake)
        tables = decoder.tables.rows
        radians = transformer.frequencies.radians
        last = layout.conv(decoder.last_conv)
        return cls(
            tables=tables.view(len(decoder.tables.first_rows), -1, tables.shape[1]).to(dtype),
            radians=radians[: len(radians) // 2].contiguous(),
            pre_conv=layout.conv(decoder.pre_conv),
            input=layout.linear(transformer.input),
            layers=tuple(FusedAttentionLayer.of(layer, layout) for layer in transformer.layers),
            output=layout.linear(transformer.output, transformer.norm.weight),
            doublings=tuple(
                FusedConvNeXtBlock.of(upsample, refine, layout)
                for upsample, refine in decoder.upsamplings
            ),
            widen=layout.conv(decoder.widen),
            first_snake=decoder.blocks[0].snake,
            blocks=tuple(
                FusedUpsamplingBlock.of(block.upsample, block.units, snake, layout)
                for block, snake in zip(decoder.blocks, following, strict=True)
            ),
            last_conv=ConvWeights(last.weight.float(), last.bias, last.num_taps, 1, last.offset),
            norm_epsilon=transformer.norm.epsilon,
            max_frames=decoder.max_pass_frames,
            row_size=layout.state.row_size,
        )

    def open(self, num_slots: int) -> DoubleBufferedState:
        """Return a state of fresh slots."""
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
            table: whose the frames are, see `antiphon.nn.codec_layers.frame_table`; if a slot has
                two rows, its audio and state mean nothing.
            state: updated in place.
            max_row_frames: that a row has, from 1 to `max_frames`.

        Returns:
            float32 ``[num_frames, samples_per_frame]`` in [-1, 1].
        """
        assert 1 <= max_row_frames <= self.max_frames
        streams = (state.memory, state.turns, state.positions)
        hidden, rows = begin_frames(
            codes, self.tables, self.radians, table, streams, max_row_frames
        )
        hidden = convolve(convolve(hidden, self.pre_conv, rows), self.input, rows)
        for layer in self.layers:
            hidden = layer(hidden, rows)
        hidden = convolve(hidden, self.output, rows, norm_epsilon=self.norm_epsilon)
        for double in self.doublings:
            hidden = double(hidden, rows)
        hidden = convolve_snake(hidden, self.widen, rows, self.first_snake)
        for block in self.blocks:
            hidden = block(hidden, rows)
        return samples(hidden, self.last_conv, rows).view(len(codes), -1)
