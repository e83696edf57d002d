"""Videos are those of diffusers' own pipelines, to the last bit, and depend on all that is said."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.config import ModelSettings
from antiphon.contracts.picture_types import DiffusionParameters, Progress, Video, VideoRequest
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Ended, new_request_id
from antiphon.pipeline.runtime import LoadedTask
from antiphon.stages.base import StageItem, StageRequest
from tests.families.wan_video.conftest import WanCheckpoint
from tests.families.wan_video.official import SEED, official_video, small_request, some_image

DEADLINE_S = 120


@asynccontextmanager
async def on_task(path: Path) -> AsyncGenerator[LoadedTask, None]:
    loaded = await LoadedTask.load(ModelSettings(source=str(path), device="cpu"), "video")
    yield loaded
    assert loaded.status.num_open == 0
    await loaded.close()


async def items_of(loaded: LoadedTask, prompt: Prompt) -> list[StageItem]:
    async with aclosing(loaded.open(StageRequest(new_request_id(), prompt))) as items:
        return [item async for item in items]


async def made(loaded: LoadedTask, request: VideoRequest, seed: int = SEED) -> NDArray[np.uint8]:
    *_, video, ended = await items_of(loaded, loaded.prompter.build(request, seed))
    assert isinstance(video, Video)
    assert video.fps == request.fps
    assert ended == Ended("stop")
    return video.frames


def taking_long(*values: object) -> Any:
    """Parameters of a layout that two others stand for where time is short."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("layout", "with_image"),
    [
        taking_long("t2v-2.1", False),
        ("t2v-2.2-a14b", False),
        taking_long("ti2v-2.2-5b", False),
        ("ti2v-2.2-5b", True),
        taking_long("i2v-2.2-a14b", True),
        taking_long("i2v-2.1", True),
    ],
)
async def test_a_video_is_that_of_diffusers(
    wan: WanCheckpoint, layout: str, with_image: bool
) -> None:
    request = small_request(layout, image=some_image() if with_image else None)
    path = wan(layout)
    async with on_task(path) as loaded:
        frames = await made(loaded, request)
        assert frames.shape == (5, request.height, request.width, 3)
        np.testing.assert_array_equal(frames, official_video(path, request))


@pytest.mark.slow  # ten videos
async def test_what_a_request_says_changes_the_video(wan: WanCheckpoint) -> None:
    request = small_request("t2v-2.2-a14b")
    given = request.parameters
    async with on_task(wan("t2v-2.2-a14b")) as loaded:
        plain = await made(loaded, request)
        np.testing.assert_array_equal(await made(loaded, request), plain)
        assert (await made(loaded, request, seed=6) != plain).any()
        for changed in (
            replace(request, prompt="the sea"),
            replace(request, negative_prompt="static"),
            replace(request, parameters=replace(given, guidance_scale=1.0)),
            replace(request, parameters=replace(given, guidance_scale_2=1.0)),
            replace(request, parameters=replace(given, boundary_ratio=0.5)),
            replace(request, parameters=replace(given, flow_shift=5.0)),
            replace(request, parameters=replace(given, num_inference_steps=4)),
        ):
            assert (await made(loaded, changed) != plain).any()


async def test_what_is_left_out_is_as_diffusers_would_have_it(wan: WanCheckpoint) -> None:
    """No negative prompt is an empty one; without guidance, one is not read."""
    path = wan("t2v-2.1")
    few = DiffusionParameters(num_inference_steps=2)
    request = small_request("t2v-2.1", negative_prompt=None, parameters=few)
    unguided = replace(request, parameters=replace(few, guidance_scale=1.0))
    async with on_task(path) as loaded:
        complete = replace(
            request, parameters=few.with_defaults(DiffusionParameters(guidance_scale=5))
        )
        np.testing.assert_array_equal(await made(loaded, request), official_video(path, complete))
        frames = await made(loaded, unguided)
        np.testing.assert_array_equal(frames, official_video(path, unguided))
        np.testing.assert_array_equal(
            await made(loaded, replace(unguided, negative_prompt="static")), frames
        )


async def test_a_request_is_the_same_in_company(wan: WanCheckpoint) -> None:
    """Others of its shape, of other steps, of another shape, and one that leaves midway."""
    request = small_request("ti2v-2.2-5b")
    few = replace(request.parameters, num_inference_steps=2)
    others = (
        replace(request, parameters=few),
        replace(request, image=some_image()),
        replace(request, width=64),
        replace(request, negative_prompt=None),
    )

    async def leave(loaded: LoadedTask) -> None:
        prompt = loaded.prompter.build(request, 8)
        async with aclosing(loaded.open(StageRequest(new_request_id(), prompt))) as items:
            async for item in items:
                if isinstance(item, Progress):
                    return

    async with on_task(wan("ti2v-2.2-5b")) as loaded:
        alone = await made(loaded, request)
        together, *_ = await asyncio.gather(
            made(loaded, request),
            *(made(loaded, other, seed) for seed, other in enumerate(others)),
            leave(loaded),
        )
        np.testing.assert_array_equal(together, alone)
