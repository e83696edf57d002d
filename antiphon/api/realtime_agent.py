"""WS /v1/realtime with a model that chats: an agent that reads text and answers with speech.

A response that runs while the user speaks is the client's to stop: ``response.cancel`` ends both
models, and ``conversation.item.truncate`` removes the part that was not played.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from starlette.websockets import WebSocketDisconnect

from antiphon.api.answer_voice import AnswerVoice
from antiphon.api.encoding import FileEncoding
from antiphon.api.errors import WireError, failures_to
from antiphon.api.middleware.memory_budget import Holding
from antiphon.api.realtime_events import (
    check_session_model,
    client_event_id,
    error_event,
    event,
    new_id,
    output_object,
    session_object,
)
from antiphon.api.realtime_reply import ReplyEvents, ReplyItems, ReplyPlan, item_object
from antiphon.api.schemas.realtime import OutputFormat, ResponseCancel
from antiphon.api.schemas.realtime_agent import (
    NO_LIMIT,
    AgentItem,
    AgentItemCreate,
    AgentItemNamed,
    AgentItemTruncate,
    AgentOptions,
    AgentOutput,
    AgentReply,
    AgentReplyCreate,
    AgentSessionUpdate,
)
from antiphon.api.schemas.speakable import Speakable
from antiphon.api.schemas.speech_ws import parsed
from antiphon.api.sockets import Socket
from antiphon.api.state import ServerState, new_speech_id
from antiphon.concurrency import cancel_and_wait, merged
from antiphon.contracts.chat_types import ChatRequest, ChatSampling
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.chat.service import ChatModel
from antiphon.pipeline.chat.talk_history import TalkHistory, TalkItem
from antiphon.telemetry.metrics import Metrics

MAX_REPLIES = 4
"""Responses of one client at once: one of its conversation, and others beside that."""

IGNORED = ("output_audio_buffer.clear", "input_audio_buffer.clear")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How an agent answers.

    Attributes:
        max_tokens: Limit of an answer; ``None``: the room that the context leaves.
    """

    speaks: bool
    instructions: str = ""
    output: AgentOutput = field(default_factory=AgentOutput)
    max_tokens: int | None = None
    temperature: float | None = None

    def changed(self, options: AgentOptions) -> "AgentSettings":
        """Return the settings, with those of a message; raises InvalidRequestError."""
        options.refuse_tools()
        given = {name: value for name, value in options.output if value is not None}
        new = replace(self, output=self.output.model_copy(update=given))
        if (speaks := options.speaks) is not None:
            new = replace(new, speaks=speaks)
        if options.instructions is not None:
            new = replace(new, instructions=options.instructions)
        if options.temperature is not None:
            new = replace(new, temperature=options.temperature)
        if (limit := options.max_tokens) is not None:
            new = replace(new, max_tokens=None if limit == NO_LIMIT else limit)
        return new

    @property
    def format(self) -> OutputFormat:
        """How audio is coded."""
        return self.output.format or OutputFormat()

    @property
    def voice(self) -> AnswerVoice:
        """How answers are spoken."""
        output = self.output
        return AnswerVoice(
            voice=output.voice,
            model=output.model,
            speed=output.speed or 1.0,
            sample_rate_hz=self.format.as_wire().sample_rate_hz,
            speakable=output.speakable or Speakable(),
        )

    @property
    def modalities(self) -> list[str]:
        """What an answer is, in the protocol's words."""
        return ["audio"] if self.speaks else ["text"]

    @property
    def num_bytes(self) -> int:
        """Memory that its texts take."""
        texts = (self.instructions, self.output.voice or "", self.output.model or "")
        return sum(map(sys.getsizeof, texts))

    @property
    def told_limit(self) -> int | Literal["inf"]:
        """The limit, in the protocol's words."""
        return "inf" if self.max_tokens is None else self.max_tokens


@dataclass(frozen=True, slots=True, eq=False)
class _Reply:
    events: ReplyEvents
    task: "asyncio.Task[None]"

    @property
    def is_kept(self) -> bool:
        """Whether it is the conversation's."""
        return self.events.plan.history is not None

    def is_named(self, id: str | None) -> bool:
        """Whether a client means this one; with ``None`` it means the conversation's."""
        return self.is_kept if id is None else id == self.events.id


