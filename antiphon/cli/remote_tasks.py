"""Speech, answers, images and videos of a running server, as commands use them."""

import base64
import json
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any
from urllib.parse import unquote

import httpcore2
import numpy as np

from antiphon.api.encoding import UNSPOKEN_HEADER
from antiphon.audio.wav import BYTES_PER_SAMPLE, wav_header
from antiphon.cli.remote import RemoteServer
from antiphon.contracts.chat_types import ChatEvent, ChatRequest, TextDelta
from antiphon.contracts.types import AudioChunk, Ended, SpeechRequest, Usage
from antiphon.errors import AntiphonError

_SECONDS_BETWEEN_LOOKS = 0.5
_STEP, _DATA, _END = ": step ", "data: ", "[DONE]"

ShowSteps = Callable[[int, int], object]
"""Called with the number of steps done and of all steps."""


def remote_speech(
    server: RemoteServer, request: SpeechRequest
) -> Generator[AudioChunk, None, None]:
    """Yield a server's audio as it comes, as 16-bit samples of a WAV file.

    A request for PCM would be refused by a busy server, where one for a file waits.
    """
    body = {
        "input": request.input,
        "voice": request.voice,
        "model": request.model,
        "language": request.language,
        "instructions": request.instructions,
        "speed": request.speed,
        "sample_rate": request.sample_rate_hz,
        "seed": request.seed,
        "response_format": "wav",
    }
    with server.posted("/v1/audio/speech", body) as response:
        headers = {name.decode().lower(): value.decode() for name, value in response.headers}
        if (rate := headers.get("x-sample-rate")) is None:
            raise AntiphonError(f"{server.url} is not a server of this kind: no X-Sample-Rate.")
        channels, rate_hz = int(headers.get("x-channels", "1")), int(rate)
        words = headers.get(UNSPOKEN_HEADER.lower(), "").split(",")
        unspoken = tuple(unquote(word) for word in words if word)
        for data in _without_header(response, len(wav_header(rate_hz, None, channels)), channels):
            samples = (np.frombuffer(data, "<i2") / 32767).astype(np.float32)
            shaped = samples if channels == 1 else samples.reshape(-1, channels)
            yield AudioChunk(shaped, rate_hz, unspoken=unspoken)
            unspoken = ()


def _without_header(
    response: httpcore2.Response, header_bytes: int, channels: int
) -> Generator[bytes, None, None]:
    """Yield the bytes behind the header, samples of all channels whole."""
    missing_bytes, rest = header_bytes, b""
    for piece in response.iter_stream():
        data = rest + piece[missing_bytes:]
        missing_bytes = max(0, missing_bytes - len(piece))
        num_whole = len(data) - len(data) % (BYTES_PER_SAMPLE * channels)
        rest = data[num_whole:]
        if num_whole:
            yield data[:num_whole]


def remote_chat(server: RemoteServer, request: ChatRequest) -> Generator[ChatEvent, None, None]:
    """Yield the text of an answer as it comes, then how it ended."""
    body = {
        "messages": [{"role": each.role, "content": each.content} for each in request.messages],
        "model": request.model,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "temperature": request.sampling.temperature,
        "top_p": request.sampling.top_p,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    is_cut, usage = False, Usage()
    for chunk in _events(server, "/v1/chat/completions", body):
        for choice in chunk.get("choices", ()):
            if text := choice["delta"].get("content"):
                yield TextDelta(text)
            is_cut = is_cut or choice.get("finish_reason") == "length"
        if (counted := chunk.get("usage")) is not None:
            usage = Usage(counted["prompt_tokens"], counted["completion_tokens"])
    yield Ended("length" if is_cut else "stop", usage)


def remote_image(
    server: RemoteServer, body: Mapping[str, Any], show: ShowSteps
) -> tuple[bytes, str]:
    """Return an image's file, and its size and seed for people; raises AntiphonError.

    Args:
        body: members of the request; with ``images``, they are edited.
    """
    path = "/v1/images/edits" if body.get("images") else "/v1/images/generations"
    for event in _events(server, path, {**body, "stream": True}, show):
        if event["type"].endswith(".completed"):
            return base64.b64decode(event["b64_json"]), f"{event['size']}, seed {event['seed']}"
    raise AntiphonError(f"{server.url}: the answer has no image.")


def remote_video(
    server: RemoteServer, body: Mapping[str, Any], show: ShowSteps
) -> tuple[bytes, str]:
    """Return a video's file, and its size, length and seed for people; arguments as for images.

    The job is deleted at the end, however it ends.

    Raises:
        AntiphonError: it was not made.
    """
    job = server.post("/v1/videos", {**body, "async": True})
    path = f"/v1/videos/{job['id']}"
    try:
        while job["status"] in ("queued", "in_progress"):
            show(job["progress"], 100)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            job = server.answer("GET", path)
        if job["status"] != "completed":
            reason = (job.get("error") or {}).get("message", job["status"])
            raise AntiphonError(f"{server.url}: the video was not made: {reason}")
        with server.opened("GET", f"{path}/content") as response:
            return response.read(), f"{job['size']}, {job['seconds']} s, seed {job['seed']}"
    finally:
        server.answer("DELETE", path)


def _events(
    server: RemoteServer, path: str, body: Mapping[str, Any], show: ShowSteps | None = None
) -> Generator[dict[str, Any], None, None]:
    """Yield objects of server-sent events; comments go to ``show``; raises AntiphonError."""
    for line in server.lines(path, body):
        if line.startswith(_STEP) and show is not None:
            done, _, num_steps = line.removeprefix(_STEP).partition("/")
            show(int(done), int(num_steps))
        if not line.startswith(_DATA) or line.endswith(_END):
            continue
        event: dict[str, Any] = json.loads(line.removeprefix(_DATA))
        if (error := event.get("error")) is not None:
            raise AntiphonError(f"{server.url}: {error['message']}")
        yield event
