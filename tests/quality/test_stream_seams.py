"""The default voice over HTTP in every way that streams: no seam of any of them can be heard."""

import base64
import json
from collections.abc import Callable

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.config import Settings
from antiphon_bench.seams import seam_faults
from tests.bench.stream_diff import stream_differences
from tests.decoding import decoded
from tests.servers import RunningServer, server_of
from tests.sockets import audio, connected, messages

TEXT = "Please call Stella, and ask her to wait. The train leaves at seven in the morning."
RATE_HZ = 24_000
WAV_HEADER_BYTES = 44
MAX_ADDED_S = 0.1

Pieces = list[bytes]
Way = Callable[[RunningServer], Pieces]


server = server_of(Settings())
"""A server with the settings that everybody has who sets nothing."""


@pytest.fixture(scope="module")
def whole(server: RunningServer) -> NDArray[np.float64]:
    """The same speech, made before it was sent."""
    body = {"input": TEXT, "response_format": "pcm", "stream": False, "seed": 1}
    response = httpx.post(f"{server.base_url}/v1/audio/speech", json=body)
    assert response.status_code == 200, response.text
    return samples([response.content])[0]


def samples(pieces: Pieces) -> list[NDArray[np.float64]]:
    """Return the pieces as they are played; a sample that two of them share goes to the later."""
    found, odd = [], b""
    for piece in pieces:
        data = odd + piece
        even = len(data) // 2 * 2
        odd = data[even:]
        found.append(np.frombuffer(data[:even], "<i2") / 32767)
    assert not odd, "half a sample"
    return [each for each in found if len(each)]


def body_pieces(server: RunningServer, path: str, body: dict[str, object]) -> Pieces:
    with httpx.stream("POST", server.base_url + path, json=body) as response:
        assert response.status_code == 200, response.read()
        assert int(response.headers.get("x-sample-rate", RATE_HZ)) == RATE_HZ
        return list(response.iter_raw())


def pcm(server: RunningServer) -> Pieces:
    body = {"input": TEXT, "response_format": "pcm", "seed": 1}
    return body_pieces(server, "/v1/audio/speech", body)


def wav(server: RunningServer) -> Pieces:
    body = {"input": TEXT, "response_format": "wav", "seed": 1}
    first, *rest = body_pieces(server, "/v1/audio/speech", body)
    return [first[WAV_HEADER_BYTES:], *rest]


def sse(server: RunningServer) -> Pieces:
    body = {"input": TEXT, "response_format": "pcm", "stream_format": "sse", "seed": 1}
    text = b"".join(body_pieces(server, "/v1/audio/speech", body)).decode()
    lines = [line for line in text.splitlines() if line.startswith("data: {")]
    deltas = [json.loads(line.removeprefix("data: ")) for line in lines]
    return [base64.b64decode(each["audio"]) for each in deltas if "audio" in each]


def speech_socket(server: RunningServer, *, is_stream: bool = True) -> Pieces:
    config = {"response_format": "pcm", "stream_audio": is_stream, "seed": 1}
    with connected(server, "/v1/audio/speech/stream") as client:
        client.send("session.config", **config)
        for word in TEXT.split(" "):
            client.send("input.text", text=f"{word} ")
        client.send("input.done")
        received = client.until("session.done")
    assert messages(received, "audio.start")[0]["sample_rate"] == RATE_HZ
    return [each for each in received if isinstance(each, bytes)]


def speech_chunks(server: RunningServer) -> Pieces:
    with connected(server, "/v1/audio/speech/stream") as client:
        more = {"response_format": "pcm", "stream_audio": True, "word_timestamps": True}
        client.send("session.config", **more)
        client.send("input.text", text=TEXT)
        client.send("input.done")
        received = client.until("session.done")
    assert not audio(received)
    return [base64.b64decode(each["audio_b64"]) for each in messages(received, "audio.chunk")]


