"""Served over HTTP: one loaded model speaks and writes at the same time."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.families.mimo_audio.random_checkpoint import make_checkpoint
from tests.families.mimo_audio.speaking import make_all_audio
from tests.servers import RunningServer, start_server, wait_until

pytestmark = pytest.mark.slow  # servers whose codec is made ready for every stream

PLACEMENTS = [(), ("{stages: {codec: {apart: true}}}",)]
SPEECH = {
    "input": "Hello.",
    "response_format": "pcm",
    "max_new_tokens": 6,
    "seed": 3,
    "ignore_eos": True,
}
CHAT = {
    "messages": [{"role": "user", "content": "How are you?"}],
    "max_tokens": 8,
    "ignore_eos": True,
    "temperature": 0.9,
    "seed": 5,
}


@pytest.fixture(scope="module", params=PLACEMENTS, ids=["one engine", "a codec apart"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[RunningServer, None, None]:
    path: Path = tmp_path_factory.mktemp("mimo") / "mimo"
    make_checkpoint(path)
    make_all_audio(path)
    model = ModelSettings(source=str(path), name="mimo", device="cpu", max_slots=4)
    settings = Settings(model=model, server=ServerSettings(placement=request.param))
    with start_server(settings) as running:
        yield running


def test_one_model_speaks_and_writes_at_once(server: RunningServer) -> None:
    with httpx.Client(base_url=server.base_url, timeout=60) as client:

        def heard(_: int) -> bytes:
            answer = client.post("/v1/audio/speech", json=SPEECH)
            assert answer.status_code == 200, answer.text
            return answer.content

        def read(_: int) -> Any:
            answer = client.post("/v1/chat/completions", json=CHAT)
            assert answer.status_code == 200, answer.text
            return answer.json()

        (described,) = client.get("/v1/models").json()["data"]
        assert {"text-to-speech", "text-generation"} <= set(described["tasks"])
        audio, answer = heard(0), read(0)
        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(each, 0) for each in (heard, read, heard, read)]
            both = [each.result() for each in asked]
    assert both[0] == both[2] == audio
    assert len(audio) > 0
    written = [each["choices"][0] for each in (answer, both[1], both[3])]
    assert written[1:] == written[:1] * 2
    assert answer["usage"]["completion_tokens"] > 0
    wait_until(lambda: server.num_open == 0)


def test_the_language_model_is_in_memory_once(server: RunningServer) -> None:
    (speech,), (chat,) = server.state.speech.models.values(), server.state.chats.models.values()
    (written,) = chat.handles
    assert written in speech.handles
    engines = {handle for each in (speech, chat) for handle in each.handles}
    assert engines == set(speech.handles)
