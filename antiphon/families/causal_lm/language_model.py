"""The causal language model; a frame is one token with its logprobs."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.chat import CHAT_VOICE, MAX_BIASES
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.token_frame import FRAME_SIZE, MAX_LOGPROBS
from antiphon.engine.model_runner.ar_model import Codes, Frames, Inputs, PromptSpan, SlotStart
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.model_runner.token_model import TokenModel
from antiphon.engine.runner import token_buckets
from antiphon.families.causal_lm.checkpoint import model_part, tied
from antiphon.families.causal_lm.config import CausalLMConfig, load_config
from antiphon.families.causal_lm.omni.config import has_voice
from antiphon.families.causal_lm.prompt import CausalLMPrompt, CausalLMRequest
from antiphon.families.causal_lm.tokenizer import load_tokenizer
from antiphon.families.kit.loading import RunnerOptions, runner_of, weights_for
from antiphon.nn.attention import Attend
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.token_sampler import TokenReach, TokenSampler, TokenStart
from antiphon.nn.transformer import Transformer
from antiphon.nn.weights import check_tied, open_weights

CausalLMRunner: TypeAlias = ModelRunner[CausalLMRequest]
_USUAL_POSITIONS = 2048  # per conversation
_MOST_GPU_BYTES, _MOST_BYTES = 8 * 2**30, 2**30  # without a setting


class CausalLM(TokenModel[CausalLMRequest]):
    def __init__(
        self,
        config: CausalLMConfig,
        weights: Weights,
        *,
        eos_ids: Sequence[int],
        num_slots: int,
        max_positions: int,
        is_batch_invariant: bool = False,
        tells_states: bool = False,
    ) -> None:
        """Build the model from a checkpoint's tensors, all of one type and on one device."""
        name = f"{config.prefix}model"
        transformer = Transformer.of(
            weights,
            name,
            config.transformer,
            max_positions,
            is_batch_invariant=is_batch_invariant,
        )
        super().__init__(
            transformer,
            weights[f"{name}.embed_tokens.weight"],
            num_slots=num_slots,
            frame_size=FRAME_SIZE,
            max_positions=max_positions,
        )
        head = self.like if config.is_tied else weights[f"{config.prefix}lm_head.weight"]
        self._head = Linear(head, is_batch_invariant=is_batch_invariant)
        device = self._device
        self._sampler = TokenSampler(
            num_slots + 1,
            config.vocab_size,
            config.sampling,
            self.like,
            max_logprobs=MAX_LOGPROBS,
            max_biases=MAX_BIASES,
        )
        self._is_eos = torch.zeros(config.vocab_size, dtype=torch.bool, device=device)
        self._is_eos[[each for each in eos_ids if each < config.vocab_size]] = True
        # Sums of embeddings and hidden states: of the last prefill pass, and of each slot's last
        # position. Those of a prompt are kept with its request until they are exported.
        self._pass_states: Tensor | None = None
        if tells_states:
            self._pass_states = self.like.new_zeros(token_buckets(num_slots)[-1], self.width)
            self._last_states = self.like.new_zeros(num_slots + 1, 1, self.width)
        # The rest of a frame after its token, if no logprobs are requested.
        bits = _bits(torch.full((1 + MAX_LOGPROBS,), torch.nan, device=device))
        self._nothing_told = torch.full((FRAME_SIZE - 1,), -1, device=device)
        self._nothing_told[0] = bits[0]
        self._nothing_told[-MAX_LOGPROBS:] = bits[1:]

    def open(self, prompt: Prompt, frames: Codes) -> CausalLMRequest:
        data = prompt.data
        assert isinstance(data, CausalLMPrompt)
        return CausalLMRequest.of(data, frames[:, 0].tolist())

    def start(self, starts: Sequence[SlotStart[CausalLMRequest]], uploads: PackedUpload) -> None:
        self.begin_slots(starts, uploads)
        self._sampler.write({each.slot: _token_start(each) for each in starts}, uploads)

    def sampling_shape(self, slots: Sequence[int]) -> TokenReach:
        return self._sampler.reach(slots)

    def forward(
        self, states: Tensor, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        hidden = super().forward(states, slots, positions, attends)
        if self._pass_states is not None and len(hidden) == 1:  # prefill has one row of positions
            self._pass_states[: hidden.shape[1]] = hidden[0] + states[0]
        return hidden

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: TokenReach) -> Frames:
        if self._pass_states is not None:
            self._last_states[inputs.slots] = hidden[:, None] + inputs.states
        return super().sample(hidden, inputs, sampling)

    def draw(self, logits: Tensor, inputs: Inputs, sampling: TokenReach) -> Frames:
        frames = Frames.empty(len(inputs.slots), self.slots)
        draws = (self.slots.seeds[inputs.slots], inputs.frames)
        allowed = self.hold_end(logits, self._is_eos, inputs) if sampling.holds_end else logits
        tokens, scores = self._sampler.sample(allowed, inputs.slots, draws, sampling)
        codes = frames.codes
        codes[:, 0], frames.scores[:, 0] = tokens, scores
        if sampling.tells_logprobs:
            split = 2 + MAX_LOGPROBS
            own, top, top_logprobs = self._sampler.logprobs(logits.float(), inputs.slots, tokens)
            codes[:, 1], codes[:, 2:split] = _bits(own), top
            codes[:, split:-1] = _bits(top_logprobs)
        else:
            codes[:, 1:-1] = self._nothing_told
        return frames

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        self.feed_back(frames, inputs, is_replay=is_replay, is_end=self._is_eos)

    def keep_states(self, spans: Sequence[PromptSpan[CausalLMRequest]], first: int) -> None:
        """Store hidden states; see `antiphon.engine.model_runner.ar_model.SupportsHiddenStates`."""
        if self._pass_states is None:
            return
        for each in spans:
            size = each.end - each.start
            if each.request.is_told:
                states = self._prompt_states(each.request)
                states[each.start : each.end] = self._pass_states[first : first + size]
            first += size

    def hidden_states(
        self, slots: Sequence[int], requests: Sequence[CausalLMRequest], numbers: NDArray[np.int64]
    ) -> Mapping[int, tuple[int, Tensor]]:
        """Export states; see `antiphon.engine.model_runner.ar_model.SupportsHiddenStates`."""
        if self._pass_states is None:
            return {}
        exported = {}
        for slot, request, number in zip(slots, requests, numbers.tolist(), strict=True):
            if request.prompt.is_spoken:
                num_prompt = len(request.prompt.ids)
                exported[slot] = (num_prompt + number - 2, self._last_states[slot])
                if number == 1:
                    states, request.states = self._prompt_states(request), None
                    states[-1:] = self._last_states[slot]
                    exported[slot] = (0, states)
        return exported

    def _prompt_states(self, request: CausalLMRequest) -> Tensor:
        """Return the buffer of a prompt's hidden states, ``[num_positions, width]``."""
        if request.states is None:
            request.states = self.like.new_empty(len(request.prompt.ids), self.width)
        return request.states


