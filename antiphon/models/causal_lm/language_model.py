"""A language model over text: a frame is one token, with what else was likely in its place."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.chat_types import ChatSampling
from antiphon.engine.model_runner.ar_model import (
    FAULT,
    FRAME,
    STOP,
    Codes,
    Frames,
    Inputs,
    PromptSpan,
    SlotStart,
)
from antiphon.engine.model_runner.slot_state import SlotState
from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.models.base import Piece, Prompt
from antiphon.models.causal_lm.config import CausalLMConfig
from antiphon.models.causal_lm.request import MAX_BIASES, CausalLMPrompt, CausalLMRequest
from antiphon.models.token_frame import FRAME_SIZE, MAX_LOGPROBS
from antiphon.nn import kernels
from antiphon.nn.attention import Attend, KVShape
from antiphon.nn.host_device import PackedUpload, upload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.token_sampler import TokenHistory, TokenReach, TokenSampler, TokenSampling
from antiphon.nn.transformer import Transformer


class CausalLM:
    """An `antiphon.engine.model_runner.ar_model.ARModel`.

    Attributes:
        slots: state of every slot, and of one more for padding.
        like: the embedding of ids, ``[vocab_size, hidden_size]``.
        width: the hidden size.
        uses_kernels: whether it is on a GPU.
    """

    def __init__(
        self,
        config: CausalLMConfig,
        weights: Weights,
        *,
        eos_ids: Sequence[int],
        num_slots: int,
        max_positions: int,
        is_batch_invariant: bool = False,
    ) -> None:
        """Take the model out of a checkpoint's tensors, all of one type and on one device."""
        name = f"{config.prefix}model"
        self.like = weights[f"{name}.embed_tokens.weight"]
        self._transformer = Transformer.of(
            weights,
            name,
            config.transformer,
            max_positions,
            is_batch_invariant=is_batch_invariant,
        )
        head = self.like if config.is_tied else weights[f"{config.prefix}lm_head.weight"]
        self._head = Linear(head, is_batch_invariant=is_batch_invariant)
        self._max_positions = max_positions
        self._device = device = self.like.device
        self.width = self.like.shape[1]
        self.uses_kernels = kernels.run_on(self.like)
        num_rows = num_slots + 1
        self.slots = SlotState.zeros(num_rows, FRAME_SIZE, device)
        usual = token_sampling(config.sampling, None)
        self._sampler = TokenSampler(
            num_rows,
            config.vocab_size,
            usual,
            self.like,
            max_logprobs=MAX_LOGPROBS,
            max_biases=MAX_BIASES,
        )
        self._is_eos = torch.zeros(config.vocab_size, dtype=torch.bool, device=device)
        self._is_eos[[each for each in eos_ids if each < config.vocab_size]] = True
        # The id that each slot reads next.
        self._next_ids = torch.zeros(num_rows, dtype=torch.int64, device=device)
        nothing = torch.full((1 + MAX_LOGPROBS,), torch.nan, device=device)
        self._no_bits = _bits(nothing)

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return (self._transformer.kv_shape,)

    def open(self, prompt: Prompt, frames: Codes) -> CausalLMRequest:
        data = prompt.data
        assert isinstance(data, CausalLMPrompt)
        return CausalLMRequest.of(data, frames[:, 0].tolist())

    def close(self, request: CausalLMRequest) -> None:
        """Nothing is kept of it elsewhere."""

    def observe(
        self, requests: Sequence[CausalLMRequest], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        return np.zeros(len(requests), np.bool_)  # the scheduler knows their limits

    def start(self, starts: Sequence[SlotStart[CausalLMRequest]], uploads: PackedUpload) -> None:
        numbers = [
            (each.slot, each.request.ids[each.prompt.num_positions + each.next_frame])
            for each in starts
        ]
        uploads.add(self._begin, np.array(numbers, np.int64).T)
        samplings = {}
        for each in starts:
            prompt = each.request.prompt
            history = TokenHistory(prompt.ids, each.frames[:, 0].tolist())
            samplings[each.slot] = (token_sampling(prompt.sampling, prompt.num_logprobs), history)
        self._sampler.write(samplings, uploads)

    def _begin(self, numbers: Tensor) -> None:
        """Write the ids that slots read next: slots, then ids."""
        self._next_ids[numbers[0]] = numbers[1]

    def append(
        self, pieces: Sequence[tuple[int, CausalLMRequest, Piece]], uploads: PackedUpload
    ) -> None:
        raise AssertionError("its prompts are complete")

    def embed_prompts(self, spans: Sequence[PromptSpan[CausalLMRequest]]) -> Tensor:
        ids = np.concatenate([each.request.ids[each.start : each.end] for each in spans])
        return F.embedding(upload(ids, self._device), self.like)

    def sampling_shape(self, slots: Sequence[int]) -> TokenReach:
        return self._sampler.reach(slots)

    def embed(self, slots: Tensor) -> Inputs:
        last = self._max_positions - 1  # reached only by a step whose result is not used
        positions = self.slots.positions[slots].clamp(max=last)
        states = F.embedding(self._next_ids[slots], self.like)[:, None]
        return Inputs(slots, states, positions, self.slots.frames[slots])

    def flat(self, inputs: Inputs) -> Tensor:
        states: Tensor = inputs.states
        return states[:, 0]

    def forward(
        self, states: Tensor, slots: Tensor, positions: Tensor, attends: Sequence[Attend]
    ) -> Tensor:
        return self._transformer(states, self._transformer.rope.at(positions), attends[0])

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: TokenReach) -> Frames:
        frames = Frames.empty(len(inputs.slots), self.slots)
        logits = self._head(hidden).float()
        draws = (self.slots.seeds[inputs.slots], inputs.frames)
        tokens, scores = self._sampler.sample(logits, inputs.slots, draws, sampling)
        codes = frames.codes
        codes[:, 0], frames.scores[:, 0] = tokens, scores
        split = 2 + MAX_LOGPROBS
        if sampling.tells_logprobs:
            own, top, top_logprobs = self._sampler.logprobs(logits, inputs.slots, tokens)
            codes[:, 1], codes[:, 2:split] = _bits(own), top
            codes[:, split:-1] = _bits(top_logprobs)
        else:
            codes[:, 1], codes[:, 2:split] = self._no_bits[0], -1
            codes[:, split:-1] = self._no_bits[1:]
        return frames

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        codes, tokens = frames.codes, frames.codes[:, 0]
        self._next_ids[inputs.slots] = tokens
        if not is_replay:
            self.slots.frame_store[inputs.slots, inputs.frames % FRAME_STORE_FRAMES] = codes[:, :-1]
        self.slots.advance(inputs.slots, inputs.positions, inputs.frames)
        outcome = torch.where(self._is_eos[tokens], STOP, FRAME)
        codes[:, -1] = torch.where(frames.scores[:, 0].isfinite(), outcome, FAULT)


def token_sampling(sampling: ChatSampling, num_logprobs: int | None) -> TokenSampling:
    """Return complete parameters in the form that the device is given."""
    values = asdict(sampling)
    assert None not in values.values(), "the prompter fills defaults in"
    return TokenSampling(**values, num_logprobs=-1 if num_logprobs is None else num_logprobs)


def _bits(numbers: Tensor) -> Tensor:
    """Return the bits of f32 numbers as whole numbers."""
    return numbers.view(torch.int32).long()
