"""Speech tokens to mel frames, a chunk at a time: flow matching, conditioned on a recording.

A stream begins with a pass over the recording, but for its end, which streams of one voice have in
common. The next pass is over that end and the first chunk with speech, those after it are over a
chunk each: they have equal shapes, in any stream and wherever in it they are, so that a CUDA graph
can hold one. A chunk sees all of the recording, and of what was made before it `CONTEXT_FRAMES`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.cosyvoice3.bounds import MAX_REFERENCE_TOKENS
from antiphon.models.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, MelFlowConfig
from antiphon.models.cosyvoice3.dit import NUM_PASSES, NUM_STEPS, DiT, DiTPass
from antiphon.nn.host_device import upload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.stream_conv import StreamConv, StreamRows, StreamState

CONTEXT_FRAMES = 200
"""Mel frames before a chunk, of those that were made, that it sees; the recording it sees whole."""

FIRST_CHUNKS = 2
"""In the pass after that over a recording: the first one with speech, and the one before it, whose
last tokens look ahead to speech."""

_NOISE_FRAMES = 15_000  # five minutes; then they come again
_NOISE_SEED = 0
_LEAKY_SLOPE = 0.01
_ALIGNED = 16  # places; masks that are not are copied by attention on a GPU


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


@dataclass(frozen=True, slots=True)
class MelFlowRows:
    """What all streams keep.

    Attributes:
        context: keys and values, see `DiT.solve`. A slot's first places hold the recording, those
            after them a ring of the latest frames; the last place is of nothing.
        speakers: as the transformer is told them, ``[num_slots + 1, num_mels]``: here and below is
            a row more, for padding.
        tokens: of the convolution over tokens.
        convs: of the transformer's convolutions, `NUM_PASSES` rows a slot.
        recorded_tokens: as they were after the pass over the recording.
        recorded_convs: likewise.
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
        """Places of a slot."""
        return self.context.shape[4]


@dataclass(frozen=True, slots=True)
class ChunkPass:
    """A pass over chunks of a stream, which come after a pass over its beginning.

    Attributes:
        slot: of the stream; the number of slots for a row that pads a batch.
        start: number of the first mel frame, with those of the recording.
        num_pinned: mel frames of the recording.
        num_tokens: that are there, look-ahead included.
    """

    NUM_NUMBERS = 4

    slot: int
    start: int
    num_pinned: int
    num_tokens: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """What `MelFlow.go_on` is told of it, `NUM_NUMBERS` of them."""
        return (self.slot, self.start, self.num_pinned, self.num_tokens)


