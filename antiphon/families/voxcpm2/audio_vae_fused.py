"""Fused GPU kernels of the AudioVAE's decoder, in half precision, with in-place state."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon.families.voxcpm2.audio_vae import RateCondition, VAEDecoder
from antiphon.nn.codec_layers.conv import UpsamplingBlock
from antiphon.nn.codec_layers.fused import KernelLayout
from antiphon.nn.codec_layers.state import DoubleBufferedState
from antiphon.nn.kernels.causal_conv import ConvWeights, KernelConfig, causal_conv
from antiphon.nn.kernels.codec_io import samples
from antiphon.nn.kernels.depthwise import begin_latents, depthwise, scaled_snake
from antiphon.nn.kernels.kernel_configs import config_of
from antiphon.nn.kernels.stream_columns import Rows
from antiphon.nn.layers import Snake

_MIN_OUTPUTS = 16  # required by a matrix instruction


@dataclass(frozen=True, slots=True)
class ScaledSnake:
    """Rate condition and activation before an upsampling."""

    condition: RateCondition
    snake: Snake

    def __call__(self, x: Tensor) -> Tensor:
        return scaled_snake(x, self.condition.scale, self.condition.shift, self.snake)


@dataclass(frozen=True, slots=True)
class FusedUnit:
    """A residual unit without its first activation, as two kernels.

    Attributes:
        following: activation of the sum; ``None``: the sum is not activated.
    """

    depthwise: ConvWeights
    snake: Snake
    pointwise: ConvWeights
    following: Snake | None

    def __call__(
        self, x: Tensor, active: Tensor, rows: Rows, *, keeps_sum: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the output and its activation, from the input and its activation."""
        hidden = depthwise(active, self.depthwise, rows, self.snake)
        config = _config(self.pointwise, len(x))
        return causal_conv(
            hidden,
            self.pointwise,
            rows,
            config,
            residual=x,
            snake=self.following,
            keeps_sum=keeps_sum,
        )


@dataclass(frozen=True, slots=True)
class FusedVAEBlock:
    """An upsampling and its residual units, for an activated input.

    Attributes:
        first_snake: activation of the first unit, for each output of the upsampling.
    """

    upsample: ConvWeights
    stride: int
    first_snake: Snake
    units: tuple[FusedUnit, ...]

    @classmethod
    def of(
        cls, block: UpsamplingBlock, following: Snake | None, layout: KernelLayout
    ) -> "FusedVAEBlock":
        """Lay out a block; ``following`` activates its output."""
        snakes = (*(unit.snakes[0] for unit in block.units[1:]), following)
        stride, first = block.upsample.stride, block.units[0].snakes[0]
        return cls(
            layout.transposed(block.upsample),
            stride,
            Snake(first.frequency.repeat(stride), first.amplitude.repeat(stride)),
            tuple(
                FusedUnit(layout.depthwise(narrow), unit.snakes[1], layout.conv(wide), snake)
                for unit, snake in zip(block.units, snakes, strict=True)
                for narrow, wide in [unit.convs]
            ),
        )

    def __call__(self, active: Tensor, rows: Rows) -> Tensor:
        """Return the output, activated if there is a following activation."""
        config = _config(self.upsample, len(active))
        both = causal_conv(active, self.upsample, rows, config, snake=self.first_snake)
        x, active = (each.view(len(each) * self.stride, -1) for each in both)
        for unit in self.units:
            x, active = unit(x, active, rows, keeps_sum=unit is not self.units[-1])
        return active


@dataclass(frozen=True, slots=True)
class FusedVAEDecoder:
    """An `antiphon.codec.graph_decoder.SlotDecoder` of patches of latents.

    Attributes:
        first: depthwise and pointwise convolution.
        blocks: upsampling blocks, each with the activation of its input.
        row_size: numbers in the state of one stream.
    """

    first: tuple[ConvWeights, ConvWeights]
    blocks: tuple[tuple[ScaledSnake, FusedVAEBlock], ...]
    last_conv: ConvWeights
    dtype: torch.dtype
    row_size: int

    @classmethod
    def of(cls, decoder: VAEDecoder, dtype: torch.dtype = torch.float16) -> "FusedVAEDecoder":
        """Lay out a float32 decoder with depthwise convolutions; it is not kept."""
        layout = KernelLayout(dtype)
        narrow, wide = decoder.first
        first = layout.depthwise(narrow), layout.conv(wide)
        blocks = []
        for condition, block in decoder.blocks:
            following = decoder.last_snake if block is decoder.blocks[-1][1] else None
            active = ScaledSnake(condition, block.snake)
            blocks.append((active, FusedVAEBlock.of(block, following, layout)))
        last_conv = layout.exact_conv(decoder.last_conv)
        return cls(first, tuple(blocks), last_conv, dtype, layout.state.row_size)

    def open(self, num_slots: int) -> DoubleBufferedState:
        like = self.last_conv.weight
        return DoubleBufferedState(
            like.new_zeros(num_slots, self.row_size, dtype=self.dtype),
            like.new_zeros(num_slots, dtype=torch.int32),
            like.new_zeros(num_slots, dtype=torch.int64),
        )

    def decode(
        self, codes: Tensor, table: Tensor, state: DoubleBufferedState, max_row_frames: int
    ) -> Tensor:
        """Decode the next frames of some slots and advance them.

        Args:
            codes: frames, int64 ``[num_frames, frame_size]``; see
                `antiphon.families.voxcpm2.request`.
            table: slots and positions of the frames, see `antiphon.nn.codec_layers.frame_table`.
            state: state of the slots; updated in place.

        Returns:
            float32 ``[num_frames, samples_per_frame]`` in [-1, 1].
        """
        streams = (state.memory, state.turns, state.positions)
        narrow, wide = self.first
        x, rows = begin_latents(codes, narrow.num_out, table, streams, max_row_frames)
        x = depthwise(x, narrow, rows)
        x, _ = causal_conv(x, wide, rows, _config(wide, len(x)))
        for active, block in self.blocks:
            x = block(active(x), rows)
        return samples(x, self.last_conv, rows, "tanh").view(len(codes), -1)


def _config(conv: ConvWeights, num_columns: int) -> KernelConfig:
    """Return the kernel configuration of a product, limited to its outputs."""
    config = config_of(conv, num_columns)
    most = max(_MIN_OUTPUTS, 1 << (conv.num_out - 1).bit_length())
    return replace(config, outputs=min(config.outputs, most))
