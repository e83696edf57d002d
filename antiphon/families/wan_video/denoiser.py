"""The stage that denoises: many requests, each with a schedule and an expert of its own."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import diffusers
import torch
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.arrays import to_array
from antiphon.diffusion.components import ComponentLoader
from antiphon.diffusion.flow_denoiser import FlowDenoiser, FlowState, in_groups
from antiphon.diffusion.protocol import DenoisingWork
from antiphon.families.wan_video.config import SCHEDULERS, load_config
from antiphon.families.wan_video.denoising_state import WanState, WanStates
from antiphon.families.wan_video.prompt import MAX_PROMPT_TOKENS, WanPrompt

_FOLDERS = ("transformer", "transformer_2")
_FLOPS_IN_COST = 1e12
_FLOAT_BYTES = 4
_LATENTS_KEPT = 8  # noisy ones, those of the solver's order, guidance, and what a step makes
_ACTIVATIONS_KEPT = 8  # of a block, beside the inner ones of its feed-forward part


class WanDenoiser(FlowDenoiser):
    """One transformer, or two of which each request uses the one for its step's noise."""

    def load(self, loader: ComponentLoader) -> None:
        path = loader.index.path
        self._config = config = load_config(path)
        scheduler = loader.other("scheduler", getattr(diffusers, config.scheduler))
        shift = SCHEDULERS[config.scheduler]
        self._states = WanStates(config, scheduler, shift, loader.device, loader.dtype)
        folders = _FOLDERS[: config.num_experts]
        self._experts: list[Any] = [
            loader.module(folder, diffusers.WanTransformer3DModel) for folder in folders
        ]

    def is_guided(self, prompt: Prompt, network: str) -> bool:
        data: WanPrompt = prompt.data
        scale = data.guidance_scale if network == _FOLDERS[0] else data.guidance_scale_2
        return data.is_guided and self._is_needed(scale)

    def work(self, prompt: Prompt) -> DenoisingWork:
        """Return the estimated work of a prompt, its cost in 1e12 FLOP per step."""
        data: WanPrompt = prompt.data
        size = (data.width, data.height, data.num_frames)
        shape = self._config.latent_shape(*size)
        num_positions = self._config.num_positions(*size)
        transformer = self._config.transformer
        num_passes = 2 if data.is_guided else 1
        num_activations = _ACTIVATIONS_KEPT * transformer.hidden_dim + transformer.ffn_dim
        num_embeddings = num_passes * MAX_PROMPT_TOKENS * transformer.text_dim
        return DenoisingWork(
            num_steps=data.num_inference_steps,
            cost=num_passes * transformer.num_flops(num_positions) / _FLOPS_IN_COST,
            num_bytes=_FLOAT_BYTES * _LATENTS_KEPT * math.prod(shape)
            + self.dtype.itemsize * (num_positions * num_activations + num_embeddings),
            batch_key=(shape, data.is_guided, data.image is None),
        )

    def start(self, prompt: Prompt, conditioning: Latents | None) -> WanState:
        assert conditioning is not None, "the stage before encodes the prompt"
        return self._states.begin(prompt, conditioning.data)

    def predict(self, states: Sequence[FlowState]) -> Tensor:
        def alike(state: WanState) -> tuple[int, bool]:
            return state.expert, self._is_guided(state)

        return in_groups(cast(Sequence[WanState], states), alike, self._predict)

    def _predict(self, states: Sequence[WanState]) -> Tensor:
        """Return the prediction for requests with one expert, all with guidance or none."""
        expert, is_guided = self._experts[states[0].expert], self._is_guided(states[0])
        images = [state.image_embeds for state in states if state.image_embeds is not None]
        shared = {
            "hidden_states": _joined([state.model_input() for state in states]),
            "timestep": _joined([state.model_timestep() for state in states]),
            "encoder_hidden_states_image": _joined(images) if images else None,
            "return_dict": False,
        }

        def passed(context: str, embeds: Sequence[Tensor | None]) -> Tensor:
            given = _joined([each for each in embeds if each is not None])
            with expert.cache_context(context):
                made: Tensor = expert(encoder_hidden_states=given, **shared)[0]
            return made

        near = partial(passed, "cond", [state.prompt_embeds for state in states])
        if not is_guided:
            return near()
        apart = partial(passed, "uncond", [state.negative_embeds for state in states])
        rows = zip(states, *map(_rows, self.both(near, apart)), strict=True)
        return _joined([less + state.guidance_scale * (more - less) for state, more, less in rows])

    def _is_guided(self, state: WanState) -> bool:
        """Whether the next step takes a second pass: not for a scale that would leave it out.

        On a CPU it does then too, to the last bit of what diffusers makes.
        """
        return state.negative_embeds is not None and self._is_needed(state.guidance_scale)

    def _is_needed(self, scale: float) -> bool:
        return scale != 1 or self.device.type == "cpu"

    def preview(self, state: FlowState) -> Latents:
        with torch.inference_mode():
            return Latents(to_array(cast(WanState, state).completed(state.estimate())))

    def finish(self, state: FlowState) -> Latents:
        with torch.inference_mode():
            return Latents(to_array(cast(WanState, state).completed(state.latents)))


def _rows(batch: Tensor) -> list[Tensor]:
    return [batch[row : row + 1] for row in range(len(batch))]


def _joined(rows: Sequence[Tensor]) -> Tensor:
    return rows[0] if len(rows) == 1 else torch.cat(list(rows))
