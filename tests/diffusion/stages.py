"""Draws small pictures of any family by its stages, with the settings of models that denoise."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.config.diffusion import DiffusionSettings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, Image, ImageRequest, VideoRequest
from antiphon.contracts.types import Latents
from antiphon.families.registry import family

Pixels: TypeAlias = NDArray[np.uint8]

CACHE_DIT: dict[str, Any] = {
    "cache_backend": "cache_dit",
    "cache_config": {
        "Fn_compute_blocks": 1,
        "max_warmup_steps": 2,
        "residual_diff_threshold": 10.0,
    },
}
TEA_CACHE: dict[str, Any] = {"cache_backend": "tea_cache", "cache_config": {"rel_l1_thresh": 10.0}}


def request(
    name: str, prompt: str = "a red cat", *, is_guided: bool = True, steps: int = 6
) -> ImageRequest | VideoRequest:
    negative = "dogs" if is_guided else None
    if name == "wan_video":
        scale = 5.0 if is_guided else 1.0
        return VideoRequest(
            prompt,
            width=32,
            height=32,
            num_frames=5,
            negative_prompt=negative,
            parameters=DiffusionParameters(num_inference_steps=steps, guidance_scale=scale),
        )
    parameters = DiffusionParameters(num_inference_steps=steps)
    if name == "glm_image":  # it takes no negative prompt
        negative, parameters = None, replace(parameters, guidance_scale=1.5 if is_guided else 1.0)
    return ImageRequest(
        prompt, width=32, height=32, negative_prompt=negative, parameters=parameters
    )


class Drawing:
    """The stages of one checkpoint, loaded as settings say."""

    def __init__(
        self, name: str, path: Path, device: str = "cpu", dtype: str = "auto", **settings: Any
    ) -> None:
        context = LoadContext(path, device, dtype, diffusion=DiffusionSettings(**settings))
        task = family(name).tasks["video" if name == "wan_video" else "image"]
        self.name = name
        self.prompter = task.prompter.resolve()(context)
        self.encoder, self.denoiser, self.decoder = (
            spec.factory.resolve()(context) for spec in task.pipeline[-3:]
        )

    def begin(self, seed: int = 1, **changes: Any) -> Any:
        prompt = self.prompter.build(request(self.name, **changes), seed)
        if self.name == "glm_image":  # what would be drawn before does not matter here
            codes = np.zeros((prompt.sampling.max_frames, 1), np.int64)
            prompt = replace(prompt, conditioning=Latents(tuple(codes)))
        (conditioning,) = self.encoder.generate(prompt)
        return self.denoiser.begin(prompt, conditioning)

    def draw(self, seed: int = 1, **changes: Any) -> Pixels:
        state = self.begin(seed, **changes)
        return self.decoded(state, self.denoised([state])[0])

    def denoised(self, states: Sequence[Any]) -> list[Latents]:
        for _ in range(self.denoiser.work(states[0].prompt).num_steps):
            self.denoiser.step(states)
        return [self.denoiser.finish(state) for state in states]

    def decoded(self, state: Any, latents: Latents) -> Pixels:
        (made,) = self.decoder.generate(replace(state.prompt, conditioning=latents))
        pixels: Pixels = made.pixels if isinstance(made, Image) else made.frames
        return pixels
