"""Fused kernels of the DiT blocks: eight launches per block, four of them matrix products.

Products and attention are float16 with float32 accumulation; float16 has the same ten mantissa
bits as TF32. Residuals, norms and solver steps are float32. Outputs of norms and attention are
clamped to float16's range. Outputs of products stay within it through powers of two, which the
gates undo.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState
from antiphon.nn.layers import Linear

if TYPE_CHECKING:  # needs Triton
    from antiphon.nn.kernels.chunk_attention import ChunkRows

PRODUCT_DTYPE = torch.float16
_ATTENTION_GATE, _FEED_FORWARD_GATE = 2, 5
"""Indices of the gates in a block's modulation."""
_MIN_GROUP = 16  # channels required by a matrix instruction


@dataclass(frozen=True, slots=True)
class FusedBlocks:
    """All transformer blocks and the final norm.

    Attributes:
        blocks: products of each layer: queries, keys and values, output, widening and narrowing.
        times: modulation of the blocks; see `antiphon.families.cosyvoice3.dit.DiT`.
        last_times: scale and shift of the final norm; see there.
    """

    blocks: tuple[tuple[Linear, ...], ...]
    times: Tensor
    last_times: Tensor
    epsilon: float

    @classmethod
    def of(
        cls, layers: Sequence[tuple[Linear, ...]], times: Tensor, last_times: Tensor, epsilon: float
    ) -> "FusedBlocks":
        """Build the blocks from the products of each layer."""
        blocks, times = [], times.clone()
        for number, (query_key_value, output, widen, narrow) in enumerate(layers):
            output, out_shares = with_room(output)
            narrow, narrow_shares = with_room(narrow)
            times[:, number, _ATTENTION_GATE] /= out_shares
            times[:, number, _FEED_FORWARD_GATE] /= narrow_shares
            products = (query_key_value, output, widen, narrow)
            blocks.append(tuple(map(narrowed, products)))
        return cls(tuple(blocks), times, last_times.contiguous(), epsilon)

    def __call__(self, step: int, states: Tensor, context: Tensor, rows: "ChunkRows") -> Tensor:
        """Return the output of the final norm, f32 ``[num_tokens, hidden_size]``.

        Args:
            states: hidden states of all rows, f32 ``[num_tokens, hidden_size]``; overwritten.
            context: keys and values of a step, ``[num_layers, num_slots, NUM_PASSES, capacity, 2,
                num_heads, head_dim]``; those of the frames are added.
        """
        from antiphon.nn.kernels.chunk_attention import attend_chunks
        from antiphon.nn.kernels.modulated_norm import Branch, add_modulated_norm

        branch = None
        for layer, (query_key_value, output, widen, narrow) in enumerate(self.blocks):
            shift, scale, gate, later_shift, later_scale, later_gate = self.times[step, layer]
            normed = add_modulated_norm(states, branch, scale, shift, self.epsilon, PRODUCT_DTYPE)
            attended = attend_chunks(query_key_value(normed), context[layer], rows)
            branch = Branch(output(attended), gate)
            normed = add_modulated_norm(
                states, branch, later_scale, later_shift, self.epsilon, PRODUCT_DTYPE
            )
            wide = F.gelu(widen(normed), approximate="tanh")
            branch = Branch(narrow(wide), later_gate)
        scale, shift = self.last_times[step]
        return add_modulated_norm(states, branch, scale, shift, self.epsilon, torch.float32)


@dataclass(frozen=True, slots=True)
class FusedPosition:
    """Convolutions of the position embedding over channels-last columns.

    Attributes:
        layers: weights, f16 ``[num_taps, num_groups, group_width, group_width]``, and biases, f32.
    """

    layers: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, convs: Sequence[StreamConv]) -> "FusedPosition | None":
        """Build from convolutions; None if groups are too narrow for matrix instructions."""
        layers = []
        for conv in convs:
            width = conv.weight.shape[1]
            if width < _MIN_GROUP or width & (width - 1) or conv.bias is None:
                return None
            # [num_groups, outputs, inputs, num_taps]
            parts = torch.unflatten(conv.weight, 0, (conv.groups, width)).to(PRODUCT_DTYPE)
            layers.append((parts.permute(3, 0, 2, 1).contiguous(), conv.bias.float()))
        return cls(tuple(layers))

    def __call__(
        self, step: int, states: Tensor, convs: StreamState, is_frame: Tensor | None
    ) -> Tensor:
        """Return states with position embedding; see `antiphon.families.cosyvoice3.dit.DiT`.

        Args:
            states: hidden states, f32 ``[num_rows, num_frames, hidden_size]``.
            convs: convolution states of the rows; updated.
            is_frame: mask of valid frames, bool ``[num_rows, num_frames, 1]``; ``None``: all.
        """
        from antiphon.nn.kernels.grouped_conv import grouped_mish

        columns = states = states.contiguous()
        for number, (weight, bias) in enumerate(self.layers):
            if is_frame is not None:
                columns = torch.where(is_frame, columns, 0.0)
            name, num_before = f"position.{number}.{step}", len(weight) - 1
            before = convs.get(name)
            if before is None:
                before = columns.new_zeros(
                    (len(columns), num_before, columns.shape[2]), dtype=PRODUCT_DTYPE
                )
            joined = torch.cat((before, columns.to(PRODUCT_DTYPE)), dim=1)
            convs[name] = joined[:, -num_before:].clone()
            is_last = number + 1 == len(self.layers)
            columns = grouped_mish(joined, weight, bias, states if is_last else None)
        return columns


def with_room(layer: Linear) -> tuple[Linear, Tensor]:
    """Return a layer whose results fit float16 for any float16 input.

    Returns:
        The layer, and the scale of each of its results, f32 ``[num_outputs]``: a power of two, at
        most 1, so that scaling itself does not round.
    """
    # A result is at most the weight row's norm times the input's, whose elements are bounded.
    times_largest = layer.weight.float().norm(dim=1) * layer.weight.shape[1] ** 0.5
    if layer.bias is not None:
        times_largest += layer.bias.float().abs() / torch.finfo(PRODUCT_DTYPE).max
    exponents = torch.frexp(times_largest).exponent.clamp(min=0)
    shares = torch.ldexp(torch.ones_like(times_largest), -exponents)
    bias = None if layer.bias is None else layer.bias * shares
    return Linear(layer.weight * shares[:, None], bias), shares


def narrowed(layer: Linear) -> Linear:
    """Return a layer with float16 weights."""
    bias = None if layer.bias is None else layer.bias.to(PRODUCT_DTYPE)
    return Linear(layer.weight.to(PRODUCT_DTYPE), bias)
