"""The jobs routes: a long text from its order to its download."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import DataSettings, JobSettings, ModelSettings, Settings
from antiphon.pipeline.jobs.runner import JobRunner
from tests.servers import RunningServer, server_of, start_server, wait_until

URL = "/v1/audio/speech/jobs"
BOOK = {
    "chapters": [{"title": "One", "input": "First words."}, {"input": "Last words."}],
    "response_format": "pcm",
    "seed": 3,
}


server = server_of(
    Settings(
        model=ModelSettings(source="toy"), jobs=JobSettings(max_jobs=20, max_input_characters=200)
    )
)


def ordered(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post(URL, json=body)
    assert response.status_code == 202, response.text
    job: dict[str, Any] = response.json()
    assert job["object"] == "audio.speech.job"
    return job


def done(client: httpx.Client, **body: Any) -> dict[str, Any]:
    id = ordered(client, **body)["id"]
    wait_until(lambda: client.get(f"{URL}/{id}").json()["status"] in ("completed", "failed"))
    job: dict[str, Any] = client.get(f"{URL}/{id}").json()
    assert job["status"] == "completed", job
    return job


@pytest.mark.parametrize("format", ["mp3", "wav", "pcm", "flac"])
def test_a_job_is_the_speech_of_its_text(client: httpx.Client, format: str) -> None:
    body = {"input": "A few words.\n\nAnd more.", "seed": 9, "response_format": format}
    job = done(client, **body)
    speech = client.post("/v1/audio/speech", json={**body, "stream": False})
    (file,) = job["files"]
    download = client.get(file["url"])
    assert download.content == speech.content
    assert download.headers["content-type"] == speech.headers["content-type"]
    assert int(download.headers["content-length"]) == file["bytes"] == len(download.content)
    assert job["usage"]["input_tokens"] == len(str(body["input"]))
    assert job["progress"]["fraction"] == 1.0


def test_tags_change_voice_and_rate_in_a_job_too(client: httpx.Client) -> None:
    text = "One. [voice:bass] Two. [rate:2] Three.[pause:0.1s]"
    body = {"input": text, "seed": 9, "response_format": "wav", "volume_multiplier": 0.5}
    job = done(client, **body)
    speech = client.post("/v1/audio/speech", json={**body, "stream": False})
    assert client.get(job["files"][0]["url"]).content == speech.content
    assert job["progress"]["fraction"] == 1.0


def test_a_job_without_a_seed_gets_one(client: httpx.Client) -> None:
    texts = [client.get(done(client, input="Words.")["files"][0]["url"]).content for _ in "ab"]
    assert texts[0] != texts[1]


def test_chapters_are_told_and_may_be_files(client: httpx.Client) -> None:
    one = done(client, **BOOK)
    assert [chapter["title"] for chapter in one["chapters"]] == ["One", None]
    split = done(client, **BOOK, output="chapters")
    assert [chapter["file"] for chapter in split["chapters"]] == [0, 1]
    whole = client.get(one["files"][0]["url"]).content
    parts = [client.get(file["url"]).content for file in split["files"]]
    assert whole == parts[0] + bytes(24_000 * 2) + parts[1]


def test_parts_of_a_file_can_be_had(client: httpx.Client) -> None:
    url = done(client, **BOOK)["files"][0]["url"]
    whole = client.get(url)
    size = len(whole.content)
    for wanted, part in [
        ("bytes=0-9", whole.content[:10]),
        ("bytes=100-", whole.content[100:]),
        ("bytes=-7", whole.content[-7:]),
        (f"bytes=10-{size + 5}", whole.content[10:]),
    ]:
        response = client.get(url, headers={"Range": wanted, "If-Range": whole.headers["etag"]})
        assert response.status_code == 206
        assert response.content == part
        assert response.headers["content-range"].endswith(f"/{size}")
    for ignored in ("bytes=5-2-3", "bytes=-", "words=1-2", ""):
        assert client.get(url, headers={"Range": ignored}).content == whole.content
    assert client.get(url, headers={"Range": "bytes=0-1", "If-Range": '"x"'}).status_code == 200
    beyond = client.get(url, headers={"Range": f"bytes={size}-"})
    assert beyond.status_code == 416
    assert beyond.headers["content-range"] == f"bytes */{size}"


def test_events_tell_how_far_a_job_is_until_it_ends(client: httpx.Client) -> None:
    id = ordered(client, input="Words. " * 20)["id"]
    told = []
    with client.stream("GET", f"{URL}/{id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: ")))
    assert [event["type"] for event in told[:-1]] == ["speech.job"] * (len(told) - 1)
    assert told[-1]["type"] == "speech.job.ended"
    assert told[-1]["job"] == client.get(f"{URL}/{id}").json()
    fractions = [event["job"]["progress"]["fraction"] for event in told]
    assert fractions == sorted(fractions)


def test_a_job_can_be_paused_resumed_cancelled_listed_and_deleted(client: httpx.Client) -> None:
    for job in client.get(URL, params={"limit": 100}).json()["data"]:
        client.delete(f"{URL}/{job['id']}")
    # The queue is worked on in order: what waits behind this one can be changed at leisure.
    ids = [ordered(client, input="a" * 200)["id"] for _ in range(3)]
    paused = client.post(f"{URL}/{ids[2]}/pause").json()
    if paused["status"] == "paused":
        assert client.post(f"{URL}/{ids[2]}/resume").json()["status"] in ("queued", "running")
        assert client.post(f"{URL}/{ids[2]}/cancel").json()["status"] == "cancelled"
        assert client.post(f"{URL}/{ids[2]}/resume").status_code == 409
        assert client.get(f"{URL}/{ids[2]}/content").status_code == 400
    page = client.get(URL, params={"limit": 2}).json()
    assert [job["id"] for job in page["data"]] == [ids[2], ids[1]]
    assert page["has_more"]
    rest = client.get(URL, params={"after": ids[1]}).json()
    assert [job["id"] for job in rest["data"]] == [ids[0]]
    assert not rest["has_more"]
    for id in ids:
        assert client.delete(f"{URL}/{id}").json()["deleted"]
        assert client.get(f"{URL}/{id}").status_code == 404
    assert client.get(URL).json()["data"] == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": "x", "chapters": [{"input": "y"}]}, "input"),
        ({"input": " "}, "input"),
        ({"chapters": []}, "chapters"),
        ({"input": "x", "voice": "nobody"}, "voice"),
        ({"input": "x", "model": "none"}, "model"),
        ({"input": "x", "speed": 99}, "speed"),
        ({"input": "x [voice:nobody] y"}, "voice"),
        ({"input": "x [rate:99] y"}, "input"),
        ({"input": "[voice:bass]"}, "input"),
        ({"input": "x", "language": "klingon"}, "language"),
        ({"input": "x" * 201}, "input"),
        ({"input": "x", "output": "tape"}, "output"),
    ],
)
def test_what_could_not_be_spoken_is_refused_at_once(
    client: httpx.Client, body: dict[str, Any], param: str
) -> None:
    response = client.post(URL, json=body)
    assert response.status_code in (400, 404)
    assert response.json()["error"]["param"] == param


def test_a_job_that_is_not_there(client: httpx.Client) -> None:
    for path in ("", "/events", "/content", "/content/3"):
        response = client.get(f"{URL}/job_none{path}")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "job_not_found"
    assert client.post(f"{URL}/job_none/pause").status_code == 404
    assert client.delete(f"{URL}/job_none").status_code == 404


@pytest.mark.parametrize("model", [None, "tts-1"])
def test_a_job_keeps_the_model_that_was_the_default_one(
    client: httpx.Client, server: RunningServer, model: str | None
) -> None:
    id = done(client, input="Words.", **({} if model is None else {"model": model}))["id"]
    runner: JobRunner = server.app.state.jobs
    assert json.loads(runner.ledger.get(id).body)["model"] == "toy"
    other = runner.ledger.add('{"input": "Words."}', model="another")
    done(client, input="Later words.")
    assert client.get(f"{URL}/{other.id}").json()["status"] == "queued"
    client.delete(f"{URL}/{other.id}")


def test_a_restarted_server_knows_its_jobs(tmp_path: Path) -> None:
    settings = Settings(model=ModelSettings(source="toy"), data=DataSettings(dir=tmp_path))
    with start_server(settings) as first, httpx.Client(base_url=first.base_url) as client:
        job = ordered(client, input="Some words. " * 100, response_format="pcm", seed=1)
    with start_server(settings) as second, httpx.Client(base_url=second.base_url) as client:
        url = f"{URL}/{job['id']}"
        wait_until(lambda: client.get(url).json()["status"] == "completed")
        body = {"input": "Some words. " * 100, "response_format": "pcm", "seed": 1}
        speech = client.post("/v1/audio/speech", json=body, timeout=60)
        assert client.get(f"{url}/content").content == speech.content