class AgentConversation:
    """Follows the messages of one connection; see `antiphon.api.sockets.Conversation`."""

    def __init__(self, socket: Socket, server: ServerState, model: ChatModel) -> None:
        self._socket = socket
        self._server = server
        self._model = model
        self._id, self._conversation_id = new_id("sess"), new_id("conv")
        own = server.chats.voice(model.name)
        self._settings = AgentSettings(
            speaks=own is not None or bool(server.speech.models),
            instructions="" if own is None else own.capabilities.instructions,
        )
        self._history = TalkHistory(server.settings.chat.max_input_characters, Holding().set)
        self._held_by_settings = Holding()
        self._replies: list[_Reply] = []
        self._event_id: str | None = None
        self._follow: dict[str, Callable[[Mapping[str, Any]], Awaitable[None]]] = {
            "session.update": self._update,
            "conversation.item.create": self._add,
            "conversation.item.retrieve": self._retrieve,
            "conversation.item.delete": self._delete,
            "conversation.item.truncate": self._truncate,
            "response.create": self._respond,
            "response.cancel": self._cancel,
        }

    def greeting(self) -> Mapping[str, Any]:
        """Return what every conversation begins with."""
        return event("session.created", session=self._session())

    async def receive(self, message: Mapping[str, Any]) -> bool:
        self._event_id, type = client_event_id(message), message.get("type")
        if isinstance(type, str) and type in self._follow:
            await self._follow[type](message)
        elif type not in IGNORED:
            raise InvalidRequestError(
                f"Unknown message type: {ascii(type)[:80]}. This server reads text and answers: it"
                f" knows {', '.join(self._follow)}.",
                param="type",
            )
        self._event_id = None
        return False

    async def refuse(self, error: WireError) -> None:
        # What is refused next may have no id, as a message that is no JSON.
        event_id, self._event_id = self._event_id, None
        await self._socket.send(error_event(error, event_id))

    async def finish(self) -> None:
        if self._replies:
            await asyncio.wait([each.task for each in self._replies])

    async def close(self) -> None:
        await cancel_and_wait(*(each.task for each in self._replies))
        self._replies.clear()
        self._follow.clear()

    async def _update(self, message: Mapping[str, Any]) -> None:
        session = parsed(message, AgentSessionUpdate).session
        if session.model is not None:
            check_session_model(session.model, self._model.name, self._server)
        changed = self._settings.changed(session)
        await self._checked_voice(changed)
        self._held_by_settings.set(changed.num_bytes)
        self._settings = changed
        await self._socket.send(event("session.updated", session=self._session()))

    async def _add(self, message: Mapping[str, Any]) -> None:
        create = parsed(message, AgentItemCreate)
        item = _talk_item(create.item)
        previous_id = self._history.add(item, create.previous_item_id)
        for type in ("conversation.item.added", "conversation.item.done"):
            added = event(type, previous_item_id=previous_id, item=item_object(item))
            await self._socket.send(added)

    async def _retrieve(self, message: Mapping[str, Any]) -> None:
        item = self._history.find(parsed(message, AgentItemNamed).item_id)
        await self._socket.send(event("conversation.item.retrieved", item=item_object(item)))

    async def _delete(self, message: Mapping[str, Any]) -> None:
        id = parsed(message, AgentItemNamed).item_id
        self._history.delete(id)
        await self._socket.send(event("conversation.item.deleted", item_id=id))

    async def _truncate(self, message: Mapping[str, Any]) -> None:
        cut = parsed(message, AgentItemTruncate)
        self._history.truncate(cut.item_id, cut.audio_end_ms)
        await self._socket.send(event("conversation.item.truncated", **cut.model_dump()))

    async def _respond(self, message: Mapping[str, Any]) -> None:
        wanted = parsed(message, AgentReplyCreate).response
        if ending := [each.task for each in self._replies if each.events.is_over]:
            await asyncio.wait(ending)
        self._replies = [each for each in self._replies if not each.task.done()]
        is_kept = wanted.conversation != "none"
        if is_kept and any(each.is_kept for each in self._replies):
            raise InvalidRequestError(
                "A response is being written: cancel it, or wait for its end.",
                param="response.conversation",
                code="conversation_already_has_active_response",
            )
        if len(self._replies) >= MAX_REPLIES:
            raise InvalidRequestError(
                f"There are {MAX_REPLIES} responses under way: cancel one, or wait for its end.",
                param="response",
                code="too_many_active_responses",
            )
        settings = self._settings.changed(wanted)
        voice = await self._checked_voice(settings)
        request = self._request(wanted, settings)
        self._server.chats.check(request)
        plan = ReplyPlan(
            described={
                "conversation_id": self._conversation_id if is_kept else None,
                "output_modalities": settings.modalities,
                "max_output_tokens": settings.told_limit,
                "audio": {"output": output_object(settings.output)},
                "metadata": wanted.metadata,
            },
            format=settings.format.as_wire() if settings.speaks else None,
            history=self._history if is_kept else None,
            after=self._history.last_id,
        )
        item = TalkItem(new_id("item"), "assistant", "", "in_progress", settings.speaks)
        items = self._items(request, settings, voice, item)
        events = ReplyEvents(self._socket, plan, item)
        await events.create()
        playing = _played(events, items, self._socket.metrics)
        self._replies.append(_Reply(events, asyncio.create_task(playing)))

    async def _cancel(self, message: Mapping[str, Any]) -> None:
        id = parsed(message, ResponseCancel).response_id
        found = [each for each in self._replies if not each.events.is_over and each.is_named(id)]
        if not found:
            raise InvalidRequestError(
                "Cancellation failed: no such response is under way.",
                param="response_id",
                code="response_cancel_not_active",
            )
        await cancel_and_wait(*(each.task for each in found))
        for each in found:
            self._replies.remove(each)
            await each.events.cancel()

    def _items(
        self, request: ChatRequest, settings: AgentSettings, voice: AnswerVoice, item: TalkItem
    ) -> ReplyItems:
        if not settings.speaks:
            return merged([self._server.chats.stream(request)])
        spoken = voice.begin(request, self._server)
        item.transcript = spoken.transcript
        encoding = FileEncoding(
            settings.format.as_wire().coded_as, spoken.sample_rate_hz, self._server.encoders
        )
        return merged([spoken.text(), encoding.pieces(spoken.audio())])

    def _request(self, wanted: AgentReply, settings: AgentSettings) -> ChatRequest:
        """Return what the model that chats is asked; raises InvalidRequestError."""
        find = partial(self._history.find, param="response.input")
        given = wanted.input
        items = None
        if given is not None:
            items = [
                find(each.id or "") if each.type == "item_reference" else _talk_item(each)
                for each in given
            ]
        messages = self._history.messages(settings.instructions, items)
        if not messages:
            raise InvalidRequestError(
                "There is nothing to be answered: the conversation is empty.",
                param="response.input",
            )
        return ChatRequest(
            messages,
            model=self._model.name,
            max_tokens=settings.max_tokens,
            sampling=ChatSampling(temperature=settings.temperature),
            id=new_speech_id(),
        )

    async def _checked_voice(self, settings: AgentSettings) -> AnswerVoice:
        """Return how answers are spoken; raises InvalidRequestError."""
        num_characters = len(settings.instructions)
        if num_characters > (limit := self._server.settings.chat.max_input_characters):
            raise InvalidRequestError(
                f"Invalid 'instructions': {num_characters} characters; at most {limit} are"
                " allowed.",
                param="session.instructions",
                code="string_above_max_length",
            )
        if not settings.speaks:
            return settings.voice
        return await settings.voice.checked(self._model.name, self._server)

    def _session(self) -> Mapping[str, Any]:
        settings = self._settings
        return session_object(
            self._id,
            self._model.name,
            settings.output,
            output_modalities=settings.modalities,
            instructions=settings.instructions,
            max_output_tokens=settings.told_limit,
        )


async def _played(events: ReplyEvents, items: ReplyItems, metrics: Metrics) -> None:
    """Send a response to its end, or to an error, which the client receives."""
    with suppress(WebSocketDisconnect):  # the client is gone
        async with failures_to(events.fail, metrics):
            await events.play(items)


def _talk_item(item: AgentItem) -> TalkItem:
    """Return a client's item; raises InvalidRequestError."""
    item.check()
    role: Any = item.role
    return TalkItem(item.id or new_id("item"), role, item.text, is_spoken=item.is_spoken)
