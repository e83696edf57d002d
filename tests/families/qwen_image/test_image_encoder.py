"""Edits are those of diffusers' own pipelines, whatever the shapes of the images."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from diffusers import QwenImageEditPipeline, QwenImageEditPlusPipeline
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus
from numpy.typing import NDArray

from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.errors import InvalidRequestError
from antiphon.families.qwen_image import editing
from tests.drawing import Stages

KINDS = {"edit": QwenImageEditPipeline, "edit_plus": QwenImageEditPlusPipeline}
NEGATIVE = "dogs"


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let images be read at sizes that a CPU is quick with."""
    area, condition_area = 96 * 96, 64 * 64
    monkeypatch.setattr(editing, "VAE_AREA", area)
    monkeypatch.setattr(editing, "CONDITION_AREA", condition_area)
    monkeypatch.setattr(pipeline_qwenimage_edit_plus, "VAE_IMAGE_SIZE", area)
    monkeypatch.setattr(pipeline_qwenimage_edit_plus, "CONDITION_IMAGE_SIZE", condition_area)
    whole = pipeline_qwenimage_edit.calculate_dimensions
    monkeypatch.setattr(
        pipeline_qwenimage_edit, "calculate_dimensions", lambda _, ratio: whole(area, ratio)
    )


def image(height: int, width: int, seed: int, channels: int = 3) -> NDArray[np.uint8]:
    rough = np.random.default_rng(seed).integers(256, size=(height // 8, width // 8, channels))
    return rough.astype(np.uint8).repeat(8, 0).repeat(8, 1)


def request(*images: NDArray[np.uint8], negative: str | None = NEGATIVE) -> ImageRequest:
    return ImageRequest(
        "make it red",
        negative_prompt=negative,
        width=64,
        height=32,
        images=images,
        parameters=DiffusionParameters(num_inference_steps=2, true_cfg_scale=3.0),
    )


def edited_by_diffusers(path: Path, task: str, stages: Stages, asked: ImageRequest) -> Any:
    """Return what diffusers' pipeline makes, with our processor: its own needs torchvision."""
    processor = stages.text_encoder._pipeline.processor  # type: ignore[attr-defined]
    pipeline = KINDS[task].from_pretrained(str(path), processor=None)
    pipeline.processor = processor
    images = [PIL.Image.fromarray(each) for each in asked.images]
    made = pipeline(
        image=images if task == "edit_plus" else images[0],
        prompt=asked.prompt,
        negative_prompt=asked.negative_prompt,
        true_cfg_scale=asked.parameters.true_cfg_scale,
        width=asked.width,
        height=asked.height,
        num_inference_steps=asked.parameters.num_inference_steps,
        generator=torch.Generator().manual_seed(7),
    )
    return np.asarray(made.images[0])


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    ("task", "sizes", "negative"),
    [
        ("edit", [(48, 80)], NEGATIVE),
        ("edit", [(200, 64)], None),
        ("edit_plus", [(48, 80)], None),
        ("edit_plus", [(48, 80), (128, 128)], NEGATIVE),
    ],
)
def test_an_edit_is_that_of_diffusers(
    drawing_checkpoint: Callable[..., Path],
    task: str,
    sizes: list[tuple[int, int]],
    negative: str | None,
) -> None:
    path = drawing_checkpoint("qwen_image", task)
    stages = Stages("qwen_image", path)
    images = [image(*size, seed=seed) for seed, size in enumerate(sizes)]
    asked = request(*images, negative=negative)
    ours = stages.draw(asked, 7)
    np.testing.assert_array_equal(ours, edited_by_diffusers(path, task, stages, asked))
    other = stages.draw(request(*images[:-1], 255 - images[-1], negative=negative), 7)
    assert (ours != other).any(), "the images matter"


@pytest.mark.usefixtures("_small")
def test_images_that_are_modulated_as_free_of_noise_are_so_here_too(
    drawing_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(drawing_checkpoint("qwen_image", "edit_plus"), tmp_path / "copied"))
    asked = request(image(48, 80, 0))
    without = Stages("qwen_image", path).draw(asked, 7)
    file = path / "transformer" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "zero_cond_t": True}))
    stages = Stages("qwen_image", path)
    ours = stages.draw(asked, 7)
    np.testing.assert_array_equal(ours, edited_by_diffusers(path, "edit_plus", stages, asked))
    assert (ours != without).any()
    states = [stages.begin(asked, seed) for seed in (7, 8)]
    stages.batched()
    together = stages.step_all(states)
    np.testing.assert_allclose(together[0].astype(int), ours.astype(int), atol=1)


@pytest.mark.usefixtures("_small")
def test_edits_are_stepped_together_if_their_images_have_one_shape(
    drawing_checkpoint: Callable[..., Path],
) -> None:
    stages = Stages("qwen_image", drawing_checkpoint("qwen_image", "edit"))
    asked = [request(image(48, 80, seed, channels)) for seed, channels in ((0, 3), (1, 4))]
    alone = [stages.draw(each, seed) for seed, each in enumerate(asked)]
    states = [stages.begin(each, seed) for seed, each in enumerate(asked)]
    keys = {stages.denoiser.work(state.prompt).batch_key for state in states}
    assert len(keys) == 1
    tall = stages.prompter.build(request(image(80, 48, 0)), 0)
    assert stages.denoiser.work(tall).batch_key not in keys
    stages.batched()
    for one, other in zip(alone, stages.step_all(states), strict=True):
        np.testing.assert_allclose(one.astype(int), other.astype(int), atol=1)


@pytest.mark.parametrize(("task", "most"), [("base", 0), ("edit", 1), ("edit_plus", 4)])
def test_as_many_images_are_taken_as_is_said(
    drawing_checkpoint: Callable[..., Path], task: str, most: int
) -> None:
    prompter = Stages("qwen_image", drawing_checkpoint("qwen_image", task)).prompter
    capabilities = prompter.capabilities
    assert (capabilities.max_images, capabilities.needs_image) == (most, most > 0)
    for number in (most + 1, *([0] if most else [])):
        with pytest.raises(InvalidRequestError) as refused:
            prompter.build(request(*[image(16, 16, 0)] * number), 0)
        assert refused.value.param == "image"
    prompter.build(capabilities.sample_request, 0)


def test_an_edit_has_the_proportion_of_its_image(drawing_checkpoint: Callable[..., Path]) -> None:
    prompter = Stages("qwen_image", drawing_checkpoint("qwen_image", "edit")).prompter
    data = prompter.build(ImageRequest("make it red", images=(image(400, 200, 0),)), 0).data
    assert data.height == pytest.approx(2 * data.width, abs=32)
    assert data.width * data.height == pytest.approx(2**20, rel=0.05)
