"""Images are those of diffusers' own pipeline, alone and in company."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import OvisImagePipeline

from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.families.ovis_image.checkpoint import INSTRUCTION, NUM_DROPPED_TOKENS
from tests.drawing import Stages, by_diffusers

NAME = "ovis_image"


@pytest.fixture(scope="module")
def path(drawing_checkpoint: Callable[..., Path]) -> Path:
    return drawing_checkpoint(NAME)


@pytest.fixture
def stages(path: Path) -> Stages:
    return Stages(NAME, path)


@pytest.fixture(scope="module")
def pipeline(path: Path) -> Any:
    return OvisImagePipeline.from_pretrained(str(path))


def request(
    prompt: str = "a red cat",
    negative: str | None = "dogs",
    scale: float = 5.0,
    steps: int = 2,
    size: tuple[int, int] = (32, 32),
) -> ImageRequest:
    return ImageRequest(
        prompt,
        negative_prompt=negative,
        width=size[0],
        height=size[1],
        parameters=DiffusionParameters(num_inference_steps=steps, guidance_scale=scale),
    )


@pytest.mark.parametrize(
    ("negative", "scale", "size", "steps"),
    [
        (None, 5.0, (32, 32), 2),
        ("dogs", 3.0, (32, 48), 3),
        ("dogs", 1.0, (64, 32), 1),
    ],
    ids=["no negative prompt", "guided", "a scale of 1"],
)
def test_an_image_is_that_of_diffusers(
    stages: Stages,
    pipeline: Any,
    negative: str | None,
    scale: float,
    size: tuple[int, int],
    steps: int,
) -> None:
    ours = stages.draw(request("a red cat", negative, scale, steps, size), 5)
    theirs = by_diffusers(
        pipeline,
        "a red cat",
        5,
        negative_prompt=negative,
        guidance_scale=scale,
        width=size[0],
        height=size[1],
        num_inference_steps=steps,
    )
    np.testing.assert_array_equal(ours, theirs)
    assert ours.std() > 1, "it shows something"


def test_tokens_are_counted_after_the_pipeline_s_instruction(pipeline: Any) -> None:
    assert pipeline.system_prompt == INSTRUCTION
    assert pipeline.user_prompt_begin_id == NUM_DROPPED_TOKENS


def test_an_image_is_that_of_diffusers_in_bfloat16_too(path: Path) -> None:
    """Between stages all values are float32, which changes none of them."""
    pipeline = OvisImagePipeline.from_pretrained(str(path), dtype=torch.bfloat16)
    theirs = by_diffusers(
        pipeline,
        "a red cat",
        5,
        negative_prompt="dogs",
        guidance_scale=3.0,
        width=32,
        height=32,
        num_inference_steps=2,
    )
    asked = request(scale=3.0)
    ours = Stages(NAME, path, dtype="bfloat16").draw(asked, 5)
    np.testing.assert_array_equal(ours, theirs)


def test_requests_at_different_steps_are_stepped_together(stages: Stages) -> None:
    prompts = {2: "a cat", 3: "a large red cat on a sofa"}
    behind, ahead = (stages.begin(request(prompts[steps], steps=steps), 1) for steps in (2, 3))
    stages.denoiser.step([ahead])
    stages.batched()
    together = stages.step_all([behind, ahead])
    for image, steps in zip(together, (2, 3), strict=True):
        alone = stages.draw(request(prompts[steps], steps=steps), 1)
        np.testing.assert_allclose(image.astype(int), alone.astype(int), atol=1)


def test_settings_that_differ_are_stepped_apart(stages: Stages) -> None:
    keys = {
        stages.denoiser.work(stages.prompter.build(each, 0)).batch_key
        for each in (
            request(),
            request("something else", "other", steps=3),  # as the first
            request(scale=1.0),
            request(scale=4.0),
            request(size=(32, 48)),
        )
    }
    assert len(keys) == 4
