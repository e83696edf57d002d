"""Draws with the stages of a family one after another, without the drivers around them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import Image, ImageRequest
from antiphon.contracts.prompt import Prompt, StageGenerator
from antiphon.contracts.types import Latents
from antiphon.diffusion.flow_denoiser import FlowDenoiser, FlowState
from antiphon.families.registry import family


class Stages:
    """The stages of a family's images, on the CPU.

    Attributes:
        prompter: of the task.
        text_encoder, denoiser, vae: the model code of the stages.
    """

    def __init__(self, name: str, path: Path, **context: Any) -> None:
        task = family(name).tasks["image"]
        loading = LoadContext(path=path, device="cpu", **context)
        self.prompter = task.prompter.resolve()(loading)
        self.text_encoder: StageGenerator
        self.denoiser: FlowDenoiser
        self.vae: StageGenerator
        self.text_encoder, self.denoiser, self.vae = (
            spec.factory.resolve()(loading) for spec in task.pipeline
        )

    def begin(self, request: ImageRequest, seed: int) -> FlowState:
        prompt = self.prompter.build(request, seed)
        (conditioning,) = self.text_encoder.generate(prompt)
        assert isinstance(conditioning, Latents)
        return self.denoiser.begin(prompt, conditioning)

    def step_all(self, states: Sequence[FlowState]) -> list[NDArray[np.uint8]]:
        """Step requests of equal length together to their ends; return their images."""
        for _ in range(states[0].prompt.data.num_steps):
            self.denoiser.step(states)
        return [self.decoded(state.prompt, self.denoiser.finish(state)) for state in states]

    def draw(self, request: ImageRequest, seed: int = 0) -> NDArray[np.uint8]:
        return self.step_all([self.begin(request, seed)])[0]

    def decoded(self, prompt: Prompt, latents: Latents) -> NDArray[np.uint8]:
        (image,) = self.vae.generate(replace(prompt, conditioning=latents))
        assert isinstance(image, Image)
        assert image.preview_index == latents.preview_index
        return image.pixels

    def batched(self) -> None:
        """Compute requests together from now on, as a GPU does."""
        self.denoiser._is_one_by_one = False


def by_diffusers(pipeline: Callable[..., Any], prompt: str, seed: int, **more: Any) -> Any:
    """Return the pixels of what diffusers' own pipeline draws."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return np.asarray(pipeline(prompt, generator=generator, **more).images[0])