def _token_start(start: SlotStart[CausalLMRequest]) -> TokenStart:
    prompt = start.request.prompt
    return TokenStart(
        sampling=prompt.sampling,
        num_logprobs=-1 if prompt.num_logprobs is None else prompt.num_logprobs,
        holds_end=start.prompt.sampling.first_end > 0,
        prompt=prompt.ids,
        answer=start.frames[:, 0].tolist(),
    )


def _bits(numbers: Tensor) -> Tensor:
    return numbers.view(torch.int32).long()


def load_runner(
    context: LoadContext, *, max_positions: int | None = None, **how: Unpack[RunnerOptions]
) -> CausalLMRunner:
    """Load a checkpoint's language model and its runner; see `runner_of`; raises ModelLoadError.

    ``max_positions`` defaults to the longest request that fits.
    """
    config = load_config(context.checkpoint)
    eos_ids = load_tokenizer(context.checkpoint).eos_ids(config.eos_ids)
    how_opened = weights_for(context, "language model")
    longest = config.max_positions(context)
    max_positions = longest if max_positions is None else min(max_positions, longest)
    if not context.is_dummy:
        check_tied(context.checkpoint, tied(config))
    opened = open_weights(model_part(context.checkpoint, config), **how_opened)
    is_invariant = context.is_deterministic or bool(context.quantize and how_opened["like"].is_cpu)
    with torch.inference_mode(), opened as weights:
        model = CausalLM(
            config,
            weights,
            eos_ids=eos_ids,
            num_slots=context.max_slots,
            max_positions=max_positions,
            is_batch_invariant=is_invariant,
            tells_states=has_voice(context.checkpoint)
            and CHAT_VOICE in (context.tasks or (CHAT_VOICE,)),
        )
    budget = _budget(context, config, max_positions, how_opened["like"])
    return runner_of(context, model, max_positions, budget=budget, **how)


def _budget(
    context: LoadContext, config: CausalLMConfig, max_positions: int, like: torch.Tensor
) -> KVBudget:
    """Return the cache budget: the configured size, or that of typical conversations."""
    cache_bytes, utilization = context.cache_bytes, context.memory_utilization
    if cache_bytes is None and not (like.is_cuda and utilization is not None):
        usual = context.max_slots * min(_USUAL_POSITIONS, max_positions)
        most = _MOST_GPU_BYTES if like.is_cuda else _MOST_BYTES
        cache_bytes = min(usual * config.position_size * like.element_size(), most)
    return KVBudget(context.max_slots, max_positions, cache_bytes, utilization)
