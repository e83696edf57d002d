"""What accelerations change: with a cache a little, and never what another request gets."""

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.config.diffusion import DiffusionSettings
from antiphon.contracts.picture_types import Image
from antiphon.errors import SettingsError
from antiphon.pipeline.runtime import LoadedTask, load_tasks
from antiphon.stages.base import StageRequest
from tests.diffusion.stages import CACHE_DIT, TEA_CACHE, Drawing, Pixels, request

SLOW = pytest.mark.slow  # the same for every family takes minutes on a busy machine
CHECKPOINTS = [
    pytest.param(("qwen_image", "base"), id="qwen_image"),
    pytest.param(("ovis_image", "base"), id="ovis_image", marks=SLOW),
    pytest.param(("glm_image", "base"), id="glm_image", marks=SLOW),
    pytest.param(("wan_video", "t2v-2.1"), id="t2v-2.1", marks=SLOW),
    pytest.param(("wan_video", "t2v-2.2-a14b"), id="t2v-2.2-a14b", marks=SLOW),
]
EXACT: dict[str, dict[str, Any]] = {
    "slicing": {"vae_use_slicing": True},
    "tiling, of what is smaller than a tile": {"vae_use_tiling": True},
    "offload by component": {"enable_cpu_offload": True},
    "offload by layer": {"enable_layerwise_offload": True},
    "offload by two layers": {"enable_layerwise_offload": True, "layerwise_num_gpu_layers": 2},
    "eager": {"enforce_eager": True},
    "cache_dit that is never near enough": {
        "cache_backend": "cache_dit",
        "cache_config": {"residual_diff_threshold": 0.0},
    },
    "tea_cache that is never near enough": {
        "cache_backend": "tea_cache",
        "cache_config": {"rel_l1_thresh": 0.0},
    },
}


@pytest.fixture(scope="module", params=CHECKPOINTS)
def checkpoint(
    request: pytest.FixtureRequest, drawing_checkpoint: Callable[..., Path]
) -> tuple[str, Path]:
    return request.param[0], drawing_checkpoint(*request.param)


@pytest.fixture(scope="module")
def plain(checkpoint: tuple[str, Path]) -> Pixels:
    return Drawing(*checkpoint).draw()


@pytest.mark.parametrize("settings", EXACT.values(), ids=EXACT)
def test_what_saves_memory_or_nothing_changes_no_pixel(
    checkpoint: tuple[str, Path], plain: Pixels, settings: dict[str, Any]
) -> None:
    np.testing.assert_array_equal(Drawing(*checkpoint, **settings).draw(), plain)


@pytest.mark.parametrize("cache", [CACHE_DIT, TEA_CACHE], ids=["cache_dit", "tea_cache"])
def test_what_a_cache_keeps_is_not_the_next_requests(
    checkpoint: tuple[str, Path], plain: Pixels, cache: dict[str, Any]
) -> None:
    """Requests that end, that are dropped half way, and of other lengths and guidance."""
    alone = Drawing(*checkpoint, **cache).draw()
    assert (alone != plain).any(), "steps were skipped"
    drawing = Drawing(*checkpoint, **cache)
    drawing.draw(2, prompt="a blue dog", steps=4)
    np.testing.assert_array_equal(drawing.draw(), alone)
    dropped = drawing.begin(3, prompt="a horse", is_guided=False, steps=9)
    for _ in range(5):
        drawing.denoiser.step([dropped])
    np.testing.assert_array_equal(drawing.draw(), alone)


@pytest.mark.parametrize(
    "cache", [CACHE_DIT, pytest.param(TEA_CACHE, marks=SLOW)], ids=["cache_dit", "tea_cache"]
)
def test_requests_at_once_with_a_cache_are_each_as_alone(
    drawing_checkpoint: Callable[..., Path], cache: dict[str, Any]
) -> None:
    async def main() -> None:
        tasks = await load_tasks(
            ModelSettings(source=str(drawing_checkpoint("qwen_image")), device="cpu"),
            {"image": LoadedTask},
            diffusion=DiffusionSettings(**cache),
        )
        loaded = tasks["image"]

        async def draw(seed: int) -> Pixels:
            what = request("qwen_image", f"number {seed}", is_guided=seed > 0)
            prompt = loaded.prompter.build(what, seed)
            items = [item async for item in loaded.open(StageRequest(f"{seed}", prompt))]
            (image,) = (item for item in items if isinstance(item, Image))
            return image.pixels

        crowd = await asyncio.gather(*map(draw, range(3)))
        for seed, pixels in enumerate(crowd):
            np.testing.assert_array_equal(await draw(seed), pixels)
        await loaded.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_what_was_skipped_is_logged(
    checkpoint: tuple[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "antiphon"):
        Drawing(*checkpoint, **CACHE_DIT, enable_cache_dit_summary=True).draw()
    assert re.search(r"transformer\w*: cache_dit skipped steps \[2, 3.* of 1 of 2 b", caplog.text)


def test_a_cache_skips_blocks_of_small_networks_by_default(
    drawing_checkpoint: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = ("ovis_image", drawing_checkpoint("ovis_image", "base"))
    near = {"max_warmup_steps": 2, "residual_diff_threshold": 10.0}
    settings: dict[str, Any] = {"cache_backend": "cache_dit", "cache_config": near}
    with caplog.at_level(logging.INFO, "antiphon"):
        drawn = Drawing(*checkpoint, **settings, enable_cache_dit_summary=True).draw()
    assert (drawn != Drawing(*checkpoint).draw()).any(), "steps were skipped"
    assert "skipped none of 1 blocks" in caplog.text
    assert "skipped steps [2, 3, 4, 5]" in caplog.text
    assert caplog.text.count("cache_dit skipped") == 2


def test_a_cache_that_skips_no_block_is_refused(checkpoint: tuple[str, Path]) -> None:
    for config, message in (
        ({"Bn_compute_blocks": 1}, "none would be skipped. Their sum must be less than 2"),
        ({"Bn_compute_blocks": "x"}, "'Bn_compute_blocks' is 'x'; this model allows 0 to 1"),
    ):
        with pytest.raises(SettingsError, match=message):
            Drawing(*checkpoint, cache_backend="cache_dit", cache_config=config)


@pytest.mark.parametrize("backend", ["cache_dit", "tea_cache"])
def test_an_unknown_parameter_of_a_cache_is_refused_by_name(
    checkpoint: tuple[str, Path], backend: str
) -> None:
    with pytest.raises(SettingsError, match=r"unknown 'speed'\. Known: .*thresh"):
        Drawing(*checkpoint, cache_backend=backend, cache_config={"speed": 2})


@pytest.mark.parametrize("num_blocks", [0, 1000, "many"])
def test_more_blocks_than_there_are_cannot_always_be_computed(
    checkpoint: tuple[str, Path], num_blocks: object
) -> None:
    config = {"Fn_compute_blocks": num_blocks}
    with pytest.raises(SettingsError, match=rf"is {num_blocks!r}; this model allows 1 to \d+\.$"):
        Drawing(*checkpoint, cache_backend="cache_dit", cache_config=config)
