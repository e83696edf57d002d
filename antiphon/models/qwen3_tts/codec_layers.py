"""The convolutional layers of the codec's decoder: causal, so that a stream needs no look-ahead.

Activations are ``[B, t, channels]`` throughout: convolution kernels like it best, and linear
layers need no transposing.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.qwen3_tts.codec_state import Part, Past, StateLayout
from antiphon.nn import kernels
from antiphon.nn.layers import Linear, Weights

_DILATIONS = (1, 3, 9)
LAYER_NORM_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Source:
    """What a decoder is built from.

    Attributes:
        weights: float32, by their names in the checkpoint.
        layout: gives layers the room that they need in a slot.
        dtype: that the decoder computes in; what is folded is folded in float32 before.
    """

    weights: Weights
    layout: StateLayout
    dtype: torch.dtype

    def tensor(self, name: str) -> Tensor:
        return self.weights[name].to(self.dtype)

    def linear(self, name: str) -> Linear:
        """Take a layer with a bias."""
        return Linear(self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias"))


@dataclass(frozen=True, slots=True)
class CausalConv:
    """A convolution over the present and the past.

    Attributes:
        weight: ``[num_out, num_in, 1, kernel_size]``, since only the kernels of images take
            channels last.
        bias: ``[num_out]``.
        before: the columns that came before, ``(k, num_in)``; ``None`` if the kernel is one wide.
    """

    weight: Tensor
    bias: Tensor
    dilation: int
    groups: int
    before: Part | None

    @classmethod
    def of(cls, source: Source, name: str, *, dilation: int = 1, groups: int = 1) -> "CausalConv":
        """Take ``name.conv``."""
        weight = source.tensor(f"{name}.conv.weight")[:, :, None]
        num_before = (weight.shape[3] - 1) * dilation
        return cls(
            weight=weight.contiguous(memory_format=torch.channels_last),
            bias=source.tensor(f"{name}.conv.bias"),
            dilation=dilation,
            groups=groups,
            before=source.layout.add(num_before, weight.shape[1] * groups) if num_before else None,
        )

    def __call__(self, x: Tensor, past: Past) -> Tensor:
        """Map ``[B, t, num_in]`` to ``[B, t, num_out]``."""
        if self.before is None:
            return F.linear(x, self.weight[:, :, 0, 0], self.bias)
        image = past.join(x, self.before).transpose(1, 2)[:, :, None]
        dilation = (1, self.dilation)
        result = F.conv2d(image, self.weight, self.bias, dilation=dilation, groups=self.groups)
        return result[:, :, 0].transpose(1, 2)


@dataclass(frozen=True, slots=True)
class CausalTransposedConv:
    """Upsamples by ``stride``.

    A transposed convolution whose kernel is ``num_taps`` strides long makes, for every input, as
    many outputs as the stride, from that input and ``num_taps - 1`` before it: a linear layer.

    Attributes:
        linear: from the taps, oldest first, to the outputs, oldest first.
        before: the inputs that came before, ``(num_taps - 1, num_in)``; ``None`` if there is none.
    """

    linear: Linear
    stride: int
    num_taps: int
    before: Part | None

    @classmethod
    def of(cls, source: Source, name: str, stride: int) -> "CausalTransposedConv":
        """Take ``name.conv``, whose kernel is a multiple of the stride."""
        kernel = source.tensor(f"{name}.conv.weight")  # [num_in, num_out, kernel_size]
        num_in, num_taps = kernel.shape[0], kernel.shape[2] // stride
        taps = torch.unflatten(kernel, 2, (num_taps, stride)).flip(2)  # oldest input first
        weight = taps.permute(3, 1, 2, 0).flatten(2).flatten(0, 1)
        bias = source.tensor(f"{name}.conv.bias").repeat(stride)
        before = source.layout.add(num_taps - 1, num_in) if num_taps > 1 else None
        return cls(Linear(weight.contiguous(), bias), stride, num_taps, before)

    def __call__(self, x: Tensor, past: Past) -> Tensor:
        """Map ``[B, t, num_in]`` to ``[B, t * stride, num_out]``."""
        if self.before is not None:
            length = x.shape[1]
            joined = past.join(x, self.before)
            x = torch.cat([joined[:, tap : tap + length] for tap in range(self.num_taps)], dim=2)
        return torch.unflatten(self.linear(x), 2, (self.stride, -1)).flatten(1, 2)


@dataclass(frozen=True, slots=True)
class SnakeBeta:
    """``x + amplitude * sin(frequency * x)^2`` per channel, with float32 factors."""

    frequency: Tensor
    amplitude: Tensor

    @classmethod
    def of(cls, source: Source, name: str) -> "SnakeBeta":
        """Take ``name.alpha`` and ``name.beta``, which are logarithms."""
        frequency = source.weights[f"{name}.alpha"].exp()
        return cls(frequency, 1.0 / (source.weights[f"{name}.beta"].exp() + 1e-9))

    def __call__(self, x: Tensor) -> Tensor:
        if kernels.run_on(x):
            from antiphon.nn.kernels import pointwise

            return pointwise.snake(x, self.frequency, self.amplitude)
        wave = (x * self.frequency).sin_().square_()
        return torch.addcmul(x.to(wave.dtype), wave, self.amplitude).to(x.dtype)


@dataclass(frozen=True, slots=True)
class ConvNeXtBlock:
    """A depthwise convolution and a feed-forward layer, added to the input.

    Attributes:
        norm: of the convolution's result; a LayerNorm's weight and bias.
    """

    depthwise: CausalConv
    norm: Linear
    wide: Linear
    narrow: Linear

    @classmethod
    def of(cls, source: Source, name: str) -> "ConvNeXtBlock":
        gamma = source.weights[f"{name}.gamma"]
        weight = source.weights[f"{name}.pwconv2.weight"] * gamma[:, None]
        bias = source.weights[f"{name}.pwconv2.bias"] * gamma
        return cls(
            depthwise=CausalConv.of(source, f"{name}.dwconv", groups=len(gamma)),
            norm=source.linear(f"{name}.norm"),
            wide=source.linear(f"{name}.pwconv1"),
            narrow=Linear(weight.to(source.dtype), bias.to(source.dtype)),
        )

    def __call__(self, x: Tensor, past: Past) -> Tensor:
        hidden = self.depthwise(x, past)
        scale, shift = self.norm.weight, self.norm.bias
        hidden = F.layer_norm(hidden, scale.shape, scale, shift, LAYER_NORM_EPSILON)
        return x + self.narrow(F.gelu(self.wide(hidden)))


@dataclass(frozen=True, slots=True)
class ResidualUnit:
    """Two activated convolutions, the first dilated, added to the input."""

    snakes: tuple[SnakeBeta, SnakeBeta]
    convs: tuple[CausalConv, CausalConv]

    @classmethod
    def of(cls, source: Source, name: str, dilation: int) -> "ResidualUnit":
        first = CausalConv.of(source, f"{name}.conv1", dilation=dilation)
        return cls(
            (SnakeBeta.of(source, f"{name}.act1"), SnakeBeta.of(source, f"{name}.act2")),
            (first, CausalConv.of(source, f"{name}.conv2")),
        )

    def __call__(self, x: Tensor, past: Past) -> Tensor:
        hidden = x
        for snake, conv in zip(self.snakes, self.convs, strict=True):
            hidden = conv(snake(hidden), past)
        return x + hidden


@dataclass(frozen=True, slots=True)
class UpsamplingBlock:
    """Upsamples, then refines with residual units of growing dilation."""

    snake: SnakeBeta
    upsample: CausalTransposedConv
    units: tuple[ResidualUnit, ...]

    @classmethod
    def of(cls, source: Source, name: str, rate: int) -> "UpsamplingBlock":
        return cls(
            SnakeBeta.of(source, f"{name}.block.0"),
            CausalTransposedConv.of(source, f"{name}.block.1", rate),
            tuple(
                ResidualUnit.of(source, f"{name}.block.{index}", dilation)
                for index, dilation in enumerate(_DILATIONS, 2)
            ),
        )

    def __call__(self, x: Tensor, past: Past) -> Tensor:
        x = self.upsample(self.snake(x), past)
        for unit in self.units:
            x = unit(x, past)
        return x
