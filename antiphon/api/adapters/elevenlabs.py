"""ElevenLabs' text-to-speech over HTTP, and its list of voices; streams are in the next module."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from antiphon.api.adapters.files import file_pieces
from antiphon.api.adapters.names import known_language, known_model, known_voice
from antiphon.api.deps import Server, SpeechId
from antiphon.api.schemas.elevenlabs import SpeechBody, SpeechQuery
from antiphon.api.state import ServerState
from antiphon.api.streaming import StreamedResponse
from antiphon.api.wire_format import WireFormat
from antiphon.types import SpeechRequest, Voice

router = APIRouter(tags=["adapters"])


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
    request = await speech_request(voice_id, query, format, server, speech_id)
    speed = body.voice_settings.speed if body.voice_settings else None
    request = replace(request, input=body.text, speed=speed or 1.0)
    pieces = file_pieces(server.speech.stream(request), format, server)
    return StreamedResponse(pieces, {"request-id": speech_id}, format.media_type)


@router.get("/v1/voices")
async def list_voices(server: Server) -> dict[str, Any]:
    """List the default model's voices, and those that were uploaded if it can speak with them."""
    capabilities = server.speech.model(None).capabilities
    voices = list(capabilities.voices)
    if capabilities.cloning:
        uploaded = await server.uploaded.listed()
        voices += [voice.as_voice() for voice in uploaded]
    described = [_described(voice) for voice in voices]
    return {"voices": described, "has_more": False, "total_count": len(described)}


async def speech_request(
    voice_id: str, query: SpeechQuery, format: WireFormat, server: ServerState, id: str
) -> SpeechRequest:
    """Return what a URL asks for, still without a text.

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
        id=id,
    )


def _described(voice: Voice) -> dict[str, Any]:
    labels = {"language": voice.language, "gender": voice.gender}
    return {
        "voice_id": voice.id,
        "name": voice.name,
        "category": "premade" if voice.kind == "builtin" else "cloned",
        "description": voice.description,
        "labels": {name: value for name, value in labels.items() if value is not None},
        "preview_url": None,
    }
