"""The prior as an autoregressive model: a frame is one code, and no other id is ever drawn.

What the official class keeps on the model, the positions of the codes to come, is kept for each
slot here, so that requests of any sizes run at once.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.ar_model import (
    Codes,
    Frames,
    Inputs,
    SlotStart,
)
from antiphon.engine.model_runner.token_model import TokenModel
from antiphon.families.glm_image.config import PriorConfig
from antiphon.families.glm_image.prior_request import PriorRequest
from antiphon.families.glm_image.prompt import GlmImagePrompt
from antiphon.nn.attention import Attend
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.sampler import SamplingReach, SamplingTable
from antiphon.nn.transformer import Transformer

_AXES = 3


class PriorModel(TokenModel[PriorRequest]):
    """An `antiphon.engine.model_runner.ar_model.ARModel`."""

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
            frame_size=1,
            max_positions=max_positions,
        )
        # Rows of ids that are not codes are left out: so the grid is always full.
        head = weights["lm_head.weight"][: config.num_codes].contiguous()
        self._head = Linear(head, is_batch_invariant=is_batch_invariant)
        self._num_codes, num_rows, device = config.num_codes, num_slots + 1, self._device
        self._sampling = SamplingTable(num_rows, config.num_codes, device)
        self._codebook = torch.zeros(1, dtype=torch.int64, device=device)
        self._is_end = torch.zeros(config.num_codes, dtype=torch.bool, device=device)  # none is
        # The axes of each slot's positions.
        self._axes = torch.zeros(num_rows, max_positions, _AXES, dtype=torch.int64, device=device)

    def open(self, prompt: Prompt, frames: Codes) -> PriorRequest:
        data = prompt.data
        assert isinstance(data, GlmImagePrompt)
        return PriorRequest.of(data.prior, frames)

    def observe(
        self, requests: Sequence[PriorRequest], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        num_codes = np.array([each.prompt.num_codes for each in requests])
        is_last: NDArray[np.bool_] = numbers >= num_codes
        return is_last

    def start(self, starts: Sequence[SlotStart[PriorRequest]], uploads: PackedUpload) -> None:
        self.begin_slots(starts, uploads)
        axes = [each.request.prompt.positions[: self._max_positions] for each in starts]
        places = [
            each.slot * self._max_positions + np.arange(len(positions))
            for each, positions in zip(starts, axes, strict=True)
        ]
        uploads.write(self._axes.flatten(0, 1), np.concatenate(places), np.concatenate(axes))
        self._sampling.write({each.slot: each.prompt.sampling for each in starts}, uploads)

    def sampling_shape(self, slots: Sequence[int]) -> SamplingReach:
        return self._sampling.reach(slots)

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
        self.feed_back(frames, inputs, is_replay=is_replay, is_end=self._is_end)
