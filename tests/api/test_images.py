"""/v1/images: OpenAI's contract, and the parameters of vLLM-Omni and Dynamo."""

import base64
import json
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from antiphon.media.image_codec import ImageFormat, encode_image
from tests.decoding import error_of
from tests.pictures import data_uri, image_events, pixels_of, png
from tests.servers import TOY, RunningServer, start_server, wait_until

GENERATIONS, EDITS = "/v1/images/generations", "/v1/images/edits"
BODY = {"prompt": "a cat", "seed": 5}


def drawn(server: RunningServer, **members: Any) -> httpx.Response:
    body = {**BODY, **members}
    return httpx.post(server.base_url + GENERATIONS, json=body, timeout=60)


def edited(server: RunningServer, **more: Any) -> httpx.Response:
    return httpx.post(server.base_url + EDITS, timeout=60, **more)


def test_an_image_is_answered_as_openai_does(server: RunningServer) -> None:
    response = drawn(server, size="48x32")
    assert response.status_code == 200, response.text
    assert int(response.headers["content-length"]) == len(response.content)
    answer = response.json()
    (image,) = answer.pop("data")
    assert pixels_of(image).shape == (32, 48, 3)
    assert answer.pop("created") > 0
    usage = answer.pop("usage")
    assert usage["input_tokens"] == usage["input_tokens_details"]["text_tokens"] == len("a cat")
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert answer == {
        "background": "opaque",
        "output_format": "png",
        "quality": "auto",
        "size": "48x32",
    }


def test_images_of_one_request_have_seeds_that_follow_each_other(server: RunningServer) -> None:
    answer = drawn(server, n=3).json()
    assert [image["seed"] for image in answer["data"]] == [5, 6, 7]
    for image in answer["data"]:
        (alone,) = drawn(server, seed=image["seed"]).json()["data"]
        assert alone["b64_json"] == image["b64_json"]
    assert answer["usage"]["input_tokens"] == 3 * len("a cat")
    (drawn_by_itself,) = drawn(server, seed=None).json()["data"]
    (again,) = drawn(server, seed=drawn_by_itself["seed"]).json()["data"]
    assert again["b64_json"] == drawn_by_itself["b64_json"]


@pytest.mark.parametrize("format", ["png", "jpeg", "webp"])
def test_every_format(server: RunningServer, format: str) -> None:
    answer = drawn(server, output_format=format).json()
    assert answer["output_format"] == format
    begins = {"png": b"\x89PNG", "jpeg": b"\xff\xd8\xff", "webp": b"RIFF"}[format]
    assert base64.b64decode(answer["data"][0]["b64_json"]).startswith(begins)


@pytest.mark.parametrize(
    "same",
    [
        {"num_inference_steps": 4},
        {"nvext": {"num_inference_steps": 4}},
        {"extra_params": {"num_inference_steps": 4}},
        {"nvext": {"num_inference_steps": 4, "annotations": ["ignored"]}, "user": "me"},
        {"quality": "low"},
    ],
)
def test_parameters_may_stand_in_several_places(server: RunningServer, same: Any) -> None:
    """Half of the toy's steps, however that is said."""
    response = drawn(server, **same)
    (image,) = response.json()["data"]
    (expected,) = drawn(server, num_inference_steps=4).json()["data"]
    (default,) = drawn(server).json()["data"]
    assert image["b64_json"] == expected["b64_json"] != default["b64_json"]
    assert "x-ignored-fields" not in response.headers


