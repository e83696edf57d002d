"""Streaming layers of the tokenizer's decoder, over a few groups of frames in rows of slots.

All state of a slot is in ring buffers, indexed by position: computing a position again overwrites
its entry. Invalid groups, which are text, may therefore be computed after the valid ones; the next
groups overwrite them. Slots, groups and ends of streams are tensors, so that a pass needs no
synchronisation with the device and fits into a CUDA graph.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.mimo_audio.config import NetConfig
from antiphon.nn.codec_layers.transformer import LayerNorm
from antiphon.nn.layers import Linear, Rotation, Weights

_EPSILON = 1e-5  # PyTorch's default for LayerNorm and GroupNorm


def layer_norm(weights: Weights, name: str) -> LayerNorm:
    return LayerNorm(weights[f"{name}.weight"], weights[f"{name}.bias"], _EPSILON)


@dataclass(frozen=True, slots=True)
class NetLayer:
    """Pre-norm residual attention and GELU feed-forward."""

    config: NetConfig
    attention_norm: LayerNorm
    query_key_value: Linear
    output: Linear
    feed_forward_norm: LayerNorm
    wide: Linear
    narrow: Linear

    @classmethod
    def of(cls, weights: Weights, name: str, config: NetConfig) -> "NetLayer":
        attention = f"{name}.self_attn"
        return cls(
            config=config,
            attention_norm=layer_norm(weights, f"{name}.self_attn_layer_norm"),
            query_key_value=Linear.joined(weights, *(f"{attention}.{part}_proj" for part in "qkv")),
            output=Linear.of(weights, f"{attention}.out_proj"),
            feed_forward_norm=layer_norm(weights, f"{name}.final_layer_norm"),
            wide=Linear.of(weights, f"{name}.fc1"),
            narrow=Linear.of(weights, f"{name}.fc2"),
        )

    def project(self, states: Tensor, rotation: Rotation) -> Tensor:
        """Return rotated queries, keys and values, ``[num_rows, n, 3, num_heads, head_dim]``."""
        joined = self.query_key_value(self.attention_norm(states))
        heads = torch.unflatten(joined, 2, (3, self.config.num_heads, -1))
        rotated = rotation(heads[:, :, :2].flatten(2, 3)).view_as(heads[:, :, :2])
        return torch.cat((rotated, heads[:, :, 2:]), dim=2)

    def attend(self, states: Tensor, queries: Tensor, kept: Tensor, mask: Tensor) -> Tensor:
        """Return the output states of the layer.

        Args:
            states: input states, ``[num_rows, n, hidden_size]``.
            queries: queries of the states, ``[num_rows, n, num_heads, head_dim]``.
            kept: keys and values, ``[num_rows, num_keys, 2, num_heads, head_dim]``.
            mask: attention mask, bool ``[num_rows, n, num_keys]``.
        """
        keys, values = kept.to(queries.dtype).transpose(1, 3).unbind(2)
        queries, mask = queries.transpose(1, 2), mask[:, None]
        seen = F.scaled_dot_product_attention(queries, keys, values, mask)
        states = states + self.output(seen.transpose(1, 2).flatten(2))
        return states + self.narrow(F.gelu(self.wide(self.feed_forward_norm(states))))


@dataclass(frozen=True, slots=True)
class TimeNorm:
    """GroupNorm of one group, with statistics over all channels and all time.

    A stream's statistics are complete only at its end. A group of frames is normalised by those of
    the stream up to ``num_ahead`` groups after it, and is delayed by as many groups. Speech that is
    no longer than that is normalised as a whole.
    """

    weight: Tensor
    bias: Tensor
    num_ahead: int

    @classmethod
    def of(cls, weights: Weights, name: str, num_ahead: int) -> "TimeNorm":
        return cls(weights[f"{name}.weight"], weights[f"{name}.bias"], num_ahead)

    def open(self, num_slots: int, num_groups: int, num_positions: int) -> tuple[Tensor, Tensor]:
        """Return sums per slot (values, squares, count), and pending groups.

        A pass has ``num_groups`` of ``num_positions``.
        """
        sums = self.weight.new_zeros(num_slots, 3, dtype=torch.float64)
        size = (num_slots, self.num_ahead + num_groups, num_positions, len(self.weight))
        return sums, self.weight.new_zeros(size)

    def __call__(
        self,
        states: Tensor,
        place: tuple[Tensor, Tensor],
        kept: tuple[Tensor, Tensor],
        counted: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Return the normalised groups of ``num_ahead`` groups before, ``[num_rows, n, channels]``.

        Args:
            states: groups of each row, ``[num_rows, num_groups, n, channels]``, possibly with more
                positions, which only enter the statistics.
            place: slots and group numbers, int64 ``[num_rows, 1]`` and ``[num_rows, num_groups]``.
            kept: buffers from `open`; updated in place.
            counted: whether each group and the positions beyond it enter the statistics, bool
                ``[num_rows, num_groups]``.
        """
        (slots, groups), (sums, line) = place, kept
        num_positions = line.shape[2]
        totals = sums[slots]
        parts = (states[:, :, :num_positions], states[:, :, num_positions:])
        for part, counts in zip(parts, counted, strict=True):
            if not part.shape[2]:
                continue
            wide = part.double().flatten(2)
            number = torch.full_like(wide[:, :, 0], wide.shape[2])
            added = torch.stack((wide.sum(2), wide.square().sum(2), number), dim=2)
            totals = totals + torch.where(counts[:, :, None], added, 0.0).cumsum(1)
        sums[slots[:, 0]] = totals[:, -1]
        values, squares, number = totals[:, :, :, None, None].unbind(2)
        number = number.clamp(min=1.0)
        mean = values / number
        deviation = (squares / number - mean.square()).clamp(min=0.0) + _EPSILON
        line[slots, groups % line.shape[1]] = states[:, :, :num_positions]
        states = line[slots, (groups - self.num_ahead) % line.shape[1]]
        normed: Tensor = (states - mean.float()) * deviation.rsqrt().float()
        return (normed * self.weight + self.bias).flatten(1, 2)
