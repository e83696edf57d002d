"""NVIDIA Dynamo itself: its front end and two workers of ours, driven by OpenAI's SDK.

With ``ETCD`` in the environment, the path of an etcd, its discovery is tested beside that by files.
"""

import base64
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import httpx2
import openai
import pytest

from tests.dynamo.deployment import LONG, PATHS, SHORT, Deployment, free_port, in_flight
from tests.servers import DEADLINE_S, RunningServer, wait_until

pytest.importorskip("dynamo.common.backend.run", reason="NVIDIA Dynamo is not installed")
pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.slow,  # starts and stops many processes, whose times of grace are waited for
]

logger = logging.getLogger(__name__)

NUM_OPEN = 8
NUM_LATER = 52
RATE_HZ = 5
MAX_REFUSED = 6
"""Requests that a front end may send to a worker that is dead, before it knows."""


def outcomes(deployment: Deployment, end: Callable[[], object]) -> Counter[str]:
    """Count what becomes of streams while a worker ends.

    Streams are opened and their first piece is awaited; the worker ends; then come further
    requests, at a steady rate. One that ends well with wrong bytes fails the test.

    Args:
        deployment: the receiver.
        end: ends a worker.

    Returns:
        How many were whole, cut (the SDK raised midway) or refused (it raised at once).
    """
    expected = {text: deployment.speech(text, seed=1) for text in (LONG, SHORT)}
    begun = threading.Barrier(NUM_OPEN + 1)

    def spoken(text: str) -> str:
        try:
            received = deployment.speech(text, begun.wait if text == LONG else None, seed=1)
        except openai.APIStatusError as error:
            logger.info("%s", error)
            return "refused"
        except httpx2.RemoteProtocolError:  # the SDK lets it through
            return "cut"
        assert received == expected[text], f"{len(received)} bytes of {len(expected[text])}"
        return "whole"

    with ThreadPoolExecutor(NUM_OPEN + NUM_LATER) as pool:
        asked = [pool.submit(spoken, LONG) for _ in range(NUM_OPEN)]
        begun.wait(DEADLINE_S)
        end()
        for _ in range(NUM_LATER):
            asked.append(pool.submit(spoken, SHORT))
            time.sleep(1 / RATE_HZ)
        found = Counter(each.result(2 * DEADLINE_S) for each in asked)
    logger.info("%s", dict(found))
    return found


def test_speech_through_dynamo_is_that_of_the_http_api(
    deployment: Deployment, server: RunningServer
) -> None:
    deployment.start_worker()
    for format, stream in (("pcm", "audio"), ("wav", "audio"), ("mp3", None), ("flac", None)):
        body = {"input": "Hello there.", "response_format": format, "seed": 3}
        url = "/v1/audio/speech"
        through = httpx.post(f"{deployment.base_url}{url}", json={**body, "model": "toy"})
        straight = httpx.post(
            f"{server.base_url}{url}",
            json={**body, **({"stream_format": stream} if stream else {"stream": False})},
        )
        assert through.content == straight.content, format
        assert through.headers["Content-Type"].partition(";")[0].startswith("audio/")


@pytest.mark.parametrize(("task", "more"), [("image", {"n": 2}), ("video", {"seconds": 1})])
def test_pictures_through_dynamo_are_those_of_the_http_api(
    deployment: Deployment, server: RunningServer, task: str, more: dict[str, int]
) -> None:
    deployment.start_worker(task)
    body = {
        "prompt": "A cat",
        "model": "toy",
        "size": "64x32",
        "response_format": "b64_json",
        "nvext": {"seed": 3, "num_inference_steps": 2},
        **more,
    }
    through, straight = (
        httpx.post(f"{url}/v1/{PATHS[task]}", json=body, timeout=DEADLINE_S)
        for url in (deployment.base_url, server.base_url)
    )
    assert through.status_code == 200, through.text
    files, expected = (
        [each["b64_json"] for each in answer.json()["data"]] for answer in (through, straight)
    )
    assert files == expected
    kept = httpx.post(
        f"{deployment.base_url}/v1/{PATHS[task]}",
        json={**body, "response_format": "url"},
        timeout=DEADLINE_S,
    ).json()["data"]
    found = [Path(each["url"].removeprefix("file://")).read_bytes() for each in kept]
    assert [base64.b64encode(each).decode() for each in found] == expected


