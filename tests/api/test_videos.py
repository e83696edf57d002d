"""Videos over HTTP: both contracts at one path, ranges, owners, and clients that leave."""

import base64
import errno
import json
import os
import threading
from collections.abc import Generator
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.api.schemas.videos import wants_job
from antiphon.config import DataSettings, ModelSettings, ReferenceSettings, ServerSettings, Settings
from antiphon.families.toy.denoiser import ToyDenoiser
from tests.servers import RunningServer, start_server, wait_until
from tests.videos import decoded_video, png

URL = "/v1/videos"
SMALL: dict[str, Any] = {"prompt": "a cat", "size": "32x24", "seed": 3, "num_frames": 5}
JOB: dict[str, Any] = {**SMALL, "async": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunningServer, None, None]:
    folder = tmp_path_factory.mktemp("data")
    (folder / "cat.png").write_bytes(png())
    settings = Settings(
        model=ModelSettings(source="toy"),
        server=ServerSettings(api_keys=("ann-key owner=ann", "bob-key owner=bob")),
        data=DataSettings(dir=folder),
        references=ReferenceSettings(allowed_media_path=folder),
    )
    with start_server(settings) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=server.base_url, headers=_key("ann-key"), timeout=60) as client:
        yield client


_JSON = {"Content-Type": "application/json"}


