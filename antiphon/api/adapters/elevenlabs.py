"""ElevenLabs' text-to-speech over HTTP; the modules beside have streams, voices and dialogues."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from antiphon.api.adapters.files import file_response
from antiphon.api.adapters.names import known_language, known_model, known_voice
from antiphon.api.adapters.timed_audio import More, timed_lines, timed_whole
from antiphon.api.bodies import JsonRoute
from antiphon.api.options import ignored_headers
from antiphon.api.schemas.elevenlabs import DialogueBody, ElevenlabsSpeechBody, SpeechQuery
from antiphon.api.state import Server, ServerState, SpeechId
from antiphon.api.streaming import WholeResponse
from antiphon.api.wire_format import WireFormat
from antiphon.contracts.types import SpeechRequest, SpeechStream

router = APIRouter(tags=["elevenlabs"], route_class=JsonRoute)


@dataclass(frozen=True, slots=True)
class Call:
    """What requests for speech and for dialogues share: parameters, and the shapes of answers."""

    query: SpeechQuery
    server: ServerState
    id: str
    ignored: tuple[str, ...] = ()

    def over(self, body: ElevenlabsSpeechBody | DialogueBody) -> "Call":
        """Return the call with the parameters of its body, which come before those of the URL."""
        return replace(self, query=body.over(self.query), ignored=(*(body.model_extra or ()),))

    @property
    def headers(self) -> Mapping[str, str]:
        """The call's id, and unknown members of its body; raises InvalidRequestError."""
        return {"request-id": self.id, **ignored_headers(self.ignored, self.server.settings.speech)}

    async def routed(self, *voice_ids: str) -> "Call":
        """Return the call with the model that speaks with some voices; raises UnknownModelError."""
        model = known_model(self.query.model_id, self.server)
        voices = [await known_voice(each, self.server) for each in voice_ids]
        request = await self.server.speech.routed(SpeechRequest("", model=model), *voices)
        return replace(self, query=self.query.model_copy(update={"model_id": request.model}))

    @property
    def format(self) -> WireFormat:
        """How the audio is coded, with the model's channels."""
        model = self.server.speech.model(known_model(self.query.model_id, self.server))
        return self.query.format().for_model(model.capabilities)

    async def request(self, voice_id: str) -> SpeechRequest:
        """Return the request without its text; words are timed where the model can.

        Raises:
            UnknownModelError: there is no such model here, nor at ElevenLabs.
        """
        query, server = self.query, self.server
        model = known_model(query.model_id, server)
        return SpeechRequest(
            "",
            voice=await known_voice(voice_id, server),
            model=model,
            language=known_language(query.language_code, model, server),
            sample_rate_hz=query.format().sample_rate_hz,
            seed=query.seed,
            normalize=query.apply_text_normalization == "on",
            word_timestamps=server.speech.model(model).capabilities.word_times,
            id=self.id,
        )

    def file(self, events: SpeechStream) -> Response:
        """Stream a file."""
        return file_response(events, self.format, self.server, self.headers)

    def json(self, events: SpeechStream, text: str, more: More = dict) -> Response:
        """Answer with one JSON object: a file, and the time of each character."""
        collect = partial(timed_whole, events, text, self.format, self.server, more)
        return WholeResponse(collect, self.headers, "application/json")

    def json_lines(self, events: SpeechStream, text: str, more: More = dict) -> Response:
        """Stream a JSON object a line: a piece of a file, and the times of its characters."""
        return timed_lines(events, text, self.format, self.server, more, self.headers)


async def _call(
    query: Annotated[SpeechQuery, Query()], server: Server, speech_id: SpeechId
) -> Call:
    return Call(query, server, speech_id)


ElevenLabsCall = Annotated[Call, Depends(_call)]


@router.post("/v1/text-to-speech/{voice_id}", response_class=Response)
async def convert(voice_id: str, call: ElevenLabsCall, body: ElevenlabsSpeechBody) -> Response:
    """Speak a text; the file is streamed, and waits where no listener more has room."""
    call, request = await _whole_request(voice_id, call, body)
    return call.file(call.server.speech.stream(replace(request, may_wait=True)))


@router.post("/v1/text-to-speech/{voice_id}/stream", response_class=Response)
async def stream(voice_id: str, call: ElevenLabsCall, body: ElevenlabsSpeechBody) -> Response:
    """Speak a text and stream the file."""
    call, request = await _whole_request(voice_id, call, body)
    return call.file(call.server.speech.stream(request))


@router.post("/v1/text-to-speech/{voice_id}/with-timestamps", response_class=Response)
async def convert_with_timestamps(
    voice_id: str, call: ElevenLabsCall, body: ElevenlabsSpeechBody
) -> Response:
    """Speak a text as one JSON object, with the time of each character.

    ``alignment`` is null where the model does not know it.
    """
    call, request = await _whole_request(voice_id, call, body)
    return call.json(call.server.speech.stream(replace(request, is_live=False)), body.text)


@router.post("/v1/text-to-speech/{voice_id}/stream/with-timestamps", response_class=Response)
async def stream_with_timestamps(
    voice_id: str, call: ElevenLabsCall, body: ElevenlabsSpeechBody
) -> Response:
    """Speak a text as a JSON object a line, with the times of its characters."""
    call, request = await _whole_request(voice_id, call, body)
    return call.json_lines(call.server.speech.stream(request), body.text)


async def _whole_request(
    voice_id: str, call: Call, body: ElevenlabsSpeechBody
) -> tuple[Call, SpeechRequest]:
    call = await call.over(body).routed(voice_id)
    request = await call.request(voice_id)
    return call, replace(request, input=body.text, speed=body.speed, normalize=body.normalize)
