"""ElevenLabs' text-to-speech over HTTP; the modules beside have streams, voices and dialogues."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from antiphon.api.adapters.files import file_pieces
from antiphon.api.adapters.names import known_language, known_model, known_voice
from antiphon.api.adapters.timed_audio import nothing_more, timed_lines, timed_whole
from antiphon.api.deps import Server, SpeechId
from antiphon.api.schemas.elevenlabs import SpeechBody, SpeechQuery
from antiphon.api.state import ServerState
from antiphon.api.streaming import StreamedResponse, WholeResponse
from antiphon.api.wire_format import WireFormat
from antiphon.types import SpeechRequest

router = APIRouter(tags=["elevenlabs"])

JSON, JSON_LINES = "application/json", "application/x-ndjson"


@router.post("/v1/text-to-speech/{voice_id}", response_class=Response)
@router.post("/v1/text-to-speech/{voice_id}/stream", response_class=Response)
async def convert(
    voice_id: str,
    query: Annotated[SpeechQuery, Query()],
    body: SpeechBody,
    server: Server,
    speech_id: SpeechId,
) -> Response:
    """Speak a text; either way the file is streamed."""
    query = body.over(query)
    format = query.format()
    request = await _whole_request(voice_id, query, body, server, speech_id)
    pieces = file_pieces(server.speech.stream(request), format, server)
    return StreamedResponse(pieces, {"request-id": speech_id}, format.media_type)


@router.post("/v1/text-to-speech/{voice_id}/with-timestamps", response_class=Response)
async def convert_with_timestamps(
    voice_id: str,
    query: Annotated[SpeechQuery, Query()],
    body: SpeechBody,
    server: Server,
    speech_id: SpeechId,
) -> Response:
    """Speak a text and tell when each character is spoken, as one JSON object.

    ``alignment`` is null where the model does not know it.
    """
    query = body.over(query)
    request = await _whole_request(voice_id, query, body, server, speech_id)
    events = server.speech.stream(replace(request, is_live=False))

    async def collect() -> tuple[list[bytes], dict[str, str]]:
        told = await timed_whole(events, body.text, query.format(), server, nothing_more)
        return [told], {}

    return WholeResponse(collect, {"request-id": speech_id}, JSON)


@router.post("/v1/text-to-speech/{voice_id}/stream/with-timestamps", response_class=Response)
async def stream_with_timestamps(
    voice_id: str,
    query: Annotated[SpeechQuery, Query()],
    body: SpeechBody,
    server: Server,
    speech_id: SpeechId,
) -> Response:
    """Speak a text and tell when each character is spoken, a JSON object a line."""
    query = body.over(query)
    request = await _whole_request(voice_id, query, body, server, speech_id)
    events = server.speech.stream(request)
    lines = timed_lines(events, body.text, query.format(), server, nothing_more)
    return StreamedResponse(lines, {"request-id": speech_id}, JSON_LINES)


async def _whole_request(
    voice_id: str, query: SpeechQuery, body: SpeechBody, server: ServerState, id: str
) -> SpeechRequest:
    """Return what a URL and its body ask for; words are timed where the model can."""
    request = await speech_request(voice_id, query, query.format(), server, id)
    return replace(request, input=body.text, speed=body.speed, normalize=body.normalize)


async def speech_request(
    voice_id: str, query: SpeechQuery, format: WireFormat, server: ServerState, id: str
) -> SpeechRequest:
    """Return what a URL asks for, still without a text; words are timed where the model can.

    Raises:
        UnknownModelError: there is no such model here, nor at ElevenLabs.
    """
    model = known_model(query.model_id, server)
    return SpeechRequest(
        "",
        voice=await known_voice(voice_id, server),
        model=model,
        language=known_language(query.language_code, model, server),
        sample_rate_hz=format.sample_rate_hz,
        seed=query.seed,
        normalize=query.apply_text_normalization == "on",
        word_timestamps=server.speech.model(model).capabilities.word_times,
        id=id,
    )
