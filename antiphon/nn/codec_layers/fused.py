"""Streaming codec layers fused for a GPU: few kernels, state read in place.

Each is built from the layer of the same name, which defines the computation; here it is laid out
for the kernels. Factors are half precision and sums float32; values beyond float16's range are
clamped to its largest number. If that is not precise enough, factors are float32, as two float16
each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon.nn.codec_layers.conv import (
    LAYER_NORM_EPSILON,
    CausalConv,
    CausalTransposedConv,
    ConvNeXtBlock,
    ResidualUnit,
    UpsamplingBlock,
)
from antiphon.nn.codec_layers.quantizer import CodeTables
from antiphon.nn.codec_layers.state import StateLayout
from antiphon.nn.codec_layers.transformer import CodecTransformerLayer
from antiphon.nn.kernels.causal_conv import ConvWeights, causal_conv
from antiphon.nn.kernels.codec_io import depthwise_norm
from antiphon.nn.kernels.kernel_configs import NORM_CONFIG, config_of, unit_config
from antiphon.nn.kernels.residual_unit import UnitWeights, is_fusible, residual_unit, unit_layout
from antiphon.nn.kernels.split import split
from antiphon.nn.kernels.stream_columns import Rows
from antiphon.nn.kernels.window_attention import KVRing, attend_window
from antiphon.nn.layers import Linear, RMSNorm, Snake, SwiGLU

_HALVES = 2  # float16 numbers per float32 number


class KernelLayout:
    """Layout of weights for the kernels, with room for layers in a slot's memory.

    Args:
        dtype: type of activations, states and factors; a float32 factor is stored as two float16
            (see `antiphon.nn.kernels.split`).
        before: float32 layout of the preceding layers, whose memory in a slot comes first;
            ``None``: no such layers.
    """

    def __init__(self, dtype: torch.dtype, before: "KernelLayout | None" = None) -> None:
        self.dtype = dtype
        assert before is None or (before.dtype, dtype) == (torch.float32, torch.float16)
        self.state = StateLayout()
        self._is_behind = before is not None
        if before is not None:
            self.state.row_size = _HALVES * before.state.row_size

    @property
    def row_size(self) -> int:
        """Numbers of a slot's memory, in float32 if any layer is float32."""
        return self.state.row_size // _HALVES if self._is_behind else self.state.row_size

    def weights(
        self, weight: Tensor, bias: Tensor | None, num_taps: int, dilation: int
    ) -> ConvWeights:
        num_in = weight.shape[0] // num_taps
        if self.dtype == torch.float32:
            factors, rest = (each.contiguous() for each in split(weight))
        else:
            factors, rest = weight.to(self.dtype).contiguous(), None
        return ConvWeights(
            weight=factors,
            bias=None if bias is None else bias.float().contiguous(),
            num_taps=num_taps,
            dilation=dilation,
            offset=self._room((num_taps - 1) * dilation, num_in),
            rest=rest,
        )

    def conv(self, conv: CausalConv) -> ConvWeights:
        kernel = conv.weight[:, :, 0].permute(2, 1, 0)
        return self.weights(kernel.flatten(0, 1), conv.bias, kernel.shape[0], conv.dilation)

    def exact_conv(self, conv: CausalConv) -> ConvWeights:
        """Lay out a convolution with float32 factors."""
        exact = conv.weight[:, :, 0].permute(2, 1, 0).flatten(0, 1).float().contiguous()
        return replace(self.conv(conv), weight=exact, rest=None)

    def unit_end(self, conv: CausalConv) -> ConvWeights:
        """Lay out a residual unit's second convolution."""
        laid = self.conv(conv)
        return laid if laid.rest is not None else unit_layout(laid)

    def tables(self, tables: CodeTables) -> Tensor:
        """Lay out tables of codes, ``[num_quantizers, codebook_size, dim]``."""
        rows = tables.rows
        return rows.view(len(tables.first_rows), -1, rows.shape[1]).to(self.dtype)

    def transposed(self, conv: CausalTransposedConv, norm: Tensor | None = None) -> ConvWeights:
        """Lay out an upsampling, with the weight of the norm before it folded in."""
        assert norm is None or conv.num_taps == 1, "what came before would not be normed"
        weight = conv.linear.weight if norm is None else conv.linear.weight * norm
        return self.weights(weight.T, conv.linear.bias, conv.num_taps, 1)

    def linear(self, linear: Linear, norm: Tensor | None = None) -> ConvWeights:
        """Lay out a layer, with the weight of the norm before it folded in."""
        weight = linear.weight if norm is None else linear.weight * norm
        return self.weights(weight.T, linear.bias, 1, 1)

    def gate(self, linear: Linear, norm: Tensor) -> ConvWeights:
        """Lay out a gate and its up projection, interleaved in pairs."""
        gate, up = (linear.weight * norm).chunk(2)
        return self.weights(torch.stack((gate, up), dim=1).flatten(0, 1).T, None, 1, 1)

    def depthwise(self, conv: CausalConv) -> ConvWeights:
        kernel = conv.weight[:, 0, 0].T
        num_taps, width = kernel.shape
        return ConvWeights(
            weight=kernel.to(self.dtype).contiguous(),
            bias=conv.bias.float(),
            num_taps=num_taps,
            dilation=conv.dilation,
            offset=self._room((num_taps - 1) * conv.dilation, width),
        )

    def _room(self, num_before: int, num_in: int) -> int:
        return self.state.add(2, num_before, num_in).offset if num_before else 0


