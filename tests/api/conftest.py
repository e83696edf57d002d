"""Servers that the API's tests share."""

import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import cache
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon import Antiphon
from antiphon.config import (
    DataSettings,
    ModelSettings,
    ReferenceSettings,
    ServerSettings,
    Settings,
    SpeechSettings,
)
from tests.families.qwen3_tts.brief import make_brief
from tests.own_voices import make_own_voice, start_own_voice
from tests.recordings import RECORDING
from tests.servers import RunningServer, start_server


@pytest.fixture
def faulty_client(faulty_server: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=faulty_server.base_url, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def own_voice_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    return make_own_voice(tmp_path_factory.mktemp("own_voice"))


@pytest.fixture(scope="session")
def omni_server(
    own_voice_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[RunningServer, None, None]:
    """A server of nothing but a chat model with a voice of its own."""
    data = {"dir": tmp_path_factory.mktemp("data")}
    with start_own_voice(own_voice_checkpoint, data=data) as running:
        yield running


@pytest.fixture(scope="session")
def checkpoint(
    checkpoint: Callable[[Any, str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Any, str], Path]:
    """Return the directory of a tiny checkpoint that says little, by its size and task."""

    @cache
    def make(size: Any, task: str) -> Path:
        path = tmp_path_factory.mktemp("brief") / task
        shutil.copytree(checkpoint(size, task), path)
        make_brief(path)
        return path

    return make


@pytest.fixture(scope="session")
def start(
    checkpoint: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Generator[Callable[[str], RunningServer], None, None]:
    """Return the server of a tiny checkpoint by its task, started when it is first asked for.

    It takes recordings from the loopback, and from a folder that holds ``voice.wav``.
    """
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "voice.wav").write_bytes(RECORDING)
    references = ReferenceSettings(
        allowed_media_path=folder,
        allow_urls=True,
        allowed_networks=(IPv4Network("127.0.0.0/8"),),
    )
    with ExitStack() as stack:

        @cache
        def started(task: str) -> RunningServer:
            source = str(checkpoint("tiny", task))
            settings = Settings(
                model=ModelSettings(source=source, device="cpu", max_slots=4),
                references=references,
                server=ServerSettings(max_body_bytes=1024 * 1024),
            )
            return stack.enter_context(start_server(settings))

        yield started


@pytest.fixture(scope="session")
def base(start: Callable[[str], RunningServer]) -> RunningServer:
    return start("base")


@pytest.fixture(scope="session")
def offline(checkpoint: Callable[..., Path]) -> Generator[Antiphon, None, None]:
    """The model of the `base` server, in this process."""
    with Antiphon.load(str(checkpoint("tiny", "base")), device="cpu") as antiphon:
        yield antiphon


@pytest.fixture(scope="session")
def cloning(
    checkpoint: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Generator[RunningServer, None, None]:
    """A server that keeps five uploaded voices, and speaks with them."""
    settings = Settings(
        model=ModelSettings(
            source=str(checkpoint("tiny", "base")), name="clone", device="cpu", max_slots=4
        ),
        speech=SpeechSettings(voice_aliases={"alloy": "default", "narrator": "Nora"}),
        references=ReferenceSettings(max_bytes=200_000),
        data=DataSettings(dir=tmp_path_factory.mktemp("voices"), max_voices=5),
    )
    with start_server(settings) as running:
        yield running
