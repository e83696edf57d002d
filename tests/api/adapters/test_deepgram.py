"""Deepgram's messages and its HTTP request, spoken by us."""

import httpx
import pytest

from tests import faulty
from tests.servers import RunningServer, wait_until
from tests.sockets import audio, connected, messages

PATH = "/v1/speak"


def num_samples(text: str, rate_hz: int = 24000) -> int:
    return len(text) * 2 * rate_hz // 25


def test_what_is_spoken_is_flushed_in_order(server: RunningServer) -> None:
    with connected(
        server, f"{PATH}?model=aura-2-helena-en&sample_rate=24000&mip_opt_out=true"
    ) as talk:
        (metadata,) = messages([talk.receive()], "Metadata")
        assert metadata["model_name"] == "aura-2-helena-en"
        assert talk.connection.response is not None
        assert talk.connection.response.headers["dg-request-id"] == metadata["request_id"]
        for number, text in enumerate(["Hello there.", "Me too.", ""]):
            for word in text.split(" "):
                talk.send("Speak", text=f"{word} ")
            talk.send("Flush")
            found = talk.until("Flushed")
            assert messages(found) == [{"type": "Flushed", "sequence_id": number}]
            assert len(audio(found)) == num_samples(text) * 2
        talk.send("Speak", text="Bye.")
        talk.send("Close")
        assert len(audio(talk.rest())) == num_samples("Bye.") * 2
        assert talk.close_code == 1000


def test_a_clear_drops_what_was_to_be_flushed(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        for number in range(2):
            talk.send("Speak", text="A long text, of which little is heard. " * 20)
            talk.send("Flush")
            talk.until(lambda each: isinstance(each, bytes))
            talk.send("Clear")
            cleared = talk.until("Cleared")
            assert messages(cleared) == [{"type": "Cleared", "sequence_id": number}]
            wait_until(lambda: server.num_open == 0)
        talk.send("Speak", text="Hello.")
        talk.send("Flush")
        assert len(audio(talk.until("Flushed"))) == num_samples("Hello.") * 2


def test_what_is_wrong_is_a_warning(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        talk.receive()
        talk.send("Speak")
        talk.send("Sing", text="la")
        talk.connection.send("{")
        warnings = messages([talk.receive() for _ in range(3)], "Warning")
        assert [each["code"] for each in warnings] == [
            "missing_required_parameter",
            "invalid_value",
            "invalid_json",
        ]
        talk.send("Speak", text="Hello.")
        talk.send("Flush")
        assert audio(talk.until("Flushed"))


def test_what_fails_is_an_error_and_flushed_all_the_same(faulty_server: RunningServer) -> None:
    with connected(faulty_server, PATH) as talk:
        talk.receive()
        for text in ("1 chunks, then engine error", "1 chunks, then stop"):
            talk.send("Speak", text=text)
            talk.send("Flush")
        failed, spoken = talk.until("Flushed"), talk.until("Flushed")
    assert [each["type"] for each in messages(failed)] == ["Error", "Flushed"]
    assert len(audio(spoken)) == faulty.CHUNK_SAMPLES * 2


@pytest.mark.parametrize("encoding", ["mulaw", "alaw"])
@pytest.mark.parametrize("rate_hz", [None, 8000, 16000])
def test_a_telephone_hears_it(server: RunningServer, encoding: str, rate_hz: int | None) -> None:
    rate = f"&sample_rate={rate_hz}" if rate_hz else ""
    with connected(server, f"{PATH}?encoding={encoding}{rate}") as talk:
        talk.send("Speak", text="Hello.")
        talk.send("Close")
        heard = audio(talk.rest())
    assert len(heard) == num_samples("Hello.", rate_hz or 8000)
    assert len(set(heard)) > 50, "it is no silence"


@pytest.mark.parametrize(
    ("query", "status", "param"),
    [
        ("model=nobody", 404, "model"),
        ("encoding=mp9", 400, "encoding"),
        ("encoding=mp3", 400, "encoding"),
        ("sample_rate=1", 400, "sample_rate"),
        ("speed=fast", 400, "speed"),
        ("encoding=mulaw&container=wav", 400, "container"),
        ("container=ogg", 400, "container"),
        ("callback=http://a", 400, "callback"),
    ],
)
def test_a_wrong_url_is_refused_before_the_handshake(
    server: RunningServer, query: str, status: int, param: str
) -> None:
    url = f"{server.base_url}{PATH}?{query}"
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    answer = httpx.get(url, headers=upgrade)
    assert answer.status_code == status
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("query", "media_type", "head"),
    [
        ("", "audio/mpeg", b"\xff"),
        ("?encoding=linear16", "audio/wav", b"RIFF"),
        ("?encoding=linear16&container=none", "audio/pcm", b""),
        ("?encoding=mulaw", "audio/wav", b"RIFF"),
        ("?encoding=alaw&container=none", "audio/x-alaw-basic", b""),
        ("?encoding=opus", "audio/ogg", b"OggS"),
        ("?encoding=flac&model=alto", "audio/flac", b"fLaC"),
    ],
)
def test_http_streams_a_file(
    client: httpx.Client, query: str, media_type: str, head: bytes
) -> None:
    answer = client.post(f"{PATH}{query}", json={"text": "Hello."})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == media_type
    assert answer.content.startswith(head)
    assert len(answer.content) > 1000


@pytest.mark.parametrize("body", [{}, {"text": " "}, {"text": 3}, []])
def test_http_refuses_no_text(client: httpx.Client, body: object) -> None:
    answer = client.post(PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
