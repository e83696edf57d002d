"""A task of another kind goes the same way as speech: prompter, pipeline, fabric, engine."""

import asyncio
from contextlib import aclosing

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.errors import ModelLoadError
from antiphon.fabric.base import StageItem, StageRequest
from antiphon.pipeline.runtime import LoadedTask
from antiphon.types import Ended, Image, ImageRequest, new_request_id


async def drawn(loaded: LoadedTask, text: str, seed: int) -> list[StageItem]:
    prompt = loaded.prompter.build(ImageRequest(text), seed)
    async with aclosing(loaded.open(StageRequest(new_request_id(), prompt))) as items:
        return [item async for item in items]


def test_an_image_is_drawn_from_text_by_seed() -> None:
    async def main() -> None:
        loaded = await LoadedTask.load(ModelSettings(source="toy"), "image")
        await loaded.warm_up()
        one, again, other = await asyncio.gather(
            *(
                drawn(loaded, text, seed)
                for text, seed in (("a bird", 1), ("a bird", 1), ("sea", 2))
            )
        )
        image, ended = one
        assert isinstance(image, Image)
        assert ended == Ended("stop")
        assert image.pixels.dtype == np.uint8
        assert image.pixels.shape == (8, len("a bird"), 1)
        assert isinstance(again[0], Image)
        np.testing.assert_array_equal(again[0].pixels, image.pixels)
        assert isinstance(other[0], Image)
        assert other[0].pixels.shape != image.pixels.shape
        assert loaded.status.num_open == 0
        await loaded.close()

    asyncio.run(main())


def test_a_task_that_a_family_lacks_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ModelLoadError, match="'toy' does not serve 'video'"):
            await LoadedTask.load(ModelSettings(source="toy"), "video")

    asyncio.run(main())
