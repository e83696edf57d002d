"""A task of another kind goes the same way as speech: prompter, pipeline, fabric, engines."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.config import ModelSettings
from antiphon.contracts.picture_types import (
    DiffusionParameters,
    Image,
    ImageRequest,
    Video,
    VideoRequest,
)
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Ended, new_request_id
from antiphon.errors import ModelLoadError
from antiphon.pipeline.runtime import LoadedTask
from antiphon.stages.base import StageItem, StageRequest

REQUEST = ImageRequest("a bird", width=32, height=24)


@asynccontextmanager
async def on_task(name: str) -> AsyncGenerator[LoadedTask, None]:
    loaded = await LoadedTask.load(ModelSettings(source="toy"), name)
    yield loaded
    assert loaded.status.num_open == 0
    await loaded.close()


async def items_of(loaded: LoadedTask, prompt: Prompt) -> list[StageItem]:
    async with aclosing(loaded.open(StageRequest(new_request_id(), prompt))) as items:
        return [item async for item in items]


async def drawn(loaded: LoadedTask, request: ImageRequest, seed: int = 1) -> NDArray[np.uint8]:
    *_, image, ended = await items_of(loaded, loaded.prompter.build(request, seed))
    assert isinstance(image, Image)
    assert image.preview_index is None
    assert ended == Ended("stop")
    return image.pixels


async def test_what_a_request_says_changes_the_image() -> None:
    async with on_task("image") as loaded:
        plain = await drawn(loaded, REQUEST)
        for changed in (
            replace(REQUEST, prompt="a beard"),
            replace(REQUEST, negative_prompt="a cat"),
            replace(REQUEST, parameters=DiffusionParameters(guidance_scale=1.0)),
            replace(REQUEST, parameters=DiffusionParameters(num_inference_steps=3)),
        ):
            assert (await drawn(loaded, changed) != plain).any()


async def test_an_image_is_edited_where_its_mask_allows() -> None:
    async with on_task("image") as loaded:
        given = np.full((24, 32, 3), 200, np.uint8)
        mask = np.zeros((24, 32), np.uint8)
        mask[:, 16:] = 255
        edited = await drawn(loaded, replace(REQUEST, images=(given,), mask=mask))
        np.testing.assert_allclose(edited[:, :16], 200, atol=1)
        assert (abs(edited[:, 16:].astype(int) - 200) > 1).any()
        freely = await drawn(loaded, replace(REQUEST, images=(given,)))
        assert (abs(freely[:, :16].astype(int) - 200) > 1).any()


async def test_a_video_moves_and_may_begin_with_an_image() -> None:
    async with on_task("video") as loaded:
        given = np.full((16, 16, 3), 200, np.uint8)
        request = VideoRequest("a bird", width=32, height=16, num_frames=5, fps=12)
        videos = []
        for each in (request, replace(request, image=given)):
            *_, video, ended = await items_of(loaded, loaded.prompter.build(each, 1))
            assert isinstance(video, Video)
            assert ended == Ended("stop")
            assert video.frames.shape == (5, 16, 32, 3)
            assert video.fps == 12
            assert (video.frames[1] != video.frames[2]).any()
            videos.append(video.frames)
        np.testing.assert_allclose(videos[1][0], 200, atol=1)


async def test_a_task_that_a_family_lacks_is_refused() -> None:
    with pytest.raises(ModelLoadError, match="'toy' does not serve 'music'"):
        await LoadedTask.load(ModelSettings(source="toy"), "music")
