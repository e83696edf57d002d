"""Batches: an item is what it would be alone, fails alone, and stops when its client leaves."""

import base64
import socket
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer, wait_until

URL = "/v1/audio/speech/batch"


def post(client: httpx.Client, items: list[Any], **shared: Any) -> dict[str, Any]:
    response = client.post(URL, json={"items": items, **shared})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert [result["index"] for result in answer["results"]] == list(range(len(items)))
    assert answer["total"] == len(items) == answer["succeeded"] + answer["failed"]
    return answer


def alone(client: httpx.Client, **fields: Any) -> bytes:
    response = client.post("/v1/audio/speech", json={**fields, "stream": False})
    assert response.status_code == 200, response.text
    return response.content


def audio(result: dict[str, Any]) -> bytes:
    assert result["status"] == "success", result
    return base64.b64decode(result["audio_data"])


def test_each_item_is_what_it_would_be_alone(client: httpx.Client) -> None:
    shared = {"voice": "alto", "response_format": "wav", "seed": 5, "model": "toy"}
    items: list[dict[str, Any]] = [
        {"input": "One."},
        {"input": "Two.", "voice": "bass", "seed": 6},
        {"input": "Three.", "response_format": "flac", "speed": 1.5, "voice": None},
        {"input": "Four.", "sample_rate": 16_000, "stream": True, "stream_format": "sse"},
    ]
    results = post(client, items, **shared)["results"]
    for item, result in zip(items, results, strict=True):
        given = {name: value for name, value in item.items() if value is not None}
        own = {name: value for name, value in given.items() if not name.startswith("stream")}
        assert audio(result) == alone(client, **{**shared, **own})
        assert result["finish_reason"] == "stop"
        assert result["usage"]["input_tokens"] == len(str(item["input"]))
        assert result["error"] is result["error_details"] is None
    assert [result["media_type"] for result in results] == [
        *("audio/wav", "audio/wav", "audio/flac", "audio/wav"),
    ]
    assert results[3]["sample_rate"] == 16_000


def test_what_is_wrong_with_an_item_is_its_own_affair(client: httpx.Client) -> None:
    items: list[dict[str, Any]] = [
        {"input": "Good."},
        {"voice": "alto"},
        {"input": "x", "voice": "nobody"},
        {"input": "x", "model": "nothing"},
        {"input": "x", "speed": 9},
        {"input": " "},
    ]
    answer = post(client, items, response_format="pcm")
    assert (answer["succeeded"], answer["failed"]) == (1, 5)
    good, *bad = answer["results"]
    assert audio(good)
    errors = [result["error_details"]["error"] for result in bad]
    assert [error["param"] for error in errors] == ["input", "voice", "model", "speed", "input"]
    assert errors[1]["code"] == "voice_not_found"
    assert all(result["audio_data"] is None for result in bad)
    assert [result["error"] for result in bad] == [error["message"] for error in errors]


def test_a_model_that_fails_fails_one_item(faulty_client: httpx.Client) -> None:
    items = [{"input": "1 chunks, then engine error"}, {"input": "2 chunks, then stop"}]
    items.append({"input": "1 chunks, then bug"})
    answer = post(faulty_client, items, response_format="pcm")
    assert [result["status"] for result in answer["results"]] == ["error", "success", "error"]
    assert answer["results"][2]["error"] == "Internal server error."


@pytest.mark.parametrize("items", [[], None, "text", [1], [{"input": "x"}] * 33])
def test_what_is_no_batch_is_refused(client: httpx.Client, items: Any) -> None:
    response = client.post(URL, json={"items": items})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith("items")


def test_thirty_two_items_are_a_batch(client: httpx.Client) -> None:
    items = [{"input": "a", "seed": seed} for seed in range(32)]
    answer = post(client, items, response_format="pcm")
    assert answer["succeeded"] == 32
    assert len({result["audio_data"] for result in answer["results"]}) > 1


def test_when_the_client_leaves_all_items_stop(faulty_server: RunningServer) -> None:
    items = ",".join(['{"input":"0 chunks, then silence"}'] * 3)
    body = f'{{"items":[{items}]}}'.encode()
    head = f"POST {URL} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", faulty_server.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: faulty_server.num_open == 3)
    wait_until(lambda: faulty_server.num_open == 0)
