"""A server that is killed, or told to stop, while it makes a video: the next one makes the same."""

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
URL = "/v1/videos"
LONG: dict[str, Any] = {
    **{"prompt": "a cat that walks for long", "size": "640x480", "num_frames": 121, "seed": 4},
    **{"num_inference_steps": 100},
}
Start = Callable[..., "subprocess.Popen[str]"]


def video_of(url: str, id: str) -> dict[str, Any]:
    video: dict[str, Any] = httpx.get(f"{url}{URL}/{id}", timeout=DEADLINE_S).json()
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
        id = httpx.post(url + URL, json={**LONG, "async": True}).json()["id"]
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
        content = httpx.get(f"{url}{URL}/{id}/content", timeout=DEADLINE_S).content
        waited = httpx.post(f"{url}{URL}/sync", json=LONG, timeout=10 * DEADLINE_S)
        assert content == waited.content
