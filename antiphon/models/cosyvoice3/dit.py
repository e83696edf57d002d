"""The transformer of the flow: it is told a chunk's noisy mel frames, and says which way to go.

Every step of the solver sees a stream's earlier chunks by the keys and values that the same step
left of them, so that a chunk is computed once. Two passes are batched, with the conditions and
without them. Names of parameters are the checkpoint's.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.cosyvoice3.config import MelFlowConfig
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


@dataclass(slots=True)
class ContextCache:
    """Keys and values of a stream: those of the prompt, and a ring of the latest frames.

    Attributes:
        keys_values: ``[NUM_STEPS, num_layers, 2, 2 passes, num_heads, capacity, head_dim]``.
        num_pinned: frames at the beginning, which stay.
        num_written: frames so far; the pinned ones fill their places first.
    """

    keys_values: Tensor
    num_pinned: int
    num_written: int = 0

    def places(self, num_frames: int) -> Tensor:
        """Return where the next frames are put, ``[num_frames]``."""
        device = self.keys_values.device
        numbers = torch.arange(self.num_written, self.num_written + num_frames, device=device)
        ring = self.keys_values.shape[5] - self.num_pinned
        return torch.where(
            numbers < self.num_pinned,
            numbers,
            self.num_pinned + (numbers - self.num_pinned) % ring,
        )

    def num_seen(self, num_frames: int) -> int:
        """Return how many places hold something after the next frames."""
        return min(self.num_written + num_frames, self.keys_values.shape[5])


@dataclass(frozen=True, slots=True)
class DiTPass:
    """What is the same for all layers of a step: where frames are, and what they see.

    Attributes:
        cos: of the rotary embedding, ``[num_frames, head_dim / 2]``.
        sin: likewise.
        places: in the cache.
        num_seen: places of the cache that are attended to.
        mask: which of them each frame sees, bool ``[num_frames, num_seen]``; ``None``: all.
    """

    cos: Tensor
    sin: Tensor
    places: Tensor
    num_seen: int
    mask: Tensor | None


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

    def __call__(self, states: Tensor, times: Tensor, cache: Tensor, where: DiTPass) -> Tensor:
        """Return the states, ``[2, num_frames, hidden_size]``.

        Args:
            states: likewise.
            times: shift, scale, gate of attention and of feed-forward, ``[6, hidden_size]``.
            cache: keys and values, ``[2, 2 passes, num_heads, capacity, head_dim]``.
            where: of the pass.
        """
        shift, scale, gate, later_shift, later_scale, later_gate = times.unbind(0)
        normed = _norm(states) * (1 + scale) + shift
        states = states + gate * self._attend(normed, cache, where)
        normed = _norm(states) * (1 + later_scale) + later_shift
        return states + later_gate * self.narrow(F.gelu(self.widen(normed), approximate="tanh"))

    def _attend(self, normed: Tensor, cache: Tensor, where: DiTPass) -> Tensor:
        heads = torch.unflatten(self.query_key_value(normed), 2, (3, self.num_heads, -1))
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        # The published code turns the first head alone: it does so before heads are parted.
        for each in (queries, keys):
            each[:, 0] = _rotated(each[:, 0], where)
        cache[0].index_copy_(2, where.places, keys.to(cache.dtype))
        cache[1].index_copy_(2, where.places, values.to(cache.dtype))
        attended = F.scaled_dot_product_attention(
            queries.to(cache.dtype),
            cache[0, :, :, : where.num_seen],
            cache[1, :, :, : where.num_seen],
            attn_mask=where.mask,
        )
        return self.output(attended.transpose(1, 2).flatten(2).to(normed.dtype))


@dataclass(frozen=True, slots=True)
class DiT:
    """The transformer.

    Attributes:
        of_noise: of the input projection, the part for noisy frames.
        of_conditions: the part for prompt frames, token states and speaker.
        position: two convolutions that tell where a frame is.
        times: of the blocks in each step, ``[NUM_STEPS, num_layers, 6, hidden_size]``.
        last_times: scale and shift before the last projection, ``[NUM_STEPS, 2, hidden_size]``.
        spans: how far each step goes, ``[NUM_STEPS]`` numbers.
    """

    config: MelFlowConfig
    of_noise: Linear
    of_conditions: Linear
    position: tuple[tuple[StreamConv, StreamConv], ...]
    blocks: tuple[DiTBlock, ...]
    last: Linear
    times: Tensor
    last_times: Tensor
    spans: tuple[float, ...]

    @classmethod
    def of(cls, weights: Weights, name: str, config: MelFlowConfig) -> "DiT":
        """Take the transformer out of a checkpoint's tensors."""
        projection = Linear.of(weights, f"{name}.input_embed.proj")
        instants = solver_times(projection.weight)
        embedded = _embedded_times(weights, name, instants[:-1])
        blocks = [f"{name}.transformer_blocks.{index}" for index in range(config.num_layers)]
        times = [Linear.of(weights, f"{block}.attn_norm.linear")(embedded) for block in blocks]
        last_times = Linear.of(weights, f"{name}.norm_out.linear")(embedded)
        conv = f"{name}.input_embed.conv_pos_embed.conv"
        return cls(
            config=config,
            of_noise=Linear(projection.weight[:, : config.num_mels].contiguous()),
            of_conditions=Linear(
                projection.weight[:, config.num_mels :].contiguous(), projection.bias
            ),
            position=tuple(
                (_conv(weights, f"{conv}1.0", step), _conv(weights, f"{conv}2.0", step))
                for step in range(NUM_STEPS)
            ),
            blocks=tuple(DiTBlock.of(weights, block, config) for block in blocks),
            last=Linear.of(weights, f"{name}.proj_out"),
            times=torch.unflatten(torch.stack(times, dim=1), 2, (6, -1)),
            last_times=torch.unflatten(last_times, 1, (2, -1)),
            spans=tuple(after - before for before, after in pairwise(instants.tolist())),
        )

    def open_cache(self, num_pinned: int, ring: int, dtype: torch.dtype) -> ContextCache:
        """Return an empty cache for ``num_pinned`` frames and the ``ring`` latest of the others."""
        config = self.config
        shape = (
            *(NUM_STEPS, config.num_layers, 2, NUM_PASSES, config.num_heads),
            *(num_pinned + ring, config.head_dim),
        )
        device = self.last.weight.device
        return ContextCache(torch.empty(shape, dtype=dtype, device=device), num_pinned)

    def solve(
        self,
        noise: Tensor,
        conditions: Tensor,
        cache: ContextCache,
        state: StreamState,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the next mel frames of a stream, ``[num_frames, num_mels]``.

        Args:
            noise: where the solver starts, likewise.
            conditions: prompt frames, token states and speaker, ``[num_frames, 3 * num_mels]``.
            cache: of the stream; the frames become part of it.
            state: of the stream.
            mask: which places of the cache each frame sees; ``None``: all.
        """
        num_frames = len(noise)
        start, head_dim = cache.num_written, self.config.head_dim
        positions = torch.arange(start, start + num_frames, device=noise.device)
        halves = torch.arange(0, head_dim, 2, device=noise.device).float()
        angles = positions[:, None] / _ROPE_BASE ** (halves / head_dim)
        num_seen = cache.num_seen(num_frames)
        where = DiTPass(angles.cos(), angles.sin(), cache.places(num_frames), num_seen, mask)
        both = torch.stack((conditions, torch.zeros_like(conditions)))
        told = self.of_conditions(both)
        frames = noise
        for step, span in enumerate(self.spans):
            velocity = self._velocity(step, frames, told, cache, state, where)
            frames = frames + span * velocity
        cache.num_written += num_frames
        return frames

    def _velocity(
        self,
        step: int,
        frames: Tensor,
        told: Tensor,
        cache: ContextCache,
        state: StreamState,
        where: DiTPass,
    ) -> Tensor:
        """Return the direction of a step, guided away from that without conditions."""
        states = told + self.of_noise(frames)
        columns = states.transpose(1, 2)
        for conv in self.position[step]:
            columns = F.mish(conv(columns, state))
        states = states + columns.transpose(1, 2)
        for layer, block in enumerate(self.blocks):
            states = block(states, self.times[step, layer], cache.keys_values[step, layer], where)
        scale, shift = self.last_times[step].unbind(0)
        guided, free = self.last(_norm(states) * (1 + scale) + shift).unbind(0)
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


def _conv(weights: Weights, name: str, step: int) -> StreamConv:
    """Return a convolution whose state is that of one step."""
    conv = StreamConv.of(weights, name, groups=CONV_GROUPS)
    return StreamConv(f"{name}.{step}", conv.weight, conv.bias, conv.padding, groups=CONV_GROUPS)


def _norm(states: Tensor) -> Tensor:
    return F.layer_norm(states, states.shape[-1:], eps=_NORM_EPS)


def _rotated(states: Tensor, where: DiTPass) -> Tensor:
    """Turn neighbouring numbers as pairs, ``[2, num_frames, head_dim]``."""
    even, odd = states[..., ::2], states[..., 1::2]
    turned = (even * where.cos - odd * where.sin, odd * where.cos + even * where.sin)
    return torch.stack(turned, dim=-1).flatten(-2)
