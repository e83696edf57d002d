"""Flow matching from speech tokens to mel frames in chunks, conditioned on reference audio.

A stream begins with a pass over the reference without its end; streams of one voice share this
pass. The next pass covers that end and the first chunk with speech, and every later pass covers one
chunk. Passes have equal shapes in any stream and at any position, so that a CUDA graph can hold
one. If the reference is too short for a pass of its own, there is one first pass, which may begin
with padding before its first frame. A chunk attends to the whole reference and to the latest
`CONTEXT_FRAMES` frames before it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, MelFlowConfig
from antiphon.families.cosyvoice3.dit import NUM_PASSES, NUM_STEPS, DiT, DiTPass
from antiphon.families.cosyvoice3.flow_context import (
    CONTEXT_FRAMES,
    ChunkPass,
    PassPlaces,
    cache_dtype,
    doubled,
    phase_of,
    slot_frames,
)
from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamRows, StreamState
from antiphon.nn.device_writes import upload
from antiphon.nn.layers import Linear, Weights

if TYPE_CHECKING:  # needs Triton
    from antiphon.nn.kernels.chunk_attention import ChunkRows

FIRST_CHUNKS = 2
"""Chunks in the pass after that over the reference: the first one with speech, and the one before
it, whose last tokens look ahead to speech."""

_NOISE_FRAMES = 15_000  # five minutes, then repeated
_NOISE_SEED = 0
_LEAKY_SLOPE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Conditioning of a stream.

    Attributes:
        tokens: reference tokens, int64 ``[num_tokens]``; may be empty.
        mel: reference mel frames, two per token, f32 ``[2 * num_tokens, num_mels]``.
        speaker: speaker vector, f32 ``[speaker_size]``.
    """

    tokens: Tensor
    mel: Tensor
    speaker: Tensor


@dataclass(frozen=True, slots=True)
class MelFlowRows:
    """State of all streams.

    Attributes:
        context: keys and values, see `DiT.solve` and `PassPlaces`.
        speakers: projected speaker vectors, ``[num_slots + 1, num_mels]``; here and below the last
            row is for padding.
        tokens: state of the convolution over tokens.
        convs: states of the transformer's convolutions, `NUM_PASSES` rows per slot.
        recorded_tokens: copy of ``tokens`` after the pass over the reference.
        recorded_convs: copy of ``convs`` after the pass over the reference.
    """

    context: Tensor
    speakers: Tensor
    tokens: StreamRows
    convs: StreamRows
    recorded_tokens: StreamRows
    recorded_convs: StreamRows

    @property
    def num_slots(self) -> int:
        return self.context.shape[2]

    @property
    def capacity(self) -> int:
        """Places per slot."""
        return self.context.shape[4]


