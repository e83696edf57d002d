"""DiT velocity estimator over noisy mel chunks.

Every solver step attends to a stream's earlier chunks through the keys and values which the same
step wrote for them, so that a chunk is computed once. Chunks of several streams form one batch.
Each chunk appears twice in it, with and without conditions. Parameter names are the checkpoint's.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.cosyvoice3.config import MelFlowConfig
from antiphon.families.cosyvoice3.dit_fused import PRODUCT_DTYPE, FusedBlocks, FusedPosition
from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState
from antiphon.nn.layers import Linear, Weights

if TYPE_CHECKING:  # needs Triton
    from antiphon.nn.kernels.chunk_attention import ChunkRows

NUM_STEPS = 10
CONV_GROUPS = 16
CONV_KERNEL = 31
TIME_SIZE = 256

_TIME_SCALE = 1000.0
_ROPE_BASE = 10000.0
_NORM_EPS = 1e-6
NUM_PASSES = 2
"""Passes of classifier-free guidance: with conditions and without them."""


@dataclass(frozen=True, slots=True)
class DiTPass:
    """Frame positions and attention ranges shared by all layers of a step.

    Attributes:
        cos: cosines of the rotary embedding, ``[num_rows, 1, num_frames, head_dim / 2]``.
        sin: sines of the same shape.
        slots: slots of the rows, int64 ``[num_rows]``; ``None``: the rows are all slots in order.
        places: indices of the frames in the context of a step and layer, int64
            ``[num_rows * NUM_PASSES * num_frames]``.
        num_seen: number of places of a slot, from the first, that are attended to.
        mask: additive attention mask, ``[num_rows * NUM_PASSES, 1, num_frames, num_seen]``.
    """

    cos: Tensor
    sin: Tensor
    slots: Tensor | None
    places: Tensor
    num_seen: int
    mask: Tensor

    def seen(self, context: Tensor) -> Tensor:
        """Return ``[num_rows * NUM_PASSES, num_seen, 2, num_heads, head_dim]`` of the context.

        That holds the keys and values of all slots in a step and layer, ``[num_slots, NUM_PASSES,
        capacity, 2, num_heads, head_dim]``.
        """
        seen = context[:, :, : self.num_seen]
        if self.slots is not None:
            seen = seen.index_select(0, self.slots)
        return seen.flatten(0, 1)


@dataclass(frozen=True, slots=True)
class DiTBlock:
    """Attention and feed-forward with AdaLN conditioned on the solver's time."""

    query_key_value: Linear
    output: Linear
    widen: Linear
    narrow: Linear
    num_heads: int

    @classmethod
    def of(cls, weights: Weights, name: str, config: MelFlowConfig) -> "DiTBlock":
        return cls(
            Linear.joined(weights, *(f"{name}.attn.to_{part}" for part in "qkv")),
            Linear.of(weights, f"{name}.attn.to_out.0"),
            Linear.of(weights, f"{name}.ff.ff.0.0"),
            Linear.of(weights, f"{name}.ff.ff.2"),
            config.num_heads,
        )

    def __call__(self, states: Tensor, times: Tensor, context: Tensor, where: DiTPass) -> Tensor:
        """Return the states, ``[num_rows, NUM_PASSES, num_frames, hidden_size]``.

        Args:
            times: shift, scale and gate of attention and of feed-forward, ``[6, hidden_size]``.
            context: keys and values as in `DiTPass.seen`; those of the frames are added.
        """
        shift, scale, gate, later_shift, later_scale, later_gate = times.unbind(0)
        normed = _norm(states) * (1 + scale) + shift
        states = states + gate * self._attend(normed, context, where)
        normed = _norm(states) * (1 + later_scale) + later_shift
        return states + later_gate * self.narrow(F.gelu(self.widen(normed), approximate="tanh"))

    def _attend(self, normed: Tensor, context: Tensor, where: DiTPass) -> Tensor:
        heads = torch.unflatten(self.query_key_value(normed), 3, (3, self.num_heads, -1))
        # The published code rotates only the first head, because it does so before splitting heads.
        for part in range(2):
            heads[..., part, 0, :] = _rotated(heads[..., part, 0, :], where)
        kept = heads.to(context.dtype).flatten(0, 2)
        context.view(-1, *context.shape[3:]).index_copy_(0, where.places, kept[:, 1:])
        keys, values = where.seen(context).transpose(1, 3).unbind(2)
        queries = torch.unflatten(kept[:, 0], 0, (len(keys), -1))
        queries = queries.transpose(1, 2)
        attended = F.scaled_dot_product_attention(queries, keys, values, where.mask)
        merged = attended.transpose(1, 2).flatten(2)
        return self.output(merged.view(*normed.shape[:3], -1).to(normed.dtype))


