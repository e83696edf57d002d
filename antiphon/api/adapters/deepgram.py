"""Deepgram's text-to-speech: WS /v1/speak, which speaks text as it arrives, and POST /v1/speak."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field, field_validator
from starlette.responses import Response
from starlette.websockets import WebSocket

from antiphon import __version__
from antiphon.api.adapters.errors import DEEPGRAM
from antiphon.api.adapters.files import file_response
from antiphon.api.adapters.names import known_voice
from antiphon.api.audio_outbox import AudioOutbox, SpokenConversation
from antiphon.api.bodies import JsonRoute
from antiphon.api.errors import WireError
from antiphon.api.schemas.field_rules import KnownMembers
from antiphon.api.schemas.speech import SampleRate, Speed, Text
from antiphon.api.schemas.speech_ws import InputText, NoMembers, parsed, unknown_message
from antiphon.api.sockets import Socket, converse
from antiphon.api.state import Server, ServerState, SpeechId, new_speech_id
from antiphon.api.wire_format import TELEPHONE_HZ, WireFormat
from antiphon.audio.companding import Law, companded_wav_header
from antiphon.contracts.types import Ended, SpeechRequest
from antiphon.contracts.well_formed import StrictModel
from antiphon.errors import InvalidRequestError, invalid
from antiphon.formats import AudioFormat
from antiphon.pipeline.speech.text_stream import Utterance

router = APIRouter(tags=["deepgram"], route_class=JsonRoute)

Encoding = Literal["linear16", "mulaw", "alaw", "mp3", "opus", "flac", "aac"]


LINEAR16_HZ = 24000
_TELEPHONE: tuple[Law, ...] = ("mulaw", "alaw")
_CONTAINERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("linear16", *_TELEPHONE), ("wav", "none")),
    "opus": ("ogg",),
}
"""Of each encoding, the default first; the others have none."""


class SpeakQuery(StrictModel):
    """Query parameters; a bit rate is chosen by the server, tags and the like have no effect."""

    model: Text | None = Field(None, description="A voice.")
    encoding: Encoding | None = None
    container: Literal["none", "wav", "ogg"] | None = None
    sample_rate: SampleRate | None = None
    speed: Speed = 1.0
    callback: str | None = Field(None, description="Refused: answers are not sent elsewhere.")

    @field_validator("callback")
    @classmethod
    def _no_callback(cls, callback: str | None) -> str | None:
        if callback:
            raise invalid("callback", "answers are not sent elsewhere")
        return callback

    def format(self) -> tuple[WireFormat, bytes]:
        """Return how a file is coded, and what stands before its samples.

        Raises:
            InvalidRequestError: the encoding has no such container.
        """
        encoding: Encoding = self.encoding or "mp3"
        containers = _CONTAINERS.get(encoding, ("none",))
        container = self.container or containers[0]
        if container not in containers:
            raise invalid(
                "container", f"'{container}'. For {encoding} it must be {' or '.join(containers)}"
            )
        if encoding == "linear16" and container == "wav":
            return WireFormat.of(AudioFormat.WAV, self.sample_rate or LINEAR16_HZ), b""
        if (raw := self._raw(encoding)) is None:
            return WireFormat.of(AudioFormat(encoding), self.sample_rate), b""
        if container == "none":
            return raw, b""
        assert encoding == "mulaw" or encoding == "alaw"
        assert raw.sample_rate_hz is not None
        header = companded_wav_header(encoding, raw.sample_rate_hz)
        return replace(raw, media_type=AudioFormat.WAV.media_type), header

    def live_format(self) -> WireFormat:
        """Return how a stream is coded, which has no container; raises InvalidRequestError."""
        format = self._raw(self.encoding or "linear16")
        if format is None or self.container not in (None, "none"):
            raise InvalidRequestError(
                "Invalid 'encoding'. It must be one of linear16, mulaw, alaw, without a container.",
                param="container" if format else "encoding",
            )
        return format

    def _raw(self, encoding: Encoding) -> WireFormat | None:
        if encoding == "linear16":
            return WireFormat.of(AudioFormat.PCM, self.sample_rate or LINEAR16_HZ)
        if encoding not in _TELEPHONE:
            return None
        make = WireFormat.mulaw if encoding == "mulaw" else WireFormat.alaw
        return make(self.sample_rate or TELEPHONE_HZ)

    async def request(self, format: WireFormat, server: ServerState, id: str) -> SpeechRequest:
        """Return what every text is spoken with."""
        voice = await known_voice(self.model, server)
        rate_hz = format.sample_rate_hz
        request = SpeechRequest("", voice=voice, speed=self.speed, sample_rate_hz=rate_hz, id=id)
        return await server.speech.routed(request)


class SpeakBody(KnownMembers):
    """What is to be spoken."""

    text: Text


@router.post("/v1/speak", response_class=Response)
async def speak(
    query: Annotated[SpeakQuery, Query()], body: SpeakBody, server: Server, speech_id: SpeechId
) -> Response:
    """Speak a text and stream the file."""
    format, header = query.format()
    request = await query.request(format, server, speech_id)
    model = server.speech.model(request.model)
    may_wait = format.coded_as is not AudioFormat.PCM
    events = server.speech.stream(replace(request, input=body.text, may_wait=may_wait))
    headers = {"dg-request-id": speech_id, "dg-model-name": model.name}
    format = format.for_model(model.capabilities)
    return file_response(events, format, server, headers, prefix=header)


@router.websocket("/v1/speak")
async def speak_live(websocket: WebSocket, server: Server) -> None:
    """Speak text that arrives in pieces."""
    query = parsed(websocket.query_params, SpeakQuery)
    format = query.live_format()
    socket = Socket(websocket, server.settings.server.max_idle_s)
    request = await query.request(format, server, new_speech_id())
    await server.speech.check_voice(request)
    await server.speech.check_room(request)
    conversation_id = str(uuid.uuid4())
    await socket.accept({"dg-request-id": conversation_id})
    conversation = SpeakConversation(socket, AudioOutbox(server), request, format)
    voice = query.model or server.speech.model(request.model).name
    await converse(socket, conversation, _metadata(conversation_id, voice))


def _metadata(conversation_id: str, model: str) -> Mapping[str, Any]:
    names = {"model_name": model, "model_version": __version__}
    ids = {"request_id": conversation_id, "model_uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, model))}
    return {"type": "Metadata", **ids, **names}


@dataclass(frozen=True, slots=True)
class _Voice:
    """Sends an utterance's samples, and nothing else."""

    socket: Socket
    format: WireFormat

    async def begin(self) -> None:
        pass

    async def on_audio(self, piece: bytes) -> None:
        await self.socket.send(self.format.finished(piece))

    async def end(self, ended: Ended) -> None:
        if ended.unspoken:
            message = f"The voice left out what it cannot speak: {', '.join(ended.unspoken)}"
            await self.socket.send(_described("Warning", message, "unspoken_text"))

    async def fail(self, error: WireError) -> None:
        await self.socket.send(_told("Error", error))


