"""Deepgram's own SDK speaks with the server, over HTTP and WebSocket."""

from collections.abc import Generator
from typing import Any

import httpx
import pytest

from tests.decoding import decoded
from tests.servers import RunningServer

deepgram = pytest.importorskip("deepgram", reason="needs the extra 'clients'")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

TEXT = "Hello there."
DURATION_S = len(TEXT) * 0.08
MODEL = "aura-2-thalia-en"


def environment(server: RunningServer) -> Any:
    from deepgram.environment import DeepgramClientEnvironment

    http, socket = server.base_url, f"ws://127.0.0.1:{server.port}"
    return DeepgramClientEnvironment(base=http, production=socket, agent=socket, agent_rest=http)


@pytest.fixture
def sdk(server: RunningServer) -> Generator[Any, None, None]:
    with httpx.Client(timeout=60) as client:  # the SDK's own is never closed
        yield deepgram.DeepgramClient(
            api_key="none", environment=environment(server), httpx_client=client
        )


def taking_long(fields: dict[str, Any], format: str) -> Any:
    """Parameters of a format that two others stand for where time is short."""
    return pytest.param(fields, format, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("fields", "format"),
    [
        taking_long({}, "mp3"),
        taking_long({"encoding": "linear16"}, "wav"),
        ({"encoding": "mulaw"}, "wav"),
        taking_long({"encoding": "alaw", "container": "wav", "sample_rate": 16000}, "wav"),
        taking_long({"encoding": "opus", "container": "ogg"}, "opus"),
        ({"encoding": "flac"}, "flac"),
        taking_long({"encoding": "aac"}, "aac"),
        taking_long(
            {"encoding": "mp3", "bit_rate": 48000, "tag": ["a"], "mip_opt_out": True}, "mp3"
        ),
    ],
)
def test_it_gets_files(sdk: Any, fields: dict[str, Any], format: str) -> None:
    audio = b"".join(sdk.speak.v1.audio.generate(text=TEXT, model=MODEL, **fields))
    samples, rate_hz = decoded(audio, format, 0)
    assert len(samples) / rate_hz == pytest.approx(DURATION_S, abs=0.15)
    assert rate_hz == fields.get("sample_rate", rate_hz)


def test_it_gets_bare_samples(sdk: Any) -> None:
    for encoding, bytes_a_s in [("linear16", 48_000), ("mulaw", 8000), ("alaw", 8000)]:
        fields = {"encoding": encoding, "container": "none"}
        audio = b"".join(sdk.speak.v1.audio.generate(text=TEXT, model=MODEL, **fields))
        assert len(audio) / bytes_a_s == pytest.approx(DURATION_S, abs=0.01)


def test_it_reads_errors(sdk: Any) -> None:
    from deepgram.core.api_error import ApiError

    for status, fields in [
        (400, {"text": " "}),
        (400, {"text": "Hi.", "encoding": "mp3", "container": "wav"}),
        (404, {"text": "Hi.", "model": "nobody"}),
    ]:
        with pytest.raises(ApiError) as error:
            b"".join(sdk.speak.v1.audio.generate(**fields))
        assert error.value.status_code == status
        assert error.value.body["err_msg"]
        assert error.value.body["request_id"]


@pytest.mark.parametrize(
    ("fields", "bytes_a_s"), [({}, 48_000), ({"encoding": "mulaw", "sample_rate": "8000"}, 8000)]
)
def test_its_socket_speaks_flushes_and_clears(
    sdk: Any, fields: dict[str, str], bytes_a_s: int
) -> None:
    from deepgram.speak.v1.types import SpeakV1Clear, SpeakV1Flush, SpeakV1Text

    with sdk.speak.v1.connect(model=MODEL, **fields) as socket:
        metadata = socket.recv()
        assert (metadata.type, metadata.model_name) == ("Metadata", MODEL)
        for number in range(2):
            socket.send_text(SpeakV1Text(type="Speak", text=TEXT))
            socket.send_flush(SpeakV1Flush(type="Flush"))
            num_bytes = 0
            while isinstance(received := socket.recv(), bytes):
                num_bytes += len(received)
            assert (received.type, received.sequence_id) == ("Flushed", number)
            assert num_bytes / bytes_a_s == pytest.approx(DURATION_S, abs=0.01)
        socket.send_clear(SpeakV1Clear(type="Clear"))
        assert socket.recv().type == "Cleared"
        socket.send_text(SpeakV1Text(type="Speak", text="x" * 200_000))
        warning = socket.recv()
        assert (warning.type, warning.code) == ("Warning", "string_above_max_length")


async def test_its_asynchronous_socket_hears_all(server: RunningServer) -> None:
    from deepgram.speak.v1.types import SpeakV1Close, SpeakV1Text

    client = deepgram.AsyncDeepgramClient(api_key="none", environment=environment(server))
    async with client.speak.v1.connect(model=MODEL) as socket:
        await socket.send_text(SpeakV1Text(type="Speak", text=TEXT))
        await socket.send_close(SpeakV1Close(type="Close"))
        found = sum([len(each) async for each in socket if isinstance(each, bytes)])
    assert found / 48_000 == pytest.approx(DURATION_S, abs=0.01)
