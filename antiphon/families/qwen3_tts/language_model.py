"""Talker and predictor as one autoregressive model: 16 codes per frame, with streaming text.

A step reads and writes tensors only; it never waits for the device or reads a tensor's values on
the host. Host state (slot numbers, lengths) is passed in as numbers.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, Unpack

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.engine.model_runner.ar_model import (
    ARModel,
    Codes,
    Frames,
    Inputs,
    PromptSpan,
    SlotStart,
)
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.kit.loading import RunnerOptions, fitted, runner_of, weights_for
from antiphon.families.qwen3_tts.checkpoint import language_model_part
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.footprint import num_model_weights
from antiphon.families.qwen3_tts.prompt_layout import FRAME as FRAME_COLUMN
from antiphon.families.qwen3_tts.prompt_layout import SPEAKER, Qwen3TTSPrompt, Qwen3TTSRequest
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS, LoopDetectors
from antiphon.families.qwen3_tts.talker import Talker, load_predictor
from antiphon.nn import kernels
from antiphon.nn.attention import Attend, FrameCache, KVShape
from antiphon.nn.code_predictor import CodePredictor
from antiphon.nn.cpu.packed_layers import rows_together
from antiphon.nn.cuda.memory_plan import unpacked_bytes
from antiphon.nn.device_writes import PackedUpload, upload
from antiphon.nn.id_columns import CODE, REST, TEXT, num_words, packed_codes
from antiphon.nn.sampler import SamplingReach, SamplingTable, penalize_repetition, sample
from antiphon.nn.transformer import States
from antiphon.nn.weights import open_weights

if TYPE_CHECKING:  # needs Triton
    from antiphon.nn.kernels.fused_linear import PreNormState

_MANY = sys.maxsize  # frames, while more text may come
Qwen3TTSRunner: TypeAlias = ModelRunner[Qwen3TTSRequest]
Reaches: TypeAlias = tuple[SamplingReach, SamplingReach]
"""Reach of the talker's sampling, and of the predictor's."""


class LanguageModel(ARModel[Qwen3TTSRequest]):
    """Language model in PyTorch operations.

    Attributes:
        pending: codec side of each slot's next input, ``[num_rows, hidden_size]``.
        has_occurred: group-0 codes drawn so far, bool, ``[num_rows, vocab_size]``.
    """

    is_fused = False

    def __init__(
        self,
        config: Qwen3TTSConfig,
        talker: Talker,
        predictor: CodePredictor,
        *,
        num_slots: int,
        max_positions: int,
    ) -> None:
        table = talker.frame_table.rows
        num_groups, vocab_size = config.talker.num_groups, config.talker.vocab_size
        super().__init__(
            table,
            width=table.shape[1],
            num_slots=num_slots,
            frame_size=num_groups,
            max_positions=max_positions,
        )
        self.uses_kernels = self.is_fused
        self._config = config
        self.talker = talker
        self.predictor = predictor
        self._codec_tokens = config.talker.tokens
        device, num_rows = self._device, num_slots + 1
        self.pending = table.new_zeros(num_rows, self.width)
        self.has_occurred = table.new_zeros(num_rows, vocab_size, dtype=torch.bool)
        # Text id beside each frame's input.
        self._text = torch.zeros(num_rows, max_positions, dtype=torch.int64, device=device)
        self._speakers = torch.zeros(num_rows, self.width, device=device)
        # Slots that continue after a frame that they did not draw, and its codes.
        self._led = torch.zeros(num_rows, 1 + num_groups, dtype=torch.int64, device=device)
        self._padding = torch.full((1,), config.tokens.tts_pad, device=device)
        self._false = torch.zeros(1, dtype=torch.bool, device=device)
        self._talker_sampling = SamplingTable(num_rows, vocab_size, device)
        self._predictor_sampling = SamplingTable(num_rows, config.predictor.vocab_size, device)
        layers = (*talker.transformer.layers, *predictor.transformer.layers)
        self.num_exact_rows = rows_together(each.feed_forward for each in layers)
        self._frame_cache: FrameCache = predictor.new_cache(num_slots)
        self._loops = LoopDetectors(vocab_size)
        groups = torch.arange(num_groups, device=device)
        self._group_0, self._later_groups = groups[:1], groups[1:]

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return (self.talker.transformer.kv_shape,)

    def open(self, prompt: Prompt, frames: Codes) -> Qwen3TTSRequest:
        data = prompt.data
        assert isinstance(data, Qwen3TTSPrompt)
        row = self._loops.open(frames[:, 0])
        return Qwen3TTSRequest.of(data, frames, row, prompt.sampling.first_end)

    def close(self, request: Qwen3TTSRequest) -> None:
        self._loops.close(request.row)

    def observe(
        self, requests: Sequence[Qwen3TTSRequest], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        rows = np.array([each.row for each in requests], np.int64)
        limits = np.array([_MANY if each.is_open else each.max_frames for each in requests])
        first_ends = np.array([each.first_end for each in requests], np.int64)
        is_stuck = self._loops.observe(rows, frames[:, 0]) & (numbers >= first_ends)
        return is_stuck | (numbers >= limits)

    def start(self, starts: Sequence[SlotStart[Qwen3TTSRequest]], uploads: PackedUpload) -> None:
        texts = [each.request.prompt for each in starts]
        tracks = [prompt.text[prompt.num_reference_frames :] for prompt in texts]
        width = min(max(map(len, tracks)), self._max_positions)
        texts_wide = np.full((len(starts), width), self._config.tokens.tts_pad)
        led: list[list[int]] = []
        for row, each, track in zip(texts_wide, starts, tracks, strict=True):
            row[: len(track)] = track[:width]  # the rest is not used
            num_lead = each.request.prompt.num_reference_frames + each.next_frame
            if num_lead:
                led.append([each.slot, *each.request.lead[num_lead - 1]])
        slots = np.array([each.slot for each in starts], np.int64)
        uploads.copy(self._text, slots, self._padding)
        uploads.write(self._text, slots, texts_wide)
        uploads.copy(self.pending, slots, self.talker.frame_table.rows[self._codec_tokens.bos])
        uploads.copy(self.has_occurred, slots, self._false)
        if speakers := {
            each.slot: each.request.prompt.speaker
            for each in starts
            if each.request.prompt.speaker is not None
        }:
            uploads.write(self._speakers, np.array([*speakers]), np.stack([*speakers.values()]))
        if led:
            uploads.write(self._led, np.arange(len(led)), np.array(led))
            uploads.after(partial(self._follow, len(led)))
        self._talker_sampling.write({each.slot: each.prompt.sampling for each in starts}, uploads)
        self._predictor_sampling.write(
            {each.slot: each.request.prompt.predictor_sampling for each in starts}, uploads
        )
        vocab_size = self.has_occurred.shape[1]
        resumed = [each for each in starts if len(each.frames)]
        if resumed:
            keys = [each.slot * vocab_size + np.unique(each.frames[:, 0]) for each in resumed]
            places = np.concatenate(keys)
            uploads.write(self.has_occurred.view(-1), places, np.ones(len(places)))

    def _follow(self, num_led: int) -> None:
        """Let slots continue after the frames before theirs."""
        slots, frames = self._led[:num_led, 0], self._led[:num_led, 1:]
        self.pending[slots] = self.talker.frame_table.frames(frames)

    def append(
        self, pieces: Sequence[tuple[int, Qwen3TTSRequest, Piece]], uploads: PackedUpload
    ) -> None:
        places: list[int] = []
        ids: list[int] = []
        for slot, request, piece in pieces:
            start, more = request.append(piece)
            used = more[: max(0, self._max_positions - start)]  # the rest is not used
            first = slot * self._max_positions + start
            places += range(first, first + len(used))
            ids += used
        if ids:
            uploads.write(self._text.view(-1), np.array(places), np.array(ids))

    def embed_prompts(self, spans: Sequence[PromptSpan[Qwen3TTSRequest]]) -> Tensor:
        """Embed all columns, ``[num_positions, hidden_size]``."""
        read = [each.request.columns(self._config, each.start, each.end) for each in spans]
        columns = np.concatenate([np.stack((each.text, each.codec)) for each in read], axis=1)
        text, codec = upload(columns, self._device)
        table = self.talker.frame_table
        states = _known(text, self.talker.embed_text(text.clamp(min=0)))
        states += _known(codec, F.embedding(codec.clamp(min=0), table.rows))
        frames = np.concatenate([each.frames for each in read])
        if len(frames):
            places = upload(np.flatnonzero(columns[1] == FRAME_COLUMN), self._device)
            states[places] += table.frames(upload(frames, self._device))
        speakers = [
            speaker
            for each, span in zip(read, spans, strict=True)
            if (speaker := span.request.prompt.speaker) is not None
            for _ in np.flatnonzero(each.codec == SPEAKER)
        ]
        if speakers:
            places = upload(np.flatnonzero(columns[1] == SPEAKER), self._device)
            states[places] += upload(np.stack(speakers), self._device).to(states.dtype)
        return states

    def sampling_shape(self, slots: Sequence[int]) -> Reaches:
        return self._talker_sampling.reach(slots), self._predictor_sampling.reach(slots)

    def next_states(self, slots: Tensor) -> Tensor:
        frames = self.slots.frames[slots].clamp(max=self._max_positions - 1)
        return self.pending[slots] + self.talker.embed_text(self._text[slots, frames])

    def forward(
        self, states: States, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        rotation = self.talker.transformer.rope.at(positions)
        return self.talker.transformer(states, rotation, attends[0])

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: Reaches) -> Frames:
        frames = Frames.empty(len(inputs.slots), self.slots)
        noise = self._noise(inputs)
        self._sample_first(hidden, inputs, frames, noise[0], sampling[0])
        rows = self._predictor_sampling.rows(inputs.slots, sampling[1])
        drawn = (frames.codes, frames.scores)
        self.predictor.complete(hidden, drawn, rows, noise[1], self._frame_cache)
        return frames

    def _sample_first(
        self, hidden: Tensor, inputs: Inputs, frames: Frames, noise: Tensor, reach: SamplingReach
    ) -> None:
        rows = self._talker_sampling.rows(inputs.slots, reach)
        occurred = self.has_occurred[inputs.slots]
        logits = self.talker.head(hidden).float()
        logits = penalize_repetition(logits, occurred, rows.repetition_penalty)
        logits = self.talker.forbid(logits, inputs.frames < self.slots.min_frames[inputs.slots])
        frames.codes[:, 0], frames.scores[:, 0] = sample(logits, rows, noise)
        occurred = torch.ones((), dtype=torch.bool, device=self._device)
        self.has_occurred.index_put_((inputs.slots, frames.codes[:, 0]), occurred)

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        codes = frames.codes[:, :-1]
        self.pending[inputs.slots] = self.talker.frame_table.frames(codes)
        is_end = codes[:, 0] == self._codec_tokens.eos
        is_finite = frames.scores.isfinite().all(dim=1)
        self.finish(frames, inputs, is_replay=is_replay, is_end=is_end, is_finite=is_finite)

    def _noise(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        noise = self.talker.head.backend.gumbel_noise
        seeds, frames = self.slots.seeds[inputs.slots], inputs.frames
        first = noise(seeds, frames, self._group_0, self.talker.config.vocab_size)[:, 0]
        return first, noise(seeds, frames, self._later_groups, self.predictor.vocab_size)


class FusedLanguageModel(LanguageModel):
    """GPU implementation, with one kernel for each end of a step."""

    is_fused = True

    @property
    def num_id_tracks(self) -> int:
        return REST + num_words(self._config.talker.num_groups)

    def prompt_ids(self, spans: Sequence[PromptSpan[Qwen3TTSRequest]]) -> NDArray[np.int64]:
        return np.concatenate([self._columns(each) for each in spans], axis=1)

    def _columns(self, span: PromptSpan[Qwen3TTSRequest]) -> NDArray[np.int64]:
        read = span.request.columns(self._config, span.start, span.end)
        columns = np.zeros((self.num_id_tracks, span.end - span.start), np.int64)
        columns[TEXT], columns[CODE] = read.text, read.codec
        if len(read.frames):
            columns[REST:, read.codec == FRAME_COLUMN] = packed_codes(read.frames).T
        columns[REST, read.codec == SPEAKER] = span.slot
        return columns

    def warm_up(self) -> None:
        self._follow(1)

    def embed_ids(self, ids: Tensor) -> Tensor:
        from antiphon.nn.kernels.column_embedding import ColumnTables, embed_columns

        tables = ColumnTables(
            text=self.talker.text_table,
            frames=self.talker.frame_table.rows,
            offsets=self.talker.frame_table.offsets,
            vectors=self._speakers,
            frame=FRAME_COLUMN,
            vector=SPEAKER,
        )
        return embed_columns(ids, tables)

    def _follow(self, num_led: int) -> None:
        from antiphon.nn.kernels.column_embedding import put_frames

        table = self.talker.frame_table
        put_frames(self._led[:num_led], (table.rows, table.offsets), self.pending)

    def embed(self, slots: Tensor) -> Inputs:
        from antiphon.nn.kernels import frame

        counts = (self.slots.positions, self.slots.frames)
        text = (self._text, self.talker.text_table)
        norm = self.talker.transformer.first_norm
        return Inputs(slots, *frame.embed(slots, self.pending, text, counts, norm))

    def flat(self, inputs: Inputs) -> Tensor:
        scaled: PreNormState = inputs.states
        return scaled.states

    def _sample_first(
        self, hidden: Tensor, inputs: Inputs, frames: Frames, noise: Tensor, reach: SamplingReach
    ) -> None:
        from antiphon.nn.kernels import frame

        rules = frame.SamplingRules(
            self._talker_sampling.parameters,
            self.has_occurred,
            self.talker.is_forbidden,
            self.slots.frames,
            self.slots.min_frames,
            self._codec_tokens.eos,
        )
        first = (frames.codes[:, 0], frames.scores[:, 0])
        frame.sample(self.talker.head(hidden), inputs.slots, rules, noise, *first)

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        from antiphon.nn.kernels import frame

        table = (self.talker.frame_table.rows, self.talker.frame_table.offsets)
        counts, store = (self.slots.positions, self.slots.frames), self.slots.frame_store
        if is_replay:
            store = torch.empty_like(store[:, :1])
        drawn, eos = (frames.codes, frames.scores), self._codec_tokens.eos
        frame.commit(inputs.slots, drawn, eos, table, counts, self.pending, store)


def _known(ids: Tensor, rows: Tensor) -> Tensor:
    """Return the rows of ids; of negative ones, which stand for no id, zeros."""
    return torch.where((ids >= 0)[..., None], rows, 0.0)


def load_runner(
    context: LoadContext, *, max_positions: int = MAX_POSITIONS, **how: Unpack[RunnerOptions]
) -> Qwen3TTSRunner:
    """Load a checkpoint's language model and its runner; see `runner_of`; raises ModelLoadError."""
    config = load_config(context.checkpoint)
    stack = config.talker.transformer
    sizes = num_model_weights(config, context.quantize), stack.position_size
    reserved = unpacked_bytes(stack.products("") if context.quantize else ())
    budget = fitted(context, max_positions, sizes, reserved)
    model = load_language_model(replace(context, max_slots=budget.num_slots), max_positions)
    return runner_of(context, model, max_positions, budget=budget, **how)


def load_language_model(context: LoadContext, max_positions: int = MAX_POSITIONS) -> LanguageModel:
    """Load talker and predictor from a checkpoint's directory; raises ModelLoadError."""
    config = load_config(context.checkpoint)
    how = weights_for(context, "talker")
    is_invariant = context.is_deterministic or bool(context.quantize and how["like"].is_cpu)
    opened = open_weights(language_model_part(context.checkpoint, config), **how)
    with torch.inference_mode(), opened as weights:
        talker = Talker.of(weights, config.talker, max_positions, is_batch_invariant=is_invariant)
        predictor = load_predictor(
            weights, config.predictor, talker.frame_table, is_batch_invariant=is_invariant
        )
        kind = FusedLanguageModel if kernels.run_on(talker.text_table) else LanguageModel
        return kind(
            config, talker, predictor, num_slots=context.max_slots, max_positions=max_positions
        )
