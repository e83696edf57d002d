"""The codec's decoder as a GPU runs it: half precision, few kernels, the past read where it lies.

Made of a `CodecDecoder`, which says what is computed; this says how. Factors are half precision
and sums float32; what float16 cannot hold is cut off at its largest number.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.models.qwen3_tts.codec import CodecDecoder
from antiphon.models.qwen3_tts.codec_layers import (
    LAYER_NORM_EPSILON,
    CausalConv,
    CausalTransposedConv,
    ConvNeXtBlock,
    ResidualUnit,
    SnakeBeta,
)
from antiphon.models.qwen3_tts.codec_state import StateLayout
from antiphon.models.qwen3_tts.codec_transformer import TransformerLayer
from antiphon.models.qwen3_tts.kernel_configs import NORM_TILE, tile_of, unit_tile
from antiphon.nn.kernels.causal_conv import Rows, Snake, Taps, causal_conv
from antiphon.nn.kernels.codec_io import begin_frames, depthwise_norm, samples
from antiphon.nn.kernels.residual_unit import Unit, is_fusible, laid_out, residual_unit
from antiphon.nn.kernels.window_attention import Ring, attend_window
from antiphon.nn.layers import Linear


@dataclass(frozen=True, slots=True)
class FusedState:
    """The streams of a decoder, a row each; updated in place, never reallocated.

    Attributes:
        memory: ``[num_slots, row_size]``; zeros mean a fresh stream.
        turns: which of two copies of columns is current, int32 ``[num_slots]``.
        positions: int64 ``[num_slots]``, frames decoded so far.
    """

    memory: Tensor
    turns: Tensor
    positions: Tensor

    def reset(self, slot: int) -> None:
        """Make a slot as good as fresh."""
        for tensor in (self.memory, self.turns, self.positions):
            tensor[slot].zero_()

    def copy_of(self, slot: int) -> tuple[Tensor, ...]:
        """Return what a slot remembers."""
        return tuple(each[slot].clone() for each in (self.memory, self.turns, self.positions))

    def put(self, slot: int, copy: tuple[Tensor, ...]) -> None:
        """Let a slot remember what another did."""
        for tensor, value in zip((self.memory, self.turns, self.positions), copy, strict=True):
            tensor[slot].copy_(value)


class _Folding:
    """Lays weights out for the kernels, and gives layers room in a slot's memory."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.layout = StateLayout()
        self._dtype = dtype

    def taps(self, weight: Tensor, bias: Tensor | None, num_taps: int, dilation: int) -> Taps:
        num_in = weight.shape[0] // num_taps
        return Taps(
            weight=weight.to(self._dtype).contiguous(),
            bias=None if bias is None else bias.float().contiguous(),
            num_taps=num_taps,
            dilation=dilation,
            offset=self._room((num_taps - 1) * dilation, num_in),
        )

    def conv(self, conv: CausalConv) -> Taps:
        kernel = conv.weight[:, :, 0].permute(2, 1, 0)
        return self.taps(kernel.flatten(0, 1), conv.bias, kernel.shape[0], conv.dilation)

    def transposed(self, conv: CausalTransposedConv) -> Taps:
        return self.taps(conv.linear.weight.T, conv.linear.bias, conv.num_taps, 1)

    def linear(self, linear: Linear, norm: Tensor | None = None) -> Taps:
        """Lay out a layer, and the weight of the norm before it within."""
        weight = linear.weight if norm is None else linear.weight * norm
        return self.taps(weight.T, linear.bias, 1, 1)

    def gate(self, linear: Linear, norm: Tensor) -> Taps:
        """Lay out a gate and what it gates, neighbours in pairs."""
        gate, up = (linear.weight * norm).chunk(2)
        return self.taps(torch.stack((gate, up), dim=1).flatten(0, 1).T, None, 1, 1)

    def depthwise(self, conv: CausalConv) -> Taps:
        kernel = conv.weight[:, 0, 0].T
        num_taps, width = kernel.shape
        room = self._room(num_taps - 1, width)
        return Taps(kernel.to(self._dtype).contiguous(), conv.bias.float(), offset=room)

    def _room(self, num_before: int, num_in: int) -> int:
        return self.layout.add(2, num_before, num_in).offset if num_before else 0