@dataclass(frozen=True, slots=True)
class MelFlow:
    """The flow matching network.

    Attributes:
        tokens: embedding, ``[num_tokens, num_mels]``.
        look_ahead: two convolutions over tokens; the first one reads later tokens.
        noise: initial state of the solver by frame, ``[_NOISE_FRAMES, num_mels]``.
        context_frames: mel frames before a chunk that it attends to, see `CONTEXT_FRAMES`.
        rounds_products: whether matrix products may be those of TF32.
    """

    config: MelFlowConfig
    tokens: Tensor
    speaker: Linear
    look_ahead: tuple[StreamConv, StreamConv]
    transformer: DiT
    noise: Tensor
    context_frames: int = CONTEXT_FRAMES
    rounds_products: bool = False

    @classmethod
    def of(
        cls,
        weights: Weights,
        config: MelFlowConfig,
        *,
        rounds_products: bool = False,
        is_fused: bool = False,
    ) -> "MelFlow":
        """Build the network from a checkpoint's tensors, in float32 and on one device.

        Args:
            is_fused: whether the transformer's layers are kernels, with products of float16.
        """
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
            transformer=DiT.of(weights, "decoder.estimator", config, is_fused=is_fused),
            noise=solver_noise(config.num_mels).to(table.device),
            rounds_products=rounds_products,
        )

    def open(self, num_slots: int) -> MelFlowRows:
        """Allocate the state of ``num_slots`` streams with references of any length."""
        config, device = self.config, self.tokens.device
        shape = (
            *(NUM_STEPS, config.num_layers, num_slots, NUM_PASSES),
            *(slot_frames(config, self.context_frames), 2, config.num_heads, config.head_dim),
        )
        if device.type == "cpu":  # NumPy's zeros use no memory before the first write
            context = torch.from_numpy(np.zeros(shape, np.float32))
        else:
            context = torch.zeros(shape, dtype=cache_dtype(device), device=device)
        num_rows, speakers = num_slots + 1, self.tokens.new_zeros(num_slots + 1, config.num_mels)
        tokens, recorded_tokens = StreamRows(num_rows), StreamRows(num_rows)
        convs, recorded_convs = (StreamRows(NUM_PASSES * num_rows) for _ in range(2))
        return MelFlowRows(context, speakers, tokens, convs, recorded_tokens, recorded_convs)

    def num_recorded(self, num_reference: int, ahead: int) -> int:
        """Return the tokens in the pass over the reference alone; 0 if there is no such pass.

        The first chunk with speech has ``ahead`` tokens of it.
        """
        number = num_reference + ahead - FIRST_CHUNKS * self.config.chunk_tokens
        return number if number >= self.config.chunk_tokens else 0

    def introduce(self, reference: Reference, slot: int, rows: MelFlowRows) -> None:
        """Set the speaker of a slot, regardless of its previous stream."""
        rows.speakers[slot] = self.speaker(F.normalize(reference.speaker[None], dim=1))[0]

    def record(self, reference: Reference, slot: int, rows: MelFlowRows, *, ahead: int) -> None:
        """Run the pass over a reference alone, which must be long enough; see `num_recorded`."""
        number = self.num_recorded(len(reference.tokens), ahead)
        tokens = reference.tokens[None, : number + self.config.look_ahead_tokens]
        mel = reference.mel[None, : MEL_FRAMES_PER_TOKEN * number]
        num_pinned = len(reference.mel)
        phase = phase_of(num_pinned, ahead, self.config)
        first = ChunkPass(slot, 0, num_pinned, tokens.shape[1], phase)
        self.introduce(reference, slot, rows)
        self.go_on(tokens, mel, upload([first], tokens.device), rows, first)
        index = upload([slot], tokens.device)
        rows.recorded_tokens.put(index, rows.tokens.take(index))
        rows.recorded_convs.put(doubled(index), rows.convs.take(doubled(index)))

    def recall(self, source: int, slot: int, rows: MelFlowRows, num_frames: int) -> None:
        """Start a stream like `record`, by copying the frames that it left in slot ``source``."""
        if source != slot:
            kept = rows.context[:, :, source, :, :num_frames]
            rows.context[:, :, slot, :, :num_frames] = kept
            rows.speakers[slot] = rows.speakers[source]
        old, new = upload([source], self.tokens.device), upload([slot], self.tokens.device)
        tokens = rows.recorded_tokens.take(old)
        convs = rows.recorded_convs.take(doubled(old))
        for each in (rows.tokens, rows.recorded_tokens):
            each.put(new, tokens)
        for each in (rows.convs, rows.recorded_convs):
            each.put(doubled(new), convs)

    def go_on(
        self,
        tokens: Tensor,
        mel: Tensor,
        numbers: Tensor,
        rows: MelFlowRows,
        alone: ChunkPass | None = None,
    ) -> Tensor:
        """Return the mel frames of chunks, including a stream's first; a CUDA graph can hold it.

        Args:
            tokens: tokens of the chunks and their look-ahead, int64 ``[num_rows, n +
                look_ahead_tokens]``; padding may have any value.
            mel: reference frames in the chunks and zeros elsewhere, f32 ``[num_rows,
                MEL_FRAMES_PER_TOKEN * n, num_mels]``.
            numbers: `ChunkPass` of each row, int64 ``[num_rows, 5]``.
            rows: state of all slots; rows of a first pass have had their speaker set.
            alone: the only row's pass, if it is available on the host.

        Returns:
            Mel frames of the same shape as ``mel``; frames of padding are undefined.
        """
        config, device = self.config, tokens.device
        index, start, num_tokens = numbers[:, 0], numbers[:, 1:2], numbers[:, 3:4]
        places = PassPlaces.of(numbers, mel.shape[1], config.chunk_frames, self.context_frames)
        number = torch.arange(tokens.shape[1], device=device)
        is_begun = MEL_FRAMES_PER_TOKEN * number >= -start
        is_there = is_begun & (number < num_tokens)
        embedded = torch.where(is_there[..., None], F.embedding(tokens, self.tokens), 0.0)
        passes = _going_on(rows.tokens.take(index), start > 0)
        states = self._token_states(embedded, is_begun, passes)
        rows.tokens.put(index, passes)
        speakers = rows.speakers.index_select(0, index)[:, None].expand_as(states)
        conditions = torch.cat((mel, states, speakers), dim=2)
        frames = places.frames
        is_later = start.repeat_interleave(NUM_PASSES, dim=0) > 0
        convs = _going_on(rows.convs.take(doubled(index)), is_later)
        noise = self.noise[frames % len(self.noise)]
        is_long = mel.shape[1] > FIRST_CHUNKS * config.chunk_frames
        is_frame = frames >= 0 if is_long else None  # shorter passes have no padding in front
        where, context = self._where(places, rows.context, alone)
        made = self.transformer.solve(noise, conditions, context, convs, where, is_frame)
        rows.convs.put(doubled(index), convs)
        return made

    def _where(
        self, places: PassPlaces, context: Tensor, alone: ChunkPass | None
    ) -> tuple["DiTPass | ChunkRows", Tensor]:
        """Return the frame positions of a pass, and the context that they refer to."""
        rotation = self.transformer.rotation(places.frames)
        if self.transformer.fused is not None:
            sizes = (places.chunk_frames, places.ring_frames)
            from antiphon.nn.kernels.chunk_attention import ChunkRows

            return ChunkRows(places.spans, *rotation, *sizes), context
        num_places = None
        if alone is not None:
            end = max(alone.start + places.num_frames, 0)
            num_places = min(end, alone.num_pinned + places.ring_frames)
        return places.seen(rotation, context, alone, num_places)

    def _token_states(self, embedded: Tensor, is_begun: Tensor, passes: StreamState) -> Tensor:
        """Return the token conditions of the transformer, ``[num_rows, 2 * n, num_mels]``.

        Args:
            embedded: tokens and their look-ahead, ``[num_rows, n + look_ahead_tokens, num_mels]``.
            is_begun: mask of tokens from the stream's first one on.
            passes: state of the second convolution; updated.
        """
        first, second = self.look_ahead
        columns = embedded.transpose(1, 2)
        hidden = F.leaky_relu(F.conv1d(columns, first.weight, first.bias), _LEAKY_SLOPE)
        is_token = is_begun[:, None, : hidden.shape[2]]
        hidden = second(torch.where(is_token, hidden, 0.0), passes)
        states = hidden + columns[:, :, : hidden.shape[2]]
        return states.transpose(1, 2).repeat_interleave(MEL_FRAMES_PER_TOKEN, dim=1)


def solver_noise(num_mels: int) -> Tensor:
    """Return the published code's initial noise, f32 ``[_NOISE_FRAMES, num_mels]``."""
    generator = torch.Generator().manual_seed(_NOISE_SEED)
    return torch.randn((num_mels, _NOISE_FRAMES), generator=generator).T.contiguous()


def _going_on(state: StreamState, is_later: Tensor) -> StreamState:
    """Return a state reset in the rows that begin; ``is_later`` is bool ``[num_rows, 1]``."""
    return {name: torch.where(is_later[..., None], each, 0.0) for name, each in state.items()}
