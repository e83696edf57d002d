"""Images and videos of the worker of NVIDIA Dynamo are those of the HTTP API."""

import asyncio
from dataclasses import replace
from types import ModuleType
from typing import Any

import httpx
import pytest

from antiphon.fabric.dynamo_routes import ROUTES
from tests.fabric import dynamo_stand_in as dynamo
from tests.fabric.dynamo_engines import ask, chunks_of, started
from tests.servers import RunningServer

PICTURE = {"prompt": "A cat", "size": "64x32", "model": "toy", "input_reference": None}


def test_images_are_those_of_the_http_api_in_dynamos_shape(
    worker: ModuleType, server: RunningServer
) -> None:
    further = {"media_passthrough": {"true_cfg_scale": None, "output_format": "webp"}}
    parameters = {"seed": 5, "num_inference_steps": 2, "negative_prompt": None}
    (chunk,) = ask(
        worker, {**PICTURE, "n": 2, "nvext": parameters, "extra_args": further}, task="image"
    )
    over_http = httpx.post(
        f"{server.base_url}/v1/images/generations",
        json={**PICTURE, "n": 2, "output_format": "webp", "seed": 5, "num_inference_steps": 2},
    ).json()
    assert chunk["data"] == over_http["data"]
    assert [set(each) for each in chunk["data"]] == [{"b64_json", "seed"}] * 2
    assert (chunk["output_format"], chunk["size"]) == ("webp", "64x32")
    assert isinstance(chunk["created"], int)


def test_an_image_that_a_request_refers_to_is_edited(
    worker: ModuleType, server: RunningServer
) -> None:
    body = {**PICTURE, "seed": 3, "num_inference_steps": 2}
    drawn = httpx.post(f"{server.base_url}/v1/images/generations", json=body).json()
    address = f"data:image/png;base64,{drawn['data'][0]['b64_json']}"
    (chunk,) = ask(worker, {**body, "input_reference": address}, task="image")
    edited = httpx.post(f"{server.base_url}/v1/images/edits", json={**body, "image": address})
    assert chunk["data"] == edited.json()["data"] != drawn["data"]


@pytest.mark.parametrize("seconds", [None, 1])
def test_videos_are_those_of_the_http_api_in_dynamos_shape(
    worker: ModuleType, server: RunningServer, seconds: int | None
) -> None:
    parameters = {"seed": 5, "num_inference_steps": 2, "fps": 4, "num_frames": None}
    request = {**PICTURE, "seconds": seconds, "stream": False, "nvext": parameters}
    (chunk,) = ask(worker, request, task="video")
    body = {**request, "response_format": "b64_json"}
    over_http = httpx.post(f"{server.base_url}/v1/videos", json=body).json()
    assert chunk["data"] == over_http["data"]
    assert set(chunk["data"][0]) >= {"output_format", "b64_json"}
    told = ("object", "model", "status", "progress", "created", "id")
    assert all(chunk[each] == over_http[each] for each in told[:-2])
    assert all(chunk[each] for each in told)


@pytest.mark.parametrize("task", ["image", "video"])
@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"prompt": ""}, "prompt"),
        ({"size": "a lot"}, "size"),
        ({"nvext": {"num_inference_steps": -1}}, "num_inference_steps"),
        ({"response_format": "url"}, "deliver"),
        ({"stream": True}, "deliver"),
        ({"extra_args": {"media_passthrough": {"async": True}}}, "deliver"),
        ({"extra_args": {"media_passthrough": {"async": "true"}}}, "deliver"),
    ],
)
def test_wrong_requests_for_pictures_are_refused_with_the_message(
    worker: ModuleType, task: str, request_: dict[str, Any], words: str
) -> None:
    with pytest.raises(dynamo.InvalidArgument, match=words):
        ask(worker, {**PICTURE, **request_}, task=task)


@pytest.mark.parametrize("task", ["image", "video"])
def test_the_health_check_of_pictures_takes_few_steps(worker: ModuleType, task: str) -> None:
    async def checked() -> list[dict[str, Any]]:
        async with started(worker, task=task) as engine:
            payload = await engine.health_check_payload()
            assert payload["nvext"]["num_inference_steps"] == 1
            return await chunks_of(engine, payload)

    (chunk,) = asyncio.run(checked())
    assert chunk["data"][0]["b64_json"]


@pytest.mark.parametrize("task", ["image", "video"])
def test_the_health_check_of_pictures_is_as_small_as_a_warm_up(
    worker: ModuleType, task: str
) -> None:
    async def checked() -> list[dict[str, Any]]:
        async with started(worker, task=task) as engine:
            known = engine._model.capabilities
            small = replace(known.sample_request, width=16, height=32)
            needy = replace(known, sample_request=small, needs_image=True)
            payload = ROUTES[task].sample(needy)
            assert payload["size"] == "16x32"
            assert payload["nvext"].get("num_frames") == (5 if task == "video" else None)
            assert payload["input_reference"].startswith("data:image/png")
            return await chunks_of(engine, payload)

    (chunk,) = asyncio.run(checked())
    assert chunk["size"] == "16x32"
