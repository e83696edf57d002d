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
        config: configuration of the layers.
        layers: PyTorch layers; empty if ``fused`` replaces them.
        frequencies: frequencies of the rotary embedding.
        left: attention window before a position.
        right: attention window after a position.
        num_positions: positions per pass.
        fused: layers as kernels, with keys and values in half precision; ``None``: PyTorch layers
            are used.
    """

    config: NetConfig
    layers: tuple[NetLayer, ...]
    frequencies: Frequencies
    left: int
    right: int
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
        is_exact: bool = False,
    ) -> "StreamingStack":
        """Load the layers below ``name``, for passes of ``num_positions``.

        Args:
            weights: tensors in float32 on one device.
            name: prefix of the layers.
            config: configuration of the layers.
            num_positions: positions per pass.
            is_exact: whether to compute in float32 on a GPU too, without kernels.
        """
        assert config.left is not None, "its window is bounded"
        assert config.right is not None, "its window is bounded"
        layers = (
            NetLayer.of(weights, f"{name}.layers.{index}", config)
            for index in range(config.num_layers)
        )
        like = weights[f"{name}.layers.0.fc1.weight"]
        turned, fused = Frequencies.of(config.head_dim, config.rope_theta, like.device), None
        if kernels.run_on(like) and not is_exact:
            from antiphon.families.mimo_audio.codec_fused import FusedStack

            fused = FusedStack.of(layers, turned.halves, config.left, config.right)
        # Weights laid out for kernels are not stored twice.
        plain = () if fused is not None else tuple(layers)
        return cls(config, plain, turned, config.left, config.right, num_positions, fused)

    @property
    def delay(self) -> int:
        """Positions by which outputs are delayed."""
        return self.right * self.config.num_layers

    def open(self, num_slots: int) -> tuple[Tensor, ...]:
        """Return ring buffers of keys and values, and of pending queries and states."""
        like, config = self.frequencies.radians, self.config
        num_kept, num_waiting = self.left + self.right + self.num_positions, self.right
        num_waiting = num_waiting + self.num_positions if num_waiting else 0
        # Kernels read half precision, which halves the memory. Computation stays in float32.
        dtype = like.dtype if self.fused is None else torch.float16
        return (
            like.new_zeros(
                (config.num_layers, num_slots, num_kept, 2, config.num_heads, config.head_dim),
                dtype=dtype,
            ),
            like.new_zeros(config.num_layers, num_slots, num_waiting, 2, config.hidden_size),
        )

    def __call__(self, states: Tensor, span: Span, kept: tuple[Tensor, ...]) -> Tensor:
        """Return output states, delayed by `delay` positions.

        Args:
            states: ``[num_rows, num_positions, hidden_size]``.
            span: positions of the states.
            kept: ring buffers from `open`; updated in place.
        """
        if self.fused is not None:
            places = torch.cat((span.slots, span.start, span.end), dim=1)
            return self.fused(states, places, (kept[0], kept[1]))
        for index, layer in enumerate(self.layers):
            states = self._layer(layer, states, span, (kept[0][index], kept[1][index]))
            span = span.moved(self.right)
        return states

    def _layer(
        self, layer: NetLayer, states: Tensor, span: Span, kept: tuple[Tensor, Tensor]
    ) -> Tensor:
        ring, waiting = kept
        positions = span.positions(self.num_positions)
        heads = layer.project(states, self.frequencies.at(positions, states.dtype))
        queries, num_kept = heads[:, :, 0], ring.shape[1]
        ring[span.slots, positions % num_kept] = heads[:, :, 1:].to(ring.dtype)
        if self.right:
            pair = torch.stack((queries.flatten(2), states), dim=2)
            waiting[span.slots, positions % waiting.shape[1]] = pair
            positions = positions - self.right
            pair = waiting[span.slots, positions % waiting.shape[1]]
            queries, states = pair[:, :, 0].view_as(queries), pair[:, :, 1]
        newest = span.start + self.num_positions - 1
        held = newest - (newest - torch.arange(num_kept, device=newest.device)) % num_kept
        distance = held[:, None] - positions[:, :, None]
        mask = (distance >= -self.left) & (distance <= self.right)
        mask &= ((held >= 0) & (held < span.end))[:, None]
        mask |= distance == 0  # a position outside the stream attends to itself to stay finite
        return layer.attend(states, queries, ring[span.slots[:, 0]], mask)
