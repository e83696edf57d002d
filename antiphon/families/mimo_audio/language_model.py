"""The language model over groups: a step generates a text token or 160 ms of speech.

A frame is a token and the codes of a group. The codes are speech after the token ``<|empty|>``, and
empty codes after any other. Codes are drawn in every step: a step is the same for any token, so
that it needs no synchronisation with the device.
"""

from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import TypeAlias, Unpack, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.contracts.chat import MAX_BIASES
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.ar_model import (
    ARModel,
    Codes,
    Frames,
    Inputs,
    PromptSpan,
    SlotStart,
)
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.families.kit.layouts import FLOAT_BYTES, HALF_BYTES
from antiphon.families.kit.loading import RunnerOptions, runner_of, weights_for
from antiphon.families.mimo_audio.checkpoint import layout_of
from antiphon.families.mimo_audio.config import (
    MAX_POSITIONS,
    PASS_GROUPS,
    AudioTokenizerConfig,
    MiMoAudioConfig,
    found_tokenizer,
    load_config,
    load_tokenizer_config,
)
from antiphon.families.mimo_audio.options import TEXT
from antiphon.families.mimo_audio.patches import GroupDecoder, GroupEncoder
from antiphon.families.mimo_audio.prompt import MiMoAudioPrompt
from antiphon.families.mimo_audio.text_tokenizer import MiMoTextTokenizer, load_text_tokenizer
from antiphon.nn.attention import Attend, KVShape
from antiphon.nn.cuda.memory_plan import SLOT_RESERVE_BYTES
from antiphon.nn.device_writes import PackedUpload, upload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.safetensors_index import WeightsPart
from antiphon.nn.sampler import SamplingReach, SamplingTable
from antiphon.nn.token_sampler import TokenReach, TokenSampler, TokenStart
from antiphon.nn.transformer import Transformer
from antiphon.nn.weights import open_weights

_FIRST_CODEBOOK = 1  # key of random numbers; 0 is the text's
MiMoAudioRunner: TypeAlias = ModelRunner[MiMoAudioPrompt]

_LEAN = 200.0
"""Magnitude far above the other numbers of a state before the last norm, in any size."""
_HEAD_GAIN = 10.0


Reaches: TypeAlias = tuple[TokenReach, SamplingReach]
"""Sampling ranges of a step, for text and for codes."""


