"""Jobs of servers that are told to stop, or killed: the next one goes on, but not for ever."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import DEADLINE_S, start
from tests.cli.test_serve import serving
from tests.servers import wait_until

__all__ = ["start"]  # a fixture
URL = "/v1/audio/speech/jobs"
LONG = {"input": "Some words of a very long book. " * 2000, "response_format": "pcm", "seed": 1}
Start = Callable[..., "subprocess.Popen[str]"]


def job_of(url: str, id: str) -> dict[str, Any]:
    job: dict[str, Any] = httpx.get(f"{url}{URL}/{id}").json()
    return job


def until_more_segments(url: str, id: str) -> None:
    num_segments = job_of(url, id)["progress"]["segments"]
    wait_until(lambda: job_of(url, id)["progress"]["segments"] > num_segments)


@pytest.mark.slow  # a server of processes each
@pytest.mark.parametrize(
    "name",
    ["SIGTERM", "SIGINT"],
)
def test_told_to_stop_it_gives_its_job_back_at_once_and_the_next_goes_on(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("ANTIPHON_LIMITS_GRACE_S", "600")  # nobody waits for so long
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(tmp_path))
    with serving(start) as (process, url):
        id = httpx.post(url + URL, json=LONG).json()["id"]
        until_more_segments(url, id)
        with httpx.stream("GET", f"{url}{URL}/{id}/events", timeout=DEADLINE_S) as events:
            lines = events.iter_lines()
            next(lines)
            process.send_signal(getattr(signal, name))
            with pytest.raises(httpx.RemoteProtocolError):  # cut, since the job has not ended
                list(lines)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        assert "Traceback" not in errors
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("jobs/*/0/*.segment")}
    assert kept
    with serving(start) as (process, url):
        job = job_of(url, id)
        assert job["status"] in ("queued", "running")
        until_more_segments(url, id)
        now = {path.name: path.read_bytes() for path in tmp_path.glob("jobs/*/0/*.segment")}
        assert kept.items() <= now.items(), "what was spoken is not spoken again"


def killed_at_work(process: "subprocess.Popen[str]", url: str, id: str) -> None:
    """Kill a server while it speaks a job."""
    wait_until(lambda: job_of(url, id)["status"] == "running")
    until_more_segments(url, id)
    process.kill()
    process.communicate(timeout=DEADLINE_S)


@pytest.mark.slow  # three servers, one after the other
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_job_that_was_under_way_in_two_crashes_is_failed_and_others_go_on(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(tmp_path))
    with serving(start) as (process, url):
        id = httpx.post(url + URL, json=LONG).json()["id"]
        other = httpx.post(url + URL, json={"input": "Words."}).json()["id"]
        killed_at_work(process, url, id)
    with serving(start) as (process, url):
        killed_at_work(process, url, id)
    with serving(start) as (_, url):
        wait_until(lambda: job_of(url, other)["status"] == "completed")
        job = job_of(url, id)
        assert (job["status"], job["error"]["code"]) == ("failed", "job_crashed")
        assert not list(tmp_path.glob("jobs/*/0/*.segment"))
        assert not list(tmp_path.glob("media/jobs/" + id))
        assert httpx.get(f"{url}/health").status_code == 200
        metrics = httpx.get(f"{url}/metrics").text
        assert 'antiphon_job_faults_total{kind="job_crashed"} 1.0' in metrics
        resumed = httpx.post(f"{url}{URL}/{id}/resume")
        assert resumed.json()["status"] in ("queued", "running")


VIDEOS = "/v1/videos"
VIDEO: dict[str, Any] = {
    **{"prompt": "a cat that walks for long", "size": "640x480", "num_frames": 121, "seed": 4},
    **{"num_inference_steps": 100},
}


def video_of(url: str, id: str) -> dict[str, Any]:
    video: dict[str, Any] = httpx.get(f"{url}{VIDEOS}/{id}", timeout=DEADLINE_S).json()
    return video


@pytest.mark.slow  # servers that are killed, one after the other, and hundreds of frames encoded
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_video_whose_server_ends_is_made_anew(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("ANTIPHON_LIMITS_GRACE_S", "600")  # nobody waits for so long
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(tmp_path))
    with serving(start) as (process, url):
        id = httpx.post(url + VIDEOS, json={**VIDEO, "async": True}).json()["id"]
        wait_until(lambda: video_of(url, id)["progress"] > 10)
        assert video_of(url, id)["status"] == "in_progress"
        process.send_signal(getattr(signal, name))
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == (0 if name == "SIGTERM" else -signal.SIGKILL)
    assert not list(tmp_path.glob("media/**/*.mp4"))
    with serving(start) as (_, url):
        assert video_of(url, id)["progress"] > 10  # what is done again is no step back
        wait_until(lambda: video_of(url, id)["status"] in ("completed", "failed"))
        assert video_of(url, id)["status"] == "completed"
        content = httpx.get(f"{url}{VIDEOS}/{id}/content", timeout=DEADLINE_S).content
        waited = httpx.post(f"{url}{VIDEOS}/sync", json=VIDEO, timeout=10 * DEADLINE_S)
        assert content == waited.content