@dataclass(frozen=True, slots=True)
class FusedAttentionLayer:
    """Transformer layer in five kernels."""

    query_key_value: ConvWeights
    ring: KVRing
    output: ConvWeights
    gate_up: ConvWeights
    down: ConvWeights
    epsilon: float

    @classmethod
    def of(cls, layer: CodecTransformerLayer, layout: KernelLayout) -> "FusedAttentionLayer":
        attention, feed_forward = layer.attention, layer.feed_forward
        config, keys_values = attention.config, attention.keys_values
        assert config.window is not None, "the kernels have a window"
        assert keys_values is not None
        assert isinstance(layer.attention_norm, RMSNorm), "the kernels have no other norm"
        assert isinstance(feed_forward, SwiGLU), "the kernels have no other feed-forward layer"
        ring = KVRing(
            offset=layout.state.add(*keys_values.shape).offset,
            num_keys=keys_values.shape[0],
            window=config.window,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
        )
        return cls(
            layout.linear(attention.query_key_value, layer.attention_norm.weight),
            ring,
            layout.linear(attention.output),
            layout.gate(feed_forward.gate_up, layer.feed_forward_norm.weight),
            layout.linear(feed_forward.down),
            layer.attention_norm.epsilon,
        )

    def __call__(self, x: Tensor, rows: Rows) -> Tensor:
        joined = convolve(x, self.query_key_value, rows, norm_epsilon=self.epsilon)
        x = convolve(attend_window(joined, self.ring, rows), self.output, rows, residual=x)
        gated = convolve(x, self.gate_up, rows, activation="gate", norm_epsilon=self.epsilon)
        return convolve(gated, self.down, rows, residual=x)


@dataclass(frozen=True, slots=True)
class FusedConvNeXtBlock:
    """Upsampling and ConvNeXt block in four kernels; no input norm without its epsilon."""

    upsample: ConvWeights
    stride: int
    depthwise: ConvWeights
    norm: tuple[Tensor, Tensor]
    wide: ConvWeights
    narrow: ConvWeights
    input_epsilon: float | None = None

    @classmethod
    def of(
        cls,
        upsample: CausalTransposedConv,
        refine: ConvNeXtBlock,
        layout: KernelLayout,
        input_norm: RMSNorm | None = None,
    ) -> "FusedConvNeXtBlock":
        """Lay out both, with the norm before them folded in."""
        assert refine.norm.bias is not None
        return cls(
            layout.transposed(upsample, None if input_norm is None else input_norm.weight),
            upsample.stride,
            layout.depthwise(refine.depthwise),
            (refine.norm.weight.float(), refine.norm.bias.float()),
            layout.linear(refine.wide),
            layout.linear(refine.narrow),
            None if input_norm is None else input_norm.epsilon,
        )

    def __call__(self, x: Tensor, rows: Rows) -> Tensor:
        x = convolve(x, self.upsample, rows, norm_epsilon=self.input_epsilon)
        x = _split_columns(x, self.stride)
        hidden = depthwise_norm(x, self.depthwise, rows, self.norm, LAYER_NORM_EPSILON)
        hidden = convolve(hidden, self.wide, rows, activation="gelu")
        return convolve(hidden, self.narrow, rows, residual=x)


