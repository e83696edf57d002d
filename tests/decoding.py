"""Reads what the server sends, with a decoder that is not ours."""

import base64
import io
import json
from typing import Any

import av
import httpx
import numpy as np
import soundfile
from numpy.typing import NDArray

from antiphon.api.adapters.errors import service_of

Decoded = NDArray[np.float32]


def decoded(data: bytes, format: str, sample_rate_hz: int) -> tuple[Decoded, int]:
    """Return a file's samples, shape ``[num_samples]``, and their rate in Hz.

    ``sample_rate_hz`` is that of a format that does not say it: pcm.
    """
    if format == "pcm":
        return (np.frombuffer(data, "<i2") / 32767).astype(np.float32), sample_rate_hz
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler(format="flt", layout="mono", rate=stream.rate)
        frames = [
            frame for coded in container.decode(stream) for frame in resampler.resample(coded)
        ]
        frames += resampler.resample(None)
        samples = np.concatenate([frame.to_ndarray()[0] for frame in frames], dtype=np.float32)
        return samples, stream.rate


def events(text: str) -> list[dict[str, Any]]:
    """Return the data of server-sent events; each must name its type twice."""
    found = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        name_line, data_line = block.split("\n")
        data = json.loads(data_line.removeprefix("data: "))
        assert name_line == f"event: {data['type']}"
        found.append(data)
    return found


def audio_of(found: list[dict[str, Any]]) -> bytes:
    deltas = [each for each in found if each["type"] == "speech.audio.delta"]
    return b"".join(base64.b64decode(each["audio"]) for each in deltas)


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """Return an error's members, after a check that it has OpenAI's shape.

    Where another service's clients ask, their own members may stand beside it.
    """
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    body = response.json()
    request = response.request
    headers = [(name.lower(), value) for name, value in request.headers.raw]
    if service_of({"path": request.url.path, "headers": headers}) is None:
        assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert isinstance(error["type"], str)
    assert isinstance(error["code"], str)
    return dict(error)


def told_length(data: bytes, sample_rate_hz: int) -> int:
    """Return how many samples a file says it has, to libsndfile and to ffmpeg alike."""
    told = soundfile.info(io.BytesIO(data))
    with av.open(io.BytesIO(data), "r") as container:
        assert container.duration is not None, "no length"
        duration_s = container.duration / 1e6
    # Of Opus in Ogg, ffmpeg counts the samples before the first.
    assert abs(told.frames / told.samplerate - duration_s) < 0.01
    assert told.samplerate == sample_rate_hz
    return int(told.frames)


def same_audio(whole: bytes, streamed: bytes, format: str) -> bool:
    """Return whether two files differ in what tells their length alone."""
    if format == "mp3":  # the whole one has a frame more, which no decoder plays
        info, audio = whole[: -len(streamed)], whole[-len(streamed) :]
        return b"Info" in info and audio == streamed
    header_bytes = {"wav": 44, "flac": 42}.get(format, 0)
    return len(whole) == len(streamed) and whole[header_bytes:] == streamed[header_bytes:]
