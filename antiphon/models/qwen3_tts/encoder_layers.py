"""The convolutional half of the codec's encoder: samples to steps, ``[B, C, t]``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.qwen3_tts.config import CodecEncoderConfig
from antiphon.nn.layers import Weights

Layer: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class PaddedConv:
    """A causal convolution; a last, incomplete stride is completed on the right."""

    weight: Tensor
    bias: Tensor | None
    stride: int
    dilation: int
    pad_mode: str

    @classmethod
    def of(
        cls,
        weights: Weights,
        name: str,
        *,
        stride: int = 1,
        dilation: int = 1,
        pad_mode: str = "constant",
    ) -> "PaddedConv":
        """Take ``name.conv``, with its bias if there is one."""
        weight, bias = weights[f"{name}.conv.weight"], weights.get(f"{name}.conv.bias")
        return cls(weight, bias, stride, dilation, pad_mode)

    def __call__(self, x: Tensor) -> Tensor:
        """Map ``[B, num_in, t]`` to ``[B, num_out, ceil(t / stride)]``."""
        before = (self.weight.shape[2] - 1) * self.dilation + 1 - self.stride
        x = F.pad(x, (before, -x.shape[2] % self.stride), self.pad_mode)
        return F.conv1d(x, self.weight, self.bias, self.stride, dilation=self.dilation)


@dataclass(frozen=True, slots=True)
class ResidualBlock:
    """Two activated convolutions, narrow in the middle, added to the input."""

    first: PaddedConv
    second: PaddedConv

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.second(F.elu(self.first(F.elu(x))))


@dataclass(frozen=True, slots=True)
class WaveEncoder:
    """Convolutions from samples to steps, twice as wide after each of the ratios."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, weights: Weights, name: str, config: CodecEncoderConfig) -> "WaveEncoder":
        """Take ``name.layers``; their numbers count the activations between them too."""

        def conv(index: int, stride: int = 1) -> PaddedConv:
            return PaddedConv.of(weights, f"{name}.layers.{index}", stride=stride)

        layers: list[Layer] = [conv(0)]
        index = 1
        for ratio in reversed(config.ratios):
            for depth in range(config.num_residual_layers):
                block = f"{name}.layers.{index}.block"
                dilation = config.dilation_growth_rate**depth
                first = PaddedConv.of(weights, f"{block}.1", dilation=dilation)
                layers.append(ResidualBlock(first, PaddedConv.of(weights, f"{block}.3")))
                index += 1
            layers += [F.elu, conv(index + 1, ratio)]
            index += 2
        return cls((*layers, F.elu, conv(index + 1)))

    def __call__(self, x: Tensor) -> Tensor:
        """Map samples ``[B, 1, t]`` to steps ``[B, hidden_size, ceil(t / product of ratios)]``."""
        for layer in self.layers:
            x = layer(x)
        return x
