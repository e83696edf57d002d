"""Images of families with a pipeline in diffusers are those of that, alone and in company."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from tests.drawing import Stages, by_diffusers


@dataclass(frozen=True)
class Drawing:
    """A family, its pipeline's class, and what that calls the scale of guidance."""

    name: str
    pipeline: str
    scale: str

    def pipeline_of(self, path: Path, **how: Any) -> Any:
        import diffusers

        return getattr(diffusers, self.pipeline).from_pretrained(str(path), **how)


FAMILIES = (
    Drawing("ovis_image", "OvisImagePipeline", "guidance_scale"),
    Drawing("qwen_image", "QwenImagePipeline", "true_cfg_scale"),
)


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda each: each.name)
def drawing(request: pytest.FixtureRequest) -> Drawing:
    found: Drawing = request.param
    return found


@pytest.fixture(scope="module")
def path(drawing: Drawing, drawing_checkpoint: Callable[..., Path]) -> Path:
    return drawing_checkpoint(drawing.name)


@pytest.fixture
def stages(drawing: Drawing, path: Path) -> Stages:
    return Stages(drawing.name, path)


@pytest.fixture(scope="module")
def pipeline(drawing: Drawing, path: Path) -> Any:
    return drawing.pipeline_of(path)


@dataclass(frozen=True)
class Asked:
    """What both draw."""

    prompt: str = "a red cat"
    negative: str | None = "dogs"
    scale: float = 3.0
    width: int = 32
    height: int = 32
    steps: int = 2

    def request(self, drawing: Drawing) -> ImageRequest:
        parameters = {"num_inference_steps": self.steps, drawing.scale: self.scale}
        return ImageRequest(
            self.prompt,
            negative_prompt=self.negative,
            width=self.width,
            height=self.height,
            parameters=DiffusionParameters(**parameters),  # type: ignore[arg-type]
        )

    def by_diffusers(self, drawing: Drawing, pipeline: Any, seed: int) -> Any:
        return by_diffusers(
            pipeline,
            self.prompt,
            seed,
            negative_prompt=self.negative,
            **{drawing.scale: self.scale},
            width=self.width,
            height=self.height,
            num_inference_steps=self.steps,
        )


@pytest.mark.parametrize(
    "asked",
    [
        Asked(negative=None, scale=4.0, width=64),
        Asked(scale=4.0, height=48, steps=3),
        Asked(negative="", scale=2.5, width=16, height=16),
        Asked(scale=1.0, width=64),
    ],
    ids=["no negative prompt", "guided", "an empty negative prompt", "a scale of 1"],
)
def test_an_image_is_that_of_diffusers(
    drawing: Drawing, stages: Stages, pipeline: Any, asked: Asked
) -> None:
    ours = stages.draw(asked.request(drawing), 5)
    np.testing.assert_array_equal(ours, asked.by_diffusers(drawing, pipeline, 5))
    assert ours.std() > 1, "it shows something"


def test_an_image_is_that_of_diffusers_in_bfloat16_too(drawing: Drawing, path: Path) -> None:
    """Between stages all values are float32, which changes none of them."""
    theirs = Asked().by_diffusers(drawing, drawing.pipeline_of(path, dtype=torch.bfloat16), 5)
    ours = Stages(drawing.name, path, dtype="bfloat16").draw(Asked().request(drawing), 5)
    np.testing.assert_array_equal(ours, theirs)


def test_requests_at_different_steps_are_stepped_together(drawing: Drawing, stages: Stages) -> None:
    prompts = {2: "a cat", 3: "a large red cat on a sofa"}
    asked = {
        steps: Asked(prompt, steps=steps).request(drawing) for steps, prompt in prompts.items()
    }
    behind, ahead = (stages.begin(each, steps) for steps, each in asked.items())
    stages.denoiser.step([ahead])
    stages.batched()
    together = stages.step_all([behind, ahead])
    assert (ahead.step, behind.step) == (3, 2)
    for image, (steps, each) in zip(together, asked.items(), strict=True):
        alone = stages.draw(each, steps)
        np.testing.assert_allclose(image.astype(int), alone.astype(int), atol=1)
