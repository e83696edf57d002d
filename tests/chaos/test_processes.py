"""Servers that are told to stop, or killed, while they work."""

import errno
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import DataSettings, ModelSettings, Settings
from antiphon.storage.blobs import BlobStore
from tests.cli.conftest import DEADLINE_S, start
from tests.cli.test_serve import serving
from tests.recordings import wav
from tests.servers import start_server, wait_until

__all__ = ["start"]  # a fixture
PATH = "/v1/audio/speech"
VOICES = "/v1/audio/voices"
NUM_STREAMS = 8
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.slow  # a server under load
def test_told_to_stop_under_load_it_finishes_all_and_refuses_the_rest(start: Start) -> None:
    def speak(url: str, number: int) -> bytes | int:
        sent = {"input": "Hello there. " * 60, "seed": number, "response_format": "wav"}
        with httpx.stream("POST", url + PATH, json=sent, timeout=DEADLINE_S) as answer:
            content = answer.read()
            return content if answer.status_code == 200 else answer.status_code

    with serving(start) as (process, url), ThreadPoolExecutor(2 * NUM_STREAMS) as pool:
        wait_until(lambda: httpx.get(f"{url}/ready").status_code == 200)
        early = [pool.submit(speak, url, number) for number in range(NUM_STREAMS)]
        wait_until(lambda: num_open(url) == NUM_STREAMS)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(f"{url}/ready").status_code == 503)
        late = [pool.submit(speak, url, number) for number in range(3)]
        assert [each.result() for each in late] == [503] * 3
        heard = [each.result() for each in early]
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert len({len(each) for each in heard if isinstance(each, bytes)}) == 1
    assert all(isinstance(each, bytes) for each in heard)


def num_open(url: str) -> float:
    text = httpx.get(f"{url}/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("antiphon_http_requests_open")]
    return float(line.split()[1]) - 1  # the one that asks


@pytest.mark.slow  # two servers of a checkpoint, one after the other
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_server_killed_during_uploads_has_all_that_it_had_answered_for(
    start: Start, tmp_path: Path, checkpoint: Callable[..., Path]
) -> None:
    flags = {"model": str(checkpoint("tiny", "base"))}
    recordings = {f"voice-{number}": wav(seed=number) for number in range(40)}
    answered: list[str] = []
    with (
        serving(start, "--data-dir", str(tmp_path), **flags) as (process, url),
        ThreadPoolExecutor(4) as pool,
    ):

        def upload(name: str) -> None:
            form: dict[str, Any] = {"name": name, "consent": "yes"}
            files = {"audio_sample": ("a.wav", recordings[name])}
            answer = httpx.post(url + VOICES, data=form, files=files, timeout=DEADLINE_S)
            assert answer.status_code == 200, answer.text
            answered.append(name)

        uploads = [pool.submit(upload, name) for name in recordings]
        wait_until(lambda: len(answered) >= 5)
        process.kill()
        process.communicate(timeout=DEADLINE_S)
        for each in uploads:
            assert isinstance(each.exception(), httpx.TransportError | None)
    assert len(answered) < len(recordings)

    with serving(start, "--data-dir", str(tmp_path), **flags) as (_, url):
        kept = {voice["name"] for voice in httpx.get(url + VOICES).json()["uploaded_voices"]}
        assert set(answered) <= kept
        form = {"name": "after", "consent": "yes"}
        files = {"audio_sample": ("a.wav", wav())}
        assert httpx.post(url + VOICES, data=form, files=files).status_code == 200
    blobs = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert len(blobs) == len(kept) + 1, "no halves lie around"


def test_a_full_disk_is_told_and_the_server_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkpoint: Callable[..., Path]
) -> None:
    model = ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu")
    settings = Settings(model=model, data=DataSettings(dir=tmp_path))
    put = BlobStore.put

    def full(blobs: BlobStore, key: str, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with start_server(settings) as server:
        form = {"name": "one", "consent": "yes"}
        files = {"audio_sample": ("a.wav", wav())}
        monkeypatch.setattr(BlobStore, "put", full)
        for _ in range(3):
            refused = httpx.post(server.base_url + VOICES, data=form, files=files)
            assert refused.status_code == 507
            assert refused.json()["error"]["code"] == "insufficient_storage"
        monkeypatch.setattr(BlobStore, "put", put)
        assert httpx.post(server.base_url + VOICES, data=form, files=files).status_code == 200
        listed = httpx.get(server.base_url + VOICES).json()["uploaded_voices"]
        assert [voice["name"] for voice in listed] == ["one"]
        speech = {"input": "Hello.", "voice": "one", "max_new_tokens": 6}
        assert httpx.post(server.base_url + PATH, json=speech).status_code == 200