def test_images_are_drawn_in_chats_through_dynamo(deployment: Deployment) -> None:
    deployment.start_worker("image")
    asked = {"model": "toy", "messages": [{"role": "user", "content": "A cat"}], "seed": 3}
    url = f"{deployment.base_url}/v1/chat/completions"
    (choice,) = httpx.post(url, json=asked, timeout=DEADLINE_S).json()["choices"]
    (part,) = choice["message"]["content"]
    assert part["image_url"]["url"].startswith("data:image/png;base64,")
    streamed = httpx.post(url, json={**asked, "stream": True}, timeout=DEADLINE_S).text
    assert part["image_url"]["url"] in streamed


def test_speech_has_an_address_through_dynamo(deployment: Deployment) -> None:
    deployment.start_worker()
    asked = {"model": "toy", "input": "Hello.", "seed": 3}
    url = f"{deployment.base_url}/v1/audio/speech"
    straight = httpx.post(url, json={**asked, "response_format": "mp3"}).content
    told = httpx.post(url, json={**asked, "response_format": "mp3", "data_source": "url"}).json()
    assert Path(told["data"][0]["url"].removeprefix("file://")).read_bytes() == straight


def test_images_are_edited_through_dynamo(deployment: Deployment, server: RunningServer) -> None:
    deployment.start_worker("image")
    body = {"prompt": "A cat", "model": "toy", "size": "64x32", "nvext": {"seed": 3}}
    drawn = httpx.post(f"{server.base_url}/v1/images/generations", json=body).json()["data"][0]
    address = f"data:image/png;base64,{drawn['b64_json']}"
    through = httpx.post(
        f"{deployment.base_url}/v1/images/edits", json={**body, "input_reference": address}
    ).json()["data"][0]
    straight = httpx.post(
        f"{server.base_url}/v1/images/edits", json={**body, "image": address}
    ).json()["data"][0]
    assert through["b64_json"] == straight["b64_json"] != drawn["b64_json"]


def test_the_sdk_is_told_what_is_wrong(deployment: Deployment) -> None:
    deployment.start_worker()
    for text, members, words in (
        ("Hello.", {"voice": "nobody"}, "Available: sine"),
        (" ", {}, "cannot be empty"),
        ("Hello.", {"seed": "x"}, "an integer"),
        ("Hello.", {"stream_format": "sse"}, "no way to deliver"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            deployment.speech(text, None, **members)


def test_a_client_that_leaves_ends_its_request(deployment: Deployment) -> None:
    port = free_port(below=2**15)  # Dynamo reads it as 16 bits with a sign
    deployment.start_worker(DYN_SYSTEM_PORT=str(port), DYN_SYSTEM_HOST="127.0.0.1")

    with httpx.stream(
        "POST",
        f"{deployment.base_url}/v1/audio/speech",
        json={"input": LONG * 60, "model": "toy", "response_format": "pcm"},
    ) as response:
        for _ in response.iter_raw():
            wait_until(lambda: in_flight(port) == 1)  # Dynamo holds no more than some 20 MB of it
            break
    wait_until(lambda: in_flight(port) == 0)
    assert deployment.speech("Hello.")


def test_a_worker_that_is_stopped_loses_nothing(deployment: Deployment) -> None:
    workers = [deployment.start_worker() for _ in range(2)]
    found = outcomes(deployment, workers[0].terminate)
    assert found == {"whole": NUM_OPEN + NUM_LATER}
    assert workers[0].wait(DEADLINE_S) == 0


def test_a_worker_that_is_killed_takes_only_its_own_streams_along(deployment: Deployment) -> None:
    workers = [deployment.start_worker() for _ in range(2)]
    found = outcomes(deployment, workers[0].kill)
    assert 0 < found["cut"] < NUM_OPEN  # those of the other worker went on
    assert found["whole"] >= NUM_OPEN + NUM_LATER - found["cut"] - MAX_REFUSED