def realtime(server: RunningServer) -> Pieces:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TEXT}]}
    with connected(server, "/v1/realtime") as client:
        client.send("response.create", response={"conversation": "none", "input": [item]})
        received = client.until("response.done")
    deltas = messages(received, "response.output_audio.delta")
    return [base64.b64decode(each["delta"]) for each in deltas]


def deepgram(server: RunningServer) -> Pieces:
    path = f"/v1/speak?model=heart&encoding=linear16&sample_rate={RATE_HZ}"
    with connected(server, path) as client:
        client.send("Speak", text=TEXT)
        client.send("Flush")
        received = client.until("Flushed")
    return [each for each in received if isinstance(each, bytes)]


def elevenlabs(server: RunningServer) -> Pieces:
    path = f"/v1/text-to-speech/heart/stream?output_format=pcm_{RATE_HZ}"
    return body_pieces(server, path, {"text": TEXT})


def elevenlabs_socket(server: RunningServer) -> Pieces:
    path = f"/v1/text-to-speech/heart/stream-input?output_format=pcm_{RATE_HZ}"
    with connected(server, path) as client:
        client.send(text=" ")
        client.send(text=f"{TEXT} ")
        client.send(text="")
        received = client.until(lambda each: isinstance(each, dict) and bool(each.get("isFinal")))
    return [base64.b64decode(each["audio"]) for each in messages(received) if each.get("audio")]


@pytest.mark.parametrize("way", [pcm, wav, sse])
def test_no_seam_of_a_file_can_be_heard(
    server: RunningServer, whole: NDArray[np.float64], way: Way
) -> None:
    pieces = samples(way(server))
    assert len(pieces) > 1, "it was no stream"
    assert seam_faults(pieces, RATE_HZ) == []
    assert stream_differences(np.concatenate(pieces), whole, RATE_HZ) == []


def test_no_seam_of_text_that_streams_in_can_be_heard(server: RunningServer) -> None:
    pieces = samples(speech_socket(server))
    (whole,) = samples([b"".join(speech_socket(server, is_stream=False))])
    assert len(pieces) > 1, "it was no stream"
    assert seam_faults(pieces, RATE_HZ) == []
    assert stream_differences(np.concatenate(pieces), whole, RATE_HZ) == []


@pytest.mark.parametrize("way", [speech_chunks, realtime, deepgram, elevenlabs, elevenlabs_socket])
def test_no_seam_of_another_protocol_can_be_heard(
    server: RunningServer, whole: NDArray[np.float64], way: Way
) -> None:
    """These have no seeds: each answer is drawn anew, and a little shorter or longer."""
    pieces = samples(way(server))
    assert len(pieces) > 1, "it was no stream"
    assert seam_faults(pieces, RATE_HZ) == []
    assert sum(map(len, pieces)) == pytest.approx(len(whole), rel=0.1)


@pytest.mark.parametrize("format", ["mp3", "opus", "aac", "flac"])
def test_no_seam_of_a_compressed_stream_can_be_heard(server: RunningServer, format: str) -> None:
    files = []
    for stream in (True, False):
        body = {"input": TEXT, "response_format": format, "seed": 1, "stream": stream}
        more = {"stream_format": "audio"} if stream else {}
        files.append(b"".join(body_pieces(server, "/v1/audio/speech", body | more)))
    (streamed, rate_hz), (whole, whole_rate_hz) = (decoded(each, format, RATE_HZ) for each in files)
    assert seam_faults([streamed], rate_hz) == []
    found = stream_differences(streamed, whole, rate_hz, whole_rate_hz=whole_rate_hz)
    # What an encoder adds at the ends is told by whole files alone.
    added = [fault for fault in found if fault.kind == "gap" and fault.duration_s < MAX_ADDED_S]
    assert found == added
    duration_s = len(streamed) / rate_hz
    assert all(min(each.at_s, duration_s - each.at_s) < MAX_ADDED_S for each in added)
