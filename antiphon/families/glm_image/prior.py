"""Loader of a checkpoint's prior, and of the runner that drives it."""

from collections.abc import Sequence
from typing import TypeAlias, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.ar_model import Codes, Frames, Inputs, SlotStart
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.model_runner.token_model import TokenModel
from antiphon.families.glm_image.checkpoint import prior_part
from antiphon.families.glm_image.config import PriorConfig, load_config
from antiphon.families.glm_image.grids import PriorRequest
from antiphon.families.glm_image.prompt import MAX_POSITIONS, GlmImagePrompt
from antiphon.families.kit.loading import RunnerOptions, runner_of, weights_for
from antiphon.nn.attention import Attend
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.sampler import SamplingReach, SamplingTable
from antiphon.nn.transformer import Transformer
from antiphon.nn.weights import open_weights

PriorRunner: TypeAlias = ModelRunner[PriorRequest]

_USUAL_POSITIONS = 1536  # of an image of 1024 x 1024 pixels, with its preview and a long prompt
_AXES = 3


def load_prior(context: LoadContext, **how: Unpack[RunnerOptions]) -> PriorRunner:
    """Load a checkpoint's prior and its runner; see `runner_of`; raises ModelLoadError."""
    config = load_config(context.checkpoint)
    how_opened = weights_for(context, "prior")
    max_positions = min(MAX_POSITIONS, config.transformer.max_positions)
    opened = open_weights(prior_part(context.checkpoint, config), **how_opened)
    with torch.inference_mode(), opened as weights:
        model = PriorModel(config, weights, context, max_positions)
    cache_bytes = context.cache_bytes
    if cache_bytes is None:
        position_bytes = model.kv_shapes[0].position_size * how_opened["like"].element_size()
        cache_bytes = context.max_slots * min(_USUAL_POSITIONS, max_positions) * position_bytes
    budget = KVBudget(context.max_slots, max_positions, cache_bytes)
    return runner_of(context, model, max_positions, budget=budget, **how)


class PriorModel(TokenModel[PriorRequest]):
    """Language model of an image's tokens."""

    def __init__(
        self, config: PriorConfig, weights: Weights, context: LoadContext, max_positions: int
    ) -> None:
        """Take the model out of a checkpoint's tensors, all of one type and on one device."""
        num_slots, how = context.max_slots, {"is_batch_invariant": context.is_deterministic}
        name = "model.language_model"
        transformer = Transformer.of(weights, name, config.transformer, max_positions, **how)
        rows = {"num_slots": num_slots, "frame_size": 1, "max_positions": max_positions}
        super().__init__(transformer, weights[f"{name}.embed_tokens.weight"], **rows)
        # Rows of ids that are not codes are left out: so the grid is always full.
        head = weights["lm_head.weight"][: config.num_codes].contiguous()
        self._head = Linear(head, is_batch_invariant=context.is_deterministic)
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
        return numbers >= np.array([each.prompt.num_codes for each in requests], np.int64)

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

    def draw(self, logits: Tensor, inputs: Inputs, sampling: SamplingReach) -> Frames:
        frames, backend = Frames.empty(len(inputs.slots), self.slots), self._head.backend
        seeds = self.slots.seeds[inputs.slots]
        noise = backend.gumbel_noise(seeds, inputs.frames, self._codebook, self._num_codes)[:, 0]
        rows = self._sampling.rows(inputs.slots, sampling)
        drawn = backend.sample(logits.float(), rows, noise)
        frames.codes[:, 0], frames.scores[:, 0] = drawn
        return frames

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        self.feed_back(frames, inputs, is_replay=is_replay, is_end=self._is_end)
