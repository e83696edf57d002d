"""Jobs and the disk: what would not fit is refused before it begins, and deleting always works."""

import sqlite3
from pathlib import Path

import httpx
import pytest

from antiphon.config import DataSettings, JobSettings, ServerSettings, Settings
from antiphon.storage import database, disk_reserve
from tests.servers import TOY, start_server, wait_until
from tests.storage.ledgers import written

URL = "/v1/audio/speech/jobs"
PAUSES = "a [pause:10s] " * 60
"""As much silence as a text may have, 600 s in 840 bytes."""
NUM_CHAPTERS = 160
LARGE = {"chapters": [{"input": PAUSES}] * NUM_CHAPTERS, "response_format": "wav"}
LARGE_BYTES = NUM_CHAPTERS * 600 * 24_000 * 2


def test_a_job_that_the_disk_would_not_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_free = LARGE_BYTES

    def free_bytes(folder: Path) -> int:
        return num_free

    monkeypatch.setattr(disk_reserve, "free_bytes", free_bytes)
    settings = Settings(model=TOY.model, data=DataSettings(dir=tmp_path))
    with (
        start_server(settings) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as client,
    ):
        refused = client.post(URL, json=LARGE)
        assert refused.status_code == 507
        assert refused.json()["error"]["code"] == "insufficient_storage"
        assert client.get(URL).json()["data"] == []
        assert client.post(URL, json={**LARGE, "response_format": "opus"}).status_code == 202
        num_free = 2 * LARGE_BYTES
        assert client.post(URL, json=LARGE).status_code == 202
        for job in client.get(URL).json()["data"]:
            assert client.delete(f"{URL}/{job['id']}").status_code == 200


def test_an_owner_has_a_part_of_the_disk(tmp_path: Path) -> None:
    """The size of a result, not the number of characters, is what counts."""
    gib = 1.5 * LARGE_BYTES / 2**30
    settings = Settings(
        model=TOY.model,
        data=DataSettings(dir=tmp_path, min_free_mib=0),
        jobs=JobSettings(max_gib=2 * gib, max_owner_gib=gib),
        server=ServerSettings(api_keys=("a owner=ann", "b owner=bob", "c owner=cid")),
    )
    with (
        start_server(settings) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as client,
    ):

        def ordered(key: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}"}
            answer = client.post(URL, json=LARGE, headers=headers)
            if answer.status_code == 202:  # the disk of the tests is not to be filled
                paused = client.post(f"{URL}/{answer.json()['id']}/pause", headers=headers)
                assert paused.status_code == 200
            return answer

        assert ordered("a").status_code == 202
        beyond = ordered("a")
        assert beyond.status_code == 400
        assert beyond.json()["error"]["code"] == "storage_quota_exceeded"
        assert "jobs.max_owner_gib" in beyond.text
        assert ordered("b").status_code == 202
        assert "jobs.max_gib" in ordered("c").text


@pytest.mark.parametrize("text", ["a [pause:forever] b", "[pause:11s] a", PAUSES * 2])
def test_pauses_that_are_wrong_are_refused_at_once(tmp_path: Path, text: str) -> None:
    settings = Settings(model=TOY.model, data=DataSettings(dir=tmp_path))
    with (
        start_server(settings) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as client,
    ):
        refused = client.post(URL, json={"input": text})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "input"


def test_a_row_that_is_damaged_shows_and_can_be_deleted(tmp_path: Path) -> None:
    settings = Settings(model=TOY.model, data=DataSettings(dir=tmp_path))
    with (
        start_server(settings) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as client,
    ):
        ids = [client.post(URL, json={"input": "Words."}).json()["id"] for _ in range(2)]
        wait_until(
            lambda: {client.get(f"{URL}/{id}").json()["status"] for id in ids} == {"completed"}
        )
        written(tmp_path, "UPDATE jobs SET result = '{' WHERE id = ?", ids[0])
        listed = client.get(URL).json()["data"]
        assert [job["status"] for job in listed] == ["completed", "failed"]
        assert listed[1]["error"]["code"] == "job_unreadable"
        assert client.get(f"{URL}/{ids[0]}/content").status_code == 400
        assert client.delete(f"{URL}/{ids[0]}").status_code == 200
        third = client.post(URL, json={"input": "Words."}).json()["id"]
        wait_until(lambda: client.get(f"{URL}/{third}").json()["status"] == "completed")


def test_a_locked_database_is_503_with_retry_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(model=TOY.model, data=DataSettings(dir=tmp_path))
    with (
        start_server(settings) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as client,
    ):
        job = client.post(URL, json={"input": "Hello."}).json()
        wait_until(lambda: client.get(f"{URL}/{job['id']}").json()["status"] == "completed")
        monkeypatch.setattr(database, "MAX_WAIT_S", 0.01)
        other = sqlite3.connect(next(tmp_path.rglob("jobs.sqlite3")), isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        for refused in (
            client.post(URL, json={"input": "Hello."}),
            client.delete(f"{URL}/{job['id']}"),
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_busy")
            assert int(refused.headers["retry-after"]) > 0
        other.execute("ROLLBACK")
        other.close()
        assert client.post(URL, json={"input": "Hello."}).status_code == 202
