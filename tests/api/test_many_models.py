"""Several models behind one address: listed, spoken with by name, loaded when they are wanted."""

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from antiphon.config import ModelSettings, ModelsSettings, Settings
from antiphon.config.sources import load_settings
from antiphon.errors import SettingsError
from antiphon.pipeline.model_loading import load_models
from tests import faulty
from tests.decoding import error_of
from tests.servers import RunningServer, start_server, wait_until

URL = "/v1/audio/speech"
TOY = ModelSettings(source="toy")
SECOND = ModelSettings(source="toy", name="second")


def spoken(server: RunningServer, model: str | None) -> httpx.Response:
    body = {"input": "Hello.", "model": model, "seed": 1, "response_format": "pcm"}
    return httpx.post(server.base_url + URL, json=body, timeout=60)


@pytest.mark.parametrize("lazy", [False, True])
def test_all_are_listed_and_each_speaks(lazy: bool) -> None:
    settings = Settings(model=TOY, models=ModelsSettings(more=(SECOND,), lazy=lazy))
    with start_server(settings) as server:
        listed = httpx.get(f"{server.base_url}/v1/models").json()["data"]
        assert [model["id"] for model in listed] == ["toy", "second"], "the default one is first"
        answers = [spoken(server, model) for model in ("toy", "second", None, "tts-1")]
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        error_of(spoken(server, "third"), 404)
        metrics = httpx.get(f"{server.base_url}/metrics").text
        assert 'antiphon_speech_ended_total{model="second",reason="stop"} 1.0' in metrics


def test_one_place_for_two_models_is_shared() -> None:
    models = ModelsSettings(more=(SECOND,), max_loaded=1)
    with start_server(Settings(model=TOY, models=models)) as server:
        answers = {spoken(server, name).content for name in ("second", "toy", "second")}
        assert len(answers) == 1


def test_whoever_cannot_wait_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty.register(monkeypatch)
    may_load = threading.Event()

    class Late(faulty.ScriptGenerator):
        def __init__(self, context: object) -> None:
            assert may_load.wait(30)

    monkeypatch.setattr(faulty, "ScriptGenerator", Late)
    late = ModelSettings(source="faulty", name="late")
    models = ModelsSettings(more=(late,), lazy=True, wait_s=0.05)
    with start_server(Settings(model=TOY, models=models)) as server:
        response = spoken(server, "late")
        assert error_of(response, 503)["code"] == "model_loading"
        assert "retry-after" in response.headers
        assert spoken(server, "toy").status_code != 404, "the others are there"
        may_load.set()
        wait_until(lambda: spoken(server, "late").status_code == 200)


def test_models_come_from_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(
        '[model]\nsource = "toy"\nmax_slots = 3\n'
        '[models]\nmore = ["a=x/y", { source = "z", max_slots = 5 }]\n'
    )
    first, second, third = load_settings(file=file, environment={}).served()
    assert (first.source, first.max_slots) == ("toy", 3)
    assert (second.source, second.name, second.max_slots) == ("x/y", "a", 3)
    assert (third.source, third.name, third.max_slots) == ("z", None, 5)
    environment = {"ANTIPHON_MODELS_MORE": "toy, b=toy"}
    assert len(load_settings(environment=environment).served()) == 3


def test_two_of_one_name_are_a_mistake() -> None:
    settings = Settings(model=TOY, models=ModelsSettings(more=(TOY,)))

    async def load() -> None:
        async with AsyncExitStack() as stack:
            await load_models(settings, None, stack)

    with pytest.raises(SettingsError, match="two models are called 'toy'"):
        asyncio.run(load())
