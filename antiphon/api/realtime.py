"""WS /v1/realtime: OpenAI's realtime messages, as far as they ask for text to be spoken.

A model that chats is an agent: see `antiphon.api.realtime_agent`. With one that only speaks,
``instructions`` are ignored: clients that use this to speak put a prompt for a language model
there, to make it read word for word. Only the text itself is spoken, always.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.websockets import WebSocket

from antiphon.api.audio_outbox import AudioOutbox, SpokenConversation
from antiphon.api.deps import Server
from antiphon.api.errors import WireError
from antiphon.api.middleware.memory_budget import Holding
from antiphon.api.realtime_agent import AgentConversation
from antiphon.api.realtime_events import (
    SpokenResponse,
    check_session_model,
    client_event_id,
    error_event,
    event,
    new_id,
    session_object,
)
from antiphon.api.schemas.realtime import (
    Item,
    ItemCreate,
    Output,
    OutputFormat,
    ResponseCancel,
    ResponseCreate,
    SessionUpdate,
    SpeakingSession,
)
from antiphon.api.schemas.speech_ws import parsed
from antiphon.api.sockets import Socket, converse, new_speech_id
from antiphon.api.state import ServerState
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import (
    InputTooLongError,
    InvalidRequestError,
    UnknownModelError,
    UnservedTaskError,
)
from antiphon.pipeline.chat import ChatModel
from antiphon.pipeline.speech.model import SpeechModel

router = APIRouter()

IGNORED = ("output_audio_buffer.clear", "input_audio_buffer.clear")


@router.websocket("/v1/realtime")
async def realtime(websocket: WebSocket, server: Server) -> None:
    """Speak what the client asks for, or answer it."""
    name = websocket.query_params.get("model")
    agent = _agent(name, server)
    model = None if agent else server.speech.model(name)
    socket = Socket(websocket, server.settings.server.max_idle_s)
    if model is not None:
        await server.speech.check_room(SpeechRequest("", model=model.name))
    await socket.accept()
    conversation: RealtimeConversation | AgentConversation
    if agent is not None:
        conversation = AgentConversation(socket, server, agent)
    else:
        assert model is not None
        conversation = RealtimeConversation(socket, server, model, name)
    await converse(socket, conversation, conversation.greeting())


def _agent(name: str | None, server: ServerState) -> ChatModel | None:
    """Return the model that answers; ``None``: the client's items are to be spoken.

    A served model that chats answers. Other names, and none, mean a model that speaks, if there
    is such a one.
    """
    if name is not None and name in server.chats.models:
        return server.chats.models[name]
    try:
        server.speech.model(name)
    except (UnknownModelError, UnservedTaskError):
        try:
            return server.chats.model(name)
        except (UnknownModelError, UnservedTaskError):
            return None
    return None


class RealtimeConversation(SpokenConversation):
    """Follows the messages of one connection."""

    def __init__(
        self, socket: Socket, server: ServerState, model: SpeechModel, asked: str | None
    ) -> None:
        """Speak with ``model``, which is what the client's address has ``asked`` for."""
        super().__init__(socket, AudioOutbox(server))
        self._server = server
        self._speech = server.speech
        self._model = model
        self._asked_model = asked
        self._id = new_id("sess")
        self._output = Output()
        self._unsaid: list[str] = []
        self._held_by_unsaid, self._held_by_responses = Holding(), Holding()
        self._responses: list[SpokenResponse] = []
        self._event_id: str | None = None

    def greeting(self) -> Mapping[str, Any]:
        """Return what every conversation begins with."""
        return event("session.created", session=self._session())

    async def receive(self, message: Mapping[str, Any]) -> bool:
        self._event_id, type = client_event_id(message), message.get("type")
        if type == "session.update":
            await self._update(parsed(message, SessionUpdate).session)
        elif type == "conversation.item.create":
            await self._add(parsed(message, ItemCreate).item)
        elif type == "response.create":
            await self._respond(parsed(message, ResponseCreate))
        elif type == "response.cancel":
            await self._cancel(parsed(message, ResponseCancel).response_id)
        elif type not in IGNORED:
            raise InvalidRequestError(
                f"Unknown message type: {ascii(type)[:80]}. This server speaks: it knows"
                " session.update, conversation.item.create, response.create, response.cancel.",
                param="type",
            )
        self._event_id = None
        return False

    async def refuse(self, error: WireError) -> None:
        # What is refused next may have no id, as a message that is no JSON.
        event_id, self._event_id = self._event_id, None
        await self._socket.send(error_event(error, event_id))

    async def _update(self, session: SpeakingSession) -> None:
        if session.model is not None:
            check_session_model(session.model, self._model.name, self._server)
        changed = self._changed(session.output)
        await self._speech.check_voice(await self._request(changed))
        self._output = changed
        await self._socket.send(event("session.updated", session=self._session()))

    async def _add(self, item: Item) -> None:
        num_characters = sum(map(len, self._unsaid)) + len(item.text)
        if num_characters > self._outbox.max_characters:
            raise InputTooLongError(num_characters, self._outbox.max_characters)
        if item.text:
            self._held_by_unsaid.add(sys.getsizeof(item.text))
            self._unsaid.append(item.text)
        added = {
            "id": item.id or new_id("item"),
            "object": "realtime.item",
            "type": item.type,
            "role": item.role,
            "status": "completed",
            "content": [part.model_dump(exclude_none=True) for part in item.content],
        }
        for type in ("conversation.item.added", "conversation.item.done"):
            await self._socket.send(event(type, previous_item_id=None, item=added))

    async def _respond(self, message: ResponseCreate) -> None:
        """Speak the items of the message, or all that have come since the last response."""
        wanted = message.response
        if wanted.input is None:
            texts, self._unsaid = self._unsaid, []
            self._held_by_unsaid.set(0)
        else:
            texts = [item.text for item in wanted.input if item.text]
        text = "\n\n".join(texts)
        if not text.strip():
            raise InvalidRequestError("There is no text to speak.", param="response.input")
        self._outbox.check_room(len(text))
        output = self._changed(wanted.output)
        format = (output.format or OutputFormat()).as_wire()
        self._responses = [each for each in self._responses if not each.is_over]
        response = SpokenResponse(self._socket, text, format, wanted.metadata)
        kept = sum(each.num_bytes for each in (*self._responses, response))
        self._held_by_responses.set(kept)
        request = await self._request(output)
        await self._speech.check_voice(request)
        utterance = self._outbox.open(request, response, format.coded_as, reads_late=False)
        self._responses.append(response)
        await response.create()  # no audio is sent before there is text
        utterance.push(text)
        utterance.complete()

    async def _cancel(self, id: str | None) -> None:
        if id is not None and [each.id for each in self._responses if not each.is_over] != [id]:
            raise InvalidRequestError(
                "Invalid 'response_id': it must be the only response that is under way. Without it,"
                " all responses are cancelled.",
                param="response_id",
                code="response_cancel_not_active",
            )
        await self._outbox.clear()
        dropped, self._responses = self._responses, []
        for response in dropped:
            await response.cancel()

    def _changed(self, output: Output) -> Output:
        """Return the output options, with those of a message."""
        said = {name: value for name, value in output if value is not None}
        return self._output.model_copy(update=said)

    async def _request(self, output: Output) -> SpeechRequest:
        request = SpeechRequest("", voice=output.voice, model=self._asked_model, id=new_speech_id())
        rate_hz = (output.format or OutputFormat()).as_wire().sample_rate_hz
        request = replace(request, speed=output.speed or 1.0, sample_rate_hz=rate_hz)
        return await self._speech.routed(request)

    def _session(self) -> Mapping[str, Any]:
        return session_object(self._id, self._model.name, self._output)
