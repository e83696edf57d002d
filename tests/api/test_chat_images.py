"""Images as answers in a chat, as clients of vLLM-Omni and of NVIDIA Dynamo read them."""

import json
from typing import Any

import httpx
import pytest

from antiphon.config import ServerSettings
from tests.decoding import error_of
from tests.pictures import data_uri, pixels_of, png
from tests.servers import TOY, RunningServer, server_of

URL = "/v1/chat/completions"
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "a cat"}], "seed": 5}


server = server_of(TOY.model_copy(update={"server": ServerSettings(output_modalities=("image",))}))


def asked(server: RunningServer, **members: Any) -> httpx.Response:
    return httpx.post(server.base_url + URL, json={**ASKED, **members}, timeout=60)


def drawn(server: RunningServer, **members: Any) -> list[str]:
    body = {"prompt": "a cat", "seed": 5, **members}
    answer = httpx.post(f"{server.base_url}/v1/images/generations", json=body, timeout=60)
    return [image["b64_json"] for image in answer.json()["data"]]


def images_of(content: list[dict[str, Any]]) -> list[str]:
    assert all(part["type"] == "image_url" for part in content)
    return [part["image_url"]["url"] for part in content]


def test_a_message_holds_the_image(server: RunningServer) -> None:
    response = asked(server, model="toy")
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "toy"
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["role"] == "assistant"
    (url,) = images_of(choice["message"]["content"])
    assert url == f"data:image/png;base64,{drawn(server)[0]}"
    assert answer["usage"]["prompt_tokens"] == len("a cat")


def test_a_stream_holds_it_in_a_delta(server: RunningServer) -> None:
    response = asked(server, stream=True, n=2, stream_options={"include_usage": True})
    lines = [line for line in response.text.split("\n\n") if line.startswith("data: ")]
    assert lines.pop() == "data: [DONE]"
    *images, last, usage = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert {chunk["id"] for chunk in (*images, last, usage)} == {last["id"]}
    deltas = [chunk["choices"][0]["delta"] for chunk in images]
    assert [delta.get("role") for delta in deltas] == ["assistant", None]
    urls = {url for delta in deltas for url in images_of(delta["content"])}
    assert urls == {f"data:image/png;base64,{each}" for each in drawn(server, n=2)}
    assert last["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    "same",
    [
        {"width": 48, "height": 32, "num_inference_steps": 4},
        {"extra_body": {"width": 48, "height": 32, "num_inference_steps": 4}},
        {"size": "48x32", "nvext": {"num_inference_steps": 4}, "temperature": 1.0},
    ],
)
def test_parameters_stand_where_clients_put_them(server: RunningServer, same: Any) -> None:
    response = asked(server, **same)
    (url,) = images_of(response.json()["choices"][0]["message"]["content"])
    assert url.endswith(drawn(server, size="48x32", num_inference_steps=4)[0])
    assert "x-ignored-fields" not in response.headers


def test_images_of_the_message_are_edited(server: RunningServer) -> None:
    content = [
        {"type": "text", "text": "a cat"},
        {"type": "image_url", "image_url": {"url": data_uri(png(value=200))}},
    ]
    messages = [
        {"role": "system", "content": "You draw."},
        {"role": "user", "content": "a dog"},
        {"role": "user", "content": content},
    ]
    (url,) = images_of(asked(server, messages=messages).json()["choices"][0]["message"]["content"])
    body = {"prompt": "a cat", "seed": 5, "image": data_uri(png(value=200))}
    edit = httpx.post(f"{server.base_url}/v1/images/edits", json=body, timeout=60).json()
    assert (pixels_of(url) == pixels_of(edit["data"][0])).all()


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "a cat"}]}, "messages"),
        ({"messages": [{"role": "user", "content": ""}]}, "prompt"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"text": "a"}]}]}, "messages.0.content.0.type"),
        ({"modalities": ["text"]}, "modalities"),
        ({"width": 64}, "height"),
        ({"width": 64, "height": 64, "size": "64x64"}, "size"),
        ({"prompt": "a dog"}, "prompt"),
        ({"n": 11}, "n"),
    ],
)
def test_wrong_chats_are_refused(server: RunningServer, wrong: Any, param: str) -> None:
    assert error_of(asked(server, **wrong), 400)["param"] == param
    assert error_of(asked(server, **wrong, stream=True), 400)["param"] == param


def test_a_wrong_part_is_named_as_the_client_knows_it(server: RunningServer) -> None:
    parts = [{"type": "text", "text": "a cat"}, {"type": "image_url", "image_url": 5}]
    error = error_of(asked(server, messages=[{"role": "user", "content": parts}]), 400)
    assert "'messages.0.content.1.image_url'" in error["message"]
    assert "dict[" not in error["message"]
    assert "ChatPart" not in error["message"]
