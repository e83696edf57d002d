"""SEANet encoder of Encodec and Mimi: samples to frames, ``[B, C, t]``."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.codec_layers.conv import PaddedConv
from antiphon.nn.layers import Weights
from antiphon.nn.row_lengths import RowLengths

Layer: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class ResidualBlock:
    """Two activated convolutions with a bottleneck, added to the input."""

    first: PaddedConv
    second: PaddedConv

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.second(F.elu(self.first(F.elu(x))))


@dataclass(frozen=True, slots=True)
class SeanetEncoder:
    """Convolutions from samples to frames; each stride doubles the width."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(
        cls,
        weights: Weights,
        name: str,
        *,
        strides: Sequence[int],
        num_residual_layers: int,
        dilation_base: int,
    ) -> "SeanetEncoder":
        """Read ``name.layers``, whose numbers count the activations in between too.

        Args:
            weights: tensors of one type and on one device.
            strides: strides of the downsampling layers, first to last.
            num_residual_layers: residual layers before each of them.
            dilation_base: base of the residual layers' dilations, which are its powers.
        """

        def conv(index: int, stride: int = 1) -> PaddedConv:
            return PaddedConv.of(weights, f"{name}.layers.{index}.conv", stride=stride)

        layers: list[Layer] = [conv(0)]
        index = 1
        for stride in strides:
            for depth in range(num_residual_layers):
                block = f"{name}.layers.{index}.block"
                dilation = dilation_base**depth
                first = PaddedConv.of(weights, f"{block}.1.conv", dilation=dilation)
                layers.append(ResidualBlock(first, PaddedConv.of(weights, f"{block}.3.conv")))
                index += 1
            layers += [F.elu, conv(index + 1, stride)]
            index += 2
        return cls((*layers, F.elu, conv(index + 1)))

    @property
    def stride(self) -> int:
        """Samples per frame: the product of the strides."""
        return math.prod(each.stride for each in self.layers if isinstance(each, PaddedConv))

    def __call__(self, x: Tensor, lengths: RowLengths | None = None) -> Tensor:
        """Map ``[B, 1, t]`` to ``[B, width, ceil(t / product of strides)]``.

        ``lengths`` holds the rows' lengths, or ``None`` if no row is padded.
        """
        for layer in self.layers:
            if isinstance(layer, PaddedConv):
                x = layer(x, lengths)
                lengths = None if lengths is None else lengths.downsampled(layer.stride)
            else:  # residual blocks read no column after the output column
                x = layer(x)
        return x
