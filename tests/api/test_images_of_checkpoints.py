"""Images of checkpoints over HTTP are those of diffusers, whatever processes they come through."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest
import torch
from diffusers import OvisImagePipeline, QwenImageEditPipeline, QwenImagePipeline

from antiphon.config import ModelSettings, ModelsSettings, ServerSettings, Settings
from antiphon.contracts.family import LoadContext
from antiphon.families.qwen_image.image_encoder import QwenImageEditEncoder
from tests.pictures import data_uri, image_events, pixels_of, png
from tests.servers import RunningServer, start_server, wait_until

pytestmark = pytest.mark.slow  # three models are loaded, in processes of their own too
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
