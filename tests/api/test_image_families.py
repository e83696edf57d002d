"""Images of real families over HTTP, by tiny checkpoints: what the pipeline draws is what comes."""

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest
import torch
from diffusers import OvisImagePipeline, QwenImageEditPipeline, QwenImagePipeline

from antiphon.config import ModelSettings, ModelsSettings, ServerSettings, Settings
from antiphon.config.media import ImageSettings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, Image, ImageRequest
from antiphon.families.qwen_image.image_encoder import QwenImageEditEncoder
from antiphon.media.image_codec import Pixels
from antiphon.pipeline.pictures.images import Images
from antiphon.pipeline.pictures.service import ImageModel
from tests.loops import on_a_loop
from tests.pictures import data_uri, image_events, pixels_of, png
from tests.servers import RunningServer, start_server, wait_until

pytestmark = pytest.mark.slow  # diffusers is imported, and each network of it loaded twice

STEPS = 3
SIDE = 64


def settings_of(path: Path) -> Settings:
    return Settings(model=ModelSettings(source=str(path), device="cpu", name="drawing"))


@on_a_loop
async def drawn_by_the_pipeline(path: Path, request: ImageRequest) -> Pixels:
    model = await ImageModel.load(settings_of(path).model, "image")
    images = Images({"drawing": model}, ImageSettings())
    async with aclosing(images.stream(request)) as items:
        *_, image, _ = [item async for item in items]
    images.close()
    await model.close()
    assert isinstance(image, Image)
    return image.pixels


def posted(server: RunningServer, path: str, **members: object) -> httpx.Response:
    wait_until(lambda: httpx.get(f"{server.base_url}/ready").status_code == 200)
    body = {"prompt": "a cat", "seed": 5, "num_inference_steps": STEPS, **members}
    response = httpx.post(f"{server.base_url}/v1/images/{path}", json=body, timeout=120)
    assert response.status_code == 200, response.text
    return response


@pytest.mark.parametrize("name", ["qwen_image", "ovis_image", "glm_image"])
def test_an_image_over_http_is_the_pipeline_s(
    drawing_checkpoint: Callable[..., Path], name: str
) -> None:
    path = drawing_checkpoint(name)
    parameters = DiffusionParameters(num_inference_steps=STEPS)
    request = ImageRequest("a cat", 6, width=SIDE, height=SIDE, parameters=parameters)
    expected = drawn_by_the_pipeline(path, request)
    with start_server(settings_of(path)) as server:
        answer = posted(server, "generations", n=2, size=f"{SIDE}x{SIDE}").json()
        assert np.array_equal(pixels_of(answer["data"][1]), expected)
        more = {"stream": True, "partial_images": 1, "seed": 6, "size": f"{SIDE}x{SIDE}"}
        preview, completed = image_events(posted(server, "generations", **more))
        assert np.array_equal(pixels_of(completed), expected)
        assert pixels_of(preview).shape == expected.shape
        (listed,) = httpx.get(f"{server.base_url}/v1/models").json()["data"]
        edits = ["image-to-image"] if listed["image"]["max_images"] else []
        assert listed["tasks"] == ["text-to-image", *edits]
        if listed["image"]["max_images"]:
            return
        body = {"prompt": "a cat", "image": data_uri(png())}
        refused = httpx.post(f"{server.base_url}/v1/images/edits", json=body)
        assert "'drawing' edits no images. No served model does." in refused.text
        assert refused.status_code == 400


def test_an_image_is_edited_over_http(drawing_checkpoint: Callable[..., Path]) -> None:
    path = drawing_checkpoint("qwen_image", "edit")
    with start_server(settings_of(path)) as server:
        answer = posted(
            server, "edits", image=data_uri(png(SIDE, SIDE, 200)), size=f"{SIDE}x{SIDE}"
        ).json()
        assert pixels_of(answer["data"][0]).shape == (SIDE, SIDE, 3)
        refused = httpx.post(f"{server.base_url}/v1/images/generations", json={"prompt": "a cat"})
        assert refused.status_code == 400
        assert "/v1/images/edits" in refused.text


WAIT_S = 300
PIPELINES = {"qwen": QwenImagePipeline, "ovis": OvisImagePipeline}
BODY = {
    "prompt": "a red cat",
    "negative_prompt": "dogs",
    "size": "64x32",
    "seed": 5,
    "num_inference_steps": 3,
}


def by_diffusers(pipeline: Any, **more: Any) -> Any:
    made = pipeline(
        prompt="a red cat",
        negative_prompt="dogs",
        width=64,
        height=32,
        num_inference_steps=3,
        generator=torch.Generator().manual_seed(5),
        **more,
    )
    return np.asarray(made.images[0])


def check_generations(server: RunningServer, paths: dict[str, Path]) -> None:
    for name, kind in PIPELINES.items():
        theirs = by_diffusers(kind.from_pretrained(str(paths[name])))
        whole = httpx.post(
            f"{server.base_url}/v1/images/generations", json={**BODY, "model": name}, timeout=WAIT_S
        )
        assert whole.status_code == 200, whole.text
        np.testing.assert_array_equal(pixels_of(whole.json()["data"][0]), theirs)
        streamed = httpx.post(
            f"{server.base_url}/v1/images/generations",
            json={**BODY, "model": name, "stream": True, "partial_images": 1},
            timeout=WAIT_S,
        )
        *partial, last = image_events(streamed)
        assert any(event["type"].endswith("partial_image") for event in partial)
        np.testing.assert_array_equal(pixels_of(last), theirs)


def check_edits(server: RunningServer, path: Path) -> None:
    file = png(height=40, width=64, value=200)
    edited = httpx.post(
        f"{server.base_url}/v1/images/edits",
        json={**BODY, "model": "edit", "images": [{"image_url": data_uri(file)}]},
        timeout=WAIT_S,
    )
    assert edited.status_code == 200, edited.text
    encoder = QwenImageEditEncoder(LoadContext(path=path, device="cpu"))
    pipeline = QwenImageEditPipeline.from_pretrained(str(path), processor=None)
    pipeline.processor = encoder._pipeline.processor  # its own needs torchvision
    given = PIL.Image.fromarray(np.full((40, 64, 3), 200, np.uint8))
    np.testing.assert_array_equal(
        pixels_of(edited.json()["data"][0]), by_diffusers(pipeline, image=given)
    )


@pytest.mark.usefixtures("one_thread")
def test_images_over_http_are_those_of_diffusers(drawing_checkpoint: Callable[..., Path]) -> None:
    paths = {
        "qwen": drawing_checkpoint("qwen_image"),
        "ovis": drawing_checkpoint("ovis_image"),
        "edit": drawing_checkpoint("qwen_image", "edit"),
    }
    first, *more = [
        ModelSettings(name=name, source=str(path), device="cpu") for name, path in paths.items()
    ]
    # The denoisers lie apart from what feeds them, and from what reads of them.
    apart = "{stages: {denoiser: {environment: {DENOISES: '1'}}}}"
    settings = Settings(
        model=first,
        models=ModelsSettings(more=tuple(more)),
        server=ServerSettings(fabric="process", placement=(apart,)),
    )
    with start_server(settings) as server:
        wait_until(lambda: httpx.get(f"{server.base_url}/ready").status_code == 200, WAIT_S)
        check_generations(server, paths)
        check_edits(server, paths["edit"])
