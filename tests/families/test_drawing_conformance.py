"""What every family that draws owes its users: exact, repeatable, cleanly cancelled, honest."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.config import ModelSettings
from antiphon.config.media import ImageSettings, VideoSettings
from antiphon.contracts.picture_types import DiffusionParameters, Image, Progress, Video
from antiphon.contracts.types import Ended, new_request_id
from antiphon.errors import InvalidRequestError
from antiphon.families.registry import families, family
from antiphon.pipeline.pictures.images import Images
from antiphon.pipeline.pictures.service import IMAGE, VIDEO, ImageModel, PictureModel, VideoModel
from antiphon.pipeline.pictures.videos import Videos
from antiphon.stages.base import StageItem, StageRequest

CLASSES: dict[str, type[PictureModel]] = {IMAGE: ImageModel, VIDEO: VideoModel}
SERVICES: dict[str, Any] = {
    IMAGE: (Images, ImageSettings()),
    VIDEO: (Videos, VideoSettings()),
}
SLOW = {"glm_image"}
"""Each image begins with hundreds of tokens, one after another."""
SUBJECTS = [
    pytest.param((each.name, task), marks=[pytest.mark.slow] if each.name in SLOW else [])
    for each in families()
    for task in CLASSES
    if task in each.tasks
]
NUM_STEPS = 3
OTHER_VALUES: dict[str, Any] = {
    "num_inference_steps": NUM_STEPS + 1,
    "guidance_scale": 2.5,
    "true_cfg_scale": 2.5,
    "guidance_scale_2": 2.5,
    "boundary_ratio": 0.5,
    "flow_shift": 7.0,
}


@pytest.fixture(scope="module", params=SUBJECTS, ids="-".join)
async def loaded(
    request: pytest.FixtureRequest, drawing_checkpoint: Callable[..., Path]
) -> AsyncGenerator[PictureModel, None]:
    name, task = request.param
    source = str(drawing_checkpoint(name)) if family(name).needs_checkpoint else name
    settings = ModelSettings(source=source, device="cpu", max_slots=8)
    model = await CLASSES[task].load(settings, task)
    yield model
    await model.close()


@pytest.fixture
async def model(loaded: PictureModel) -> AsyncGenerator[PictureModel, None]:
    """A model of which nothing is left of a test's requests afterwards."""
    yield loaded
    await settled(loaded)


async def settled(model: PictureModel) -> None:
    """Wait until no stage holds a request, which they publish after the end of its stream."""
    async with asyncio.timeout(60):
        while model.status.num_open or any(
            stats.requests_running or stats.requests_waiting for _, _, stats in model.engine_stats()
        ):
            await asyncio.sleep(0.01)


def ask(model: PictureModel, **more: Any) -> Any:
    """Return a small request that is guided."""
    sample = model.capabilities.sample_request
    parameters = more.pop("parameters", DiffusionParameters())
    steps = parameters.num_inference_steps or NUM_STEPS
    return replace(
        sample,
        prompt=more.pop("prompt", "a red cat"),
        negative_prompt="dogs" if model.capabilities.negative_prompts else None,
        parameters=replace(parameters, num_inference_steps=steps),
        **more,
    )


def opened(model: PictureModel, request: Any, seed: int = 1) -> Any:
    make, settings = SERVICES[model.task_name]
    service = make({model.name: model}, settings)
    complete = service.completed(replace(request, model=model.name))
    service.close()
    prompt = model.prompter.build(complete, seed)
    return aclosing(model.open(StageRequest(new_request_id(), prompt)))


async def items_of(model: PictureModel, request: Any, seed: int = 1) -> list[StageItem]:
    async with opened(model, request, seed) as items:
        return [item async for item in items]


async def drawn(model: PictureModel, request: Any, seed: int = 1) -> NDArray[np.uint8]:
    *_, picture, ended = await items_of(model, request, seed)
    assert isinstance(ended, Ended)
    assert ended.reason == "stop"
    assert isinstance(picture, Image | Video)
    return picture.pixels if isinstance(picture, Image) else picture.frames


async def test_a_seed_repeats_alone_and_in_company(model: PictureModel) -> None:
    multiple = model.capabilities.size_multiple
    asked = [
        (ask(model), 1),
        (ask(model), 2),
        (ask(model, prompt="a large blue dog"), 1),
        (ask(model, width=4 * multiple, height=2 * multiple), 1),
        (ask(model), 1),
    ]
    alone = [await drawn(model, *each) for each in asked]
    np.testing.assert_array_equal(alone[4], alone[0])
    assert (alone[0] != alone[1]).any(), "the seed matters"
    assert (alone[0] != alone[2]).any(), "the prompt matters"
    assert alone[3].shape[-3:] == (2 * multiple, 4 * multiple, 3)
    together = await asyncio.gather(*(drawn(model, *each) for each in asked))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_progress_grows_to_the_last_step(model: PictureModel) -> None:
    items = await items_of(model, ask(model))
    progress = [item for item in items if isinstance(item, Progress)]
    steps = [item.step for item in progress]
    assert steps == sorted(set(steps))
    assert progress[-1] == Progress(NUM_STEPS, NUM_STEPS)
    assert not any(isinstance(item, Progress) for item in items[-2:])


async def test_an_image_is_shown_while_it_forms(model: PictureModel) -> None:
    if model.task_name != IMAGE:
        return  # videos are not shown while they form
    whole = await drawn(model, ask(model))
    items = await items_of(model, ask(model, num_previews=2))
    images = [item for item in items if isinstance(item, Image)]
    assert [image.preview_index for image in images] == [0, 1, None]
    assert {image.pixels.shape for image in images} == {whole.shape}
    assert (images[0].pixels != images[1].pixels).any()
    np.testing.assert_array_equal(images[2].pixels, whole)


async def test_a_cancelled_request_frees_everything(model: PictureModel) -> None:
    whole = await drawn(model, ask(model))
    endless = ask(model, parameters=DiffusionParameters(num_inference_steps=100))
    for num_items in (0, 1, 2):
        async with opened(model, endless) as items:
            for _ in range(num_items):
                assert not isinstance(await anext(items), Ended)
        await settled(model)
    np.testing.assert_array_equal(await drawn(model, ask(model)), whole)


async def test_capabilities_tell_the_truth(model: PictureModel) -> None:
    capabilities = model.capabilities
    multiple = capabilities.size_multiple
    assert all(side % multiple == 0 for side in capabilities.default_size)
    await model.warm_up()
    refused: list[tuple[str, Any]] = [
        ("size", ask(model, width=multiple + 1, height=multiple)),
        ("prompt", ask(model, prompt=" ")),
    ]
    if not capabilities.negative_prompts:
        refused.append(("negative_prompt", replace(ask(model), negative_prompt="dogs")))
    if capabilities.max_prompt_tokens is not None:
        refused.append(("prompt", ask(model, prompt="x " * capabilities.max_prompt_tokens + "yz")))
    plain = await drawn(model, ask(model))
    for name in (field.name for field in fields(DiffusionParameters)):
        changed = ask(model, parameters=DiffusionParameters(**{name: OTHER_VALUES[name]}))
        if getattr(capabilities.parameters, name) is None:
            refused.append((name, changed))
        else:
            assert (await drawn(model, changed) != plain).any(), f"{name} matters"
    for param, request in refused:
        with pytest.raises(InvalidRequestError) as caught:
            await drawn(model, request)
        assert caught.value.param == param
