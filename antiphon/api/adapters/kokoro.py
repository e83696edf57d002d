"""Kokoro-FastAPI's own endpoints, beside the one of OpenAI: captions, dialogues, and mixes."""

from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter
from pydantic import AliasChoices, Field
from starlette.responses import Response

from antiphon.api.adapters.files import file_response, json_line, json_lines, json_whole
from antiphon.api.bodies import JsonRoute
from antiphon.api.options import FamilyOptions, ignored_headers, open_stream
from antiphon.api.schemas.field_rules import KnownMembers
from antiphon.api.schemas.speech import SpeechBody, Text
from antiphon.api.state import Server, SpeechId
from antiphon.api.streaming import WholeResponse
from antiphon.api.voice_tags import open_tagged
from antiphon.api.wire_format import WireFormat
from antiphon.api.word_timestamps import WordTimestampCollector
from antiphon.errors import InvalidRequestError, invalid
from antiphon.formats import AudioFormat
from antiphon.pipeline.speech.dialogue import Dialogue

router = APIRouter(tags=["kokoro"], route_class=JsonRoute)

MAX_TURNS = 200
MAX_PAUSE_S = 10.0


class CaptionedBody(SpeechBody):
    """A speech request whose audio comes as JSON, with the times of its words."""

    return_timestamps: bool = Field(True, description="For models that know them.")


class KokoroTurn(KnownMembers):
    """Text of one speaker."""

    voice: Text = Field(validation_alias=AliasChoices("voice", "voice_id"))
    text: Text


class KokoroDialogueBody(SpeechBody):
    """A speech request whose text is made of turns."""

    input: Text = Field("-", exclude=True)
    turns: list[KokoroTurn] = Field(
        validation_alias=AliasChoices("turns", "inputs"), min_length=1, max_length=MAX_TURNS
    )
    pause_between_turns: float = Field(0.0, ge=0, le=MAX_PAUSE_S, description="In seconds.")


@router.post("/dev/captioned_speech", response_class=Response)
async def captioned_speech(body: CaptionedBody, server: Server, speech_id: SpeechId) -> Response:
    """Speak a text as JSON: an object a line, or a single one with ``stream: false``."""
    request = replace(body.to_domain(speech_id), word_timestamps=body.return_timestamps)
    request = await server.speech.routed(request)
    model = server.speech.model(request.model)
    capabilities = model.capabilities
    headers = ignored_headers(FamilyOptions.of(body, model.task).ignored, server.settings.speech)
    if body.return_timestamps and not capabilities.word_times:
        raise invalid("return_timestamps", "the model gives no word timestamps. Send false")
    words = WordTimestampCollector()
    observers = (words.add,)
    events = open_tagged(body, request, server)
    format = WireFormat.of(body.response_format, request.sample_rate_hz).for_model(capabilities)
    line = partial(_line, body.response_format, words if body.return_timestamps else None)
    if body.stream is False:
        collect = partial(json_whole, events, format, server, line, observers)
        return WholeResponse(collect, headers, "application/json")
    return json_lines(events, format, server, line, headers=headers, observers=observers)


@router.post("/dev/dialogue", response_class=Response)
async def dialogue(body: KokoroDialogueBody, server: Server, speech_id: SpeechId) -> Response:
    """Speak turns one after the other; the file is streamed."""
    voices = (turn.voice for turn in body.turns)
    request = await server.speech.routed(body.to_domain(speech_id), *voices)
    turns = [
        replace(request, id=f"{speech_id}/{index}", input=turn.text, voice=turn.voice)
        for index, turn in enumerate(body.turns)
    ]
    speak = partial(open_stream, body, server=server)
    events = Dialogue(server.speech, turns, speak, body.pause_between_turns).events()
    model = server.speech.model(request.model)
    headers = ignored_headers(FamilyOptions.of(body, model.task).ignored, server.settings.speech)
    format = WireFormat.of(body.response_format, request.sample_rate_hz)
    return file_response(events, format.for_model(model.capabilities), server, headers)


@router.post("/v1/audio/voices/combine")
async def combine_voices() -> dict[str, Any]:
    """Refuse to keep a mix of voices."""
    raise InvalidRequestError(
        "Mixes of voices are not kept here: if the model mixes voices, name the mix as 'voice',"
        " such as af_bella(2)+af_sky(1). Or upload a recording of a voice to"
        " /v1/audio/voices instead, if the model clones voices.",
        code="not_supported",
    )


def _line(format: AudioFormat, words: WordTimestampCollector | None, audio: bytes) -> bytes:
    timestamps = [
        {
            "word": each["word"],
            "start_time": each["start_ms"] / 1000,
            "end_time": each["end_ms"] / 1000,
        }
        for each in (words.take() if words else ())
    ]
    members = {"audio_format": format.media_type, "timestamps": timestamps if words else None}
    return json_line("audio", audio, members)