def test_unknown_fields_are_told(server: RunningServer) -> None:
    assert drawn(server, unheard_of=1).headers["x-ignored-fields"] == "unheard_of"


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"n": 0}, "n"),
        ({"n": 11}, "n"),
        ({"size": "large"}, "size"),
        ({"size": "9x9"}, "size"),
        ({"size": "0x0"}, "size"),
        ({"size": "99999x99999"}, "size"),
        ({"quality": "best"}, "quality"),
        ({"response_format": "tiff"}, "response_format"),
        ({"output_format": "gif"}, "output_format"),
        ({"output_compression": 101}, "output_compression"),
        ({"output_compression": 50}, "output_compression"),
        ({"background": "transparent"}, "background"),
        ({"background": "transparent", "output_format": "jpeg"}, "background"),
        ({"partial_images": 2}, "partial_images"),
        ({"partial_images": 4, "stream": True}, "partial_images"),
        ({"num_inference_steps": 0}, "num_inference_steps"),
        ({"num_inference_steps": 1000}, "num_inference_steps"),
        ({"boundary_ratio": 0.5, "flow_shift": 0.5}, "flow_shift"),
        ({"seed": 2**64}, "seed"),
        ({"nvext": {"seed": 6}}, "nvext.seed"),
        ({"nvext": 3}, "nvext"),
        ({"nvext": {"num_inference_steps": "many"}}, "num_inference_steps"),
        ({"lora": {"name": "x"}}, "lora"),
        ({"prompt": "\ud800"}, "prompt"),
    ],
)
def test_what_is_wrong_is_named(server: RunningServer, wrong: Any, param: str) -> None:
    body = json.dumps({**BODY, **wrong}, ensure_ascii=True)
    headers = {"Content-Type": "application/json"}
    response = httpx.post(server.base_url + GENERATIONS, content=body, headers=headers)
    error = error_of(response, 400)
    assert error["param"] == param
    assert param.rpartition(".")[2] in error["message"]


def test_a_stream_shows_the_image_as_it_forms(server: RunningServer) -> None:
    response = drawn(server, stream=True, partial_images=2)
    assert response.status_code == 200
    assert ": step 8/8" in response.text
    *previews, completed = image_events(response)
    for index, event in enumerate(previews):
        assert event["type"] == "image_generation.partial_image"
        assert event["partial_image_index"] == index
        assert pixels_of(event).shape == (64, 64, 3)
    assert len(previews) == 2
    assert completed["type"] == "image_generation.completed"
    assert completed["usage"]["input_tokens"] == len("a cat")
    (whole,) = drawn(server).json()["data"]
    assert completed["b64_json"] == whole["b64_json"]
    told = {"created_at", "size", "quality", "background", "output_format", "b64_json", "seed"}
    assert all(told <= set(event) for event in (*previews, completed))
    assert "index" not in completed


def test_several_images_stream_side_by_side(server: RunningServer) -> None:
    events = image_events(drawn(server, stream=True, n=2))
    whole = drawn(server, n=2).json()["data"]
    assert {event["index"]: event["b64_json"] for event in events} == {
        index: image["b64_json"] for index, image in enumerate(whole)
    }


def test_an_error_of_a_stream_is_a_status(server: RunningServer) -> None:
    error_of(drawn(server, stream=True, model="unheard"), 404)
    assert error_of(drawn(server, stream=True, size="1x1"), 400)["param"] == "size"


def test_an_image_is_edited(server: RunningServer) -> None:
    file = png(value=200)
    fields = {"prompt": "a cat", "seed": "5", "n": "2", "output_format": "webp"}
    form = edited(server, data=fields, files={"image": ("a.png", file, "image/png")})
    assert form.status_code == 200, form.text
    answer = form.json()
    assert len(answer["data"]) == 2
    assert answer["output_format"] == "webp"
    body = {**BODY, "n": 2, "output_format": "webp"}
    for images in ([{"image_url": data_uri(file)}], [data_uri(file)]):
        other = edited(server, json={**body, "images": images})
        assert other.json()["data"] == answer["data"]
    (made_anew, _) = drawn(server, n=2, output_format="webp").json()["data"]
    assert made_anew != answer["data"][0]
    two = [("image[]", ("a.png", file, "image/png")), ("image[]", ("b.png", file, "image/png"))]
    assert edited(server, data=fields, files=two).status_code == 200