@dataclass(frozen=True, slots=True)
class MelFlow:
    """The network.

    Attributes:
        tokens: embedding, ``[num_tokens, num_mels]``.
        look_ahead: two convolutions over tokens; the first one sees later tokens.
        noise: where the solver starts, by frame, ``[_NOISE_FRAMES, num_mels]``.
        cache_dtype: of keys and values.
        context_frames: see `CONTEXT_FRAMES`.
        rounds_products: whether matrix products may be those of TF32.
    """

    config: MelFlowConfig
    tokens: Tensor
    speaker: Linear
    look_ahead: tuple[StreamConv, StreamConv]
    transformer: DiT
    noise: Tensor
    cache_dtype: torch.dtype
    context_frames: int = CONTEXT_FRAMES
    rounds_products: bool = False

    @classmethod
    def of(
        cls, weights: Weights, config: MelFlowConfig, *, rounds_products: bool = False
    ) -> "MelFlow":
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
            rounds_products=rounds_products,
        )

    def open(self, num_slots: int) -> MelFlowRows:
        """Make room for as many streams with recordings of any length."""
        config, device = self.config, self.tokens.device
        shape = (
            *(NUM_STEPS, config.num_layers, num_slots, NUM_PASSES),
            *(slot_frames(config, self.context_frames), 2, config.num_heads, config.head_dim),
        )
        if device.type == "cpu":  # NumPy's zeros take memory when they are first written
            context = torch.from_numpy(np.zeros(shape, np.float32))
        else:
            context = torch.zeros(shape, dtype=self.cache_dtype, device=device)
        return MelFlowRows(
            context=context,
            speakers=self.tokens.new_zeros(num_slots + 1, config.num_mels),
            tokens=StreamRows(num_slots + 1),
            convs=StreamRows(NUM_PASSES * (num_slots + 1)),
            recorded_tokens=StreamRows(num_slots + 1),
            recorded_convs=StreamRows(NUM_PASSES * (num_slots + 1)),
        )

    def num_recorded(self, num_reference: int, ahead: int) -> int:
        """Return the tokens of a recording in the pass that is over it alone, 0 if there is none.

        Args:
            num_reference: tokens of the recording.
            ahead: tokens of speech in the first chunk with speech.
        """
        number = num_reference + ahead - FIRST_CHUNKS * self.config.chunk_tokens
        return number if number >= self.config.chunk_tokens else 0

    def record(self, reference: Reference, slot: int, rows: MelFlowRows, *, ahead: int) -> None:
        """Make the pass over a recording alone, of which there is enough; see `num_recorded`."""
        number = self.num_recorded(len(reference.tokens), ahead)
        tokens = reference.tokens[None, : number + self.config.look_ahead_tokens]
        self.begin(tokens, [reference], [slot], rows, ahead=ahead, num_taken=number)
        index = upload([slot], tokens.device)
        rows.recorded_tokens.put(index, rows.tokens.take(index))
        rows.recorded_convs.put(_doubled(index), rows.convs.take(_doubled(index)))

    def recall(self, source: int, slot: int, rows: MelFlowRows, num_frames: int) -> None:
        """Begin as `record` would, with what it left in slot ``source``.

        Args:
            source: whose recording is this one.
            slot: of the stream.
            rows: of all slots.
            num_frames: mel frames of that pass.
        """
        if source != slot:
            kept = rows.context[:, :, source, :, :num_frames]
            rows.context[:, :, slot, :, :num_frames] = kept
            rows.speakers[slot] = rows.speakers[source]
        old, new = upload([source], self.tokens.device), upload([slot], self.tokens.device)
        tokens = rows.recorded_tokens.take(old)
        convs = rows.recorded_convs.take(_doubled(old))
        for each in (rows.tokens, rows.recorded_tokens):
            each.put(new, tokens)
        for each in (rows.convs, rows.recorded_convs):
            each.put(_doubled(new), convs)

    def begin(
        self,
        tokens: Tensor,
        references: Sequence[Reference],
        slots: Sequence[int],
        rows: MelFlowRows,
        *,
        ahead: int,
        num_taken: int | None = None,
    ) -> Tensor:
        """Make the mel frames of streams' first passes, without those of their recordings.

        Args:
            tokens: of a recording, then of speech, int64 ``[num_rows, n]``: those of the pass and
                their look-ahead, of which less is there at the end.
            references: of the streams, with equally many tokens.
            slots: that the streams are in, whatever was there before.
            rows: of all slots.
            ahead: tokens of speech in the first chunk with speech, unless the end comes first.
            num_taken: tokens of the pass; ``None``: up to the end of that chunk.

        Returns:
            f32 ``[num_rows, num_frames, num_mels]``.
        """
        config, number = self.config, len(slots)
        index, passes, convs = upload(slots, tokens.device), StreamState(), StreamState()
        last = len(references[0].tokens) + ahead
        num_taken = min(last, tokens.shape[1]) if num_taken is None else num_taken
        missing = num_taken + config.look_ahead_tokens - tokens.shape[1]
        embedded = F.pad(F.embedding(tokens, self.tokens), (0, 0, 0, missing))
        told = self._token_states(embedded, passes)
        rows.tokens.put(index, passes)
        speakers = self.speaker(
            F.normalize(torch.stack([each.speaker for each in references]), dim=1)
        )
        rows.speakers.index_copy_(0, index, speakers)
        num_frames, num_pinned = told.shape[1], len(references[0].mel)
        mel = torch.stack([each.mel[:num_frames] for each in references])
        mel = F.pad(mel, (0, 0, 0, num_frames - mel.shape[1]))
        conditions = torch.cat((mel, told, speakers[:, None].expand_as(told)), dim=2)
        frames = torch.arange(num_frames, device=tokens.device)
        phase = MEL_FRAMES_PER_TOKEN * (last % config.chunk_tokens)
        chunks = ((frames - phase) // config.chunk_frames).clamp(min=0)
        # A short first chunk is part of the second.
        seen = (chunks[None, :] <= chunks[:, None])[None]
        numbers = frames.expand(number, -1)
        alone = slots[0] if number == 1 else None
        where, context = self._where(numbers, numbers, seen, (rows, index, alone))
        noise = self.noise[numbers % len(self.noise)]
        made = self.transformer.solve(noise, conditions, context, convs, where)
        rows.convs.put(_doubled(index), convs)
        return made[:, num_pinned:]

    def go_on(
        self,
        tokens: Tensor,
        mel: Tensor,
        numbers: Tensor,
        rows: MelFlowRows,
        alone: ChunkPass | None = None,
    ) -> Tensor:
        """Make the mel frames of chunks; a CUDA graph can hold it.

        Args:
            tokens: of the chunks and their look-ahead, int64 ``[num_rows, n * chunk_tokens +
                look_ahead_tokens]``; any, where less is there.
            mel: frames of the recording in the chunks, and zeros after them, f32 ``[num_rows,
                n * chunk_frames, num_mels]``.
            numbers: `ChunkPass.numbers` of each, int64 ``[num_rows, 4]``.
            rows: of all slots.
            alone: the pass, if it is one that the host knows.

        Returns:
            As ``mel``; frames after a stream's end mean nothing.
        """
        config, device, num_frames = self.config, tokens.device, mel.shape[1]
        index, start, num_pinned, num_tokens = numbers[:, :, None].unbind(1)
        embedded = F.embedding(tokens, self.tokens)
        is_there = torch.arange(tokens.shape[1], device=device) < num_tokens
        passes = rows.tokens.take(index[:, 0])
        told = self._token_states(torch.where(is_there[..., None], embedded, 0.0), passes)
        rows.tokens.put(index[:, 0], passes)
        speakers = rows.speakers.index_select(0, index[:, 0])[:, None].expand_as(told)
        conditions = torch.cat((mel, told, speakers), dim=2)
        frames = start + torch.arange(num_frames, device=device)
        ring = self.context_frames + config.chunk_frames
        places = num_pinned + (frames - num_pinned) % ring
        places = torch.where(frames < num_pinned, frames, places)
        # Rows of padding write where nobody looks.
        places = torch.where(index < rows.num_slots, places, rows.capacity - 1)
        num_seen = rows.capacity if alone is None else alone.num_pinned + ring
        offsets = torch.arange(num_seen, device=device) - num_pinned
        newest = frames[:, -1:] - num_pinned
        held = newest - (newest - offsets) % ring
        # Each chunk sees itself and what is before it, but nothing after the stream's end.
        ends = torch.arange(0, num_frames, config.chunk_frames, device=device)
        ends = (ends + config.chunk_frames).minimum(MEL_FRAMES_PER_TOKEN * num_tokens)
        is_made = held[:, None] < (start + ends - num_pinned)[:, :, None]
        seen = (offsets < 0)[:, None] | (((offsets < ring) & (held >= 0))[:, None] & is_made)
        if num_frames > config.chunk_frames:
            seen = seen.repeat_interleave(config.chunk_frames, dim=1)
        slot = None if alone is None else alone.slot
        where, context = self._where(frames, places, seen, (rows, index[:, 0], slot))
        convs = rows.convs.take(_doubled(index[:, 0]))
        noise = self.noise[frames % len(self.noise)]
        made = self.transformer.solve(noise, conditions, context, convs, where)
        rows.convs.put(_doubled(index[:, 0]), convs)
        return made

    def _where(
        self,
        frames: Tensor,
        places: Tensor,
        seen: Tensor,
        kept: tuple[MelFlowRows, Tensor, int | None],
    ) -> tuple[DiTPass, Tensor]:
        """Return what a pass is told of its frames, and the context that it is about.

        Args:
            frames: their numbers, int64 ``[num_rows, num_frames]``.
            places: where keys and values of each are put, likewise.
            seen: places that each sees, bool ``[num_rows or 1, num_frames or 1, num_places]``.
            kept: rows, the slots of the pass, and which one it is, if it is one.
        """
        rows, index, alone = kept
        context, slots = rows.context, index.clamp(max=rows.num_slots - 1)
        if alone is not None:
            context, slots = context[:, :, alone : alone + 1], torch.zeros_like(index)
        halves = _doubled(slots).view(-1, NUM_PASSES, 1)
        cos, sin = self.transformer.rotation(frames)
        mask = torch.zeros(seen.shape, dtype=self.cache_dtype, device=seen.device)
        mask = mask.masked_fill(~seen, float("-inf"))[:, None]
        where = DiTPass(
            cos=cos,
            sin=sin,
            slots=None if alone is not None else slots,
            places=(halves * rows.capacity + places[:, None]).flatten(),
            num_seen=seen.shape[2],
            mask=mask.repeat_interleave(NUM_PASSES, dim=0) if len(mask) > 1 else mask,
        )
        return where, context

    def _token_states(self, embedded: Tensor, passes: StreamState) -> Tensor:
        """Return what the transformer is told of tokens, two frames each, without look-ahead.

        Args:
            embedded: tokens and their look-ahead, ``[num_rows, n + look_ahead_tokens, num_mels]``.
            passes: of the convolution over what was made of tokens; updated.

        Returns:
            ``[num_rows, 2 * n, num_mels]``.
        """
        first, second = self.look_ahead
        columns = embedded.transpose(1, 2)
        hidden = F.conv1d(columns, first.weight, first.bias)
        hidden = second(F.leaky_relu(hidden, _LEAKY_SLOPE), passes)
        states = hidden + columns[:, :, : hidden.shape[2]]
        return states.transpose(1, 2).repeat_interleave(MEL_FRAMES_PER_TOKEN, dim=1)


def slot_frames(config: MelFlowConfig, context_frames: int = CONTEXT_FRAMES) -> int:
    """Return for how many mel frames a stream has room: its recording's and those of its ring."""
    frames = MEL_FRAMES_PER_TOKEN * MAX_REFERENCE_TOKENS + context_frames + config.chunk_frames
    return -(-(frames + 1) // _ALIGNED) * _ALIGNED  # one is of no frame


def cache_dtype(device: torch.device) -> torch.dtype:
    """Return what keys and values are kept in."""
    return torch.float16 if device.type == "cuda" else torch.float32


def solver_noise(num_mels: int) -> Tensor:
    """Return what the published code starts from, f32 ``[_NOISE_FRAMES, num_mels]``."""
    drawn = torch.randn(
        (num_mels, _NOISE_FRAMES), generator=torch.Generator().manual_seed(_NOISE_SEED)
    )
    return drawn.T.contiguous()


def _doubled(index: Tensor) -> Tensor:
    """Return the rows of both passes, int64 ``[NUM_PASSES * n]``, of slots' numbers."""
    passes = torch.arange(NUM_PASSES, device=index.device)
    return (NUM_PASSES * index[:, None] + passes).flatten()
