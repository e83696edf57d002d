"""The toy's denoiser: flow matching toward the letters' colours, in steps that can be watched."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.protocol import DenoisingWork, preview_steps
from antiphon.families.toy.picture import Grid, ToyPicture, letters_on, patches_of

_NOISE_LEFT = np.float32(0.25)  # share of the noise that remains, so that seeds differ


@dataclass(slots=True, weakref_slot=True)
class DenoisedPicture:
    """A request between its steps.

    Attributes:
        wanted: toward what, with guidance.
        kept: initial picture and a mask of the places that keep it; ``None``: all is generated.
        sigmas: shares of noise, one more than there are steps.
        step: index of the next step, from 0.
    """

    grid: Grid
    estimate: Grid
    wanted: Grid
    kept: "tuple[Grid, NDArray[np.bool_]] | None"
    sigmas: Grid
    step: int = 0


class ToyDenoiser:
    """Steps pictures one after another; what becomes of one depends on it alone."""

    max_batch = 4

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def work(self, prompt: Prompt) -> DenoisingWork:
        picture: ToyPicture = prompt.data
        size = int(np.prod(picture.grid_shape))
        return DenoisingWork(
            num_steps=picture.num_steps,
            cost=float(size),
            num_bytes=3 * 4 * size,
            batch_key=picture.grid_shape,
            preview_steps=preview_steps(picture.num_previews, picture.num_steps),
        )

    def begin(self, prompt: Prompt, conditioning: Latents | None) -> DenoisedPicture:
        picture: ToyPicture = prompt.data
        assert conditioning is not None, "the text encoder comes before"
        shape, scale = picture.grid_shape, np.float32(picture.guidance_scale)
        noise = np.random.default_rng(prompt.seed).standard_normal(shape, np.float32)
        negative = letters_on(conditioning.data["negative_prompt"], shape)
        positive = letters_on(conditioning.data["prompt"], shape)
        wanted: Grid = np.tanh(negative + scale * (positive - negative)).astype(np.float32)
        sigmas = np.linspace(1, 0, picture.num_steps + 1, dtype=np.float32)
        kept = _kept(picture)
        if kept is not None:
            wanted = np.mean((wanted, kept[0]), axis=0, dtype=np.float32)
        return DenoisedPicture(noise, wanted, wanted, kept, sigmas)

    def step(self, states: Sequence[DenoisedPicture]) -> None:
        for each in states:
            sigma, following = each.sigmas[each.step : each.step + 2]
            noisy: Grid = np.tanh(each.grid)
            each.estimate = each.wanted + _NOISE_LEFT * (noisy - each.wanted)
            if each.kept is not None:
                image, stays = each.kept
                each.estimate = np.where(stays, image, each.estimate)
            velocity = (each.grid - each.estimate) / sigma
            each.grid = each.grid + velocity * (following - sigma)
            each.step += 1

    def preview(self, state: DenoisedPicture) -> Latents:
        return Latents(state.estimate)

    def finish(self, state: DenoisedPicture) -> Latents:
        return Latents(state.grid)

    def close(self) -> None:
        """Nothing to free."""


def _kept(picture: ToyPicture) -> "tuple[Grid, NDArray[np.bool_]] | None":
    """Return the patches of what a picture begins with, and which of them stay as they are."""
    if not picture.images:
        return None
    num_frames, height, width, _ = picture.grid_shape
    size = picture.height, picture.width
    image = np.mean([patches_of(each[..., :3], *size) for each in picture.images], axis=0)
    stays = np.zeros((num_frames, height, width, 1), np.bool_)
    if picture.mask is not None:
        stays[...] = (patches_of(picture.mask, *size) < 0)[..., np.newaxis]
    if num_frames > 1:
        stays[0] = True  # a video's first frame
    return np.broadcast_to(image, picture.grid_shape).astype(np.float32), stays
