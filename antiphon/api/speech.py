"""POST /v1/audio/speech: text in, audio out, as it is made or as a whole file."""

import base64
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.bodies import FormRoute, read_json
from antiphon.api.delivery import EVENT_STREAM, Delivery
from antiphon.api.encoding import ChunkObserver, FileEncoding, unspoken_headers, unspoken_member
from antiphon.api.json_or_events import error_event, event
from antiphon.api.middleware.base import REQUEST_ID_HEADER
from antiphon.api.options import FamilyOptions, ignored_headers
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.state import Server, SpeechId, caller, new_speech_id, server_state
from antiphon.api.streaming import StreamedResponse, WholeResponse
from antiphon.api.voice_tags import open_tagged
from antiphon.api.word_timestamps import WordTimestampCollector
from antiphon.contracts.types import Ended
from antiphon.formats import AudioFormat
from antiphon.telemetry.tracing import until_first


class SpeechRoute(FormRoute):
    """Answers valid bodies without the framework's dependencies, which take longer than ours."""

    async def answered(self, request: Request) -> Response | None:
        headers = request.headers
        if headers.get("content-type") != "application/json":
            return None
        try:
            body = SpeechBody.model_validate(await read_json(request))
        except (ValueError, RecursionError):  # the framework reports what is wrong
            return None
        server = await server_state(request, await caller(request))
        return await create_speech(body, server, new_speech_id(), headers.get("accept", ""))


router = APIRouter(tags=["speech"], route_class=SpeechRoute)

FINISH_REASON = "X-Finish-Reason"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The audio, in the format that was asked for, or events that carry it.",
        "content": {
            **{format.media_type: _BINARY for format in AudioFormat},
            EVENT_STREAM: {"schema": {"type": "string"}},
        },
    },
    400: {"model": ErrorBody, "description": "A field is wrong; 'param' names it."},
    401: {"model": ErrorBody, "description": "The API key is missing or wrong."},
    404: {"model": ErrorBody, "description": "There is no such model or voice."},
    413: {"model": ErrorBody, "description": "The body is too large."},
    429: {"model": ErrorBody, "description": "Too much at once; see Retry-After."},
    500: {"model": ErrorBody, "description": "The model failed."},
    503: {"model": ErrorBody, "description": "The server is starting or stopping."},
    "default": {"model": ErrorBody, "description": "Any other error."},
}

_PARAMETERS = [
    {
        "name": REQUEST_ID_HEADER,
        "in": "header",
        "required": False,
        "description": "Names the request in the server's logs; the answer has it too.",
        "schema": {"type": "string", "maxLength": 128},
    }
]


@router.post(
    "/v1/audio/speech",
    response_class=Response,
    responses=RESPONSES,
    openapi_extra={"parameters": _PARAMETERS},
)
async def create_speech(
    body: SpeechBody,
    server: Server,
    speech_id: SpeechId,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """Speak the text. Members that only the model's family knows go to the model.

    By default the file's bytes are streamed as they are made. ``stream_format: "sse"`` gives
    server-sent events; so does ``stream: true`` alone, unless ``Accept`` asks for audio or the
    server is set otherwise. ``stream: false`` gives a whole file with its length. A failure midway
    breaks the connection: what ends cleanly has all that was made. Whether the text was spoken to
    its end is in ``X-Finish-Reason``: a trailer where the file streams, for clients that ask for
    trailers.
    """
    settings = server.settings.speech
    body = body.in_format(settings.default_response_format)
    request = await server.speech.routed(body.to_domain(speech_id))
    model = server.speech.model(request.model)
    capabilities, channels = model.capabilities, model.capabilities.channels
    ignored = FamilyOptions.of(body, model.task).ignored
    sample_rate_hz = request.sample_rate_hz or capabilities.sample_rate_hz
    words = WordTimestampCollector() if request.word_timestamps else None
    unspoken: list[str] = []  # complete by the first audio of a text that came whole
    observers: list[ChunkObserver] = [lambda chunk: unspoken.extend(chunk.unspoken)]
    observers += [] if words is None else [words.add]
    events = open_tagged(body, request, server)
    format = body.response_format
    headers = {
        "X-Sample-Rate": str(sample_rate_hz),
        **({"X-Channels": str(channels)} if channels > 1 else {}),
        "X-Accel-Buffering": "no",
        "Cache-Control": "no-cache",
        **ignored_headers(ignored, settings),
    }
    media_type = format.content_type(sample_rate_hz, channels)
    streams_bytes = capabilities.streams_bytes
    delivery = body.delivery(accept, settings.stream_means, streams_bytes=streams_bytes)
    is_whole = delivery is Delivery.WHOLE
    encoding = FileEncoding(format, sample_rate_hz, server.encoders, channels, is_whole=is_whole)
    if is_whole:

        async def collect() -> tuple[list[bytes], dict[str, str]]:
            pieces, ended = await encoding.collected(events, observers)
            more = {} if words is None else words.headers()
            return pieces, {FINISH_REASON: ended.reason, **more, **unspoken_headers(ended.unspoken)}

        return WholeResponse(collect, headers, media_type)
    pieces = until_first("first audio", encoding.pieces(events, observers))
    late = partial(unspoken_headers, unspoken)
    if delivery is Delivery.RAW:
        trailers = {FINISH_REASON: ""}
        write = partial(_written_bytes, trailers=trailers)
        return StreamedResponse(
            pieces, headers, media_type, trailers=trailers, late_headers=late, write=write
        )
    write = partial(_written_event, format=format, words=words)
    return StreamedResponse(
        pieces, headers, EVENT_STREAM, error_event, late_headers=late, write=write
    )


def _written_bytes(item: bytes | Ended, trailers: dict[str, str]) -> bytes:
    if isinstance(item, Ended):
        trailers[FINISH_REASON] = item.reason
        return b""
    return item


def _written_event(
    item: bytes | Ended, format: AudioFormat, words: WordTimestampCollector | None
) -> bytes:
    if isinstance(item, Ended):
        usage = {**asdict(item.usage), "total_tokens": item.usage.total_tokens}
        done = {"finish_reason": item.reason, "usage": usage, **unspoken_member(item.unspoken)}
        return event("speech.audio.done", done)
    audio = base64.b64encode(item).decode()
    timed = {} if words is None else {"timestamps": words.take()}
    return event("speech.audio.delta", {"audio": audio, "response_format": format, **timed})