def _key(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Gate:
    """Lets denoising go on by one step at a time, or for good."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.num_steps = 0
        self._turns = threading.Semaphore(0)
        self._is_open = False
        step = ToyDenoiser.step

        def gated(denoiser: ToyDenoiser, states: Any) -> None:
            if not self._is_open:
                self._turns.acquire(timeout=60)
            self.num_steps += 1
            step(denoiser, states)

        monkeypatch.setattr(ToyDenoiser, "step", gated)

    def let(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self._turns.release()

    def open(self) -> None:
        self._is_open = True
        self._turns.release()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Generator[Gate, None, None]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open()


def made(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post(URL, json={"response_format": "b64_json", **SMALL, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def content_of(answer: dict[str, Any]) -> bytes:
    (data,) = answer["data"]
    return base64.b64decode(data["b64_json"])


def done(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post(URL, json={**JOB, **body})
    assert response.status_code == 200, response.text
    url = f"{URL}/{response.json()['id']}"
    wait_until(lambda: client.get(url).json()["status"] in ("completed", "failed"))
    video: dict[str, Any] = client.get(url).json()
    return video


def test_an_address_leads_to_the_file(client: httpx.Client, server: RunningServer) -> None:
    answer = made(client, response_format=None)
    (data,) = answer["data"]
    assert data["output_format"] == "mp4"
    assert data["url"].startswith(f"{server.base_url}/v1/media/")
    fetched = client.get(data["url"])
    assert fetched.headers["content-type"] == "video/mp4"
    assert fetched.content == content_of(made(client))
    with httpx.Client(headers=_key("bob-key"), timeout=60) as other:
        assert other.get(data["url"]).status_code == 404


def test_which_contract_is_meant() -> None:
    table: list[tuple[dict[str, Any], str, bool, bool]] = [
        ({}, "", True, True),
        ({}, "", False, False),
        ({"seconds": "4"}, "", False, True),
        ({"seconds": 4}, "", False, False),
        ({"seconds": "4", "response_format": "url"}, "", False, False),
        ({"seconds": "4", "nvext": {}}, "", False, False),
        ({"input_reference": {"image_url": "x"}}, "", False, True),
        ({"input_reference": "x"}, "", False, False),
        ({"async": True}, "", False, True),
        ({"async": "false"}, "", True, False),
        ({"async": False, "seconds": "4"}, "respond-async", False, False),
        ({}, "respond-async, wait=10", False, True),
        ({}, "wait=100", True, False),
    ]
    for members, prefer, is_form, expected in table:
        assert wants_job(members, prefer, is_form=is_form) is expected, members


def test_an_answer_in_dynamos_shape(client: httpx.Client) -> None:
    nvext = {"fps": 12, "num_frames": 9, "negative_prompt": "dogs", "seed": 7}
    nvext |= {"num_inference_steps": 4, "guidance_scale": 5.0}
    nvext |= {"boundary_ratio": 0.875, "guidance_scale_2": 1.0}  # sent to every model
    body = {"prompt": "a cat", "model": "toy", "size": "32x24", "seconds": 4}
    answer = client.post(URL, json={**body, "response_format": "b64_json", "nvext": nvext}).json()
    assert (answer["object"], answer["model"], answer["status"]) == ("video", "toy", "completed")
    assert answer["id"]
    assert answer["created"] > 0
    frames, fps = decoded_video(content_of(answer))
    assert (frames.shape, fps) == ((9, 24, 32, 3), 12)
    beside = made(client, num_frames=9, fps=12, negative_prompt="dogs", seed=7, guidance_scale=5)
    assert content_of(beside) != content_of(answer)  # 8 steps
    beside = made(
        client,
        **{**nvext, "boundary_ratio": None, "guidance_scale_2": None},
    )
    assert content_of(beside) == content_of(answer)


def test_a_job_gives_what_is_waited_for_otherwise(client: httpx.Client) -> None:
    waited = content_of(made(client))
    video = done(client)
    assert video["status"] == "completed", video
    assert client.get(f"{URL}/{video['id']}/content").content == waited
    file = client.post(f"{URL}/sync", data=SMALL, files={"x": b""})
    assert file.headers["content-type"] == "video/mp4"
    assert file.headers["x-model"] == "toy"
    assert float(file.headers["x-inference-time-s"]) >= 0
    assert file.content == waited


@pytest.mark.parametrize("as_job", [False, True])
def test_images_come_by_every_way(
    client: httpx.Client, server: RunningServer, as_job: bool
) -> None:
    folder = server.state.settings.data.folder
    address = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    contents = set()
    if as_job:  # as forms spell an object
        for name, value in (
            ("input_reference[image_url]", address),
            ("image_reference", json.dumps({"image_url": address})),
            ("image_reference", address),
        ):
            form = {**SMALL, name: value}
            contents.add(client.post(f"{URL}/sync", data=form, files={"x": b""}).content)
    references: list[Any] = [address, f"file://{folder}/cat.png", {"image_url": address}]
    for reference in references:
        body = {"input_reference": reference}
        if as_job:
            id = done(client, **body)["id"]
            contents.add(client.get(f"{URL}/{id}/content").content)
        else:
            contents.add(content_of(made(client, **body)))
    assert len(contents) == 1
    assert contents != {content_of(made(client))}
    wrong: list[tuple[Any, str]] = [
        ("http://127.0.0.1:1/cat.png", "fetches no URLs"),
        (f"file://{folder.parent}/x.png", "leads out"),
        ("cat.png", "it must be a data: URI"),
        ("data:image/png;base64,AAAA", "not a readable"),
        (7, "must be a file"),
    ]
    for reference, part in wrong:
        refused = client.post(URL, json={**JOB, "input_reference": reference, "async": as_job})
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["param"] == "input_reference"
        assert part in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"fps": 61}, "fps"),
        ({"num_frames": 1000}, "num_frames"),
        ({"num_inference_steps": 201}, "num_inference_steps"),
        ({"boundary_ratio": 0.5}, "boundary_ratio"),
        ({"nvext": {"guidance_scale_2": 3.0}}, "guidance_scale_2"),
        ({"nvext": {"fps": 8}, "fps": 9}, "nvext.fps"),
        ({"response_format": "mp4"}, "response_format"),
        ({"width": 64}, "size"),
        ({"size": "auto", "width": 64}, "height"),
        ({"seconds": -1}, "seconds"),
        ({"seconds": 1e300}, "seconds"),
        ({"seconds": "NaN"}, "seconds"),
        ({"seconds": [1]}, "seconds"),
        ({"num_frames": 10**30}, "num_frames"),
        ({"fps": 0}, "fps"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"prompt": ["a"]}, "prompt"),
        ({"size": "0x8"}, "size"),
        ({"guidance_scale": 1e9}, "guidance_scale"),
        ({"nvext": "[1]"}, "nvext"),
        ({"stream": True}, "stream"),
        ({"video_reference": "x"}, "video_reference"),
        ({"input_reference": {}}, "input_reference"),
    ],
)
def test_wrong_fields_are_named(client: httpx.Client, body: dict[str, Any], param: str) -> None:
    for as_job in (True, False):
        content = json.dumps({**SMALL, "async": as_job, **body})
        refused = client.post(URL, content=content, headers=_JSON)
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["param"] == param


def test_frames_that_a_model_cannot_make_are_near(client: httpx.Client) -> None:
    for asked, made_frames in ((1, 1), (6, 5), (8, 9), (9, 9)):
        frames, fps = decoded_video(content_of(made(client, num_frames=asked)))
        assert (len(frames), fps) == (made_frames, 24)
    answer = made(client, num_frames=None, seconds=0.5, fps=8)
    assert answer["seconds"] == "0.625"
    assert len(decoded_video(content_of(answer))[0]) == 5


def test_parts_of_a_video(client: httpx.Client) -> None:
    id = done(client)["id"]
    url = f"{URL}/{id}/content"
    whole = client.get(url)
    assert whole.headers["accept-ranges"] == "bytes"
    assert int(whole.headers["content-length"]) == len(whole.content)
    for asked, part in (
        ("bytes=0-99", whole.content[:100]),
        ("bytes=100-", whole.content[100:]),
        ("bytes=-50", whole.content[-50:]),
    ):
        response = client.get(url, headers={"Range": asked})
        assert response.status_code == 206
        assert response.content == part
    assert client.get(url, headers={"Range": "bytes=99999999-"}).status_code == 416
    assert client.get(url, params={"variant": "film"}).json()["error"]["param"] == "variant"


def test_progress_never_falls_and_nothing_is_there_before_the_end(
    client: httpx.Client, gate: Gate
) -> None:
    id = client.post(URL, json=JOB).json()["id"]
    url = f"{URL}/{id}"
    early = client.get(f"{url}/content")
    assert (early.status_code, early.json()["error"]["code"]) == (404, "video_not_ready")
    seen = [0]
    for step in range(1, 8):
        gate.let(1)
        least = int(95 * step / 8)
        wait_until(lambda least=least: client.get(url).json()["progress"] >= least)  # type: ignore[misc]
        seen.append(client.get(url).json()["progress"])
        assert client.get(url).json()["status"] == "in_progress"
    assert seen == sorted(seen)
    assert seen[-1] < 100
    gate.open()
    wait_until(lambda: client.get(url).json()["status"] == "completed")
    assert client.get(url).json()["progress"] == 100


def test_a_client_that_leaves_stops_the_work_within_a_step(
    client: httpx.Client, server: RunningServer, gate: Gate
) -> None:
    body = {**SMALL, "response_format": "b64_json"}
    with pytest.raises(httpx.ReadTimeout):
        client.post(URL, json=body, timeout=0.5)
    gate.let(1)
    wait_until(lambda: server.num_open == 0)
    assert gate.num_steps <= 1
    gate.open()
    assert len(content_of(made(client))) > 0


def test_a_job_is_deleted_while_it_runs(
    client: httpx.Client, server: RunningServer, gate: Gate
) -> None:
    id = client.post(URL, json=JOB).json()["id"]
    wait_until(lambda: client.get(f"{URL}/{id}").json()["status"] == "in_progress")
    gate.let(1)
    assert client.delete(f"{URL}/{id}").json()["deleted"] is True
    gate.let(1)
    wait_until(lambda: server.num_open == 0)
    assert gate.num_steps <= 2
    gone = client.get(f"{URL}/{id}")
    assert gone.status_code == 404
    assert gone.json()["error"]["message"] == f"There is no video '{id}'."
    assert not list(server.state.settings.data.folder.glob(f"media/**/{id}/**/*"))


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "insufficient_storage"), (errno.EACCES, "storage_error")]
)
def test_a_failed_job_says_why_and_leaves_nothing(
    client: httpx.Client,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: str,
) -> None:
    num_synced = 0

    def broken(descriptor: int) -> None:
        nonlocal num_synced
        num_synced += 1
        if num_synced > 3:  # the first file is whole, the second one is not
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr("antiphon.storage.blobs.os.fsync", broken)
    video = done(client)
    monkeypatch.undo()
    assert video["status"] == "failed"
    assert video["error"]["code"] == code
    assert not list(server.state.settings.data.folder.glob(f"media/**/{video['id']}*"))
    refused = client.get(f"{URL}/{video['id']}/content")
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "video_failed")


def test_jobs_are_their_owners(client: httpx.Client, server: RunningServer) -> None:
    id = done(client)["id"]
    with httpx.Client(base_url=server.base_url, headers=_key("bob-key"), timeout=60) as other:
        assert id not in [each["id"] for each in other.get(URL).json()["data"]]
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            assert other.request(method, f"{URL}/{id}{path}").status_code == 404
    assert client.get(f"{URL}/{id}").status_code == 200


def test_seeds_differ(client: httpx.Client) -> None:
    first, second = (made(client, seed=None) for _ in range(2))
    assert first["seed"] != second["seed"]
    again = made(client, seed=first["seed"])
    assert content_of(again) == content_of(first)
    frames, others = (decoded_video(content_of(each))[0] for each in (first, second))
    assert not np.array_equal(frames, others)