@dataclass(frozen=True, slots=True)
class _Attending:
    """A layer of the transformer: five kernels."""

    query_key_value: Taps
    ring: Ring
    output: Taps
    gate_up: Taps
    down: Taps
    epsilon: float

    @classmethod
    def of(cls, layer: TransformerLayer, decoder: CodecDecoder, fold: _Folding) -> "_Attending":
        attention = layer.attention
        config = attention.config
        ring = Ring(
            offset=fold.layout.add(*attention.before.shape).offset,
            num_keys=decoder.num_keys,
            window=decoder.window,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
        )
        return cls(
            fold.linear(attention.query_key_value, layer.attention_norm.weight),
            ring,
            fold.linear(attention.output),
            fold.gate(layer.feed_forward.gate_up, layer.feed_forward_norm.weight),
            fold.linear(layer.feed_forward.down),
            layer.attention_norm.epsilon,
        )

    def __call__(self, x: Tensor, rows: Rows) -> Tensor:
        joined = _product(x, self.query_key_value, rows, norm_epsilon=self.epsilon)
        x = _product(attend_window(joined, self.ring, rows), self.output, rows, residual=x)
        gated = _product(x, self.gate_up, rows, activation="gate", norm_epsilon=self.epsilon)
        return _product(gated, self.down, rows, residual=x)


@dataclass(frozen=True, slots=True)
class _Doubling:
    """An upsampling and the block that refines it: four kernels."""

    upsample: Taps
    stride: int
    depthwise: Taps
    norm: tuple[Tensor, Tensor]
    wide: Taps
    narrow: Taps

    @classmethod
    def of(
        cls, upsample: CausalTransposedConv, refine: ConvNeXtBlock, fold: _Folding
    ) -> "_Doubling":
        assert refine.norm.bias is not None
        return cls(
            fold.transposed(upsample),
            upsample.stride,
            fold.depthwise(refine.depthwise),
            (refine.norm.weight.float(), refine.norm.bias.float()),
            fold.linear(refine.wide),
            fold.linear(refine.narrow),
        )

    def __call__(self, x: Tensor, rows: Rows) -> Tensor:
        x = _stretched(_product(x, self.upsample, rows), self.stride)
        hidden = depthwise_norm(x, self.depthwise, rows, self.norm, LAYER_NORM_EPSILON)
        hidden = _product(hidden, self.wide, rows, activation="gelu")
        return _product(hidden, self.narrow, rows, residual=x)


@dataclass(frozen=True, slots=True)
class _Upsampling:
    """A block: an upsampling, then units, each ending with the snake of what comes next.

    Attributes:
        snakes: after the upsampling, for each of its outputs; then after each unit.
    """

    upsample: Taps
    stride: int
    units: tuple[Unit, ...]
    snakes: tuple[Snake, ...]

    @classmethod
    def of(
        cls,
        upsample: CausalTransposedConv,
        units: tuple[ResidualUnit, ...],
        following: SnakeBeta,
        fold: _Folding,
    ) -> "_Upsampling":
        first, *others = (unit.snakes[0] for unit in units)
        repeated = Snake(
            first.frequency.repeat(upsample.stride), first.amplitude.repeat(upsample.stride)
        )
        return cls(
            fold.transposed(upsample),
            upsample.stride,
            tuple(
                Unit(
                    fold.conv(unit.convs[0]),
                    _snake(unit.snakes[1]),
                    laid_out(fold.conv(unit.convs[1])),
                )
                for unit in units
            ),
            (repeated, *(_snake(each) for each in (*others, following))),
        )

    def __call__(self, active: Tensor, rows: Rows) -> Tensor:
        """Take the activated input; return the activated output."""
        tile = tile_of(self.upsample, active.shape[0] * active.shape[1])
        both = causal_conv(active, self.upsample, rows, tile, snake=self.snakes[0])
        x, active = (_stretched(each, self.stride) for each in both)
        for unit, snake in zip(self.units, self.snakes[1:], strict=True):
            is_last = unit is self.units[-1]
            x, active = _refined(x, active, unit, rows, snake, keeps_sum=not is_last)
        return active


