"""Streaming stack of the audio tokenizer's decoder layers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from antiphon.families.mimo_audio.codec_layers import NetLayer
from antiphon.families.mimo_audio.config import NetConfig
from antiphon.nn import kernels
from antiphon.nn.codec_layers.transformer import Frequencies
from antiphon.nn.layers import Weights

if TYPE_CHECKING:
    from antiphon.families.mimo_audio.codec_fused import FusedStack


@dataclass(frozen=True, slots=True)
class Span:
    """Positions computed in one pass over each row.

    Attributes:
        slots: slots of the rows, int64 ``[num_rows, 1]``.
        start: positions of the first states, int64 ``[num_rows, 1]``; may be negative or after the
            end.
        end: positions of the streams, as far as known, int64 ``[num_rows, 1]``.
    """

    slots: Tensor
    start: Tensor
    end: Tensor

    def moved(self, num_positions: int) -> "Span":
        """Return the span delayed by ``num_positions``."""
        return Span(self.slots, self.start - num_positions, self.end)

    def positions(self, count: int) -> Tensor:
        """Return the first ``count`` positions, int64 ``[num_rows, count]``."""
        return self.start + torch.arange(count, device=self.start.device)


@dataclass(frozen=True, slots=True)
class StreamingStack:
    """Layers with a bounded attention window on both sides.

    Outputs of a layer are delayed by its look-ahead, so that all attended positions are available.

    Attributes:
        layers: PyTorch layers; empty if ``fused`` replaces them.
        fused: layers as kernels, with keys and values in half precision; ``None``: PyTorch layers
            are used.
    """

    config: NetConfig
    layers: tuple[NetLayer, ...]
    frequencies: Frequencies
    num_positions: int
    fused: "FusedStack | None" = None

    @classmethod
    def of(
        cls,
        weights: Weights,
        name: str,
        config: NetConfig,
        num_positions: int,
        *,
        is_exact: bool,
        factors: torch.dtype = torch.float32,
    ) -> "StreamingStack":
        """Load the layers below ``name``, from float32 tensors on one device.

        Args:
            is_exact: whether to compute in float32 on a GPU too, without kernels.
            factors: type of the factors of products in kernels, float32 or float16.
        """
        names = (f"{name}.layers.{index}" for index in range(config.num_layers))
        layers = (NetLayer.of(weights, each, config) for each in names)
        like = weights[f"{name}.layers.0.fc1.weight"]
        turned, fused = Frequencies.of(config.head_dim, config.rope_theta, like.device), None
        if kernels.run_on(like) and not is_exact:
            from antiphon.families.mimo_audio.codec_fused import FusedStack

            window = config.left, config.right
            fused = FusedStack.of(layers, turned.halves, window, factors)
        # Weights laid out for kernels are not stored twice.
        plain = () if fused is not None else tuple(layers)
        return cls(config, plain, turned, num_positions, fused)

    @property
    def delay(self) -> int:
        """Positions by which outputs are delayed."""
        return self.config.right * self.config.num_layers

    def open(self, num_slots: int) -> tuple[Tensor, ...]:
        """Return ring buffers of keys and values, and of pending queries and states."""
        like, config = self.frequencies.radians, self.config
        num_kept = config.left + config.right + self.num_positions
        num_waiting = config.right + self.num_positions if config.right else 0
        # Kernels read half precision, which halves the memory. Computation stays in float32.
        dtype = like.dtype if self.fused is None else torch.float16
        rows, head = (config.num_layers, num_slots), (config.num_heads, config.head_dim)
        return (
            like.new_zeros((*rows, num_kept, 2, *head), dtype=dtype),
            like.new_zeros(*rows, num_waiting, 2, config.hidden_size),
        )

    def __call__(self, states: Tensor, span: Span, kept: tuple[Tensor, ...]) -> Tensor:
        """Return output states, delayed by `delay` positions.

        Args:
            states: ``[num_rows, num_positions, hidden_size]``.
            kept: ring buffers from `open`; updated in place.
        """
        if self.fused is not None:
            places = torch.cat((span.slots, span.start, span.end), dim=1)
            return self.fused(states, places, (kept[0], kept[1]))
        for index, layer in enumerate(self.layers):
            states = self._layer(layer, states, span, (kept[0][index], kept[1][index]))
            span = span.moved(self.config.right)
        return states

    def _layer(
        self, layer: NetLayer, states: Tensor, span: Span, kept: tuple[Tensor, Tensor]
    ) -> Tensor:
        (ring, waiting), right = kept, self.config.right
        positions = span.positions(self.num_positions)
        heads = layer.project(states, self.frequencies.at(positions, states.dtype))
        queries, num_kept = heads[:, :, 0], ring.shape[1]
        ring[span.slots, positions % num_kept] = heads[:, :, 1:].to(ring.dtype)
        if right:
            pair = torch.stack((queries.flatten(2), states), dim=2)
            waiting[span.slots, positions % waiting.shape[1]] = pair
            positions = positions - right
            pair = waiting[span.slots, positions % waiting.shape[1]]
            queries, states = pair[:, :, 0].view_as(queries), pair[:, :, 1]
        newest = span.start + self.num_positions - 1
        held = newest - (newest - torch.arange(num_kept, device=newest.device)) % num_kept
        distance = held[:, None] - positions[:, :, None]
        mask = (distance >= -self.config.left) & (distance <= right)
        mask &= ((held >= 0) & (held < span.end))[:, None]
        mask |= distance == 0  # a position outside the stream attends to itself to stay finite
        return layer.attend(states, queries, ring[span.slots[:, 0]], mask)
