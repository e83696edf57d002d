"""Images and videos of the worker of NVIDIA Dynamo are those of the HTTP API."""

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from antiphon.dynamo.flags import parsed_flags
from antiphon.dynamo.routes import ROUTES
from antiphon.errors import InvalidRequestError
from antiphon.media import image_codec
from tests.dynamo import stand_in as dynamo
from tests.dynamo.engines import ask, chunks_of, started
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


@pytest.mark.parametrize("task", ["image", "video"])
def test_pictures_have_addresses_of_the_storage(
    worker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    request = {**PICTURE, "seed": 3, "nvext": {"num_inference_steps": 1}}
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(tmp_path))
    (whole,) = ask(worker, request, task=task)
    for given, base in (
        ((), f"file://{tmp_path}/outputs/"),
        (("--media-output-fs-url", f"file://{tmp_path}/shared"), f"file://{tmp_path}/shared/"),
        (("--media-output-http-url", "https://cdn.example/m/"), "https://cdn.example/m/"),
    ):
        settings, _, _ = parsed_flags(["toy", *given])
        (chunk,) = ask(worker, {**request, "response_format": "url"}, settings, task)
        (data,) = chunk["data"]
        assert data["url"].startswith(base)
        assert "b64_json" not in data
        folder = tmp_path / ("shared" if "shared" in base else "outputs")
        kept = folder / data["url"].removeprefix(base)
        assert base64.b64encode(kept.read_bytes()).decode() == whole["data"][0]["b64_json"]


@pytest.mark.parametrize("stream", [False, True])
def test_images_of_chats_are_parts_of_one_delta(
    worker: ModuleType, server: RunningServer, stream: bool
) -> None:
    (drawn,) = ask(worker, {**PICTURE, "seed": 3, "size": None}, task="image")
    address = f"data:image/png;base64,{drawn['data'][0]['b64_json']}"
    image = {"type": "image_url", "image_url": {"url": address, "detail": None}}
    for content in ("A cat", [{"type": "text", "text": "A dog"}, image]):
        message = {"role": "user", "content": content}
        asked = {"model": "toy", "messages": [message], "seed": 3, "modalities": None}
        options = {"stream": stream, "stream_options": {"include_usage": True}}
        (chunk,) = ask(worker, {**asked, **(options if stream else {})}, task="image")
        over_http = httpx.post(
            f"{server.base_url}/v1/chat/completions", json={**asked, "modalities": ["image"]}
        ).json()
        assert chunk["object"] == "chat.completion.chunk"
        ((choice,), (expected,)) = chunk["choices"], over_http["choices"]
        assert choice["delta"] == expected["message"]
        assert (choice["index"], choice["finish_reason"]) == (0, "stop")
        assert chunk["usage"] == over_http["usage"]


def test_a_worker_for_images_without_pillow_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_codec, "find_spec", lambda name: None)
    with pytest.raises(InvalidRequestError, match=r"Images need Pillow.*pip install"):
        parsed_flags(["toy", "--task", "image"])
    for task in ("video", "speech"):
        parsed_flags(["toy", "--task", task])


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
        ({"response_format": "link"}, "response_format"),
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