@dataclass(frozen=True, slots=True)
class FusedDecoder:
    """Decodes frames of any slots, at most `max_frames` at a time."""

    tables: Tensor
    radians: Tensor
    pre_conv: Taps
    input: Taps
    layers: tuple[_Attending, ...]
    output: Taps
    doublings: tuple[_Doubling, ...]
    widen: Taps
    first_snake: Snake
    blocks: tuple[_Upsampling, ...]
    last_conv: Taps
    norm_epsilon: float
    max_frames: int
    row_size: int

    @classmethod
    def of(cls, decoder: CodecDecoder, dtype: torch.dtype = torch.float16) -> "FusedDecoder":
        """Lay out a float32 decoder's weights on its GPU; nothing of it is kept."""
        fold = _Folding(dtype)
        transformer = decoder.transformer
        following = (*(block.snake for block in decoder.blocks[1:]), decoder.last_snake)
        tables = decoder.tables.rows
        radians = transformer.frequencies.radians
        last = fold.conv(decoder.last_conv)
        return cls(
            tables=tables.view(len(decoder.tables.first_rows), -1, tables.shape[1]).to(dtype),
            radians=radians[: len(radians) // 2].contiguous(),
            pre_conv=fold.conv(decoder.pre_conv),
            input=fold.linear(transformer.input),
            layers=tuple(_Attending.of(layer, decoder, fold) for layer in transformer.layers),
            output=fold.linear(transformer.output, transformer.norm.weight),
            doublings=tuple(
                _Doubling.of(upsample, refine, fold) for upsample, refine in decoder.upsamplings
            ),
            widen=fold.conv(decoder.widen),
            first_snake=_snake(decoder.blocks[0].snake),
            blocks=tuple(
                _Upsampling.of(block.upsample, block.units, snake, fold)
                for block, snake in zip(decoder.blocks, following, strict=True)
            ),
            last_conv=Taps(last.weight.float(), last.bias, last.num_taps, 1, last.offset),
            norm_epsilon=transformer.norm.epsilon,
            max_frames=decoder.max_pass_frames,
            row_size=fold.layout.row_size,
        )

    def open(self, num_slots: int) -> FusedState:
        """Return a state of fresh slots."""
        return FusedState(
            self.tables.new_zeros(num_slots, self.row_size),
            self.tables.new_zeros(num_slots, dtype=torch.int32),
            self.tables.new_zeros(num_slots, dtype=torch.int64),
        )

    def decode(self, codes: Tensor, slots: Tensor, state: FusedState) -> Tensor:
        """Decode the next frames of some slots and advance them.

        Args:
            codes: int64 ``[k, n, num_quantizers]``, ``n`` from 1 to `max_frames`; ids outside the
                codebooks are clamped into them.
            slots: int64 ``[k]``; if one is there twice, its audio and state mean nothing.
            state: updated in place.

        Returns:
            float32 ``[k, n * samples_per_frame]`` in [-1, 1].
        """
        assert 1 <= codes.shape[1] <= self.max_frames
        streams = (state.memory, state.turns, state.positions)
        hidden, rows = begin_frames(codes.contiguous(), self.tables, self.radians, slots, streams)
        hidden = _product(_product(hidden, self.pre_conv, rows), self.input, rows)
        for layer in self.layers:
            hidden = layer(hidden, rows)
        hidden = _product(hidden, self.output, rows, norm_epsilon=self.norm_epsilon)
        for double in self.doublings:
            hidden = double(hidden, rows)
        hidden = _activated(hidden, self.widen, rows, self.first_snake)
        for block in self.blocks:
            hidden = block(hidden, rows)
        return samples(hidden, self.last_conv, rows)


def _snake(snake: SnakeBeta) -> Snake:
    return Snake(snake.frequency.contiguous(), snake.amplitude.contiguous())


def _stretched(x: Tensor, stride: int) -> Tensor:
    """Turn ``[B, t, stride * channels]`` into ``[B, t * stride, channels]``."""
    return x.view(x.shape[0], x.shape[1] * stride, -1)


def _product(
    x: Tensor,
    taps: Taps,
    rows: Rows,
    *,
    activation: str = "",
    norm_epsilon: float | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    num_columns = x.shape[0] * x.shape[1]
    tile = tile_of(taps, num_columns) if norm_epsilon is None else NORM_TILE
    return causal_conv(
        x,
        taps,
        rows,
        tile,
        activation=activation,
        norm_epsilon=norm_epsilon,
        residual=residual,
    )[0]


def _activated(x: Tensor, taps: Taps, rows: Rows, snake: Snake) -> Tensor:
    tile = tile_of(taps, x.shape[0] * x.shape[1])
    return causal_conv(x, taps, rows, tile, snake=snake, keeps_sum=False)[1]


def _refined(
    x: Tensor, active: Tensor, unit: Unit, rows: Rows, snake: Snake, *, keeps_sum: bool
) -> tuple[Tensor, Tensor]:
    """Run a residual unit on ``x`` and its snake."""
    num_columns, width = x.shape[0] * x.shape[1], x.shape[2]
    tile = unit_tile(width, num_columns)
    if is_fusible(width) and tile is not None:
        return residual_unit(active, x, unit, rows, tile, snake=snake, keeps_sum=keeps_sum)
    hidden = _activated(active, unit.dilated, rows, unit.snake)
    return causal_conv(
        hidden,
        unit.pointwise,
        rows,
        tile_of(unit.pointwise, num_columns),
        residual=x,
        snake=snake,
        keeps_sum=keeps_sum,
    )
