"""The transformer of the flow: it is told chunks' noisy mel frames, and says which way to go.

Every step of the solver sees a stream's earlier chunks by the keys and values that the same step
left of them, so that a chunk is computed once. Chunks of several streams are one batch, and each is
there twice, with the conditions and without them. Names of parameters are the checkpoint's.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.cosyvoice3.config import MelFlowConfig
from antiphon.families.cosyvoice3.dit_fused import (
    PRODUCT_DTYPE,
    FusedBlocks,
    FusedPass,
    FusedPosition,
)
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.stream_conv import StreamConv, StreamState

NUM_STEPS = 10
CONV_GROUPS = 16
CONV_KERNEL = 31
TIME_SIZE = 256

_TIME_SCALE = 1000.0
_ROPE_BASE = 10000.0
_NORM_EPS = 1e-6
NUM_PASSES = 2
"""With the conditions, and without them."""


@dataclass(frozen=True, slots=True)
class DiTPass:
    """What is the same for all layers of a step: where frames are, and what they see.

    Attributes:
        cos: of the rotary embedding, ``[num_rows, 1, num_frames, head_dim / 2]``.
        sin: likewise.
        slots: that the rows are in, int64 ``[num_rows]``; ``None``: they are all that there are.
        places: in a step's and layer's part of the context, int64 ``[num_rows * NUM_PASSES *
            num_frames]``.
        num_seen: places of a slot, from the first, that are attended to.
        mask: added to scores, ``[num_rows * NUM_PASSES, 1, num_frames, num_seen]``.
    """

    cos: Tensor
    sin: Tensor
    slots: Tensor | None
    places: Tensor
    num_seen: int
    mask: Tensor

    def seen(self, context: Tensor) -> Tensor:
        """Return the rows' keys and values of a step and layer.

        Args:
            context: ``[num_slots, NUM_PASSES, capacity, 2, num_heads, head_dim]``.

        Returns:
            ``[num_rows * NUM_PASSES, num_seen, 2, num_heads, head_dim]``.
        """
        seen = context[:, :, : self.num_seen]
        if self.slots is not None:
            seen = seen.index_select(0, self.slots)
        return seen.flatten(0, 1)


@dataclass(frozen=True, slots=True)
class DiTBlock:
    """Attention and feed-forward, scaled and shifted by what the step's time says."""

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

    @property
    def products(self) -> tuple[Linear, ...]:
        return (self.query_key_value, self.output, self.widen, self.narrow)

    def __call__(self, states: Tensor, times: Tensor, context: Tensor, where: DiTPass) -> Tensor:
        """Return the states, ``[num_rows, NUM_PASSES, num_frames, hidden_size]``.

        Args:
            states: likewise.
            times: shift, scale, gate of attention and of feed-forward, ``[6, hidden_size]``.
            context: see `DiTPass.seen`; the frames become part of it.
            where: of the pass.
        """
        shift, scale, gate, later_shift, later_scale, later_gate = times.unbind(0)
        normed = _norm(states) * (1 + scale) + shift
        states = states + gate * self._attend(normed, context, where)
        normed = _norm(states) * (1 + later_scale) + later_shift
        return states + later_gate * self.narrow(F.gelu(self.widen(normed), approximate="tanh"))

    def _attend(self, normed: Tensor, context: Tensor, where: DiTPass) -> Tensor:
        heads = torch.unflatten(self.query_key_value(normed), 3, (3, self.num_heads, -1))
        # The published code turns the first head alone: it does so before heads are parted.
        for part in range(2):
            heads[..., part, 0, :] = _rotated(heads[..., part, 0, :], where)
        kept = heads.to(context.dtype).flatten(0, 2)
        context.view(-1, *context.shape[3:]).index_copy_(0, where.places, kept[:, 1:])
        keys, values = where.seen(context).transpose(1, 3).unbind(2)
        queries = torch.unflatten(kept[:, 0], 0, (len(keys), -1))
        attended = F.scaled_dot_product_attention(
            queries.transpose(1, 2), keys, values, attn_mask=where.mask
        )
        merged = attended.transpose(1, 2).flatten(2)
        return self.output(merged.view(*normed.shape[:3], -1).to(normed.dtype))


