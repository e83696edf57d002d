"""The talker as an autoregressive model; a frame is one code, read with a state of the thinker.

The input projection is linear. Its part for codes is folded into a table when the model is loaded,
and its part for the thinker's states is added when they arrive.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Unpack

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.engine.model_runner.ar_model import Codes, Frames, Inputs, PromptSpan, SlotStart
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.model_runner.token_model import TokenModel
from antiphon.families.causal_lm.omni.checkpoint import talker_part
from antiphon.families.causal_lm.omni.config import OmniConfig, load_omni_config
from antiphon.families.causal_lm.omni.prompt import MAX_CODES, SAMPLING, TalkerPrompt, TalkerRequest
from antiphon.families.causal_lm.omni.voices import OmniVoice, load_voices
from antiphon.families.causal_lm.prompt import MAX_TOLD_POSITIONS
from antiphon.families.kit.loading import RunnerOptions, runner_of, weights_for
from antiphon.nn.device_writes import PackedUpload, upload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.token_sampler import TokenReach, TokenSampler, TokenStart
from antiphon.nn.transformer import Transformer
from antiphon.nn.weights import open_weights

TalkerRunner: TypeAlias = ModelRunner[TalkerRequest]
_USUAL_POSITIONS = 2048  # per conversation with the codes of its answer


class OmniTalker(TokenModel[TalkerRequest]):
    """Language model of an answer's codes."""

    def __init__(
        self,
        config: OmniConfig,
        weights: Weights,
        voices: Mapping[str, OmniVoice],
        context: LoadContext,
        max_positions: int,
    ) -> None:
        """Build the talker from a checkpoint's tensors, all of one type and on one device."""
        talker, how = config.talker, {"is_batch_invariant": context.is_deterministic}
        num_slots = context.max_slots
        tokens = talker.tokens
        self._projection = Linear.of(weights, "talker.thinker_to_talker_proj", **how)
        codes = weights["talker.model.embed_tokens.weight"]
        text = weights[f"{config.thinker}model.embed_tokens.weight"]
        transformer = Transformer.of(
            weights, "talker.model", talker.transformer, max_positions, **how
        )
        rows = {"num_slots": num_slots, "frame_size": 1, "max_positions": max_positions}
        super().__init__(transformer, F.linear(codes, self._projection.weight), **rows)
        self._head = Linear.of(weights, "talker.codec_head", **how)
        self._tokens, device = tokens, self._device
        self._begins = {name: _host(text[voice.bos_token][None]) for name, voice in voices.items()}
        self._after = _host(text[[tokens.text_end, tokens.text_pad]])
        # The thinker's states of each slot, and the number of the last one, once it is available.
        self._replies = self.like.new_zeros(num_slots + 1, MAX_CODES, self.width)
        self._last_replies = torch.full((num_slots + 1,), MAX_CODES - 1, device=device)
        ids = torch.arange(talker.vocab_size, device=device)
        self._is_end = (ids == tokens.codec_end) | (ids == tokens.codec_pad)
        self._is_forbidden = (ids >= config.flow.num_embeds) & ~self._is_end
        limits, num_rows = {"max_logprobs": 1, "max_biases": 1}, num_slots + 1
        self._sampler = TokenSampler(num_rows, talker.vocab_size, SAMPLING, self.like, **limits)

    def open(self, prompt: Prompt, frames: Codes) -> TalkerRequest:
        data = prompt.data
        assert isinstance(data, TalkerPrompt)
        return TalkerRequest.of(data, frames[:, 0], self._tokens)

    def observe(
        self, requests: Sequence[TalkerRequest], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        return np.asarray(numbers >= MAX_CODES)

    def start(self, starts: Sequence[SlotStart[TalkerRequest]], uploads: PackedUpload) -> None:
        self.begin_slots(starts, uploads)
        slots = np.array([each.slot for each in starts])  # these read states as they arrive
        uploads.write(self._last_replies, slots, np.full(len(slots), MAX_CODES - 1))
        self._sampler.write({each.slot: _token_start(each) for each in starts}, uploads)

    def append(
        self, pieces: Sequence[tuple[int, TalkerRequest, Piece]], uploads: PackedUpload
    ) -> None:
        for slot, request, piece in pieces:
            first, states = request.append(piece, self._after)
            states = states[: max(0, MAX_CODES - first)]
            if len(states):
                places = [(slot, first + number) for number in range(len(states))]
                uploads.add(self._put, np.array(places, np.int64).T, states)
            if request.is_closed:
                last = min(request.num_replies, MAX_CODES) - 1
                uploads.write(self._last_replies, np.array([slot]), np.array([last]))

    def _put(self, places: Tensor, states: Tensor) -> None:
        self._replies[places[0], places[1]] = self._projection(states.to(self.like.dtype))

    def embed_prompts(self, spans: Sequence[PromptSpan[TalkerRequest]]) -> Tensor:
        """Return the projected inputs: states of the thinker plus code embeddings."""
        states, codes = zip(*(self._read(each) for each in spans), strict=True)
        read = upload(np.concatenate(states), self._device).to(self.like.dtype)
        ids = upload(np.concatenate(codes), self._device)
        has_code = (ids != self._tokens.codec_mask)[:, None]
        beside = torch.where(has_code, F.embedding(ids, self.like), 0.0)
        return self._projection(read) + beside

    def _read(
        self, span: PromptSpan[TalkerRequest]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        request = span.request
        known, num_known = request.prompt.states, len(request.prompt.states)
        begin = self._begins[request.prompt.voice]
        states = [known[span.start : span.end]]
        for position in range(max(span.start, num_known), span.end):
            number = position - num_known - 1
            states.append(begin if number < 0 else request.reply(number)[None])
        return np.concatenate(states), request.ids[span.start : span.end]

    def sampling_shape(self, slots: Sequence[int]) -> TokenReach:
        return self._sampler.reach(slots)

    def embed(self, slots: Tensor) -> Inputs:
        inputs = super().embed(slots)
        numbers = torch.minimum(inputs.frames, self._last_replies[slots])
        states: Tensor = inputs.states
        states = states + self._replies[slots, numbers][:, None]
        return Inputs(slots, states, inputs.positions, inputs.frames)

    def draw(self, logits: Tensor, inputs: Inputs, sampling: TokenReach) -> Frames:
        frames = Frames.empty(len(inputs.slots), self.slots)
        logits = logits.float().masked_fill(self._is_forbidden, -torch.inf)
        draws = (self.slots.seeds[inputs.slots], inputs.frames)
        drawn = self._sampler.sample(logits, inputs.slots, draws, sampling)
        frames.codes[:, 0], frames.scores[:, 0] = drawn
        return frames

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        self.feed_back(frames, inputs, is_replay=is_replay, is_end=self._is_end)


def _token_start(start: SlotStart[TalkerRequest]) -> TokenStart:
    begin, ids = start.prompt.num_positions + 1, start.request.ids.tolist()
    return TokenStart(sampling=start.prompt.sampling, prompt=ids[:begin], answer=ids[begin:])


def _host(tensor: Tensor) -> NDArray[np.float32]:
    numbers: NDArray[np.float32] = tensor.float().cpu().numpy()
    return numbers


def load_talker(context: LoadContext, **how: Unpack[RunnerOptions]) -> TalkerRunner:
    """Load a checkpoint's talker and its runner; see `runner_of`; raises ModelLoadError."""
    config = load_omni_config(context.checkpoint)
    sizes = config.talker.transformer
    how_opened = weights_for(context, "talker")
    max_positions = min(MAX_TOLD_POSITIONS + 2 + MAX_CODES, sizes.max_positions)
    opened = open_weights(talker_part(context.checkpoint, config), **how_opened)
    with torch.inference_mode(), opened as weights:
        voices = load_voices(context.checkpoint, config)
        model = OmniTalker(config, weights, voices, context, max_positions)
    usual = context.max_slots * min(_USUAL_POSITIONS, max_positions)
    position_bytes = sizes.position_size * how_opened["like"].element_size()
    cache_bytes = context.cache_bytes or usual * position_bytes
    budget = KVBudget(context.max_slots, max_positions, cache_bytes)
    graphs = "graphs of the talker"
    return runner_of(context, model, max_positions, budget=budget, graphs=graphs, **how)
