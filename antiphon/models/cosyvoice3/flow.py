"""Speech tokens to mel frames, a chunk at a time: flow matching, conditioned on a recording.

Chunks lie where frame numbers say, however many tokens a call brings. A chunk sees all chunks of
the recording, and of those made before it what is within `CONTEXT_FRAMES`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, MelFlowConfig
from antiphon.models.cosyvoice3.dit import ContextCache, DiT
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.stream_conv import StreamConv, StreamState

CONTEXT_FRAMES = 200
"""Mel frames before a chunk, of those that were made, that it sees; the recording it sees whole."""

_NOISE_FRAMES = 15_000  # five minutes; then they come again
_NOISE_SEED = 0
_LEAKY_SLOPE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What a stream is conditioned on.

    Attributes:
        tokens: of the recording, int64 ``[num_tokens]``; may be empty.
        mel: of it, two frames a token, f32 ``[2 * num_tokens, num_mels]``.
        speaker: f32 ``[speaker_size]``.
    """

    tokens: Tensor
    mel: Tensor
    speaker: Tensor


@dataclass(slots=True, eq=False)
class MelFlowState:
    """A stream.

    Attributes:
        reference: that it is conditioned on.
        speaker: as the transformer is told it, ``[num_mels]``.
        cache: keys and values.
        convs: what convolutions keep.
        tokens: that have come and are in no chunk yet; those of the recording come first.
        num_done: tokens in chunks, with those of the recording.
    """

    reference: Reference
    speaker: Tensor
    cache: ContextCache
    convs: StreamState
    tokens: Tensor
    num_done: int = 0


@dataclass(frozen=True, slots=True)
class MelFlow:
    """The network.

    Attributes:
        tokens: embedding, ``[num_tokens, num_mels]``.
        look_ahead: two convolutions over tokens; the first one sees later tokens.
        noise: where the solver starts, by frame, ``[_NOISE_FRAMES, num_mels]``.
        cache_dtype: of keys and values.
    """

    config: MelFlowConfig
    tokens: Tensor
    speaker: Linear
    look_ahead: tuple[StreamConv, StreamConv]
    transformer: DiT
    noise: Tensor
    cache_dtype: torch.dtype

    @classmethod
    def of(cls, weights: Weights, config: MelFlowConfig) -> "MelFlow":
        """Take the network out of a checkpoint's tensors, in float32 and on one device."""
        table = weights["input_embedding.weight"]
        name = "pre_lookahead_layer.conv"
        return cls(
            config=config,
            tokens=table,
            speaker=Linear.of(weights, "spk_embed_affine_layer"),
            look_ahead=(
                StreamConv.of(weights, f"{name}1", look_ahead=config.look_ahead_tokens),
                StreamConv.of(weights, f"{name}2"),
            ),
            transformer=DiT.of(weights, "decoder.estimator", config),
            noise=solver_noise(config.num_mels).to(table.device),
            cache_dtype=cache_dtype(table.device),
        )

    def open(self, reference: Reference) -> MelFlowState:
        """Begin a stream."""
        ring = CONTEXT_FRAMES + self.config.chunk_frames
        pinned = len(reference.mel)
        return MelFlowState(
            reference=reference,
            speaker=self.speaker(F.normalize(reference.speaker, dim=0)),
            cache=self.transformer.open_cache(pinned, ring, self.cache_dtype),
            convs=StreamState(),
            tokens=reference.tokens,
        )

    def decode(self, tokens: Tensor, state: MelFlowState, ahead: int, *, is_end: bool) -> Tensor:
        """Return the mel frames of the chunks that are whole by now, without the recording's.

        Args:
            tokens: that come next, int64 ``[num_tokens]``.
            state: of the stream.
            ahead: new tokens after the recording's in which the first chunk ends.
            is_end: whether no tokens follow: what is left is a chunk too.

        Returns:
            f32 ``[num_frames, num_mels]``.
        """
        config = self.config
        state.tokens = torch.cat((state.tokens, tokens))
        num_reference = len(state.reference.tokens)
        phase = (num_reference + ahead) % config.chunk_tokens
        made = []
        while num_taken := self._next_chunk(state, phase, num_reference + ahead, is_end=is_end):
            made.append(self._chunk(num_taken, state, phase, is_end=is_end))
        if not made:
            return self.noise[:0]
        frames = torch.cat(made)
        num_old = max(
            0, MEL_FRAMES_PER_TOKEN * num_reference - state.cache.num_written + len(frames)
        )
        return frames[num_old:]

    def _next_chunk(self, state: MelFlowState, phase: int, first: int, *, is_end: bool) -> int:
        """Return how many tokens the next pass takes, 0 if it has to wait.

        The first one takes all chunks up to ``first``, the recording's with it.
        """
        size, num_there = self.config.chunk_tokens, len(state.tokens)
        wanted = first if state.num_done == 0 else size - (state.num_done - phase) % size
        if num_there >= wanted + self.config.look_ahead_tokens:
            return wanted
        return min(num_there, wanted) if is_end else 0

    def _chunk(self, num_taken: int, state: MelFlowState, phase: int, *, is_end: bool) -> Tensor:
        """Make the mel frames of the next ``num_taken`` tokens."""
        told = self._token_states(num_taken, state, is_end=is_end)
        start, num_frames = state.cache.num_written, len(told)
        mel = told.new_zeros(num_frames, self.config.num_mels)
        known = state.reference.mel[start : start + num_frames]
        mel[: len(known)] = known
        conditions = torch.cat((mel, told, state.speaker.expand_as(told)), dim=1)
        places = torch.arange(start, start + num_frames, device=told.device)
        mask = None
        if start == 0:
            chunks = (places - MEL_FRAMES_PER_TOKEN * phase) // self.config.chunk_frames
            chunks = chunks.clamp(min=0)  # a short first one is part of the second
            mask = chunks[None, :] <= chunks[:, None]
        noise = self.noise[places % len(self.noise)]
        state.num_done += num_taken
        state.tokens = state.tokens[num_taken:]
        return self.transformer.solve(noise, conditions, state.cache, state.convs, mask)

    def _token_states(self, num_taken: int, state: MelFlowState, *, is_end: bool) -> Tensor:
        """Return what the transformer is told of tokens, two frames each."""
        first, second = self.look_ahead
        ahead = num_taken + self.config.look_ahead_tokens
        is_last = is_end and len(state.tokens) < ahead
        embedded = F.embedding(state.tokens[:ahead], self.tokens).T[None]
        missing = ahead - embedded.shape[2]
        assert is_last or not missing, "a chunk has its look-ahead, or is the last"
        hidden = F.conv1d(F.pad(embedded, (0, missing)), first.weight, first.bias)
        hidden = second(F.leaky_relu(hidden, _LEAKY_SLOPE), state.convs)
        states = hidden + embedded[:, :, :num_taken]
        return states[0].T.repeat_interleave(MEL_FRAMES_PER_TOKEN, dim=0)


def cache_dtype(device: torch.device) -> torch.dtype:
    """Return what keys and values are kept in."""
    return torch.float16 if device.type == "cuda" else torch.float32


def solver_noise(num_mels: int) -> Tensor:
    """Return what the published code starts from, f32 ``[_NOISE_FRAMES, num_mels]``."""
    drawn = torch.randn(
        (num_mels, _NOISE_FRAMES), generator=torch.Generator().manual_seed(_NOISE_SEED)
    )
    return drawn.T.contiguous()
