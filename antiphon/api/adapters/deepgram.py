"""Deepgram's text-to-speech: WS /v1/speak, which speaks text as it arrives, and POST /v1/speak."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.websockets import WebSocket

from antiphon import __version__
from antiphon.api.adapters.files import file_pieces
from antiphon.api.adapters.names import known_voice
from antiphon.api.deps import Server, SpeechId, sent_as
from antiphon.api.errors import WireError
from antiphon.api.playback import Playback
from antiphon.api.schemas.speech import Text
from antiphon.api.schemas.speech_ws import InputText, parsed
from antiphon.api.sockets import Socket, converse, new_speech_id
from antiphon.api.state import ServerState
from antiphon.api.streaming import StreamedResponse
from antiphon.api.wire_format import TELEPHONE_HZ, WireFormat
from antiphon.audio.encode import AudioFormat
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.session import SpeechSession, Utterance
from antiphon.pipeline.speech import MAX_SAMPLE_RATE_HZ, MAX_SPEED, MIN_SAMPLE_RATE_HZ, MIN_SPEED
from antiphon.types import Ended, SpeechRequest

router = APIRouter(tags=["adapters"], dependencies=[Depends(sent_as(input="text", voice="model"))])

Encoding = Literal["linear16", "mulaw", "alaw", "mp3", "opus", "flac", "aac"]


class SpeakQuery(BaseModel):
    """What the URL says; Deepgram's other parameters are ignored."""

    model_config = ConfigDict(frozen=True)

    model: Text | None = Field(None, description="A voice.")
    encoding: Encoding | None = None
    container: Literal["none", "wav", "ogg"] | None = None
    sample_rate: int | None = Field(None, ge=MIN_SAMPLE_RATE_HZ, le=MAX_SAMPLE_RATE_HZ)
    speed: float = Field(1.0, ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)

    def format(self, default: Encoding) -> WireFormat:
        """Return how the audio is coded; ``container`` matters for linear16 alone.

        Raises:
            InvalidRequestError: mulaw and alaw have no container here.
        """
        encoding = self.encoding or default
        if encoding == "linear16":
            is_file = self.container == "wav"
            return WireFormat.of(AudioFormat.WAV if is_file else AudioFormat.PCM, self.sample_rate)
        if encoding not in ("mulaw", "alaw"):
            return WireFormat.of(AudioFormat(encoding), self.sample_rate)
        if self.container == "wav":
            raise InvalidRequestError(
                f"Invalid 'container': 'wav'. For {encoding} it must be none.", param="container"
            )
        make = WireFormat.mulaw if encoding == "mulaw" else WireFormat.alaw
        return make(self.sample_rate or TELEPHONE_HZ)

    async def request(self, format: WireFormat, server: ServerState, id: str) -> SpeechRequest:
        """Return what every text is spoken with."""
        voice = await known_voice(self.model, server)
        rate_hz = format.sample_rate_hz
        return SpeechRequest("", voice=voice, speed=self.speed, sample_rate_hz=rate_hz, id=id)


class SpeakBody(BaseModel):
    """What is to be spoken."""

    text: Text


@router.post("/v1/speak", response_class=Response)
async def speak(
    query: Annotated[SpeakQuery, Query()], body: SpeakBody, server: Server, speech_id: SpeechId
) -> Response:
    """Speak a text and stream the file."""
    container = query.container or ("wav" if query.encoding == "linear16" else None)
    query = query.model_copy(update={"container": container})
    format = query.format("mp3")
    request = await query.request(format, server, speech_id)
    model = server.speech.model(None)
    events = server.speech.stream(replace(request, input=body.text))
    headers = {"dg-request-id": speech_id, "dg-model-name": model.name}
    return StreamedResponse(file_pieces(events, format, server), headers, format.media_type)


@router.websocket("/v1/speak")
async def speak_live(websocket: WebSocket, server: Server) -> None:
    """Speak text that arrives in pieces."""
    query = parsed(websocket.query_params, SpeakQuery)
    format = query.format("linear16")
    if format.coded_as is not AudioFormat.PCM:
        raise InvalidRequestError(
            "Invalid 'encoding'. It must be one of linear16, mulaw, alaw, without a container.",
            param="encoding",
        )
    socket = Socket(websocket, server.settings.server.max_idle_s)
    request = await query.request(format, server, new_speech_id())
    await SpeechSession(server.speech).check(request)
    conversation_id = str(uuid.uuid4())
    await socket.accept({"dg-request-id": conversation_id})
    conversation = SpeakConversation(socket, Playback(server), request, format)
    voice = query.model or server.speech.model(None).name
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
        """See `Listener.begin`."""

    async def hear(self, piece: bytes) -> None:
        """See `Listener.hear`."""
        await self.socket.send(self.format.finished(piece))

    async def end(self, ended: Ended) -> None:
        """See `Listener.end`."""

    async def fail(self, error: WireError) -> None:
        """See `Listener.fail`."""
        await self.socket.send(_told("Error", error))


class SpeakConversation:
    """Follows Speak, Flush, Clear and Close."""

    def __init__(
        self, socket: Socket, playback: Playback, request: SpeechRequest, format: WireFormat
    ) -> None:
        self._socket = socket
        self._playback = playback
        self._request = request
        self._format = format
        self._utterance: Utterance | None = None
        self._num_flushed = 0
        self._num_cleared = 0

    async def receive(self, message: Mapping[str, Any]) -> bool:
        """See `Conversation.receive`."""
        type = message.get("type")
        if type == "Speak":
            self._speak(parsed(message, InputText).text)
        elif type == "Flush":
            if self._utterance is None:
                self._playback.check_room()
            self._complete()
            flushed = {"type": "Flushed", "sequence_id": self._num_flushed}
            self._num_flushed += 1
            self._playback.then(lambda: self._socket.send(flushed))
        elif type == "Clear":
            self._utterance = None
            await self._playback.clear()
            await self._socket.send({"type": "Cleared", "sequence_id": self._num_cleared})
            self._num_cleared += 1
        elif type == "Close":
            self._complete()
            return True
        else:
            raise InvalidRequestError(
                f"Unknown message type: {ascii(type)[:80]}. Allowed: Speak, Flush, Clear, Close.",
                param="type",
            )
        return False

    async def refuse(self, error: WireError) -> None:
        """See `Conversation.refuse`."""
        await self._socket.send(_told("Warning", error))

    async def finish(self) -> None:
        """See `Conversation.finish`."""
        await self._playback.finish()

    async def close(self) -> None:
        """See `Conversation.close`."""
        await self._playback.close()

    def _speak(self, text: str) -> None:
        if self._utterance is None:
            if not text.strip():
                return
            self._playback.check_room(len(text))
            voice = _Voice(self._socket, self._format)
            self._utterance = self._playback.open(
                replace(self._request, id=new_speech_id()), voice, self._format.coded_as
            )
        self._utterance.push(text)

    def _complete(self) -> None:
        if self._utterance is not None:
            self._utterance.complete()
            self._utterance = None


def _told(type: str, error: WireError) -> Mapping[str, Any]:
    """Return an error under the names that different readers look for."""
    described = {"description": error.message, "code": error.code}
    return {"type": type, **described, "warn_msg": error.message, "err_msg": error.message}