class MiMoAudioModel(ARModel[MiMoAudioPrompt]):
    """Language model of text and of groups of codes.

    Attributes:
        like: text embedding, ``[vocab_size, hidden_size]``.
    """

    def __init__(
        self,
        config: MiMoAudioConfig,
        weights: Weights,
        tokenizer: MiMoTextTokenizer,
        context: LoadContext,
    ) -> None:
        """Build the model from a checkpoint's tensors, all of one type and on one device."""
        table, size = weights["model.embed_tokens.weight"], config.frame_size
        num_slots, is_batch_invariant = context.max_slots, context.is_deterministic
        rows = {"num_slots": num_slots, "frame_size": size, "max_positions": MAX_POSITIONS}
        super().__init__(table, width=table.shape[1], **rows)
        self.config, how = config, {"is_batch_invariant": is_batch_invariant}
        sizes = config.transformer
        self._transformer = Transformer.of(weights, "model", sizes, MAX_POSITIONS, **how)
        self._head = Linear.of(weights, "lm_head", **how)
        self.encoder = GroupEncoder.of(weights, config, is_batch_invariant)
        self.decoder = GroupDecoder.of(weights, config, is_batch_invariant)
        self._empty_id = tokenizer.empty_id
        num_rows, device = num_slots + 1, self._device
        # The next input group of each slot, and whether its answer is text only.
        self._writes = torch.zeros(num_rows, dtype=torch.bool, device=device)
        self._next = torch.zeros(num_rows, size, dtype=torch.int64, device=device)
        limits = {"max_logprobs": 1, "max_biases": MAX_BIASES}
        self._text_sampler = TokenSampler(num_rows, config.vocab_size, TEXT, self.like, **limits)
        self._code_sampling = SamplingTable(num_rows, self.decoder.num_codes, device)
        self._frame_cache = self.decoder.new_cache(num_slots)
        ids = torch.arange(config.vocab_size, device=device)
        self._is_stop = torch.isin(ids, torch.tensor(tokenizer.stop_ids, device=device))
        self._empty_group = torch.tensor(config.empty_group, device=device)
        self._codebooks = torch.arange(size - 1, device=device) + _FIRST_CODEBOOK

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return (self._transformer.kv_shape,)

    def open(self, prompt: Prompt, frames: Codes) -> MiMoAudioPrompt:
        data = prompt.data
        assert isinstance(data, MiMoAudioPrompt)
        return replace(data, groups=np.concatenate((data.groups, frames)))

    def start(self, starts: Sequence[SlotStart[MiMoAudioPrompt]], uploads: PackedUpload) -> None:
        slots = np.array([each.slot for each in starts], np.int64)
        groups = [
            each.request.groups[each.prompt.num_positions + each.next_frame] for each in starts
        ]
        uploads.write(self._next, slots, np.stack(groups))
        self._text_sampler.write({each.slot: _text_start(each) for each in starts}, uploads)
        writes = [each.request.writing is not None for each in starts]
        uploads.write(self._writes, slots, np.array(writes))
        codes = {each.slot: each.request.code_sampling for each in starts}
        self._code_sampling.write(codes, uploads)

    def embed_prompts(self, spans: Sequence[PromptSpan[MiMoAudioPrompt]]) -> Tensor:
        groups = np.concatenate([each.request.groups[each.start : each.end] for each in spans])
        return self.embed_groups(upload(groups, self._device))

    def embed_groups(self, groups: Tensor) -> Tensor:
        """Return the inputs ``[n, width]`` of groups, int64 ``[n, frame_size]``."""
        is_speech = (groups[:, 0] == self._empty_id)[:, None]
        text = F.embedding(groups[:, 0], self.like)
        return torch.where(is_speech, self.encoder(groups[:, 1:]), text)

    def sampling_shape(self, slots: Sequence[int]) -> Reaches:
        return self._text_sampler.reach(slots), self._code_sampling.reach(slots)

    def next_states(self, slots: Tensor) -> Tensor:
        return self.embed_groups(self._next[slots])

    def forward(
        self, states: Tensor, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        return self._transformer(states, self._transformer.rope.at(positions), attends[0])

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: Reaches) -> Frames:
        frames = Frames.empty(len(inputs.slots), self.slots)
        draws = (self.slots.seeds[inputs.slots], inputs.frames)
        logits = self._head(hidden).float()
        speech = logits[:, self._empty_id]
        logits[:, self._empty_id] = speech.masked_fill(self._writes[inputs.slots], -torch.inf)
        if sampling[0].holds_end:
            logits = self.hold_end(logits, self._is_stop, inputs)
        ids, scores = self._text_sampler.sample(logits, inputs.slots, draws, sampling[0])
        noise = self._head.backend.gumbel_noise(*draws, self._codebooks, self.decoder.num_codes)
        rows = self._code_sampling.rows(inputs.slots, sampling[1])
        codes, code_scores = self.decoder.draw(hidden, rows, noise, self._frame_cache)
        is_speech = (ids == self._empty_id)[:, None]
        frames.codes[:, 0], frames.scores[:, 0] = ids, scores
        frames.codes[:, 1:-1] = torch.where(is_speech, codes, self._empty_group)
        frames.scores[:, 1:] = torch.where(is_speech, code_scores, 0.0)
        return frames

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        codes = frames.codes[:, :-1]
        self._next[inputs.slots] = codes
        is_end, is_finite = self._is_stop[codes[:, 0]], frames.scores.isfinite().all(dim=1)
        self.finish(frames, inputs, is_replay=is_replay, is_end=is_end, is_finite=is_finite)


