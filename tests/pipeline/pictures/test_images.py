"""Images: what is refused before any work, what is completed, and several at once."""

import threading
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.config.media import ImageSettings
from antiphon.contracts.picture_types import DiffusionParameters, Image, ImageRequest, Progress
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Ended
from antiphon.errors import (
    InvalidRequestError,
    OverloadedError,
    UnknownModelError,
    UnservedTaskError,
)
from antiphon.families.toy.denoiser import DenoisedPicture, ToyDenoiser
from antiphon.pipeline.pictures.images import ImageItem, Images
from antiphon.pipeline.pictures.service import ImageModel, check_parameters, check_size

TOY = ModelSettings(source="toy")
DEADLINE_S = 20.0


@asynccontextmanager
async def on_images() -> AsyncGenerator[Images, None]:
    model = await ImageModel.load(TOY, "image")
    images = Images({"toy": model}, ImageSettings(), others={"voice": "speech"})
    try:
        yield images
        assert model.status.num_open == 0
    finally:
        images.close()
        await model.close()


async def drawn(stream: AsyncGenerator[ImageItem, None]) -> tuple[Image, Ended]:
    async with aclosing(stream) as items:
        *_, image, ended = [item async for item in items]
    assert isinstance(image, Image)
    assert image.preview_index is None
    assert isinstance(ended, Ended)
    return image, ended


async def test_each_of_several_is_what_it_is_alone() -> None:
    async with on_images() as images:
        requests = [ImageRequest("a bird", seed) for seed in (3, 4, 3)]
        alone = [await drawn(images.stream(replace(each))) for each in requests]
        together: dict[int, Image] = {}
        async with aclosing(images.several([ImageRequest("a bird", s) for s in (3, 4, 3)])) as all:
            async for number, item in all:
                if isinstance(item, Image) and item.preview_index is None:
                    together[number] = item
        for number, (image, ended) in enumerate(alone):
            assert np.array_equal(image.pixels, together[number].pixels)
            assert ended.reason == "stop"
            assert ended.usage.input_tokens > 0
        assert not np.array_equal(together[0].pixels, together[1].pixels)


async def test_a_request_is_completed() -> None:
    async with on_images() as images:
        model = images.model(None)
        complete = images.completed(ImageRequest("a bird"))
        assert (complete.width, complete.height) == model.capabilities.default_size
        assert complete.seed is not None
        assert complete.parameters == model.capabilities.parameters
        assert images.completed(complete) == complete


async def test_models_are_found_by_name_and_alias() -> None:
    async with on_images() as images:
        names = (None, "", "toy", "default", "gpt-image-1", "dall-e-3")
        assert {images.model(name) for name in names} == {images.model("toy")}
        with pytest.raises(UnknownModelError, match="'other' does not exist"):
            images.model("other")
        with pytest.raises(UnservedTaskError, match="'voice' is not one that draws"):
            images.model("voice")
    with pytest.raises(UnservedTaskError, match=r"No served model draws.*voice \(speech\)"):
        Images({}, ImageSettings(), others={"voice": "speech"}).model(None)


PIXELS = np.zeros((8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"prompt": " "}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"prompt": "a" * 33_000}, "prompt"),
        ({"negative_prompt": "a" * 33_000}, "negative_prompt"),
        ({"width": 64}, "height"),
        ({"width": 9, "height": 8}, "size"),
        ({"width": 0, "height": 0}, "size"),
        ({"width": 8_000, "height": 8_000}, "size"),
        ({"num_previews": 4}, "partial_images"),
        ({"options": {"unheard": 1}}, "unheard"),
        ({"mask": PIXELS[..., 0]}, "mask"),
        ({"mask": PIXELS[:4, :, 0], "images": (PIXELS,)}, "mask"),
        ({"images": (PIXELS,) * 100}, "image"),
    ],
)
async def test_what_is_wrong_is_refused_before_any_work(wrong: dict[str, Any], param: str) -> None:
    async with on_images() as images:
        with pytest.raises(InvalidRequestError) as refused:
            images.stream(replace(ImageRequest("a bird"), **wrong))
        assert refused.value.param == param