@dataclass(frozen=True, slots=True)
class DiT:
    """The transformer.

    Attributes:
        of_noise: of the input projection, the part for noisy frames.
        of_conditions: the part for prompt frames, token states and speaker.
        position: two convolutions that tell where a frame is, in each step; as PyTorch lines, none
            if they are ``fused_position``.
        blocks: as PyTorch lines; none if they are ``fused``.
        times: of the blocks in each step, ``[NUM_STEPS, num_layers, 6, hidden_size]``.
        last_times: scale and shift before the last projection, ``[NUM_STEPS, 2, hidden_size]``.
        spans: how far each step goes, ``[NUM_STEPS]`` numbers.
        fused: the blocks as kernels; ``None``: they are PyTorch lines.
        fused_position: likewise what ``position`` does.
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
        """Take the transformer out of a checkpoint's tensors; see `MelFlow.of`."""
        projection = Linear.of(weights, f"{name}.input_embed.proj")
        instants = solver_times(projection.weight)
        embedded = _embedded_times(weights, name, instants[:-1])
        blocks = [f"{name}.transformer_blocks.{index}" for index in range(config.num_layers)]
        times = [Linear.of(weights, f"{block}.attn_norm.linear")(embedded) for block in blocks]
        last_times = Linear.of(weights, f"{name}.norm_out.linear")(embedded)
        last_times = torch.unflatten(last_times, 1, (2, -1))
        all_times = torch.unflatten(torch.stack(times, dim=1), 2, (6, -1))
        layers = tuple(DiTBlock.of(weights, block, config) for block in blocks)
        fused = None
        if is_fused:
            fused = FusedBlocks.of(
                [each.products for each in layers], all_times, last_times, _NORM_EPS
            )
        conv = f"{name}.input_embed.conv_pos_embed.conv"
        convs = [_conv(weights, f"{conv}{number}.0", is_fused=is_fused) for number in (1, 2)]
        fused_position = FusedPosition.of(convs) if is_fused else None
        return cls(
            config=config,
            of_noise=Linear(projection.weight[:, : config.num_mels].contiguous()),
            of_conditions=Linear(
                projection.weight[:, config.num_mels :].contiguous(), projection.bias
            ),
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
        where: DiTPass | FusedPass,
        is_frame: Tensor | None = None,
    ) -> Tensor:
        """Return the next mel frames of streams, ``[num_rows, num_frames, num_mels]``.

        Args:
            noise: where the solver starts, likewise.
            conditions: prompt frames, token states and speaker, ``[num_rows, num_frames,
                3 * num_mels]``.
            context: keys and values, ``[NUM_STEPS, num_layers, num_slots, NUM_PASSES, capacity, 2,
                num_heads, head_dim]``; the frames become part of it.
            convs: of the rows, each `NUM_PASSES` times.
            where: of the pass.
            is_frame: bool ``[num_rows, num_frames]``: what is none is before a stream's first
                frame; ``None``: all are.
        """
        if is_frame is not None:
            is_frame = is_frame.repeat_interleave(NUM_PASSES, dim=0)[:, None]
        both = torch.stack((conditions, torch.zeros_like(conditions)), dim=1)
        told = self.of_conditions(both)
        frames = noise
        for step, span in enumerate(self.spans):
            states = self._placed(step, told + self.of_noise(frames)[:, None], convs, is_frame)
            velocity = self._velocity(step, states, context[step], where)
            frames = frames + span * velocity
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
        """Return states that know where they are, ``[num_rows, NUM_PASSES, num_frames, ...]``."""
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
        self, step: int, states: Tensor, context: Tensor, where: DiTPass | FusedPass
    ) -> Tensor:
        """Return the direction of a step, guided away from that without conditions."""
        if isinstance(where, FusedPass):
            assert self.fused is not None
            tokens = states.contiguous().flatten(0, 2)
            normed = self.fused(step, tokens, context, where).view_as(states)
        else:
            for layer, block in enumerate(self.blocks):
                states = block(states, self.times[step, layer], context[layer], where)
            scale, shift = self.last_times[step].unbind(0)
            normed = _norm(states) * (1 + scale) + shift
        guided, free = self.last(normed).unbind(1)
        guidance = self.config.guidance
        return (1 + guidance) * guided - guidance * free


def solver_times(like: Tensor) -> Tensor:
    """Return the instants of the solver, f32 ``[NUM_STEPS + 1]``: denser at the beginning."""
    even = torch.linspace(0, 1, NUM_STEPS + 1, device=like.device)
    return 1 - torch.cos(even * (0.5 * math.pi))


def _embedded_times(weights: Weights, name: str, times: Tensor) -> Tensor:
    """Return what the blocks are told of the steps' times, ``[NUM_STEPS, hidden_size]``."""
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
    """Turn neighbours as pairs, ``[num_rows, NUM_PASSES, num_frames, head_dim]``."""
    even, odd = states[..., ::2], states[..., 1::2]
    turned = (even * where.cos - odd * where.sin, odd * where.cos + even * where.sin)
    return torch.stack(turned, dim=-1).flatten(-2)
