"""Block-wise flow matching from codes to a mel spectrogram.

A mel frame attends to its own block, and in some layers to the previous or next one. A window of
blocks can therefore be computed alone, if keys and values of the block before it are kept from
every evaluation. The solver uses the 3/8 rule of Runge and Kutta. The times of all evaluations are
known, and everything that depends only on them is computed when the model is loaded.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.causal_lm.omni.checkpoint import FLOW, TIME_SIZE
from antiphon.families.causal_lm.omni.config import FlowConfig
from antiphon.families.causal_lm.omni.voices import OmniVoice
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.layers import Linear, Weights, rotary_angles

_NUM_TIMES = 10  # points of time, as published; steps lie between them
_SWAY = -1.0
_GUIDANCE = 0.5
_TIME_SCALE, _MAX_PERIOD = 1000.0, 10000.0
_NORM_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class FlowWindow:
    """Blocks of several streams that are computed together, ``R`` rows of ``T`` frames.

    Attributes:
        noise: initial state of the solver, f32 ``[R, T, mel_dim]``.
        codes: int64 ``[R, T / repeats]``; padding may have any value.
        starts: numbers of the first frames, int64 ``[R]``.
        lengths: numbers of valid frames, int64 ``[R]``.
        voices: numbers of the rows' voices, see `FlowModel.voice`, int64 ``[R]``.
        before: keys and values of the previous blocks, see `FlowModel.memory`, replaced by those
            of the first blocks; ``None``: rows have no previous block, and nothing is kept.
    """

    noise: Tensor
    codes: Tensor
    starts: Tensor
    lengths: Tensor
    voices: Tensor
    before: Tensor | None = None

    def first(self, num_rows: int) -> "FlowWindow":
        before = None if self.before is None else self.before[:num_rows]
        noise, codes, starts, lengths, voices = (each[:num_rows] for each in self._parts)
        return FlowWindow(noise, codes, starts, lengths, voices, before)

    def copy_(self, other: "FlowWindow") -> None:
        """Copy the contents of another window of the same shape."""
        for mine, theirs in zip(self._parts, other._parts, strict=True):
            mine.copy_(theirs)
        if self.before is not None and other.before is not None:
            self.before.copy_(other.before)

    @property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        return (self.noise, self.codes, self.starts, self.lengths, self.voices)


@dataclass(frozen=True, slots=True)
class FlowLayer:
    """Attention and feed-forward with AdaLN conditioned on the time.

    Attributes:
        modulations: modulation of every evaluation, ``[num_evaluations, 6, hidden_size]``.
        sees_before: whether a block attends to the previous one.
        sees_after: whether a block attends to the next one.
    """

    query_key_value: Linear
    output: Linear
    widen: Linear
    narrow: Linear
    modulations: Tensor
    sees_before: bool
    sees_after: bool


class FlowModel:
    """The velocity estimator and its solver."""

    def __init__(
        self, config: FlowConfig, weights: Weights, voices: Mapping[str, OmniVoice]
    ) -> None:
        """Build the model from a checkpoint's tensors, in float32 and on one device."""
        self.config = config
        self._times = _evaluation_times()
        embedded = _embed_times(weights, self._times)
        self._layers = [
            _layer(weights, config, index, embedded) for index in range(config.num_hidden_layers)
        ]
        final = Linear.of(weights, f"{FLOW}.norm_out.linear")(F.silu(embedded))
        self._final = final.view(len(embedded), 2, config.hidden_size)
        self._output = Linear.of(weights, f"{FLOW}.proj_out")
        self._codes = weights[f"{FLOW}.text_embed.codec_embed.weight"]
        whole = Linear.of(weights, f"{FLOW}.input_embed.proj")
        sizes = [config.mel_dim, config.ecapa.embedding_size, config.emb_dim, config.enc_emb_dim]
        mel, recording, code, vector = torch.split(whole.weight, sizes, dim=1)
        self._mel_input, self._code_input = Linear(mel.contiguous()), Linear(code.contiguous())
        encoder = EcapaEncoder.of(weights, f"{FLOW}.input_embed.spk_encoder", config.ecapa)
        device = self._codes.device
        self._voice_names = [*voices]
        rows = []
        for voice in voices.values():
            ref_mel = voice.ref_mel.to(device).T[None]
            known = F.linear(encoder.pooled(ref_mel)[:, :, 0], recording, whole.bias)
            known = known + F.linear(voice.vector.to(device)[None], vector)
            unknown = encoder.pooled(torch.zeros_like(ref_mel))[:, :, 0]
            rows.append(torch.cat((known, F.linear(unknown, recording, whole.bias))))
        self._voices = torch.stack(rows)  # with and without guidance

    @property
    def device(self) -> torch.device:
        return self._codes.device

    def voice(self, name: str) -> int:
        """Return the number of a voice."""
        return self._voice_names.index(name)

    def empty_window(self, num_rows: int, num_blocks: int) -> FlowWindow:
        """Allocate a window of continuing streams."""
        config, device = self.config, self.device
        num_frames = num_blocks * config.block_size

        integers = partial(torch.zeros, dtype=torch.int64, device=device)
        return FlowWindow(
            noise=torch.zeros(num_rows, num_frames, config.mel_dim, device=device),
            codes=integers(num_rows, num_blocks * config.block_codes),
            starts=integers(num_rows),
            lengths=integers(num_rows),
            voices=integers(num_rows),
            before=torch.stack([self.memory()] * num_rows),
        )

    def memory(self) -> Tensor:
        """Allocate the keys and values of a stream's block.

        The shape is ``[num_evaluations, layers that attend to it, 2, 2, block_size, heads *
        head_dim]``: keys and values, with and without guidance.
        """
        config = self.config
        num_layers = sum(each.sees_before for each in self._layers)
        size = config.num_attention_heads * config.head_dim
        shape = (len(self._times), num_layers, 2, 2, config.block_size, size)
        return torch.zeros(shape, device=self.device)

    def solve(self, window: FlowWindow) -> Tensor:
        """Return the spectrogram of a window, ``[R, T, mel_dim]``."""
        known = self._known(window)
        masks = {kind: self._mask(window, *kind) for kind in ((0, 0), (1, 0), (0, 1), (1, 1))}
        turns = rotary_angles(self.config.head_dim, self.config.rope_theta, self._places(window))
        velocity = partial(self._velocity, known=known, masks=masks, turns=turns, window=window)
        x, times = window.noise, self._times
        for first in range(0, len(times), 4):
            step = times[first + 3] - times[first]
            k1 = velocity(first, x)
            k2 = velocity(first + 1, x + step * k1 / 3)
            k3 = velocity(first + 2, x + step * (k2 - k1 / 3))
            k4 = velocity(first + 3, x + step * (k1 - k2 + k3))
            x = x + (k1 + 3 * (k2 + k3) + k4) * step / 8
        return x

    def _known(self, window: FlowWindow) -> Tensor:
        """Return the part of the first layer's input that does not depend on the spectrogram."""
        codes = self._code_input(F.embedding(window.codes, self._codes))
        nothing = self._code_input(self._codes[:1]).expand_as(codes)
        voices = self._voices[window.voices]
        both = torch.stack((codes, nothing)) + voices.transpose(0, 1)[:, :, None]
        return both.repeat_interleave(self.config.repeats, dim=2)

    def _places(self, window: FlowWindow) -> Tensor:
        """Return the numbers of the frames, ``[R, T]``."""
        return window.starts[:, None] + torch.arange(window.noise.shape[1], device=self.device)

    def _mask(self, window: FlowWindow, before: int, after: int) -> Tensor:
        """Return the attention mask, bool ``[2 R, 1, T, T]``, or with one more block in front."""
        size, num_frames = self.config.block_size, window.noise.shape[1]
        frames = torch.arange(num_frames, device=self.device)
        first = -size if before and window.before is not None else 0
        seen = torch.arange(first, num_frames, device=self.device)
        apart = seen.div(size, rounding_mode="floor") - (frames // size)[:, None]
        is_near = (apart >= -before) & (apart <= after)
        starts, lengths = window.starts[:, None], window.lengths[:, None]
        exists = (seen < lengths) & (seen + starts >= 0)
        # An invalid frame attends to itself, so that its unused result is finite.
        mask = (is_near & exists[:, None]) | (seen == frames[:, None])
        return torch.cat((mask, mask))[:, None]  # with and without guidance

    def _velocity(
        self,
        evaluation: int,
        x: Tensor,
        *,
        known: Tensor,
        masks: Mapping[tuple[int, int], Tensor],
        turns: tuple[Tensor, Tensor],
        window: FlowWindow,
    ) -> Tensor:
        """Return the velocity of the spectrogram in an evaluation, ``[R, T, mel_dim]``."""
        states = known + self._mel_input(x)
        seen = 0
        for layer in self._layers:
            shift, scale, gate, *feed = layer.modulations[evaluation]
            normed = _norm(states) * (1 + scale) + shift
            memory = None
            if layer.sees_before and window.before is not None:
                memory = window.before[:, evaluation, seen]
                seen += 1
            mask = masks[int(layer.sees_before), int(layer.sees_after)]
            states = states + gate * self._attend(layer, normed, mask, turns, memory)
            shift, scale, gate = feed
            normed = _norm(states) * (1 + scale) + shift
            inner = F.gelu(layer.widen(normed), approximate="tanh")
            states = states + gate * layer.narrow(inner)
        scale, shift = self._final[evaluation]
        guided: Tensor
        free: Tensor
        guided, free = self._output(_norm(states) * (1 + scale) + shift)
        return guided + (guided - free) * _GUIDANCE

    def _attend(
        self,
        layer: FlowLayer,
        normed: Tensor,
        mask: Tensor,
        turns: tuple[Tensor, Tensor],
        memory: Tensor | None,
    ) -> Tensor:
        """Return the attention output; ``memory``, ``[R, 2, 2, block_size, size]``, is replaced."""
        config = self.config
        query, key, value = layer.query_key_value(normed).chunk(3, dim=-1)
        query, key = _turned(query, turns, config.head_dim), _turned(key, turns, config.head_dim)
        if memory is not None:
            kept = torch.stack((key, value))[:, :, :, : config.block_size]
            # [2, 2, R, block_size, size]: keys and values, with and without guidance, rows
            key, value = torch.cat((memory.permute(1, 2, 0, 3, 4), torch.stack((key, value))), 3)
            memory.copy_(kept.permute(2, 0, 1, 3, 4))

        def heads(x: Tensor) -> Tensor:
            return x.reshape(-1, x.shape[2], config.num_attention_heads, config.head_dim).transpose(
                1, 2
            )

        seen = F.scaled_dot_product_attention(heads(query), heads(key), heads(value), mask)
        return layer.output(seen.transpose(1, 2).reshape(query.shape))


def _layer(weights: Weights, config: FlowConfig, index: int, embedded: Tensor) -> FlowLayer:
    """Load a layer; heads, rotated as adjacent pairs, are permuted into two halves."""
    name = f"{FLOW}.transformer_blocks.{index}"
    joined = Linear.joined(weights, *(f"{name}.attn.to_{part}" for part in "qkv"))
    size, turned = config.num_attention_heads * config.head_dim, config.head_dim
    pairs = [*range(0, turned, 2), *range(1, turned, 2), *range(turned, size)]
    order = [*pairs, *(size + place for place in pairs), *range(2 * size, 3 * size)]
    assert joined.bias is not None
    modulations = Linear.of(weights, f"{name}.attn_norm.linear")(F.silu(embedded))
    return FlowLayer(
        query_key_value=Linear(joined.weight[order], joined.bias[order]),
        output=Linear.of(weights, f"{name}.attn.to_out.0"),
        widen=Linear.of(weights, f"{name}.ff.ff.0"),
        narrow=Linear.of(weights, f"{name}.ff.ff.3"),
        modulations=modulations.view(len(embedded), 6, config.hidden_size),
        sees_before=index in config.look_backward_layers,
        sees_after=index in config.look_ahead_layers,
    )


def _evaluation_times() -> list[float]:
    """Return the times at which the network is evaluated, four per step."""
    points = torch.linspace(0, 1, _NUM_TIMES)
    points = points + _SWAY * (torch.cos(torch.pi / 2 * points) - 1 + points)
    times = []
    for start, end in pairwise(points):
        step = end - start
        times += [start, start + step * (1 / 3), start + step * (2 / 3), end]
    return [float(time) for time in times]


def _embed_times(weights: Weights, times: Sequence[float]) -> Tensor:
    """Return the time embeddings, ``[num_times, hidden_size]``."""
    first = Linear.of(weights, f"{FLOW}.time_embed.time_mlp.0")
    second = Linear.of(weights, f"{FLOW}.time_embed.time_mlp.2")
    half = TIME_SIZE // 2
    periods = torch.exp(torch.arange(half).float() * -(math.log(_MAX_PERIOD) / (half - 1)))
    angles = _TIME_SCALE * torch.tensor(times)[:, None] * periods
    waves = torch.cat((angles.sin(), angles.cos()), dim=-1).to(first.weight)
    return second(F.silu(first(waves)))


def _norm(states: Tensor) -> Tensor:
    return F.layer_norm(states, states.shape[-1:], eps=_NORM_EPS)


def _turned(states: Tensor, turns: tuple[Tensor, Tensor], size: int) -> Tensor:
    """Rotate only the first head, as in training."""
    cosines, sines = turns
    head, others = states[..., :size], states[..., size:]
    first, second = head.chunk(2, dim=-1)
    turned = head * cosines + torch.cat((-second, first), dim=-1) * sines
    return torch.cat((turned, others), dim=-1)
