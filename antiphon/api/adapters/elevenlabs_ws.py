"""ElevenLabs' streams: text in pieces, in one context or in several, spoken side by side."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.websockets import WebSocket

from antiphon.api.adapters.alignment import Alignment, SpokenText
from antiphon.api.adapters.elevenlabs import Call
from antiphon.api.adapters.errors import ELEVENLABS
from antiphon.api.audio_outbox import AudioOutbox
from antiphon.api.errors import WireError
from antiphon.api.schemas.elevenlabs import SpeechQuery, StreamMessage
from antiphon.api.schemas.speech_ws import parsed
from antiphon.api.sockets import Socket, converse
from antiphon.api.state import Server, ServerState, new_speech_id
from antiphon.api.wire_format import WireFormat
from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.types import Ended, SpeechRequest
from antiphon.errors import RateLimitError
from antiphon.pipeline.speech.text_stream import Utterance

router = APIRouter()

MAX_CONTEXTS = 16
"""Contexts of one connection that are open or still being spoken."""


@router.websocket("/v1/text-to-speech/{voice_id}/stream-input")
async def stream_input(websocket: WebSocket, voice_id: str, server: Server) -> None:
    """Speak one text that arrives in pieces; an empty text ends it."""
    await _serve(websocket, voice_id, server, has_contexts=False)


@router.websocket("/v1/text-to-speech/{voice_id}/multi-stream-input")
async def multi_stream_input(websocket: WebSocket, voice_id: str, server: Server) -> None:
    """Speak texts that arrive in pieces, each in a context of its own."""
    await _serve(websocket, voice_id, server, has_contexts=True)


async def _serve(
    websocket: WebSocket, voice_id: str, server: ServerState, *, has_contexts: bool
) -> None:
    query = parsed(websocket.query_params, SpeechQuery)
    format = query.format()
    socket = Socket(websocket, server.settings.server.max_idle_s)
    call = await Call(query, server, new_speech_id()).routed(voice_id)
    request = await call.request(voice_id)
    await server.speech.check_voice(request)
    await server.speech.check_room(request)
    await socket.accept()
    conversation = StreamConversation(socket, server, request, format, has_contexts=has_contexts)
    await converse(socket, conversation)


class _Context:
    def __init__(
        self, socket: Socket, server: ServerState, request: SpeechRequest, format: WireFormat
    ) -> None:
        self._socket = socket
        self._request = request
        self._format = format
        self._outbox = AudioOutbox(server)
        self._utterance: Utterance | None = None
        self._spoken = SpokenText()
        self.names: Mapping[str, str] = {}

    def push(self, text: str, speed: float | None) -> None:
        if self._utterance is None:
            if not text.strip():
                return
            self._outbox.check_room(len(text))
            request = replace(self._request, id=new_speech_id(), speed=speed or self._request.speed)
            self._spoken = SpokenText()
            self._utterance = self._outbox.open(
                request, self, self._format.coded_as, observers=(self._spoken.add_chunk,)
            )
        self._utterance.push(text)
        self._spoken.add(text)

    def flush(self) -> None:
        """Speak what there is."""
        if self._utterance is not None:
            self._utterance.flush()

    async def spoken(self) -> None:
        """Return when all has been spoken, and the client knows it."""
        if self._utterance is not None:
            self._utterance.complete()
        await self._outbox.finish()
        await self._socket.send({"audio": None, "isFinal": True, **self.names})

    async def close(self) -> None:
        """Stop; returns when everything is free."""
        await self._outbox.close()

    async def begin(self) -> None:
        pass

    async def on_audio(self, piece: bytes) -> None:
        await self._tell(self._format.finished(piece), self._spoken.take())

    async def end(self, ended: Ended) -> None:
        if (rest := self._spoken.finish()) is not None:
            await self._tell(b"", rest)

    async def fail(self, error: WireError) -> None:
        self._utterance = None
        await self._socket.send(_told(error, self.names))

    async def _tell(self, piece: bytes, alignment: Alignment | None) -> None:
        """Send audio, and the times of what has become known with it."""
        written = alignment.written if alignment else None
        read = alignment.read if alignment else None
        message = {
            "audio": base64.b64encode(piece).decode(),
            "isFinal": None,
            "alignment": written.since_the_one_before() if written else None,
            "normalizedAlignment": read.since_the_one_before() if read else None,
        }
        await self._socket.send({**message, **self.names})


class StreamConversation:
    """Follows the messages of one connection."""

    def __init__(
        self,
        socket: Socket,
        server: ServerState,
        request: SpeechRequest,
        format: WireFormat,
        *,
        has_contexts: bool,
    ) -> None:
        self._socket = socket
        self._server = server
        self._request = request
        self._format = format
        self._has_contexts = has_contexts
        self._open: dict[str, _Context] = {}
        self._ending: dict[asyncio.Task[None], _Context] = {}

    async def receive(self, message: Mapping[str, Any]) -> bool:
        wanted = parsed(message, StreamMessage).checked()
        if wanted.close_socket:
            self._end_all()
            return True
        name = (wanted.context_id or "default") if self._has_contexts else ""
        if wanted.text:
            self._context(name).push(wanted.text, wanted.speed)
        if wanted.flush and name in self._open:
            self._open[name].flush()
        is_last = not self._has_contexts and wanted.text == ""
        if is_last:
            self._context(name)  # there may have been no text at all
        if (wanted.close_context or is_last) and name in self._open:
            self._end(name)
        return is_last

    async def refuse(self, error: WireError) -> None:
        await self._socket.send(_told(error, {}))

    async def finish(self) -> None:
        self._end_all()
        if self._ending:
            await asyncio.wait(self._ending)

    async def close(self) -> None:
        ending = dict(self._ending)
        await cancel_and_wait(*ending)
        await asyncio.gather(*(each.close() for each in (*self._open.values(), *ending.values())))

    def _context(self, name: str) -> _Context:
        if name not in self._open:
            if len(self._open) + len(self._ending) >= MAX_CONTEXTS:
                raise RateLimitError(
                    f"Too many contexts: at most {MAX_CONTEXTS} may be open or being spoken.",
                    retry_after_s=1.0,
                )
            context = _Context(self._socket, self._server, self._request, self._format)
            context.names = {"contextId": name} if self._has_contexts else {}
            self._open[name] = context
        return self._open[name]

    def _end_all(self) -> None:
        for name in tuple(self._open):
            self._end(name)

    def _end(self, name: str) -> None:
        context = self._open.pop(name)
        ending = asyncio.create_task(_ended(context))
        self._ending[ending] = context
        ending.add_done_callback(self._forget)

    def _forget(self, ending: "asyncio.Task[None]") -> None:
        del self._ending[ending]
        if not ending.cancelled():
            ending.exception()  # retrieved: the client has left


async def _ended(context: _Context) -> None:
    try:
        await context.spoken()
    finally:
        await context.close()


def _told(error: WireError, names: Mapping[str, str]) -> Mapping[str, Any]:
    error = ELEVENLABS.renamed(error)
    return {"error": error.message, "message": error.message, "code": error.code, **names}