def _text_start(start: SlotStart[MiMoAudioPrompt]) -> TokenStart:
    """Return the text sampling of a request, and for a text answer the history for penalties."""
    holds_end, writing = start.prompt.sampling.first_end > 0, start.request.writing
    if writing is None:
        return TokenStart(sampling=start.prompt.sampling, holds_end=holds_end)
    return TokenStart(
        sampling=writing,
        holds_end=holds_end,
        prompt=start.prompt.data.groups[:, 0].tolist(),
        answer=start.frames[:, 0].tolist(),
    )


def load_runner(context: LoadContext, **how: Unpack[RunnerOptions]) -> MiMoAudioRunner:
    """Load a checkpoint's language model and its runner; see `runner_of`; raises ModelLoadError."""
    model = load_language_model(context)
    budget = _budget(context, model.config)
    return runner_of(context, model, MAX_POSITIONS, budget=budget, **how)


def _budget(context: LoadContext, config: MiMoAudioConfig) -> KVBudget:
    """Return the cache budget, excluding the decoder's memory for streams."""
    num_reserved, slots, share = 0, context.max_slots, context.memory_utilization
    if (path := found_tokenizer(context.checkpoint)) is not None:
        audio, is_exact = load_tokenizer_config(path, config), context.dtype == "float32"
        num_reserved = reserved_bytes(audio, slots, is_exact=is_exact)
    return KVBudget(slots, MAX_POSITIONS, context.cache_bytes, share, num_reserved)


def load_language_model(context: LoadContext) -> MiMoAudioModel:
    """Load the language model and its local transformers; raises ModelLoadError."""
    config = load_config(context.checkpoint)
    tokenizer = load_text_tokenizer(context.checkpoint, config.vocab_size)
    part = WeightsPart(directory=context.checkpoint, layout=layout_of(config))
    opened = open_weights(part, **weights_for(context, "language model"))
    with torch.inference_mode(), opened as weights:
        if context.is_dummy:
            weights = _all_audio(weights, config, tokenizer.empty_id)
        return MiMoAudioModel(config, weights, tokenizer, context)


def _all_audio(weights: Weights, config: MiMoAudioConfig, empty_id: int) -> Weights:
    """Return random weights by which every group is audio: its id scores above all others.

    The bias of values is part of each head's result for any attention. The last layer makes a large
    number of it, which the head of that id reads.
    """
    last = f"model.layers.{config.transformer.num_layers - 1}.self_attn"
    changed: dict[str, Tensor] = {
        name: weights[name]
        for name in (f"{last}.v_proj.bias", f"{last}.o_proj.weight", "lm_head.weight")
    }
    bias, output, head = changed.values()
    bias[:] = 1
    output[0] = _LEAN / output.shape[1]
    head[empty_id] = 0
    head[empty_id, 0] = _HEAD_GAIN
    return ChainMap(changed, cast("MutableMapping[str, Tensor]", weights))


def stream_bytes(config: AudioTokenizerConfig, *, is_exact: bool) -> int:
    """Return the size of a stream's ring buffers, which are nearly all of its state.

    ``is_exact`` is whether keys and values are float32 rather than float16.
    """
    stacks = ((config.decoder, config.group_positions), (config.vocoder, config.group_mels))
    total, item = 0, FLOAT_BYTES if is_exact else HALF_BYTES
    for net, group_positions in stacks:
        width, num_positions = 2 * net.num_layers * net.hidden_size, PASS_GROUPS * group_positions
        total += width * (net.left + net.right + num_positions) * item
        total += width * (net.right + num_positions) * FLOAT_BYTES if net.right else 0
    return total


def reserved_bytes(config: AudioTokenizerConfig, num_slots: int, *, is_exact: bool) -> int:
    """Return the memory of all slots and of padding beyond the usual reserve."""
    beyond = stream_bytes(config, is_exact=is_exact) - SLOT_RESERVE_BYTES
    return max(0, beyond) * (num_slots + 1)
