"""Models that own their loop: whom the server lets in, and what it says of one that hangs."""

from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from antiphon.config import LimitSettings, ModelSettings, Settings
from tests import faulty
from tests.servers import RunningServer, start_server, wait_until

URL = "/v1/audio/speech"
ENDLESS = {"input": "1000000 chunks, then stop", "response_format": "pcm"}
SHORT = {"input": "3 chunks, then stop", "response_format": "pcm"}
HANGING_SEED = 4711
HANGING = {"input": "0 chunks, then hang", "response_format": "pcm", "seed": HANGING_SEED}


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    faulty.register(monkeypatch)
    faulty.GO_ON.clear()
    faulty.PULLED.clear()
    yield
    faulty.GO_ON.set()


@pytest.fixture
def listener() -> Generator[ThreadPoolExecutor, None, None]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def hang(server: RunningServer, listener: ThreadPoolExecutor) -> "Future[httpx.Response]":
    speech = listener.submit(httpx.post, server.base_url + URL, json=HANGING, timeout=60)
    wait_until(lambda: faulty.PULLED[HANGING_SEED] > 0)
    return speech


def test_a_generator_that_hangs_is_unhealthy(listener: ThreadPoolExecutor) -> None:
    limits = LimitSettings(stall_s=0.05)
    settings = Settings(model=ModelSettings(source="faulty"), limits=limits)
    with start_server(settings) as server, httpx.Client(base_url=server.base_url) as client:
        speech = hang(server, listener)
        wait_until(lambda: client.get("/health").status_code == 503)
        assert client.get("/ready").status_code == 503
        faulty.GO_ON.set()
        wait_until(lambda: client.get("/health").status_code == 200)
        assert speech.result().status_code == 200


def test_a_server_stops_though_a_generator_hangs(
    listener: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.engine.thread.CLOSE_S", 0.01)
    with start_server(Settings(model=ModelSettings(source="faulty"))) as server:
        speech = hang(server, listener)
    assert not faulty.GO_ON.is_set(), "it hangs yet, and the server has stopped"
    with pytest.raises(httpx.HTTPError):
        speech.result().raise_for_status()


def test_who_would_make_listeners_stutter_is_told_when_to_come_again() -> None:
    settings = Settings(model=ModelSettings(source="faulty", max_slots=1, max_waiting=0))
    with start_server(settings) as server, httpx.Client(base_url=server.base_url) as client:
        with client.stream("POST", URL, json=ENDLESS) as response:
            assert response.status_code == 200
            refused = client.post(URL, json=SHORT)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "overloaded"
            assert int(refused.headers["Retry-After"]) >= 1
            whole = client.post(URL, json={**SHORT, "stream": False})
            assert whole.status_code == 200, "a whole file waits, and nobody stutters for it"
        wait_until(lambda: server.num_open == 0)
        again = client.post(URL, json=SHORT)
        assert again.status_code == 200
        assert len(again.content) == len(whole.content)