def test_a_mask_says_where_an_image_may_change(server: RunningServer) -> None:
    mask = np.zeros((64, 64, 4), np.uint8)
    mask[:, 32:, 3] = 255  # what is opaque stays
    files = {
        "image": ("a.png", png(value=200), "image/png"),
        "mask": ("mask.png", encode_image(mask, ImageFormat.PNG), "image/png"),
    }
    (image,) = edited(server, data={"prompt": "a cat"}, files=files).json()["data"]
    pixels = pixels_of(image)
    assert (pixels[:, 32:] == 200).all()
    assert (pixels[:, :32] != 200).any()


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"data": {"prompt": "a cat"}}, "image"),
        ({"json": {"prompt": "a cat", "images": [{"file_id": "file-1"}]}}, "images"),
        ({"json": {"prompt": "a cat", "images": [3]}}, "images"),
        ({"json": {"prompt": "a cat", "images": ["http://127.0.0.1/"]}}, "image"),
        ({"json": {"prompt": "a cat", "images": ["file:///etc/passwd"]}}, "image"),
        ({"json": {"prompt": "a cat", "images": ["data:,no"]}}, "image"),
        ({"json": {"prompt": "a cat", "image": [data_uri(png())] * 3}}, "image"),
        ({"json": {"prompt": "a cat", "image": data_uri(png()), "mask": data_uri(png(8))}}, "mask"),
        ({"json": {"image": data_uri(png())}}, "prompt"),
    ],
)
def test_wrong_edits_are_refused(server: RunningServer, more: Any, param: str) -> None:
    assert error_of(edited(server, **more), 400)["param"] == param


def test_variations_are_refused(server: RunningServer) -> None:
    response = httpx.post(f"{server.base_url}/v1/images/variations")
    assert "/v1/images/edits" in error_of(response, 400)["message"]


def test_a_server_that_does_not_draw_says_so() -> None:
    settings = TOY.model_copy(update={"server": ServerSettings(output_modalities=("audio",))})
    with start_server(settings) as speaking:
        message = error_of(drawn(speaking), 404)["message"]
        assert "No served model draws images" in message
        assert "/v1/audio/speech" in message
        error_of(edited(speaking, json={"prompt": "a", "image": data_uri(png())}), 404)
        body = {"messages": [{"role": "user", "content": "a cat"}]}
        chat = httpx.post(f"{speaking.base_url}/v1/chat/completions", json=body)
        assert "No served model chats" in error_of(chat, 404)["message"]


def test_images_for_which_there_is_no_room_are_refused() -> None:
    small = Settings(model=ModelSettings(source="toy", max_slots=1, max_waiting=0))
    with start_server(small) as server:
        for stream in (False, True):
            response = drawn(server, n=8, num_inference_steps=100, size="512x512", stream=stream)
            assert error_of(response, 429)["code"] == "overloaded"
            assert int(response.headers["retry-after"]) > 0
        assert drawn(server).status_code == 200, "the others were given up"


def test_without_pillow_it_says_what_to_install(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not server.state.hindrances
    monkeypatch.setattr("antiphon.media.image_codec.find_spec", lambda name: None)
    message = error_of(drawn(server), 400)["message"]
    assert "omni" in message
    assert "Pillow" in message


def test_whoever_leaves_stops_the_work(server: RunningServer) -> None:
    body = {**BODY, "stream": True, "num_inference_steps": 100, "size": "1024x1024", "n": 4}
    with httpx.stream("POST", server.base_url + GENERATIONS, json=body, timeout=60) as response:
        assert response.status_code == 200
        next(response.iter_bytes())
    wait_until(lambda: server.num_open == 0)
    assert drawn(server).status_code == 200
    for metric in (
        'antiphon_pictures_ended_total{model="toy",reason="abort",task="image"}',
        'vllm_omni:image_count_total{model_name="toy",replica="0",stage="image"}',
    ):
        wait_until(partial(counts, server, metric))


def counts(server: RunningServer, metric: str) -> bool:
    return metric in httpx.get(f"{server.base_url}/metrics").text
