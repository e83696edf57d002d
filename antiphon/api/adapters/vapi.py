"""Vapi's custom voice: it posts a text and a sample rate, and plays what it gets.

Its address is set in the assistant (``voice.server.url``), and so are voice and language: in the
address. See https://docs.vapi.ai/customization/custom-voices/custom-tts.
"""

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from antiphon.api.adapters.files import file_response
from antiphon.api.bodies import JsonRoute
from antiphon.api.schemas.speech import SampleRate, Speed, Text
from antiphon.api.state import Server, SpeechId
from antiphon.api.wire_format import WireFormat
from antiphon.contracts.types import SpeechRequest
from antiphon.contracts.well_formed import StrictModel
from antiphon.formats import AudioFormat

router = APIRouter(tags=["vapi"], route_class=JsonRoute)

RAW_AUDIO = "application/octet-stream"


class VoiceQuery(StrictModel):
    """Query parameters that apply to all texts."""

    voice: Text | None = None
    model: Text | None = None
    language: Text | None = None
    speed: Speed = 1.0


class VoiceMessage(StrictModel):
    """A text to be spoken; what else is known of the call means nothing here."""

    type: Literal["voice-request"]
    text: Text
    sample_rate_hz: SampleRate = Field(24000, validation_alias="sampleRate")


class VoiceRequest(StrictModel):
    """The body."""

    message: VoiceMessage


@router.post("/v1/vapi/speech", response_class=Response)
async def speak(
    query: Annotated[VoiceQuery, Query()], body: VoiceRequest, server: Server, speech_id: SpeechId
) -> Response:
    """Speak a text, as 16-bit samples at the rate that is asked for, without a header."""
    message = body.message
    format = WireFormat.of(AudioFormat.PCM, message.sample_rate_hz)
    request = SpeechRequest(
        message.text,
        voice=query.voice,
        model=query.model,
        language=query.language,
        speed=query.speed,
        sample_rate_hz=message.sample_rate_hz,
        id=speech_id,
    )
    request = await server.speech.routed(request)
    format = replace(format, media_type=RAW_AUDIO)
    return file_response(server.speech.stream(request), format, server)
