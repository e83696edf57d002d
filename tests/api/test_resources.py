"""Models, voices, health: in the shapes that their known readers look for."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from antiphon.config import LimitSettings, ModelSettings, Settings
from antiphon.engine.plan import StepPlan
from antiphon.engine.runner import PendingStep
from antiphon.families.toy.talker import ToyRunner
from antiphon.pipeline.speech.model import SpeechModel
from tests import faulty
from tests.servers import RunningServer, server_of, start_server, wait_until

VOICES = ["sine", "alto", "bass"]


named = server_of(Settings(model=ModelSettings(source="toy", name="org/toy-1")))
"""A server whose model has a slash in its name."""


def test_models(client: httpx.Client) -> None:
    body = client.get("/v1/models").json()
    assert body["object"] == "list"
    (model,) = body["data"]
    assert isinstance(model["created"], int)
    assert {name: model[name] for name in ("id", "object", "owned_by", "task", "sample_rate")} == {
        "id": "toy",
        "object": "model",
        "owned_by": "antiphon",
        "task": "text-to-speech",
        "sample_rate": 24_000,
    }
    assert [voice["id"] for voice in model["voices"]] == VOICES
    assert model["languages"] == ["english", "german"]
    assert client.get("/v1/models/toy").json() == model
    assert client.get("/v1/models/tts-1").json() == model
    assert client.get("/v1/audio/models").json() == {"models": [{"id": "toy"}]}


def test_model_ids_may_contain_slashes(named: RunningServer) -> None:
    for path in ("org/toy-1", "org%2Ftoy-1", "tts-1"):
        body = httpx.get(f"{named.base_url}/v1/models/{path}").json()
        assert body["id"] == "org/toy-1"
    speech = {"model": "org/toy-1", "input": "Hello."}
    assert httpx.post(f"{named.base_url}/v1/audio/speech", json=speech).status_code == 200


def test_voices_in_the_one_body_for_every_reader(client: httpx.Client) -> None:
    body = client.get("/v1/audio/voices").json()
    assert (body["object"], body["has_more"]) == ("list", False)
    assert body["voices"][0] == {"id": "sine", "name": "Sine"}
    assert [voice["id"] for voice in body["data"]] == VOICES
    first = body["data"][0]
    assert (first["object"], first["type"], first["model"]) == ("audio.voice", "builtin", "toy")
    assert isinstance(first["created_at"], int)


def test_voices_of_a_model_and_in_older_shapes(client: httpx.Client) -> None:
    assert client.get("/v1/audio/voices", params={"legacy": "true"}).json() == {"voices": VOICES}
    for model in ("toy", "tts-1"):
        assert client.get("/v1/audio/voices", params={"model": model}).status_code == 200
    assert client.get("/v1/audio/voices", params={"model": "zzz"}).status_code == 404
    assert client.get("/v1/audio/voices", params={"legacy": "perhaps"}).status_code == 400
    listed = client.get("/v1/audio/speech/voices", params={"model_id": "toy"}).json()
    assert listed == [{"model_id": "toy", "voice_id": voice} for voice in VOICES]


def test_probes(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "healthy"}
    assert client.head("/health").status_code == 200
    assert client.get("/ready").json() == {"status": "ready"}
    assert client.get("/v1/test").json() == {"status": "ok"}
    assert client.get("/v1/").status_code == 200
    assert client.get("/v1/readyz").status_code == 404


def test_metrics_count_streams(client: httpx.Client) -> None:
    def num_ended() -> float:
        text = client.get("/metrics").text
        prefix = 'antiphon_speech_ended_total{model="toy",reason="stop"} '
        found = [line for line in text.splitlines() if line.startswith(prefix)]
        return float(found[0].removeprefix(prefix)) if found else 0.0

    before = num_ended()
    client.post("/v1/audio/speech", json={"input": "Hello."})
    assert num_ended() == before + 1


def test_metrics_have_what_the_engine_has_counted(client: httpx.Client) -> None:
    def value(name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", client.get("/metrics").text, re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    ours = r'antiphon_engine_frames_total{model="toy",stage="[\w+]+"}'
    before = value(ours)
    client.post("/v1/audio/speech", json={"input": "Hello."})
    wait_until(lambda: value(ours) > before)
    wait_until(lambda: value(r'vllm:generation_tokens_total{.*model_name="toy"}') > before)
    running = r'antiphon_engine_requests_running{model="toy",stage="[\w+]+"}'
    wait_until(lambda: value(running) == 0)


def test_a_model_that_broke_for_good_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(runner: ToyRunner, plan: StepPlan) -> PendingStep:
        raise RuntimeError("no more tones")

    with start_server() as server, httpx.Client(base_url=server.base_url) as client:
        assert client.get("/health").status_code == 200
        monkeypatch.setattr(ToyRunner, "launch", broken)
        for _ in range(2):  # the one that broke it, and one that comes after
            response = client.post("/v1/audio/speech", json={"input": "Hello."})
            assert response.status_code == 500
            assert response.json()["error"]["code"] == "engine_error"
        for path, status in (("/health", "unhealthy"), ("/ready", "not ready")):
            response = client.get(path)
            assert (response.status_code, response.json()["status"]) == (503, status)
            assert "tones" not in response.text, "what broke is for the logs"


def test_not_ready_while_the_model_is_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(model: SpeechModel) -> None:
        raise RuntimeError("cold")

    faulty.register(monkeypatch)
    monkeypatch.setattr(SpeechModel, "warm_up", failing)
    with start_server(Settings(model=ModelSettings(source="faulty"))) as server:
        assert httpx.get(f"{server.base_url}/ready").status_code == 503
        assert httpx.get(f"{server.base_url}/health").status_code == 200


def test_an_engine_that_hangs_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    launch = ToyRunner.launch

    def hanging(runner: ToyRunner, plan: StepPlan) -> PendingStep:
        assert go_on.wait(30)
        return launch(runner, plan)

    settings = Settings(model=ModelSettings(source="toy"), limits=LimitSettings(stall_s=0.05))
    with start_server(settings) as server, httpx.Client(base_url=server.base_url) as client:
        monkeypatch.setattr(ToyRunner, "launch", hanging)
        with ThreadPoolExecutor(1) as listener:
            speech = listener.submit(client.post, "/v1/audio/speech", json={"input": "Hello."})
            try:
                wait_until(lambda: httpx.get(f"{server.base_url}/health").status_code == 503)
            finally:
                go_on.set()
            assert speech.result().status_code == 200
        wait_until(lambda: client.get("/health").status_code == 200)