@dataclass(frozen=True, slots=True)
class FusedUpsamplingBlock:
    """Upsampling block whose units each end with the snake of the next layer.

    Attributes:
        snakes: snakes after the upsampling, for each of its outputs; then after each unit.
        sum_dtype: type of the sums that units add to; ``None``: that of the activations.
        programs: units in CUDA C++, before ``units``; each takes `UnitProgram`'s arguments.
    """

    upsample: ConvWeights
    stride: int
    units: tuple[UnitWeights, ...]
    snakes: tuple[Snake, ...]
    sum_dtype: torch.dtype | None = None
    programs: tuple[Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]], ...] = ()

    @classmethod
    def of(
        cls,
        upsample: CausalTransposedConv,
        units: tuple[ResidualUnit, ...],
        following: Snake,
        layout: KernelLayout,
        sum_dtype: torch.dtype | None = None,
    ) -> "FusedUpsamplingBlock":
        first, *others = (unit.snakes[0] for unit in units)
        repeated = Snake(
            first.frequency.repeat(upsample.stride), first.amplitude.repeat(upsample.stride)
        )
        return cls(
            layout.transposed(upsample),
            upsample.stride,
            tuple(
                UnitWeights(
                    layout.conv(unit.convs[0]), unit.snakes[1], layout.unit_end(unit.convs[1])
                )
                for unit in units
            ),
            (repeated, *(each for each in (*others, following))),
            sum_dtype,
        )

    def __call__(self, active: Tensor, rows: Rows) -> Tensor:
        """Take the activated input; return the activated output."""
        config = config_of(self.upsample, active.shape[0])
        both = causal_conv(
            active, self.upsample, rows, config, snake=self.snakes[0], sum_dtype=self.sum_dtype
        )
        x, active = (_split_columns(each, self.stride) for each in both)
        for program in self.programs:
            x, active = program(active, x, rows.memory, rows.table)
        for unit, snake in zip(self.units, self.snakes[1:], strict=True):
            sums = self.sum_dtype or active.dtype if unit is not self.units[-1] else None
            x, active = _residual_unit(x, active, unit, rows, snake, sums)
        return active


def fused_blocks(
    blocks: Sequence[UpsamplingBlock],
    following: Sequence[Snake],
    layout: KernelLayout,
    sum_dtype: torch.dtype | None = None,
) -> tuple[FusedUpsamplingBlock, ...]:
    """Lay out blocks, each ending with the snake of the layer after it."""
    return tuple(
        FusedUpsamplingBlock.of(block.upsample, block.units, snake, layout, sum_dtype)
        for block, snake in zip(blocks, following, strict=True)
    )


def _split_columns(x: Tensor, stride: int) -> Tensor:
    """Reshape ``[t, stride * channels]`` to ``[t * stride, channels]``."""
    return x.view(x.shape[0] * stride, -1)


def convolve(
    x: Tensor,
    conv: ConvWeights,
    rows: Rows,
    *,
    activation: str = "",
    norm_epsilon: float | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    config = config_of(conv, x.shape[0]) if norm_epsilon is None else NORM_CONFIG
    return causal_conv(
        x, conv, rows, config, activation=activation, norm_epsilon=norm_epsilon, residual=residual
    )[0]


def convolve_snake(x: Tensor, conv: ConvWeights, rows: Rows, snake: Snake) -> Tensor:
    return causal_conv(x, conv, rows, config_of(conv, len(x)), snake=snake, keeps_sum=False)[1]


def _residual_unit(
    x: Tensor,
    active: Tensor,
    unit: UnitWeights,
    rows: Rows,
    snake: Snake,
    sum_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor]:
    """Run a residual unit on ``x`` and its snake; without ``sum_dtype`` the sum is not returned."""
    keeps_sum = sum_dtype is not None
    num_columns, width = x.shape
    config = unit_config(x)
    # A program that holds all channels of its columns has no room for split factors.
    is_split = unit.dilated.rest is not None
    if is_fusible(width) and config is not None and not is_split:
        return residual_unit(
            active, x, unit, rows, config, snake=snake, keeps_sum=keeps_sum, sum_dtype=sum_dtype
        )
    hidden = convolve_snake(active, unit.dilated, rows, unit.snake)
    return causal_conv(
        hidden,
        unit.pointwise,
        rows,
        config_of(unit.pointwise, num_columns),
        residual=x,
        snake=snake,
        keeps_sum=keeps_sum,
        sum_dtype=sum_dtype,
    )
