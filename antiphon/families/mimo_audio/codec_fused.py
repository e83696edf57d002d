"""Fused GPU kernels of the tokenizer's layers: seven launches per layer.

States, sums and norms are float32. Factors of products are float16 in the decoder's layers, nearly
all of the arithmetic, and float32 in those of the vocoder, which makes phases of them: split into
two float16 numbers (see `antiphon.nn.kernels.split`). A row's result does not depend on its batch,
bit for bit.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.families.mimo_audio.codec_layers import NetLayer
from antiphon.nn.codec_layers.transformer import LayerNorm
from antiphon.nn.kernels.causal_conv import ConvWeights, causal_conv
from antiphon.nn.kernels.delayed_attention import DelayedRows, attend_delayed
from antiphon.nn.kernels.kernel_configs import config_of
from antiphon.nn.kernels.modulated_norm import add_modulated_norm
from antiphon.nn.kernels.split import split
from antiphon.nn.kernels.stream_columns import Rows
from antiphon.nn.layers import Linear


@dataclass(frozen=True, slots=True)
class ShiftedNorm:
    """A LayerNorm that stores its weight minus 1."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    @classmethod
    def of(cls, norm: LayerNorm) -> "ShiftedNorm":
        return cls(norm.weight - 1.0, norm.bias, norm.epsilon)

    def __call__(self, states: Tensor, dtype: torch.dtype) -> Tensor:
        return add_modulated_norm(states, None, self.weight, self.bias, self.epsilon, dtype)


@dataclass(frozen=True, slots=True)
class FusedNetLayer:
    """A `NetLayer` with weights laid out for kernels.

    Attributes:
        dtype: type of the products' inputs, float32 or float16.
    """

    dtype: torch.dtype
    attention_norm: ShiftedNorm
    query_key_value: ConvWeights
    output: ConvWeights
    feed_forward_norm: ShiftedNorm
    wide: ConvWeights
    narrow: ConvWeights

    @classmethod
    def of(cls, layer: NetLayer, dtype: torch.dtype) -> "FusedNetLayer":
        return cls(
            dtype,
            ShiftedNorm.of(layer.attention_norm),
            _laid_out(layer.query_key_value, dtype),
            _laid_out(layer.output, dtype),
            ShiftedNorm.of(layer.feed_forward_norm),
            _laid_out(layer.wide, dtype),
            _laid_out(layer.narrow, dtype),
        )

    def __call__(self, states: Tensor, kept: tuple[Tensor, Tensor], rows: DelayedRows) -> Tensor:
        """Return the states of a pass, delayed by the layer's look-ahead.

        Args:
            states: ``[num_rows * num_positions, hidden_size]``.
            kept: ring buffers of the layer; see `attend_delayed`.
        """
        joined = _product(self.attention_norm(states, self.dtype), self.query_key_value)
        attended, states = attend_delayed(joined, states, kept, rows, self.dtype)
        states = _product(attended, self.output, residual=states)
        normed = self.feed_forward_norm(states, self.dtype)
        hidden = _product(normed, self.wide, activation="gelu", dtype=self.dtype)
        return _product(hidden, self.narrow, residual=states)


@dataclass(frozen=True, slots=True)
class FusedStack:
    """Layers with a bounded attention window on both sides.

    Attributes:
        radians: rotary angles per position, for half of a head.
    """

    layers: tuple[FusedNetLayer, ...]
    radians: Tensor
    left: int
    right: int

    @classmethod
    def of(
        cls,
        layers: Iterable[NetLayer],
        radians: Tensor,
        window: tuple[int, int],
        dtype: torch.dtype = torch.float32,
    ) -> "FusedStack":
        """Lay out layers with a window before and after a position; see `FusedNetLayer`."""
        return cls(tuple(FusedNetLayer.of(each, dtype) for each in layers), radians, *window)

    def __call__(self, states: Tensor, places: Tensor, kept: tuple[Tensor, Tensor]) -> Tensor:
        """Run all layers; see `antiphon.families.mimo_audio.codec_stack.StreamingStack`.

        Args:
            states: ``[num_rows, num_positions, hidden_size]``.
            places: slot, position and end of each row, int64 ``[num_rows, 3]``.
            kept: ring buffers of all layers; updated in place.
        """
        num_rows, num_positions, width = states.shape
        num_shifts = len(self.layers) if self.right else 1
        rotations, shifted = self._shifted(places, num_positions, num_shifts)
        states = states.contiguous().view(-1, width)
        for index, layer in enumerate(self.layers):
            shift = index if self.right else 0
            rows = DelayedRows(
                shifted[shift], rotations[shift], num_positions, self.left, self.right
            )
            states = layer(states, (kept[0][index], kept[1][index]), rows)
        return states.view(num_rows, num_positions, width)

    def _shifted(
        self, places: Tensor, num_positions: int, num_shifts: int
    ) -> tuple[Tensor, Tensor]:
        """Return rotations and places of the layers, each shifted by the previous look-ahead.

        Returns:
            ``[num_shifts, num_rows * num_positions, head_dim]``, and ``[num_shifts, num_rows, 3]``.
        """
        shifts = torch.arange(num_shifts, device=places.device) * self.right
        starts = places[None, :, 1] - shifts[:, None]
        positions = starts[:, :, None] + torch.arange(num_positions, device=places.device)
        angles = positions[..., None].float() * self.radians
        rotations = torch.cat((angles.cos(), angles.sin()), dim=-1).flatten(1, 2)
        slots, ends = places[:, 0].expand_as(starts), places[:, 2].expand_as(starts)
        return rotations, torch.stack((slots, starts, ends), dim=2)


def _laid_out(linear: Linear, dtype: torch.dtype) -> ConvWeights:
    factors, rest = (each.contiguous() for each in split(linear.weight.T))
    return ConvWeights(factors, linear.bias, rest=rest if dtype == torch.float32 else None)


def _product(
    inputs: Tensor,
    weights: ConvWeights,
    *,
    activation: str = "",
    residual: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    # A product with one tap reads no stream state.
    rows = Rows(inputs.new_empty(1, 1), inputs.new_empty(1, 1, dtype=torch.int32), inputs, 1)
    return causal_conv(
        inputs,
        weights,
        rows,
        config_of(weights, len(inputs)),
        activation=activation,
        residual=residual,
        sum_dtype=dtype,
    )[0]
