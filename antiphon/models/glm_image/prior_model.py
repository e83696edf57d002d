"""The prior as an autoregressive model: a frame is one code, and no other id is ever drawn.

What the official class keeps on the model, the positions of the codes to come, is kept for each
slot here, so that requests of any sizes run at once.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.model_runner.ar_model import (
    FAULT,
    FRAME,
    Codes,
    Frames,
    Inputs,
    PromptSpan,
    SlotStart,
)
from antiphon.engine.model_runner.slot_state import SlotState
from antiphon.engine.plan import FRAME_STORE_FRAMES
from antiphon.models.base import Piece, Prompt
from antiphon.models.glm_image.config import PriorConfig
from antiphon.models.glm_image.prior_request import PriorRequest
from antiphon.models.glm_image.prompt import GlmImagePrompt
from antiphon.nn import kernels
from antiphon.nn.attention import Attend, KVShape
from antiphon.nn.host_device import PackedUpload, upload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.sampler import SamplingReach, SamplingTable
from antiphon.nn.transformer import Transformer

_AXES = 3


class PriorModel:
    """An `antiphon.engine.model_runner.ar_model.ARModel`.

    Attributes:
        slots: state of every slot, and of one more for padding.
        like: the embedding of ids, ``[vocab_size, hidden_size]``.
        width: the hidden size.
        uses_kernels: whether it is on a GPU.
    """

    def __init__(
        self,
        config: PriorConfig,
        weights: Weights,
        *,
        num_slots: int,
        max_positions: int,
        is_batch_invariant: bool = False,
    ) -> None:
        """Take the model out of a checkpoint's tensors, all of one type and on one device."""
        name = "model.language_model"
        self.like = weights[f"{name}.embed_tokens.weight"]
        self._transformer = Transformer.of(
            weights,
            name,
            config.transformer,
            max_positions,
            is_batch_invariant=is_batch_invariant,
        )
        # Rows of ids that are not codes are left out: so the grid is always full.
        head = weights["lm_head.weight"][: config.num_codes].contiguous()
        self._head = Linear(head, is_batch_invariant=is_batch_invariant)
        self._num_codes, self._max_positions = config.num_codes, max_positions
        self._device = device = self.like.device
        self.width = self.like.shape[1]
        self.uses_kernels = kernels.run_on(self.like)
        num_rows = num_slots + 1
        self.slots = SlotState.zeros(num_rows, 1, device)
        self._sampling = SamplingTable(num_rows, config.num_codes, device)
        self._codebook = torch.zeros(1, dtype=torch.int64, device=device)
        # The id that each slot reads next, and the axes of its positions.
        self._next_ids = torch.zeros(num_rows, dtype=torch.int64, device=device)
        self._axes = torch.zeros(num_rows, max_positions, _AXES, dtype=torch.int64, device=device)

    @property
    def kv_shapes(self) -> tuple[KVShape, ...]:
        return (self._transformer.kv_shape,)

    def open(self, prompt: Prompt, frames: Codes) -> PriorRequest:
        data = prompt.data
        assert isinstance(data, GlmImagePrompt)
        return PriorRequest.of(data.prior, frames)

    def close(self, request: PriorRequest) -> None:
        """Nothing is kept of it elsewhere."""

    def observe(
        self, requests: Sequence[PriorRequest], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        num_codes = np.array([each.prompt.num_codes for each in requests])
        is_last: NDArray[np.bool_] = numbers >= num_codes
        return is_last

    def start(self, starts: Sequence[SlotStart[PriorRequest]], uploads: PackedUpload) -> None:
        numbers = []
        for each in starts:
            next_place = each.prompt.num_positions + each.next_frame
            numbers.append((each.slot, each.request.ids[next_place]))
            positions = each.request.prompt.positions[: self._max_positions]
            uploads.add(self._axes[each.slot, : len(positions)].copy_, positions)
        uploads.add(self._begin, np.array(numbers, np.int64).T)
        self._sampling.write({each.slot: each.prompt.sampling for each in starts}, uploads)

    def _begin(self, numbers: Tensor) -> None:
        """Write the ids that slots read next: slots, then ids."""
        self._next_ids[numbers[0]] = numbers[1]

    def append(
        self, pieces: Sequence[tuple[int, PriorRequest, Piece]], uploads: PackedUpload
    ) -> None:
        raise AssertionError("its prompts are complete")

    def embed_prompts(self, spans: Sequence[PromptSpan[PriorRequest]]) -> Tensor:
        ids = np.concatenate([each.request.ids[each.start : each.end] for each in spans])
        return F.embedding(upload(ids, self._device), self.like)

    def sampling_shape(self, slots: Sequence[int]) -> SamplingReach:
        return self._sampling.reach(slots)

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
        rotation = self._transformer.rope.at(self._axes[slots, positions])
        return self._transformer(states, rotation, attends[0])

    def sample(self, hidden: Tensor, inputs: Inputs, sampling: SamplingReach) -> Frames:
        frames, backend = Frames.empty(len(inputs.slots), self.slots), self._head.backend
        seeds = self.slots.seeds[inputs.slots]
        noise = backend.gumbel_noise(seeds, inputs.frames, self._codebook, self._num_codes)[:, 0]
        rows = self._sampling.rows(inputs.slots, sampling)
        drawn = backend.sample(self._head(hidden).float(), rows, noise)
        frames.codes[:, 0], frames.scores[:, 0] = drawn
        return frames

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        codes = frames.codes[:, :1]
        self._next_ids[inputs.slots] = codes[:, 0]
        if not is_replay:
            self.slots.frame_store[inputs.slots, inputs.frames % FRAME_STORE_FRAMES] = codes
        self.slots.advance(inputs.slots, inputs.positions, inputs.frames)
        is_fine = frames.scores.isfinite().all(dim=1)
        frames.codes[:, -1] = torch.where(is_fine, FRAME, FAULT)
