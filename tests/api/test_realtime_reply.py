"""A response has one end, whoever ends it, and its texts are those that are heard."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from antiphon.api.realtime_reply import ReplyEvents, ReplyPlan
from antiphon.contracts.chat_types import TextDelta
from antiphon.contracts.types import Ended, Usage
from antiphon.pipeline.chat.talk_history import TalkHistory, TalkItem


class Wire:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def send_all(self, messages: deque[dict[str, Any]]) -> None:
        while messages:
            await self.send(messages.popleft())

    def of_type(self, type: str) -> list[dict[str, Any]]:
        return [each for each in self.sent if each["type"] == type]


async def written(*items: TextDelta | Ended) -> AsyncGenerator[tuple[int, Any], None]:
    for each in items:
        yield 0, each


def reply(wire: Any) -> ReplyEvents:
    plan = ReplyPlan(described={}, format=None, history=TalkHistory(1000))
    return ReplyEvents(wire, plan, TalkItem("i", "assistant", "", "in_progress"))


async def test_a_response_ends_once() -> None:
    wire = Wire()
    events = reply(wire)
    await events.play(written(TextDelta("Hi"), Ended("stop", Usage(3, 1))))
    await events.cancel()
    (done,) = wire.of_type("response.done")
    assert done["response"]["status"] == "completed"
    assert len(wire.of_type("response.output_item.done")) == 1


def test_thoughts_are_counted_and_are_no_text() -> None:
    wire = Wire()
    events = reply(wire)
    thought = TextDelta("", num_tokens=2, reasoning="Hm.")
    asyncio.run(events.play(written(thought, TextDelta("Hi", num_tokens=1), Ended("length"))))
    assert [each["delta"] for each in wire.of_type("response.output_text.delta")] == ["Hi"]
    (done,) = wire.of_type("response.done")
    assert done["response"]["status"] == "incomplete"
