"""Codec convolutions: causal streaming ones, and padded ones over whole recordings.

Streaming layers work on ``[B, t, channels]``, which convolution kernels prefer and linear layers
read without a transpose. Layers over whole recordings work on ``[B, channels, t]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.codec_layers.state import ColumnHistory, StateField, StateLayout
from antiphon.nn.layers import Linear, Snake, Weights
from antiphon.nn.row_lengths import RowLengths

LAYER_NORM_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class LayerBuilder:
    """Source of a codec's layers: weights, state layout and type.

    Attributes:
        weights: float32 tensors by their names in the checkpoint.
        layout: state layout in which layers reserve their fields.
        dtype: type of computation; folding is done in float32 before the conversion.
    """

    weights: Weights
    layout: StateLayout = field(default_factory=StateLayout)
    dtype: torch.dtype = torch.float32

    def tensor(self, name: str) -> Tensor:
        return self.weights[name].to(self.dtype)

    def linear(self, name: str) -> Linear:
        """Read a layer with a bias."""
        return Linear(self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias"))

    def optional_linear(self, name: str) -> Linear | None:
        """Read a layer with a bias; ``None`` if the checkpoint has none of this name."""
        return self.linear(name) if f"{name}.weight" in self.weights else None

    def scaled(self, name: str, scale_name: str) -> Linear:
        """Read a layer without a bias, with the scale of its outputs folded in."""
        scale = self.weights[f"{scale_name}.scale"]
        return Linear((self.weights[f"{name}.weight"] * scale[:, None]).to(self.dtype))


@dataclass(frozen=True, slots=True)
class CausalConv:
    """Convolution over the current and past columns.

    Attributes:
        weight: ``[num_out, num_in, 1, kernel_size]``, since only image kernels support channels
            last.
        bias: ``[num_out]``.
        before: state of the preceding columns, ``(k, num_in)``; ``None`` if the kernel has one tap.
    """

    weight: Tensor
    bias: Tensor
    dilation: int
    groups: int
    before: StateField | None

    @classmethod
    def of(
        cls, builder: LayerBuilder, name: str, *, dilation: int = 1, groups: int = 1
    ) -> "CausalConv":
        """Read ``name.conv``."""
        weight = builder.tensor(f"{name}.conv.weight")[:, :, None]
        num_before = (weight.shape[3] - 1) * dilation
        return cls(
            weight=weight.contiguous(memory_format=torch.channels_last),
            bias=builder.tensor(f"{name}.conv.bias"),
            dilation=dilation,
            groups=groups,
            before=builder.layout.add(num_before, weight.shape[1] * groups) if num_before else None,
        )

    def __call__(self, x: Tensor, history: ColumnHistory) -> Tensor:
        """Map ``[B, t, num_in]`` to ``[B, t, num_out]``."""
        if self.before is None:
            return F.linear(x, self.weight[:, :, 0, 0], self.bias)
        image = history.prepend(x, self.before).transpose(1, 2)[:, :, None]
        dilation = (1, self.dilation)
        result = F.conv2d(image, self.weight, self.bias, dilation=dilation, groups=self.groups)
        return result[:, :, 0].transpose(1, 2)


@dataclass(frozen=True, slots=True)
class CausalTransposedConv:
    """Upsampling by ``stride``.

    A transposed convolution whose kernel is ``num_taps`` strides long computes ``stride`` outputs
    per input from that input and the ``num_taps - 1`` before it: a linear layer.

    Attributes:
        linear: product of the taps to the outputs, oldest first.
        before: state of the preceding inputs, ``(num_taps - 1, num_in)``; ``None`` without any.
    """

    linear: Linear
    stride: int
    num_taps: int
    before: StateField | None

    @classmethod
    def of(cls, builder: LayerBuilder, name: str, stride: int) -> "CausalTransposedConv":
        """Read ``name.conv``, whose kernel is a multiple of the stride."""
        kernel = builder.tensor(f"{name}.conv.weight")  # [num_in, num_out, kernel_size]
        num_in, num_taps = kernel.shape[0], kernel.shape[2] // stride
        taps = torch.unflatten(kernel, 2, (num_taps, stride)).flip(2)  # oldest input first
        weight = taps.permute(3, 1, 2, 0).flatten(2).flatten(0, 1)
        bias = builder.tensor(f"{name}.conv.bias").repeat(stride)
        before = builder.layout.add(num_taps - 1, num_in) if num_taps > 1 else None
        return cls(Linear(weight.contiguous(), bias), stride, num_taps, before)

    def __call__(self, x: Tensor, history: ColumnHistory) -> Tensor:
        """Map ``[B, t, num_in]`` to ``[B, t * stride, num_out]``."""
        if self.before is not None:
            length = x.shape[1]
            joined = history.prepend(x, self.before)
            x = torch.cat([joined[:, tap : tap + length] for tap in range(self.num_taps)], dim=2)
        return torch.unflatten(self.linear(x), 2, (self.stride, -1)).flatten(1, 2)


@dataclass(frozen=True, slots=True)
class PaddedConv:
    """Convolution over a whole recording.

    Attributes:
        weight: ``[num_out, num_in / groups, kernel_size]``.
        is_causal: whether to pad before the first column, and after the last only to complete a
            stride; otherwise both ends equally, which keeps the length.
        pad_mode: mode of `torch.nn.functional.pad`.
    """

    weight: Tensor
    bias: Tensor | None
    stride: int = 1
    dilation: int = 1
    is_causal: bool = True
    pad_mode: str = "constant"
    groups: int = 1

    @classmethod
    def of(
        cls,
        weights: Weights,
        name: str,
        *,
        stride: int = 1,
        dilation: int = 1,
        is_causal: bool = True,
        pad_mode: str = "constant",
        groups: int = 1,
    ) -> "PaddedConv":
        """Read ``name``, with its bias if present."""
        weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
        return cls(weight, bias, stride, dilation, is_causal, pad_mode, groups)

    @property
    def num_padded(self) -> int:
        """Columns of padding, except those that complete a stride."""
        return (self.weight.shape[2] - 1) * self.dilation + 1 - self.stride

    def __call__(self, x: Tensor, lengths: RowLengths | None = None) -> Tensor:
        """Map ``[B, num_in, t]`` to ``[B, num_out, ceil(t / stride)]``.

        ``lengths`` holds the rows' lengths, or ``None`` if no row is padded.
        """
        before, after = self.num_padded, -x.shape[2] % self.stride
        reads_on = self.stride > 1 or not self.is_causal  # columns after a row's last one
        if not self.is_causal:
            before, after = before // 2, before // 2
        if lengths is not None and reads_on and self.weight.shape[2] > 1:
            x = lengths.pad(x, before, after, self.pad_mode)
        elif before or after:
            x = F.pad(x, (before, after), self.pad_mode)
        return F.conv1d(x, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)


@dataclass(frozen=True, slots=True)
class ConvNeXtBlock:
    """Depthwise convolution, LayerNorm and feed-forward layer, added to the input."""

    depthwise: CausalConv
    norm: Linear
    wide: Linear
    narrow: Linear

    @classmethod
    def of(cls, builder: LayerBuilder, name: str) -> "ConvNeXtBlock":
        gamma = builder.weights[f"{name}.gamma"]
        weight = builder.weights[f"{name}.pwconv2.weight"] * gamma[:, None]
        bias = builder.weights[f"{name}.pwconv2.bias"] * gamma
        return cls(
            depthwise=CausalConv.of(builder, f"{name}.dwconv", groups=len(gamma)),
            norm=builder.linear(f"{name}.norm"),
            wide=builder.linear(f"{name}.pwconv1"),
            narrow=Linear(weight.to(builder.dtype), bias.to(builder.dtype)),
        )

    def __call__(self, x: Tensor, history: ColumnHistory) -> Tensor:
        hidden = self.depthwise(x, history)
        scale, shift = self.norm.weight, self.norm.bias
        hidden = F.layer_norm(hidden, scale.shape, scale, shift, LAYER_NORM_EPSILON)
        return x + self.narrow(F.gelu(self.wide(hidden)))


@dataclass(frozen=True, slots=True)
class ResidualUnit:
    """Two activated convolutions, the first dilated, added to the input."""

    snakes: tuple[Snake, Snake]
    convs: tuple[CausalConv, CausalConv]

    @classmethod
    def of(cls, builder: LayerBuilder, name: str, dilation: int) -> "ResidualUnit":
        first = CausalConv.of(builder, f"{name}.conv1", dilation=dilation)
        return cls(
            (Snake.of(builder.weights, f"{name}.act1"), Snake.of(builder.weights, f"{name}.act2")),
            (first, CausalConv.of(builder, f"{name}.conv2")),
        )

    def __call__(self, x: Tensor, history: ColumnHistory) -> Tensor:
        hidden = x
        for snake, conv in zip(self.snakes, self.convs, strict=True):
            hidden = conv(snake(hidden), history)
        return x + hidden


@dataclass(frozen=True, slots=True)
class UpsamplingBlock:
    """Upsampling followed by residual units."""

    snake: Snake
    upsample: CausalTransposedConv
    units: tuple[ResidualUnit, ...]

    @classmethod
    def of(
        cls, builder: LayerBuilder, name: str, rate: int, dilations: Sequence[int]
    ) -> "UpsamplingBlock":
        """Read ``name.block``: a snake, an upsampling, and a unit for each dilation."""
        return cls(
            Snake.of(builder.weights, f"{name}.block.0"),
            CausalTransposedConv.of(builder, f"{name}.block.1", rate),
            tuple(
                ResidualUnit.of(builder, f"{name}.block.{index}", dilation)
                for index, dilation in enumerate(dilations, 2)
            ),
        )

    def __call__(self, x: Tensor, history: ColumnHistory) -> Tensor:
        x = self.upsample(self.snake(x), history)
        for unit in self.units:
            x = unit(x, history)
        return x
