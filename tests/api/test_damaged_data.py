"""A data folder that cannot be read: the server says so, and speaks with the voices it has."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from antiphon.api import storage_watch
from antiphon.config import DataSettings, ModelSettings, Settings
from antiphon.storage import job_database, voice_database
from tests.recordings import wav
from tests.servers import TOY, start_server, wait_until


def damage(file: Path) -> None:
    file.write_bytes(b"no database at all" * 500)


@pytest.mark.parametrize(
    ("name", "what"),
    [(voice_database.SCHEMA.file_name, "uploaded voices"), (job_database.SCHEMA.file_name, "jobs")],
)
def test_a_damaged_database_is_told_and_the_own_voices_speak(
    tmp_path: Path, name: str, what: str
) -> None:
    damage(tmp_path / name)
    settings = Settings(model=TOY.model, data=DataSettings(dir=tmp_path))
    with (
        start_server(settings) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as client,
    ):
        ready = client.get("/ready")
        assert ready.status_code == 503
        assert ready.json()["reason"].startswith(f"{what}: ")
        assert str(tmp_path) not in ready.text
        assert client.get("/health").status_code == 200, "a restart would not mend it"
        assert client.post("/v1/audio/speech", json={"input": "Hello."}).status_code == 200
        for path in ("/v1/audio/voices", "/v1/audio/speech/voices", "/v1/voices"):
            assert client.get(path).status_code == 200


def test_a_folder_that_is_mended_is_ready_again(
    tmp_path: Path, checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_watch, "PERIOD_S", 0.01)
    model = ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu", max_slots=2)
    settings = Settings(model=model, data=DataSettings(dir=tmp_path))
    file = tmp_path / voice_database.SCHEMA.file_name
    damage(file)
    with (
        start_server(settings) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as client,
    ):
        files = {"audio_sample": ("a.wav", wav())}
        refused = client.post("/v1/audio/voices", data={"name": "Ann"}, files=files)
        assert refused.status_code == 500
        assert refused.json()["error"]["code"] == "storage_error"
        assert client.get("/ready").status_code == 503
        file.unlink()
        wait_until(lambda: client.get("/ready").status_code == 200)
        files = {"audio_sample": ("a.wav", wav())}
        kept = client.post("/v1/audio/voices", data={"name": "Ann"}, files=files)
        assert kept.status_code == 200
