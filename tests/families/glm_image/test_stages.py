"""The stages after the prior against diffusers' own pipeline, to the bit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, Image
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.errors import EngineError
from antiphon.families.glm_image.denoiser import GlmImageDenoiser
from antiphon.families.glm_image.prompt import GlmImagePrompter
from antiphon.families.glm_image.stages import GlmImageTextEncoder, GlmImageVae, prior_tokens
from tests.families.glm_image.priors import TEXT, ask, data_of

NUM_STEPS = 4


class Stages:
    """The stages after the prior, without their drivers."""

    def __init__(self, context: LoadContext) -> None:
        self.text_encoder = GlmImageTextEncoder(context)
        self.denoiser = GlmImageDenoiser(context)
        self.vae = GlmImageVae(context)

    def encode(self, prompt: Prompt) -> Latents:
        codes = np.random.default_rng(prompt.seed).integers(0, 64, data_of(prompt).prior.num_codes)
        drawn = Latents(tuple(codes[:, None]))
        (latents,) = self.text_encoder.generate(replace(prompt, conditioning=drawn))
        return latents

    def decode(self, prompt: Prompt, latents: Latents) -> Image:
        (image,) = self.vae.generate(replace(prompt, conditioning=latents))
        assert isinstance(image, Image)
        return image


@pytest.fixture(scope="module")
def stages(context: LoadContext) -> Stages:
    return Stages(context)


@pytest.fixture(scope="module")
def pipeline(checkpoint: Path) -> Any:
    from diffusers import GlmImagePipeline

    loaded: Any = GlmImagePipeline.from_pretrained(
        checkpoint, vision_language_encoder=None, processor=None
    )
    loaded.set_progress_bar_config(disable=True)
    return loaded


def prompt_of(
    prompter: GlmImagePrompter, text: str, seed: int, width: int, height: int, guidance: float
) -> Prompt:
    parameters = DiffusionParameters(num_inference_steps=NUM_STEPS, guidance_scale=guidance)
    return prompter.build(ask(text, width, height, parameters=parameters), seed)


@pytest.mark.parametrize(
    ("text", "width", "height", "guidance"),
    [(TEXT, 64, 96, 1.5), ("A dog", 96, 64, 1.0), ('“One” and "two, three"', 64, 64, 3.0)],
)
def test_images_are_those_of_diffusers_with_the_same_codes_and_seed(
    stages: Stages,
    pipeline: Any,
    prompter: GlmImagePrompter,
    text: str,
    width: int,
    height: int,
    guidance: float,
) -> None:
    prompt = prompt_of(prompter, text, 5, width, height, guidance)
    encoded = stages.encode(prompt)
    state = stages.denoiser.begin(prompt, encoded)
    for _ in range(stages.denoiser.work(prompt).num_steps):
        stages.denoiser.step([state])
    image = stages.decode(prompt, stages.denoiser.finish(state))
    (expected,) = pipeline(
        text,
        height=height,
        width=width,
        guidance_scale=guidance,
        num_inference_steps=NUM_STEPS,
        prior_token_ids=torch.from_numpy(encoded.data["prior_token_ids"]),
        generator=torch.Generator().manual_seed(5),
    ).images
    assert image.pixels.std() > 10
    np.testing.assert_array_equal(image.pixels, np.array(expected))


def test_a_code_stands_for_four_tokens_of_the_denoiser(
    pipeline: Any, prompter: GlmImagePrompter
) -> None:
    prior = data_of(prompt_of(prompter, TEXT, 1, 96, 64, 1.0)).prior
    codes = np.random.default_rng(1).integers(0, 64, prior.num_codes)
    tokens = prior_tokens(prior, Latents(tuple(codes[:, None])))
    large = torch.from_numpy(codes[-6:])
    assert tokens.tolist() == pipeline._upsample_token_ids(large, 2, 3)[0].tolist()


def test_a_grid_that_is_not_full_is_an_error(prompter: GlmImagePrompter) -> None:
    prior = data_of(prompt_of(prompter, TEXT, 1, 96, 64, 1.0)).prior
    with pytest.raises(EngineError, match="ended after 1 of"):
        prior_tokens(prior, Latents((np.array([3]),)))


def test_requests_of_a_batch_are_what_each_is_alone(
    stages: Stages, prompter: GlmImagePrompter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Texts of other lengths are computed apart, whatever their order is.
    texts = ("'one'", "'four'", "none", "'two'")
    prompts = [prompt_of(prompter, text, seed, 64, 64, 1.5) for seed, text in enumerate(texts)]
    keys = {stages.denoiser.work(prompt).batch_key for prompt in prompts}
    assert len(keys) == 1
    encoded = [stages.encode(prompt) for prompt in prompts]

    def begun() -> list[Any]:
        return [
            stages.denoiser.begin(prompt, each)
            for prompt, each in zip(prompts, encoded, strict=True)
        ]

    together, alone, batched = begun(), begun(), begun()
    stages.denoiser.step(together[2:])  # they are a step ahead of the others
    stages.denoiser.step(together)
    for state in alone:
        stages.denoiser.step([state])
    for state in alone[2:]:
        stages.denoiser.step([state])
    monkeypatch.setattr(stages.denoiser, "_is_one_by_one", False)
    stages.denoiser.step(batched[2:])
    stages.denoiser.step(batched)
    for one, other, close in zip(alone, together, batched, strict=True):
        assert torch.equal(one.latents, other.latents)
        torch.testing.assert_close(one.latents, close.latents, atol=1e-5, rtol=1e-5)
