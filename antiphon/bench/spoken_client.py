"""Asks a server for answers that are spoken while they are written, and notes when all arrives."""

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon.bench.bodies import EventBody, PcmBody
from antiphon.bench.connection import Exchange, SpeechClient, record_of, request_bytes
from antiphon.bench.record import Record

Messages = Sequence[Mapping[str, str]]


@dataclass(slots=True)
class SpokenBody(EventBody):
    """Chunks of a chat: text and 16-bit samples in base64, and an error in the place of the rest.

    Attributes:
        text: of the answer so far.
        error: that the server has told.
    """

    text: str = ""
    error: str = ""

    def _take(self, event: dict[str, Any]) -> None:
        if "error" in event:
            self.error = str(event["error"])
        for choice in event.get("choices") or ():
            delta = choice["delta"]
            audio = delta.get("audio") or {}
            self.text += audio.get("transcript") or delta.get("content") or ""
            if data := audio.get("data"):
                self.audio.feed(base64.b64decode(data))


class SpokenExchange(Exchange):
    """A chat's answer under way.

    Attributes:
        answer: what has come of it.
        first_text_s: when the first of its text was there.
    """

    def __init__(self, done: "asyncio.Future[None]") -> None:
        super().__init__("pcm", done)
        self.answer = SpokenBody(PcmBody())
        self.first_text_s: float | None = None

    def begin(self, status: int) -> None:
        self.status = status  # samples of "pcm16" come at the rate that is assumed
        if status == 200:
            self.body = self.answer

    def take(self, data: bytes, now_s: float) -> None:
        super().take(data, now_s)
        if self.first_text_s is None and self.answer.text:
            self.first_text_s = now_s


@dataclass(frozen=True, slots=True)
class SpokenAnswer:
    """What became of one request.

    Attributes:
        record: of its audio.
        text: of the answer.
        first_text_s: when its first text was there, on the record's clock.
    """

    record: Record
    text: str
    first_text_s: float | None

    @property
    def is_heard(self) -> bool:
        """Whether it came whole, with text and audio."""
        whole = self.record.outcome == "ok" and bool(self.record.arrivals_s)
        return whole and self.first_text_s is not None


class SpokenChatClient(SpeechClient):
    """Converses with one server, over as many connections as are needed at a time."""

    async def answer(self, index: int, messages: Messages) -> SpokenAnswer:
        """Ask for the next message of a conversation; ``index`` is the request's seed."""
        fields = {"seed": index, **self.target.fields, "messages": list(messages)}
        request = request_bytes(self.target, fields)
        sent_s = time.monotonic()
        exchange = SpokenExchange(asyncio.get_running_loop().create_future())
        message = await self.carry(request, exchange)
        answer = exchange.answer
        record = record_of(index, answer.text, (sent_s, sent_s), exchange, message or answer.error)
        if answer.error:
            record = replace(record, outcome="failed")
        return SpokenAnswer(record, answer.text, exchange.first_text_s)