@dataclass(frozen=True, slots=True)
class DiT:
    """The velocity estimator.

    Attributes:
        of_noise: input projection of noisy frames.
        of_conditions: input projection of prompt frames, token states and speaker.
        position: two convolutions of the position embedding in each step; empty if
            ``fused_position`` replaces them.
        blocks: transformer blocks in PyTorch; empty if ``fused`` replaces them.
        times: modulation of the blocks in each step, ``[NUM_STEPS, num_layers, 6, hidden_size]``.
        last_times: scale and shift before the last projection, ``[NUM_STEPS, 2, hidden_size]``.
        spans: length of each solver step, ``[NUM_STEPS]``.
        fused: blocks as kernels; ``None``: PyTorch blocks are used.
        fused_position: position embedding as kernels; ``None``: PyTorch convolutions are used.
    """

    config: MelFlowConfig
    of_noise: Linear
    of_conditions: Linear
    position: tuple[tuple[StreamConv, ...], ...]
    blocks: tuple[DiTBlock, ...]
    last: Linear
    times: Tensor
    last_times: Tensor
    spans: tuple[float, ...]
    fused: FusedBlocks | None = None
    fused_position: FusedPosition | None = None

    @classmethod
    def of(
        cls, weights: Weights, name: str, config: MelFlowConfig, *, is_fused: bool = False
    ) -> "DiT":
        """Build the estimator from a checkpoint's tensors; see `MelFlow.of`."""
        projection = Linear.of(weights, f"{name}.input_embed.proj")
        instants = solver_times(projection.weight)
        embedded = _embedded_times(weights, name, instants[:-1])
        blocks = [f"{name}.transformer_blocks.{index}" for index in range(config.num_layers)]
        times = [Linear.of(weights, f"{block}.attn_norm.linear")(embedded) for block in blocks]
        last_times = Linear.of(weights, f"{name}.norm_out.linear")(embedded)
        last_times = torch.unflatten(last_times, 1, (2, -1))
        all_times = torch.unflatten(torch.stack(times, dim=1), 2, (6, -1))
        layers = tuple(DiTBlock.of(weights, block, config) for block in blocks)
        products = [(each.query_key_value, each.output, each.widen, each.narrow) for each in layers]
        fused = None
        if is_fused:
            fused = FusedBlocks.of(products, all_times, last_times, _NORM_EPS)
        conv = f"{name}.input_embed.conv_pos_embed.conv"
        convs = [_conv(weights, f"{conv}{number}.0", is_fused=is_fused) for number in (1, 2)]
        fused_position = FusedPosition.of(convs) if is_fused else None
        noise, conditions = projection.weight.tensor_split((config.num_mels,), dim=1)
        return cls(
            config=config,
            of_noise=Linear(noise.contiguous()),
            of_conditions=Linear(conditions.contiguous(), projection.bias),
            position=tuple(
                tuple(replace(each, name=f"{each.name}.{step}") for each in convs)
                for step in range(NUM_STEPS if fused_position is None else 0)
            ),
            blocks=() if is_fused else layers,
            last=Linear.of(weights, f"{name}.proj_out"),
            times=all_times,
            last_times=last_times,
            spans=tuple(after - before for before, after in pairwise(instants.tolist())),
            fused=fused,
            fused_position=fused_position,
        )

    def solve(
        self,
        noise: Tensor,
        conditions: Tensor,
        context: Tensor,
        convs: StreamState,
        where: "DiTPass | ChunkRows",
        is_frame: Tensor | None = None,
    ) -> Tensor:
        """Return the next mel frames of streams, ``[num_rows, num_frames, num_mels]``.

        Args:
            noise: initial state of the solver, of the same shape.
            conditions: prompt frames, token states and speaker, ``[num_rows, num_frames,
                3 * num_mels]``.
            context: keys and values, ``[NUM_STEPS, num_layers, num_slots, NUM_PASSES, capacity, 2,
                num_heads, head_dim]``; those of the frames are added.
            convs: convolution states with `NUM_PASSES` rows per row of the batch.
            is_frame: mask of valid frames, bool ``[num_rows, num_frames]``; invalid ones precede
                a stream's first frame. ``None``: all are valid.
        """
        if is_frame is not None:
            is_frame = is_frame.repeat_interleave(NUM_PASSES, dim=0)[:, None]
        both = torch.stack((conditions, torch.zeros_like(conditions)), dim=1)
        conditioned = self.of_conditions(both)
        frames = noise
        for step, span in enumerate(self.spans):
            states = conditioned + self.of_noise(frames)[:, None]
            states = self._placed(step, states, convs, is_frame)
            frames = frames + span * self._velocity(step, states, context[step], where)
        return frames

    def rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of positions, ``[num_rows, num_frames, head_dim / 2]``."""
        head_dim = self.config.head_dim
        halves = torch.arange(0, head_dim, 2, device=positions.device).float()
        angles = positions[..., None] / _ROPE_BASE ** (halves / head_dim)
        return angles.cos(), angles.sin()

    def _placed(
        self, step: int, states: Tensor, convs: StreamState, is_frame: Tensor | None
    ) -> Tensor:
        """Return states with position embedding, ``[num_rows, NUM_PASSES, num_frames, ...]``."""
        if self.fused_position is not None:
            is_column = None if is_frame is None else is_frame.transpose(1, 2)
            columns = states.flatten(0, 1)
            return self.fused_position(step, columns, convs, is_column).view_as(states)
        columns = states.flatten(0, 1).transpose(1, 2).to(self.position[step][0].weight.dtype)
        for conv in self.position[step]:
            if is_frame is not None:
                columns = torch.where(is_frame, columns, 0.0)
            columns = F.mish(conv(columns, convs))
        return states + columns.transpose(1, 2).view_as(states)

    def _velocity(
        self, step: int, states: Tensor, context: Tensor, where: "DiTPass | ChunkRows"
    ) -> Tensor:
        if isinstance(where, DiTPass):
            for layer, block in enumerate(self.blocks):
                states = block(states, self.times[step, layer], context[layer], where)
            scale, shift = self.last_times[step].unbind(0)
            normed = _norm(states) * (1 + scale) + shift
        else:
            assert self.fused is not None
            tokens = states.contiguous().flatten(0, 2)
            normed = self.fused(step, tokens, context, where).view_as(states)
        guided, free = self.last(normed).unbind(1)
        guidance = self.config.guidance
        return (1 + guidance) * guided - guidance * free


def solver_times(like: Tensor) -> Tensor:
    """Return the time steps of the solver, f32 ``[NUM_STEPS + 1]``, denser at the beginning."""
    even = torch.linspace(0, 1, NUM_STEPS + 1, device=like.device)
    return 1 - torch.cos(even * (0.5 * math.pi))


def _embedded_times(weights: Weights, name: str, times: Tensor) -> Tensor:
    """Return the time embedding of every solver step, ``[NUM_STEPS, hidden_size]``."""
    first = Linear.of(weights, f"{name}.time_embed.time_mlp.0")
    second = Linear.of(weights, f"{name}.time_embed.time_mlp.2")
    half = TIME_SIZE // 2
    rates = torch.exp(torch.arange(half, device=times.device) * (-math.log(10000) / (half - 1)))
    angles = _TIME_SCALE * times[:, None] * rates
    waves = torch.cat((angles.sin(), angles.cos()), dim=1)
    return F.silu(second(F.silu(first(waves.to(first.weight.dtype)))))


def _conv(weights: Weights, name: str, *, is_fused: bool) -> StreamConv:
    conv = StreamConv.of(weights, name, groups=CONV_GROUPS)
    if not is_fused or conv.bias is None:
        return conv
    return replace(conv, weight=conv.weight.to(PRODUCT_DTYPE), bias=conv.bias.to(PRODUCT_DTYPE))


def _norm(states: Tensor) -> Tensor:
    return F.layer_norm(states, states.shape[-1:], eps=_NORM_EPS)


def _rotated(states: Tensor, where: DiTPass) -> Tensor:
    """Rotate pairs of neighbours, ``[num_rows, NUM_PASSES, num_frames, head_dim]``."""
    even, odd = states[..., ::2], states[..., 1::2]
    turned = (even * where.cos - odd * where.sin, odd * where.cos + even * where.sin)
    return torch.stack(turned, dim=-1).flatten(-2)
