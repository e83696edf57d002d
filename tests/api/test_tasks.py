"""Servers of one task and of several: what each route says, and what is listed."""

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from antiphon.errors import ModelLoadError
from antiphon.pipeline.model_loading import load_models
from tests.decoding import error_of
from tests.servers import TOY, start_server


def test_a_model_of_several_tasks_serves_them_all() -> None:
    with start_server() as server:
        (listed,) = httpx.get(f"{server.base_url}/v1/models").json()["data"]
        assert listed["task"] == "text-to-speech"
        assert set(listed["tasks"]) >= {"text-to-speech", "text-to-video", "image-to-video"}
        assert listed["voices"]
        assert listed["image"]["default_size"]
        for alias in ("tts-1", "gpt-image-1"):
            found = httpx.get(f"{server.base_url}/v1/models/{alias}").json()
            assert found["id"] == "toy"


def test_a_server_without_speech_says_so() -> None:
    settings = TOY.model_copy(update={"server": ServerSettings(output_modalities=("image",))})
    with start_server(settings) as server:
        (listed,) = httpx.get(f"{server.base_url}/v1/models").json()["data"]
        assert listed["tasks"] == ["text-to-image", "image-to-image"]
        assert "voices" not in listed
        spoken = httpx.post(f"{server.base_url}/v1/audio/speech", json={"input": "Hello."})
        error = error_of(spoken, 404)
        assert error["param"] == "model"
        assert "No served model speaks" in error["message"]
        assert "/v1/images/generations" in error["message"]
        for sent in ({"json": {"prompt": "a"}}, {"data": {"prompt": "a"}, "files": {"x": b"1"}}):
            filmed = httpx.post(f"{server.base_url}/v1/videos", **sent)
            assert "No served model makes videos" in error_of(filmed, 404)["message"]
        assert httpx.get(f"{server.base_url}/v1/videos").json()["data"] == []
        assert error_of(httpx.get(f"{server.base_url}/v1/audio/voices"), 404)
        assert httpx.get(f"{server.base_url}/metrics").status_code == 200
        assert httpx.get(f"{server.base_url}/health").status_code == 200
        assert httpx.get(f"{server.base_url}/openapi.json").status_code == 200


def test_a_model_that_makes_nothing_of_what_is_wanted_is_refused() -> None:
    server = ServerSettings(output_modalities=("text",))
    settings = Settings(model=ModelSettings(source="hibari"), server=server)

    async def load() -> None:
        async with AsyncExitStack() as stack:
            await load_models(settings, None, stack)

    with pytest.raises(ModelLoadError, match=r"makes audio, and text is wanted"):
        asyncio.run(load())
