"""One response of a realtime agent: its events, in OpenAI's names and order."""

import base64
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from antiphon.api.errors import WireError
from antiphon.api.realtime_events import event, new_id, usage_object
from antiphon.api.sockets import Socket
from antiphon.api.wire_format import WireFormat
from antiphon.contracts.chat_types import TextDelta
from antiphon.contracts.types import Ended, Usage
from antiphon.pipeline.chat.talk_history import ROOT, TalkHistory, TalkItem

REPLY_TEXT = 0

ReplyItems: TypeAlias = AsyncGenerator[tuple[int, TextDelta | bytes | Ended], None]
"""Of text and audio at once: which of the two it is, and its next item."""


def item_object(item: TalkItem) -> dict[str, Any]:
    kind = "input_text" if item.role != "assistant" else "output_text"
    part = {"type": kind, "text": item.text}
    if item.is_spoken:
        kind = "input_audio" if item.role != "assistant" else "output_audio"
        part = {"type": kind, "transcript": item.text}
    is_empty = item.status == "in_progress" and not item.text
    return {
        "id": item.id,
        "object": "realtime.item",
        "type": "message",
        "role": item.role,
        "status": item.status,
        "content": [] if is_empty else [part],
    }


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """What a response is made with.

    Attributes:
        described: members of its object that do not change.
        format: Format of its audio; ``None``: it is text.
        history: Conversation that its item is added to; ``None``: none.
        after: Id of the item that it follows: an item that arrives while it is prepared is
            not answered by it.
    """

    described: Mapping[str, Any]
    format: WireFormat | None
    history: TalkHistory | None
    after: str = ROOT


@dataclass(slots=True, eq=False)
class ReplyEvents:
    """Sends the events of one response.

    Attributes:
        is_over: its last events are sent, or are being sent.
    """

    socket: Socket
    plan: ReplyPlan
    item: TalkItem
    id: str = field(default_factory=lambda: new_id("resp"))
    is_over: bool = False
    _has_begun: bool = False
    _previous_id: str | None = None
    _opening: deque[Mapping[str, Any]] = field(default_factory=deque)
    _usages: list[Usage] = field(default_factory=lambda: [Usage(), Usage()])
    _reason: str = "stop"

    async def create(self) -> None:
        await self._send("response.created", response=self._response("in_progress"))

    async def play(self, items: ReplyItems) -> None:
        """Send text and audio to the end; closes ``items``."""
        async with aclosing(items):
            async for kind, each in items:
                await self._begin()
                if isinstance(each, TextDelta):
                    self.item.text += each.text
                    self._usages[kind] += Usage(0, each.num_tokens)
                    if each.text:  # thoughts are not sent
                        await self._send_text("delta", delta=each.text)
                elif isinstance(each, bytes):
                    assert self.plan.format is not None
                    delta = base64.b64encode(self.plan.format.finished(each)).decode()
                    await self._send_part("response.output_audio.delta", delta=delta)
                else:
                    self._usages[kind] = each.usage
                    if kind == REPLY_TEXT:
                        self._reason = each.reason
        if self._reason == "length":
            await self._end("incomplete", reason="max_output_tokens")
        else:
            await self._end("completed")

    async def cancel(self) -> None:
        await self._end("cancelled", reason="client_cancelled")

    async def fail(self, error: WireError) -> None:
        await self._end("failed", error=error.body()["error"])

    async def _begin(self) -> None:
        if self._has_begun:
            return
        if self.plan.history is not None:
            self._previous_id = self.plan.history.add_reply(self.item, self.plan.after)
        self._has_begun = True
        described = item_object(self.item)
        part = {"type": "text", "text": ""}
        if self.plan.format is not None:
            part = {"type": "audio", "transcript": ""}
        self._opening += [
            self._placed("response.output_item.added", item=described),
            *self._of_item("conversation.item.added", described),
            self._of_part("response.content_part.added", part=part),
        ]
        await self.socket.send_all(self._opening)

    async def _end(self, status: str, **details: Any) -> None:
        if self.is_over:
            return
        self.is_over = True
        self.item.status = "completed" if status == "completed" else "incomplete"
        if self._has_begun:
            await self.socket.send_all(self._opening)  # what a cancel has interrupted
            part = {"type": "text", "text": self.item.text}
            if self.plan.format is not None:
                part = {"type": "audio", "transcript": self.item.text}
                await self._send_part("response.output_audio.done")
            await self._send_text("done", **{name: part[name] for name in part if name != "type"})
            await self._send_part("response.content_part.done", part=part)
            described = item_object(self.item)
            await self.socket.send(self._placed("response.output_item.done", item=described))
            for each in self._of_item("conversation.item.done", described):
                await self.socket.send(each)
        reason = {"type": status, **details} if details else None
        await self._send("response.done", response=self._response(status, reason))

    def _response(self, status: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
        has_output = self.is_over and self._has_begun
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": [item_object(self.item)] if has_output else [],
            **self.plan.described,
            "usage": usage_object(*self._usages) if self.is_over else None,
        }

    async def _send(self, type: str, **members: Any) -> None:
        await self.socket.send(event(type, **members))

    async def _send_part(self, type: str, **members: Any) -> None:
        await self.socket.send(self._of_part(type, **members))

    def _of_item(self, type: str, item: dict[str, Any]) -> list[dict[str, Any]]:
        if self.plan.history is None:
            return []
        return [event(type, previous_item_id=self._previous_id, item=item)]

    def _placed(self, type: str, **members: Any) -> dict[str, Any]:
        return event(type, response_id=self.id, output_index=0, **members)

    def _of_part(self, type: str, **members: Any) -> dict[str, Any]:
        return self._placed(type, item_id=self.item.id, content_index=0, **members)

    async def _send_text(self, kind: str, **members: Any) -> None:
        name = "output_audio_transcript" if self.plan.format else "output_text"
        await self._send_part(f"response.{name}.{kind}", **members)
