"""Cancelling a response before it begins, while it is written, and at its end."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.websockets import WebSocketState

from antiphon.api.realtime_agent import AgentConversation
from antiphon.api.sockets import Socket
from antiphon.contracts.chat_types import TextDelta
from antiphon.contracts.types import Ended
from antiphon.errors import InvalidRequestError
from antiphon.telemetry.metrics import Metrics
from tests.servers import DEADLINE_S

SAY = {
    "type": "conversation.item.create",
    "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
}
CREATE = {"type": "response.create"}
CANCEL = {"type": "response.cancel"}
UPDATE = {"type": "session.update", "session": {"type": "realtime", "instructions": "Be kind."}}


class Talk:
    """A conversation with a client that reads up to an event, and a model that can be paused.

    Attributes:
        sent: all events that are on their way to the client, in order.
        num_open: answers that are being written.
        unread: type of the event after which there is room for no more before `reading` is set.
        is_unread: set when such an event is there to be read.
        writing: the model waits for it before each word.
    """

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.num_open = 0
        self.unread: str | None = None
        self.is_unread, self.reading, self.writing = (asyncio.Event() for _ in range(3))
        self.writing.set()
        chats = SimpleNamespace(
            voice=lambda name: None, check=lambda request: None, stream=lambda _: self._written()
        )
        server: Any = SimpleNamespace(
            chats=chats,
            speech=SimpleNamespace(models={}),
            settings=SimpleNamespace(chat=SimpleNamespace(max_input_characters=1000)),
        )
        websocket: Any = SimpleNamespace(
            app=SimpleNamespace(state=SimpleNamespace(guards=SimpleNamespace(metrics=Metrics()))),
            application_state=WebSocketState.CONNECTED,
            send_text=self._send,
        )
        self.socket = Socket(websocket, max_idle_s=DEADLINE_S)
        model: Any = SimpleNamespace(name="any")
        self.agent = AgentConversation(self.socket, server, model)

    async def _send(self, text: str) -> None:
        message = json.loads(text)
        self.sent.append(message)
        if message["type"] == self.unread:  # it is on its way, and there is room for no more
            self.is_unread.set()
            await self.reading.wait()

    @property
    def statuses(self) -> list[str]:
        """How responses ended."""
        return [each["response"]["status"] for each in self.sent if each["type"] == "response.done"]

    async def until_sent(self, type: str) -> None:
        while type not in [each["type"] for each in self.sent]:
            await asyncio.sleep(0)

    async def cancel_fails(self) -> None:
        with pytest.raises(InvalidRequestError) as caught:
            await self.agent.receive(CANCEL)
        assert caught.value.code == "response_cancel_not_active"

    async def _written(self) -> AsyncGenerator[TextDelta | Ended, None]:
        self.num_open += 1
        try:
            for word in ("One. ", "Two."):
                yield TextDelta(word)
                await self.writing.wait()
            yield Ended("stop")
        finally:
            self.num_open -= 1


@asynccontextmanager
async def conversation() -> AsyncGenerator[Talk, None]:
    """Converse, and have all that was said ended at the end."""
    tasks, talk = asyncio.all_tasks(), Talk()
    await talk.agent.receive(SAY)
    try:
        yield talk
    finally:
        await talk.agent.close()
    assert talk.num_open == 0
    assert asyncio.all_tasks() == tasks


async def test_what_has_ended_cannot_be_cancelled() -> None:
    async with conversation() as talk:
        await talk.agent.receive(CREATE)
        await talk.until_sent("response.done")
        await talk.cancel_fails()
        await talk.agent.finish()
        await talk.cancel_fails()
    assert talk.statuses == ["completed"]


@pytest.mark.parametrize("unread", ["response.output_text.done", "response.done"])
async def test_cancelling_while_the_last_events_are_sent_cuts_none_of_them_off(unread: str) -> None:
    async with conversation() as talk:
        talk.unread = unread
        await talk.agent.receive(CREATE)
        await talk.is_unread.wait()
        await talk.cancel_fails()
        talk.reading.set()
        await talk.agent.finish()
    assert talk.statuses == ["completed"]
    assert talk.sent[-1]["response"]["output"][0]["content"][0]["text"] == "One. Two."


async def test_the_next_response_waits_for_the_last_events_of_the_one_before() -> None:
    async with conversation() as talk:
        talk.unread = "response.done"
        await talk.agent.receive(CREATE)
        await talk.is_unread.wait()
        following = asyncio.create_task(talk.agent.receive(CREATE))
        await asyncio.sleep(0)
        assert not following.done()
        talk.reading.set()
        await following
        await talk.agent.finish()
    assert talk.statuses == ["completed", "completed"]


async def test_cancelling_before_a_response_has_begun_ends_it() -> None:
    async with conversation() as talk:
        await talk.agent.receive(CREATE)
        await talk.agent.receive(CANCEL)
        assert talk.sent[-1]["response"]["output"] == []
        await talk.agent.receive(CREATE)
        await talk.agent.finish()
    assert talk.statuses == ["cancelled", "completed"]


async def test_cancelling_while_it_is_written_frees_all_before_it_is_told() -> None:
    async with conversation() as talk:
        talk.writing.clear()
        talk.unread = "response.done"
        await talk.agent.receive(CREATE)
        await talk.until_sent("response.output_text.delta")
        assert talk.num_open == 1
        cancelling = asyncio.create_task(talk.agent.receive(CANCEL))
        await talk.is_unread.wait()
        assert talk.num_open == 0
        talk.reading.set()
        await cancelling
    assert talk.statuses == ["cancelled"]
    assert talk.sent[-1]["response"]["output"][0]["content"][0]["text"] == "One. "


async def test_cancelling_what_the_client_does_not_read_frees_all() -> None:
    async with conversation() as talk:
        talk.unread = "response.output_text.delta"
        await talk.agent.receive(CREATE)
        await talk.is_unread.wait()
        assert talk.num_open == 1
        await talk.agent.receive(CANCEL)
        assert talk.num_open == 0
    assert talk.statuses == ["cancelled"]


@pytest.mark.parametrize(
    "unread",
    ["response.output_item.added", "conversation.item.added", "response.content_part.added"],
)
async def test_what_a_cancelled_response_ends_has_begun(unread: str) -> None:
    async with conversation() as talk:
        talk.unread = unread
        await talk.agent.receive(CREATE)
        await talk.is_unread.wait()
        await talk.agent.receive(CANCEL)
    check_opened_and_closed(talk)


async def test_a_response_that_is_cancelled_while_others_send_has_begun() -> None:
    async with conversation() as talk:
        await talk.agent.receive(CREATE)
        talk.unread = "session.updated"
        updating = asyncio.create_task(talk.agent.receive(UPDATE))
        await talk.is_unread.wait()
        while talk.num_open == 0:
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # its first event waits for that of the session
        cancelling = asyncio.create_task(talk.agent.receive(CANCEL))
        await asyncio.sleep(0)
        talk.reading.set()
        await asyncio.gather(updating, cancelling)
        talk.sent = [each for each in talk.sent if each["type"] != "session.updated"]
    check_opened_and_closed(talk)


def check_opened_and_closed(talk: Talk) -> None:
    types = [each["type"] for each in talk.sent]
    assert types[types.index("response.created") + 1 :] == [
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]


@pytest.mark.parametrize("is_ending", [False, True])
async def test_a_client_that_leaves_frees_all_whether_it_was_ending_or_not(is_ending: bool) -> None:
    async with conversation() as talk:
        talk.unread = "response.output_text.done"
        await talk.agent.receive(CREATE)
        if is_ending:
            await talk.is_unread.wait()
        else:
            talk.writing.clear()
            await talk.until_sent("response.output_text.delta")
    assert talk.statuses == []