class _Drawing(ImageModel):
    """A model of which only its parameters are asked."""

    min_steps = 1

    def __init__(self, parameters: DiffusionParameters) -> None:
        self.name = "drawing"
        self.parameters = parameters

    @property
    def capabilities(self) -> Any:
        return self


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"num_inference_steps": 0}, "num_inference_steps"),
        ({"num_inference_steps": 201}, "num_inference_steps"),
        ({"guidance_scale": float("nan")}, "guidance_scale"),
        ({"guidance_scale": -1.0}, "guidance_scale"),
        ({"flow_shift": 3.0}, "flow_shift"),
    ],
)
def test_parameters_are_those_of_the_model(wrong: dict[str, Any], param: str) -> None:
    model = _Drawing(DiffusionParameters(num_inference_steps=20, guidance_scale=4.0))
    check_parameters(DiffusionParameters(num_inference_steps=100, guidance_scale=0.0), model, 100)
    with pytest.raises(InvalidRequestError, match=param) as refused:
        check_parameters(DiffusionParameters(**wrong), model, 100)
    assert refused.value.param == param


def test_a_schedule_without_a_shift_is_refused() -> None:
    model = _Drawing(DiffusionParameters(flow_shift=3.0))
    check_parameters(DiffusionParameters(flow_shift=0.01), model, 100)
    with pytest.raises(InvalidRequestError, match=r"0\.01 to 100") as refused:
        check_parameters(DiffusionParameters(flow_shift=0.0), model, 100)
    assert refused.value.param == "flow_shift"


async def test_a_size_is_checked_against_the_model() -> None:
    async with on_images() as images:
        capabilities = images.model(None).capabilities
        multiple = capabilities.size_multiple
        fits = replace(ImageRequest("a"), width=2 * multiple, height=multiple)
        check_size(fits, capabilities, 2 * multiple * multiple)
        with pytest.raises(InvalidRequestError, match="pixels; at most"):
            check_size(fits, capabilities, 2 * multiple * multiple - 1)


@pytest.mark.parametrize("max_waiting", [0, 1])
async def test_several_are_refused_before_the_first_has_begun(
    max_waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one's prompt is built while the first one is drawn, which then waits."""
    has_stepped, may_go_on = threading.Event(), threading.Event()
    step = ToyDenoiser.step

    def stepped(denoiser: ToyDenoiser, states: Sequence[DenoisedPicture]) -> None:
        assert not states[0].step or may_go_on.wait(DEADLINE_S)
        step(denoiser, states)
        has_stepped.set()

    monkeypatch.setattr(ToyDenoiser, "step", stepped)
    settings = ModelSettings(source="toy", max_slots=1, max_waiting=max_waiting)
    model = await ImageModel.load(settings, "image")
    images = Images({"toy": model}, ImageSettings())
    build = model.prompter.build

    def late(request: ImageRequest, seed: int) -> Prompt:
        if seed:
            assert has_stepped.wait(DEADLINE_S)
            time.sleep(0.05)  # in which the first one's progress would be told
        return build(request, seed)

    monkeypatch.setattr(model.prompter, "build", late)
    try:
        async with aclosing(
            images.several([ImageRequest("a bird", seed) for seed in (0, 1)])
        ) as items:
            if max_waiting:
                assert isinstance((await anext(items))[1], Progress)
            else:
                with pytest.raises(OverloadedError):
                    await anext(items)
    finally:
        may_go_on.set()
        images.close()
        await model.close()


async def test_a_stream_that_is_closed_early_frees_all() -> None:
    async with (
        on_images() as images,
        aclosing(images.several([ImageRequest("bird", 1), ImageRequest("b", 2)])) as all,
    ):
        await anext(all)
