"""All stages together: in one process, and spread over two."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.config import ModelSettings, ServerSettings, Settings
from antiphon.contracts.picture_types import DiffusionParameters, Image, ImageRequest, Progress
from antiphon.contracts.types import Ended
from antiphon.pipeline.model_loading import load_models
from antiphon.pipeline.pictures.images import ImageItem, Images
from antiphon.placement.settings_placement import resolved
from tests.loops import on_a_loop

STEPS = DiffusionParameters(num_inference_steps=3)
REQUESTS = (
    ImageRequest("A red cat, and 'hello'", 3, width=64, height=64, parameters=STEPS),
    ImageRequest("A dog", 4, width=96, height=32, parameters=STEPS, num_previews=2),
)
APART = "{fabric: process, stages: {prior: {environment: {OMP_NUM_THREADS: '1'}}}}"
"""The prior in a process of its own, though it has the device of all other stages."""


@on_a_loop
async def drawn(
    checkpoint: Path, *requests: ImageRequest, placement: tuple[str, ...] = ()
) -> list[list[ImageItem]]:
    """Draw images at once with a server's models; return the items of each."""
    model = ModelSettings(source=str(checkpoint), device="cpu", max_slots=4)
    settings = resolved(Settings(model=model, server=ServerSettings(placement=placement)))
    async with AsyncExitStack() as stack:
        served = await load_models(settings, None, stack)
        images = Images(served.images, settings.images)
        stack.callback(images.close)

        items: list[list[ImageItem]] = [[] for _ in requests]
        async with aclosing(images.several(requests)) as drawing:
            async for number, item in drawing:
                items[number].append(item)
        return items


def pictures(items: Sequence[ImageItem]) -> list[NDArray[np.uint8]]:
    return [item.pixels for item in items if isinstance(item, Image)]


def assert_same(one: Sequence[ImageItem], other: Sequence[ImageItem]) -> None:
    for first, second in zip(pictures(one), pictures(other), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.slow  # five images of a language model and of diffusion
def test_an_image_is_the_same_alone_and_in_company(checkpoint: Path) -> None:
    alone = drawn(checkpoint, REQUESTS[1])[0]
    together = drawn(checkpoint, *REQUESTS)
    assert_same(alone, together[1])
    *_, image, ended = alone
    assert isinstance(ended, Ended)
    assert ended.reason == "stop"
    assert isinstance(image, Image)
    assert image.pixels.shape == (32, 96, 3)
    assert [each.preview_index for each in alone if isinstance(each, Image)] == [0, 1, None]
    steps = [each.step for each in alone if isinstance(each, Progress)]
    assert steps == sorted(set(steps))
    assert steps[-1] == 3


@pytest.mark.slow  # an image through a language model and diffusion
def test_an_image_is_edited(checkpoint: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (32, 64, 3), np.uint8)
    edit = replace(REQUESTS[0], images=(pixels,), id="edit")
    plain, edited = drawn(checkpoint, REQUESTS[0], edit)
    (before,), (after,) = pictures(plain), pictures(edited)
    assert before.shape == after.shape
    assert (before != after).any()


@pytest.mark.slow  # two processes import torch and load their stages
def test_stages_of_two_processes_draw_the_same_images(checkpoint: Path) -> None:
    whole = drawn(checkpoint, *REQUESTS)
    apart = drawn(checkpoint, *REQUESTS, placement=(APART,))
    for one, other in zip(whole, apart, strict=True):
        assert_same(one, other)
