"""WS /v1/realtime: OpenAI's realtime messages, as far as they ask for text to be spoken.

A model that chats is an agent: see `antiphon.api.realtime_agent`. With one that only speaks,
``instructions`` are ignored: clients that use this to speak put a prompt for a language model
there, to make it read word for word. Only the text itself is spoken, always.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter
from starlette.websockets import WebSocket

from antiphon.api.audio_outbox import AudioOutbox, SpokenConversation
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
    ContentPart,
    Item,
    ItemCreate,
    Output,
    OutputFormat,
    ResponseCancel,
    ResponseCreate,
    SessionUpdate,
    SpeakingSession,
    TextAppend,
)
from antiphon.api.schemas.realtime_fields import RealtimeMessage
from antiphon.api.schemas.speech_ws import parsed, unknown_message
from antiphon.api.sockets import Socket, converse
from antiphon.api.state import Server, ServerState, new_speech_id
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import (
    AntiphonError,
    InputTooLongError,
    InvalidRequestError,
    UnknownModelError,
    UnservedTaskError,
    invalid,
)
from antiphon.pipeline.chat.service import ChatModel
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.text_stream import Utterance

router = APIRouter()

IGNORED = ("output_audio_buffer.clear", "input_audio_buffer.clear")
_SERVED = (
    "session.update",
    "conversation.item.create",
    "response.create",
    "response.cancel",
    "input_text.append",
    "input_text.commit",
    "input_text.clear",
)


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


@dataclass(frozen=True, slots=True)
class _Followed:
    """Open text that a response speaks as it arrives.

    Attributes:
        start: index of the open text in the text of the response.
    """

    response: SpokenResponse
    utterance: Utterance
    start: int


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
        self._open_text = ""
        self._followed: _Followed | None = None
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
        elif type == "input_text.append":
            await self._append(parsed(message, TextAppend).text)
        elif type == "input_text.commit":
            parsed(message, RealtimeMessage)
            await self._commit()
        elif type == "input_text.clear":
            parsed(message, RealtimeMessage)
            self._clear()
        elif type not in IGNORED:
            raise unknown_message(type, *_SERVED)
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
        if item.text:
            self._hold_unsaid(item.text)
            self._unsaid.append(item.text)
        await self._send_item(item)

    def _hold_unsaid(self, text: str) -> None:
        """Count the memory of further text that no response speaks yet."""
        num_characters = sum(map(len, (*self._unsaid, self._open_text, text)))
        if num_characters > self._outbox.max_characters:
            raise InputTooLongError(num_characters, self._outbox.max_characters)
        self._held_by_unsaid.add(sys.getsizeof(text))

    async def _send_item(self, item: Item) -> None:
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

    async def _append(self, text: str) -> None:
        """Add to the open text; a response that follows it speaks the addition."""
        if (followed := self._current_followed()) is None:
            self._hold_unsaid(text)
            self._open_text += text
            return
        self._outbox.check_room(len(text))
        followed.utterance.push(text)
        await followed.response.add(text)
        self._hold_responses()

    async def _commit(self) -> None:
        """End the open text and make it an item."""
        if (followed := self._current_followed()) is not None:
            self._followed = None
            followed.utterance.complete()
            text = followed.response.text[followed.start :]
        elif text := self._open_text:
            self._open_text = ""
            self._unsaid.append(text)
        else:
            raise InvalidRequestError(
                "There is no text to commit. Send 'input_text.append' first.", param="type"
            )
        await self._send_item(Item(content=(ContentPart(type="input_text", text=text),)))

    def _clear(self) -> None:
        """Drop the open text, of which nothing was spoken."""
        if self._current_followed() is not None:
            raise InvalidRequestError(
                "The open text is being spoken. Send 'response.cancel' to stop its response.",
                param="type",
            )
        self._open_text = ""
        self._held_by_unsaid.set(sum(map(sys.getsizeof, self._unsaid)))

    def _current_followed(self) -> _Followed | None:
        """Return the open text that a response speaks; one that failed speaks nothing more."""
        if self._followed is not None and self._followed.response.is_over:
            self._followed = None
        return self._followed

    async def _respond(self, message: ResponseCreate) -> None:
        """Speak the items that the message brings, or all that no response has spoken yet.

        If there is open text, the response follows it until it is committed. A message that is
        refused leaves items and open text as they are.
        """
        wanted = message.response
        open_text, texts = self._open_text, [*self._unsaid, self._open_text]
        if wanted.input is not None:
            open_text, texts = "", [item.text for item in wanted.input]
        text = "\n\n".join(filter(None, texts))
        if not (text.strip() or open_text):
            raise InvalidRequestError("There is no text to speak.", param="response.input")
        self._outbox.check_room(len(text))
        output = self._changed(wanted.output)
        format = (output.format or OutputFormat()).as_wire()
        request = await self._request(output)
        await self._speech.check_voice(request)
        self._responses = [each for each in self._responses if not each.is_over]
        response = SpokenResponse(self._socket, text, format, wanted.metadata)
        self._hold_responses(response)
        follows = bool(open_text)
        utterance = self._outbox.open(request, response, format.coded_as, reads_late=follows)
        self._responses.append(response)
        if wanted.input is None:
            self._unsaid, self._open_text = [], ""
            self._held_by_unsaid.set(0)
        await response.create()  # no audio is sent before there is text
        try:
            utterance.push(text)
        except AntiphonError:
            utterance.complete()  # or the responses after it would wait for its text
            raise
        if follows:
            self._followed = _Followed(response, utterance, len(text) - len(open_text))
        else:
            utterance.complete()

    def _hold_responses(self, *further: SpokenResponse) -> None:
        """Count the memory of all responses under way."""
        kept = sum(each.num_bytes for each in (*self._responses, *further))
        self._held_by_responses.set(kept)

    async def _cancel(self, id: str | None) -> None:
        if id is not None and [each.id for each in self._responses if not each.is_over] != [id]:
            raise invalid(
                "response_id",
                "it must be the only response that is under way. Without it, all responses are"
                " cancelled",
                code="response_cancel_not_active",
            )
        await self._outbox.clear()
        self._followed = None
        dropped, self._responses = self._responses, []
        for response in dropped:
            await response.cancel()

    def _changed(self, output: Output) -> Output:
        """Return the output options, with those of a message."""
        given = {name: value for name, value in output if value is not None}
        return self._output.model_copy(update=given)

    async def _request(self, output: Output) -> SpeechRequest:
        request = SpeechRequest("", voice=output.voice, model=self._asked_model, id=new_speech_id())
        rate_hz = (output.format or OutputFormat()).as_wire().sample_rate_hz
        request = replace(request, speed=output.speed or 1.0, sample_rate_hz=rate_hz)
        return await self._speech.routed(request)

    def _session(self) -> Mapping[str, Any]:
        return session_object(self._id, self._model.name, self._output)
