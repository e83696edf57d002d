"""The blocks of the flow's transformer as kernels: eight launches a block, four of them products.

Products and attention are of float16 with sums of float32: their ten bits of fraction are those of
TF32. What blocks add up, norms and the solver's steps are float32. What norms and attention give to
products is bounded by float16's largest number; so is, by factors of two that gates take back, what
products add to the states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.layers import Linear
from antiphon.nn.stream_conv import StreamConv, StreamState

PRODUCT_DTYPE = torch.float16
_ATTENTION_GATE, _FEED_FORWARD_GATE = 2, 5
"""Of what blocks are told of a step's time."""
_MIN_GROUP = 16  # channels that a matrix instruction wants


@dataclass(frozen=True, slots=True)
class FusedPass:
    """What is the same for all layers of a step; see `kernels.chunk_attention.ChunkRows`.

    Attributes:
        spans: where streams are, int64 ``[num_rows, 5]``.
        chunk_frames: of a chunk.
        ring_frames: of a slot's ring.
        cos: of the rotary embedding, ``[num_rows, num_frames, head_dim / 2]``.
        sin: likewise.
    """

    spans: Tensor
    chunk_frames: int
    ring_frames: int
    cos: Tensor
    sin: Tensor


@dataclass(frozen=True, slots=True)
class _Block:
    query_key_value: Linear
    output: Linear
    widen: Linear
    narrow: Linear


@dataclass(frozen=True, slots=True)
class FusedBlocks:
    """All blocks of the transformer, and the norm after them.

    Attributes:
        times: see `antiphon.families.cosyvoice3.dit.DiT`.
        last_times: likewise.
        epsilon: of norms.
    """

    blocks: tuple[_Block, ...]
    times: Tensor
    last_times: Tensor
    epsilon: float

    @classmethod
    def of(
        cls, layers: list[tuple[Linear, ...]], times: Tensor, last_times: Tensor, epsilon: float
    ) -> "FusedBlocks":
        """Take the products of each block, as `_Block` has them."""
        blocks, times = [], times.clone()
        for number, (query_key_value, output, widen, narrow) in enumerate(layers):
            output, out_shares = with_room(output)
            narrow, narrow_shares = with_room(narrow)
            times[:, number, _ATTENTION_GATE] /= out_shares
            times[:, number, _FEED_FORWARD_GATE] /= narrow_shares
            products = (query_key_value, output, widen, narrow)
            blocks.append(_Block(*map(narrowed, products)))
        return cls(tuple(blocks), times, last_times.contiguous(), epsilon)

    def __call__(self, step: int, states: Tensor, context: Tensor, where: FusedPass) -> Tensor:
        """Return what comes out of the last norm, f32 ``[num_tokens, hidden_size]``.

        Args:
            step: of the solver.
            states: of the frames of all rows, f32 ``[num_tokens, hidden_size]``; overwritten.
            context: keys and values of a step, ``[num_layers, num_slots, NUM_PASSES, capacity, 2,
                num_heads, head_dim]``; the frames become part of it.
            where: of the pass.
        """
        from antiphon.nn.kernels.chunk_attention import ChunkRows, attend_chunks
        from antiphon.nn.kernels.modulated_norm import Branch, add_modulated_norm

        rows = ChunkRows(where.spans, where.cos, where.sin, where.chunk_frames, where.ring_frames)
        branch = None
        for layer, block in enumerate(self.blocks):
            shift, scale, gate, later_shift, later_scale, later_gate = self.times[step, layer]
            normed = add_modulated_norm(states, branch, scale, shift, self.epsilon, PRODUCT_DTYPE)
            attended = attend_chunks(block.query_key_value(normed), context[layer], rows)
            branch = Branch(block.output(attended), gate)
            normed = add_modulated_norm(
                states, branch, later_scale, later_shift, self.epsilon, PRODUCT_DTYPE
            )
            wide = F.gelu(block.widen(normed), approximate="tanh")
            branch = Branch(block.narrow(wide), later_gate)
        scale, shift = self.last_times[step]
        return add_modulated_norm(states, branch, scale, shift, self.epsilon, torch.float32)


@dataclass(frozen=True, slots=True)
class FusedPosition:
    """The convolutions that tell where a frame is, for columns with channels last.

    Attributes:
        layers: weight, f16 ``[num_taps, num_groups, group_width, group_width]``, and bias, f32.
    """

    layers: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, convs: Sequence[StreamConv]) -> "FusedPosition | None":
        """Take convolutions; ``None``: their groups are too narrow for matrix instructions."""
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
        """Return states that know where they are; see `antiphon.families.cosyvoice3.dit.DiT`.

        Args:
            step: of the solver.
            states: f32 ``[num_rows, num_frames, hidden_size]``.
            convs: of the rows; updated.
            is_frame: bool ``[num_rows, num_frames, 1]``; ``None``: all are.
        """
        from antiphon.nn.kernels.grouped_conv import grouped_mish

        columns = states = states.contiguous()
        for number, (weight, bias) in enumerate(self.layers):
            if is_frame is not None:
                columns = torch.where(is_frame, columns, 0.0)
            name, num_before = f"position.{number}.{step}", len(weight) - 1
            before = convs.kept.get(name)
            if before is None:
                before = columns.new_zeros(
                    (len(columns), num_before, columns.shape[2]), dtype=PRODUCT_DTYPE
                )
            joined = torch.cat((before, columns.to(PRODUCT_DTYPE)), dim=1)
            convs.kept[name] = joined[:, -num_before:].clone()
            is_last = number + 1 == len(self.layers)
            columns = grouped_mish(joined, weight, bias, states if is_last else None)
        return columns


def with_room(layer: Linear) -> tuple[Linear, Tensor]:
    """Return a layer whose results float16 can hold, whatever numbers of float16 it is given.

    Returns:
        The layer, and the share of each of its results that is left, f32 ``[num_outputs]``: a power
        of two, at most 1, which rounds nothing itself.
    """
    # A result is at most the norm of a row times that of inputs, each at most the largest number.
    times_largest = layer.weight.float().norm(dim=1) * layer.weight.shape[1] ** 0.5
    if layer.bias is not None:
        times_largest += layer.bias.float().abs() / torch.finfo(PRODUCT_DTYPE).max
    exponents = torch.frexp(times_largest).exponent.clamp(min=0)
    shares = torch.ldexp(torch.ones_like(times_largest), -exponents)
    bias = None if layer.bias is None else layer.bias * shares
    return Linear(layer.weight * shares[:, None], bias), shares


def narrowed(layer: Linear) -> Linear:
    """Return a layer in float16."""
    bias = None if layer.bias is None else layer.bias.to(PRODUCT_DTYPE)
    return Linear(layer.weight.to(PRODUCT_DTYPE), bias)
