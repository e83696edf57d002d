"""The worker of NVIDIA Dynamo, driven as Dynamo drives it: speech, and a worker's whole life."""

import asyncio
import io
import os
import wave
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from antiphon.config import LimitSettings, ModelSettings, ServerSettings, Settings
from antiphon.dynamo.flags import SHUTDOWN_VARIABLE, parsed_flags
from antiphon.dynamo.routes import ROUTES
from antiphon.errors import EngineError, ModelLoadError, SettingsError
from tests import faulty
from tests.dynamo import stand_in as dynamo
from tests.dynamo.engines import Engine, ask, audio_of, chunks_of, started
from tests.dynamo.stand_in import DynamoContext
from tests.loops import until
from tests.servers import DEADLINE_S, TOY, RunningServer

SENTENCE = "So much to tell, and so little time. "
LONG = SENTENCE * 400
STREAMED = {"nvext": {"frontend_accepts_audio_chunks": True}}
"""What Dynamo's front end adds to requests for PCM and WAV."""


@pytest.fixture
def scripted() -> Generator[Settings, None, None]:
    """Settings of a model that does what its input says."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        faulty.register(monkeypatch)
        yield Settings(model=ModelSettings(source="faulty"))


def open_streams(engine: Engine) -> int:
    num_open: int = engine._app.state.server.num_speaking
    return num_open


@pytest.mark.parametrize("format", ["pcm", "wav"])
def test_pieces_of_pcm_and_wav_are_the_stream_of_the_http_api(
    worker: ModuleType, server: RunningServer, format: str
) -> None:
    request = {"input": "Hello there, how are you today?", "response_format": format, "seed": 5}
    chunks = ask(worker, {**request, **STREAMED})
    over_http = httpx.post(
        f"{server.base_url}/v1/audio/speech", json={**request, "stream_format": "audio"}
    )
    assert audio_of(chunks) == over_http.content
    assert len(chunks) > 1
    assert {data["output_format"] for each in chunks for data in each["data"]} == {format}
    assert {(each["id"], each["model"]) for each in chunks} == {("request-1", "toy")}


@pytest.mark.parametrize("format", ["mp3", "flac", "opus", "aac"])
def test_other_formats_are_whole_files(
    worker: ModuleType, server: RunningServer, format: str
) -> None:
    request = {"input": "Hello there.", "response_format": format, "seed": 5}
    (chunk,) = ask(worker, request)
    over_http = httpx.post(f"{server.base_url}/v1/audio/speech", json={**request, "stream": False})
    assert audio_of([chunk]) == over_http.content


def test_a_front_end_that_takes_no_pieces_gets_whole_wav(worker: ModuleType) -> None:
    for request in ({}, {**STREAMED, "extra_args": {"media_passthrough": {"stream": False}}}):
        (chunk,) = ask(worker, {"input": "Hello there.", **request})
        with wave.open(io.BytesIO(audio_of([chunk]))) as file:
            assert file.getnframes() == len(file.readframes(file.getnframes())) // 2 > 0


@pytest.mark.parametrize("format", ["pcm", "wav", "mp3", "flac", "opus", "aac"])
def test_speech_has_an_address_of_the_storage(
    worker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(tmp_path))
    settings, _, _ = parsed_flags(["toy"])
    request = {"input": "Hello there.", "response_format": format, "seed": 5}
    (whole,) = ask(worker, {**request, "data_source": "b64_json"})
    (chunk,) = ask(worker, {**request, **STREAMED, "data_source": "url"}, settings)
    (data,) = chunk["data"]
    assert data.keys() == {"output_format", "url"}
    assert data["output_format"] == format
    kept = Path(data["url"].removeprefix("file://"))
    assert kept.is_relative_to(tmp_path / "outputs")
    assert kept.read_bytes() == audio_of([whole])


def test_speech_that_cannot_be_kept_is_refused(
    worker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("ANTIPHON_MEDIA_MAX_GIB", "1e-9")
    settings, _, _ = parsed_flags(["toy"])
    with pytest.raises(dynamo.HttpError, match="nothing was stored") as refused:
        ask(worker, {"input": "Hello.", "data_source": "url"}, settings)
    assert refused.value.code == 507


def test_members_that_dynamo_does_not_know_reach_the_model(worker: ModuleType) -> None:
    def spoken(**further: Any) -> bytes:
        passed = {"media_passthrough": {"seed": 1, **further}}
        request = {"input": "Hello there.", "response_format": "pcm", "extra_args": passed}
        return audio_of(ask(worker, request))

    assert spoken() == spoken() != spoken(seed=2)
    assert len(spoken(sample_rate=12000)) * 2 == len(spoken())


def test_extensions_of_speech_are_checked_as_members(worker: ModuleType) -> None:
    request = {"input": "Hello there.", "response_format": "pcm"}
    spoken = audio_of(ask(worker, {**request, "nvext": {"seed": 1, "annotations": ["x"]}}))
    assert spoken == audio_of(ask(worker, {**request, "seed": 1}))
    with pytest.raises(dynamo.InvalidArgument, match="an integer"):
        ask(worker, {**request, "nvext": {"seed": "x"}})


def test_members_that_are_null_mean_defaults(worker: ModuleType) -> None:
    nulls = dict.fromkeys(("voice", "speed", "instructions", "extra_args", "nvext"))
    assert audio_of(ask(worker, {"input": "Hello.", "model": "toy", **nulls}))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"input": " "}, "cannot be empty"),
        ({}, "input"),
        ({"input": "a", "response_format": "midi"}, "one of mp3"),
        ({"input": "a", "voice": "nobody"}, "Available: sine"),
        ({"input": "a", "speed": 9}, "speed"),
        ({"input": "a", "extra_args": {"media_passthrough": {"seed": "x"}}}, "an integer"),
        ({"input": "a", "extra_args": {"media_passthrough": {"stream_format": "sse"}}}, "deliver"),
        ({"input": "a", "extra_args": {"media_passthrough": {"word_timestamps": True}}}, "deliver"),
        ({"input": "a", "data_source": "link"}, "Must be 'b64_json' or 'url'"),
        ({"input": "a", "response_format": "url"}, "one of mp3"),
        ({"input": "a" * 200_000}, "characters"),
    ],
)
@pytest.mark.parametrize("way", [{}, STREAMED])
def test_wrong_requests_are_refused_with_the_message(
    worker: ModuleType, request_: dict[str, Any], words: str, way: dict[str, Any]
) -> None:
    with pytest.raises(dynamo.InvalidArgument, match=words):
        ask(worker, {**request_, **way})


async def test_a_model_that_does_not_do_the_task_is_refused(
    worker: ModuleType, scripted: Settings
) -> None:
    engine = worker.DynamoEngine(scripted, ROUTES["image"])
    try:
        with pytest.raises(ModelLoadError, match="does not serve 'images,chat'"):
            await engine.start(worker_id=1)
    finally:
        await engine.cleanup()


async def test_a_full_server_is_no_fault_of_the_request(worker: ModuleType) -> None:
    full = TOY.model_copy(update={"limits": LimitSettings(max_requests=1)})
    async with started(worker, full) as engine:
        first = engine.generate({"input": LONG, **STREAMED}, DynamoContext("first"))
        await anext(first)
        with pytest.raises(dynamo.HttpError) as refused:
            await chunks_of(engine, {"input": "Hello."})
        assert refused.value.code == 503
        await first.aclose()


async def test_keys_and_shares_of_one_caller_do_not_hold_the_front_end_up(
    worker: ModuleType,
) -> None:
    settings = TOY.model_copy(
        update={
            "server": ServerSettings(api_keys=("secret",)),
            "limits": LimitSettings(caller_places=1),
        }
    )
    async with started(worker, settings) as engine:
        first = engine.generate({"input": LONG, **STREAMED}, DynamoContext("first"))
        await anext(first)
        assert await chunks_of(engine, {"input": "Hello."})
        await first.aclose()


async def test_an_aborted_request_frees_the_engine_though_nobody_closes_its_generator(
    worker: ModuleType,
) -> None:
    async with started(worker) as engine:
        context = DynamoContext()
        stream = engine.generate({"input": LONG, **STREAMED}, context)
        await anext(stream)
        assert open_streams(engine) == 1
        await engine.abort(context)
        await until(lambda: open_streams(engine) == 0)
        await engine.abort(context)  # it may have ended before
        await stream.aclose()


async def test_a_request_that_is_aborted_before_its_first_piece_ends(
    worker: ModuleType, scripted: Settings
) -> None:
    faulty.GO_ON.clear()
    async with started(worker, scripted) as engine:
        context = DynamoContext()
        request = {"input": "0 chunks, then hang", **STREAMED}
        first = asyncio.ensure_future(anext(engine.generate(request, context)))
        await until(lambda: open_streams(engine) == 1)
        await engine.abort(context)
        faulty.GO_ON.set()
        with pytest.raises(Exception, match="cancelled"):
            await first
        await until(lambda: open_streams(engine) == 0)


def test_streams_under_way_go_on_while_the_worker_stops(worker: ModuleType) -> None:
    async def stopped() -> tuple[bytes, bytes]:
        request = {"input": SENTENCE * 12, "response_format": "pcm", "seed": 7, **STREAMED}
        async with started(worker) as engine:
            undisturbed = await chunks_of(engine, request)
            stream = engine.generate(request, DynamoContext("second"))
            chunks = [await anext(stream)]
            cleaning = asyncio.create_task(engine.cleanup())
            async for chunk in stream:
                assert not cleaning.done()
                chunks.append(chunk)
            await asyncio.wait_for(cleaning, DEADLINE_S)
            return audio_of(undisturbed), audio_of(chunks)

    undisturbed, drained = asyncio.run(stopped())
    assert drained == undisturbed


async def test_a_stream_that_outlasts_its_time_breaks_off_and_does_not_end_well(
    worker: ModuleType,
) -> None:
    impatient = TOY.model_copy(update={"limits": LimitSettings(grace_s=0)})
    async with started(worker, impatient) as engine:
        stream = engine.generate({"input": LONG, **STREAMED}, DynamoContext())
        await anext(stream)
        await asyncio.wait_for(engine.cleanup(), DEADLINE_S)
        with pytest.raises(Exception, match="cancelled"):
            async for _ in stream:
                pass


async def test_a_stream_that_fails_midway_raises(worker: ModuleType, scripted: Settings) -> None:
    async with started(worker, scripted) as engine:
        request = {"input": "2 chunks, then engine error", **STREAMED}
        stream = engine.generate(request, DynamoContext())
        assert audio_of([await anext(stream)])
        with pytest.raises(EngineError, match="the script says so"):
            async for _ in stream:
                pass


async def test_a_broken_engine_asks_for_no_more_requests(
    worker: ModuleType, scripted: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(worker, scripted) as engine:
        request = {"input": "0 chunks, then bug", "response_format": "mp3"}
        with pytest.raises(dynamo.HttpError) as refused:
            await chunks_of(engine, request)
        assert refused.value.code == 500
        server = type(engine._app.state.server)
        monkeypatch.setattr(server, "has_failed", True)
        with pytest.raises(dynamo.EngineShutdown):
            await chunks_of(engine, request)


def test_the_health_check_is_a_request_that_can_be_served(worker: ModuleType) -> None:
    async def checked() -> bytes:
        strict = {"speech": TOY.speech.model_copy(update={"unknown_fields": "refuse"})}
        async with started(worker, TOY.model_copy(update=strict)) as engine:
            payload = await engine.health_check_payload()
            assert payload["_HEALTH_CHECK"] is True
            return audio_of(await chunks_of(engine, payload))

    assert asyncio.run(checked())


def test_the_voices_are_told_to_discovery(worker: ModuleType) -> None:
    async def described() -> Any:
        engine = worker.DynamoEngine(TOY, ROUTES["speech"])
        config = await engine.start(worker_id=1)
        await engine.cleanup()
        await engine.cleanup()  # a second one does no harm
        return config

    config = asyncio.run(described())
    assert config.model == "toy"
    assert config.runtime_data == {"voices": ["sine", "alto", "bass"]}


def test_a_worker_that_never_started_can_be_cleaned_up(worker: ModuleType) -> None:
    asyncio.run(worker.DynamoEngine(TOY, ROUTES["speech"]).cleanup())


def test_flags_go_before_variables_and_both_before_defaults(
    worker: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYN_NAMESPACE", "of-the-variable")
    monkeypatch.setenv("DYN_DISCOVERY_BACKEND", "file")
    monkeypatch.setenv("ANTIPHON_MODEL_NAME", "My_Model 2")
    monkeypatch.setenv("ANTIPHON_LIMITS_GRACE_S", "90")
    monkeypatch.delenv(SHUTDOWN_VARIABLE, raising=False)
    argv = ["toy", "--namespace", "of-the-flag"]
    engine, config = asyncio.run(worker.DynamoEngine.from_args(argv))
    assert isinstance(engine, dynamo.RawEngine)
    assert (config.namespace, config.discovery_backend) == ("of-the-flag", "file")
    assert (config.request_plane, config.event_plane) == ("tcp", "zmq")
    assert (config.model_name, config.component) == ("My_Model 2", "my-model-2")
    assert (config.endpoint_types, config.model_input) == ("audios", "text")
    monkeypatch.setenv(SHUTDOWN_VARIABLE, "5")
    parsed_flags(argv)
    assert os.environ[SHUTDOWN_VARIABLE] == "5"


def test_a_worker_serves_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_MODELS_MORE", "hibari")
    with pytest.raises(SettingsError, match="one model"):
        parsed_flags(["toy"])