class SpeakConversation(SpokenConversation):
    """Follows Speak, Flush, Clear and Close."""

    def __init__(
        self, socket: Socket, outbox: AudioOutbox, request: SpeechRequest, format: WireFormat
    ) -> None:
        super().__init__(socket, outbox)
        self._request = request
        self._format = format
        self._utterance: Utterance | None = None
        self._num_flushed = 0
        self._num_cleared = 0

    async def receive(self, message: Mapping[str, Any]) -> bool:
        type = message.get("type")
        if type in ("Flush", "Clear", "Close"):
            parsed(message, NoMembers)
        if type == "Speak":
            self._speak(parsed(message, InputText).text)
        elif type == "Flush":
            if self._utterance is None:
                self._outbox.check_room()
            self._complete()
            flushed = {"type": "Flushed", "sequence_id": self._num_flushed}
            self._num_flushed += 1
            self._outbox.then(lambda: self._socket.send(flushed))
        elif type == "Clear":
            self._utterance = None
            await self._outbox.clear()
            await self._socket.send({"type": "Cleared", "sequence_id": self._num_cleared})
            self._num_cleared += 1
        elif type == "Close":
            self._complete()
            return True
        else:
            raise unknown_message(type, "Speak", "Flush", "Clear", "Close")
        return False

    async def refuse(self, error: WireError) -> None:
        await self._socket.send(_told("Warning", error))

    def _speak(self, text: str) -> None:
        if self._utterance is None:
            if not text.strip():
                return
            self._outbox.check_room(len(text))
            voice = _Voice(self._socket, self._format)
            self._utterance = self._outbox.open(
                replace(self._request, id=new_speech_id()), voice, self._format.coded_as
            )
        self._utterance.push(text)

    def _complete(self) -> None:
        if self._utterance is not None:
            self._utterance.complete()
            self._utterance = None


def _told(type: str, error: WireError) -> Mapping[str, Any]:
    """Return an error under the names that different readers look for."""
    error = DEEPGRAM.renamed(error)
    return _described(type, error.message, error.code)


def _described(type: str, message: str, code: str | None) -> Mapping[str, Any]:
    described = {"description": message, "code": code}
    return {"type": type, **described, "warn_msg": message, "err_msg": message}
