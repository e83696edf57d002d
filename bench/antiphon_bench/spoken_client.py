"""Client for answers that are spoken while they are written, with arrival times."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_bench.bodies import BodyError, PcmBody, TruncatedError
from antiphon_bench.body_kinds import media_type
from antiphon_bench.connection import SpeechClient, record_of, request_bytes
from antiphon_bench.event_body import EventBody, samples_of
from antiphon_bench.exchange import Exchange
from antiphon_bench.record import Record

Messages = Sequence[Mapping[str, str]]


@dataclass(slots=True)
class SpokenBody(EventBody):
    """Chunks of a chat: text and 16-bit samples in base64."""

    text: str = ""

    def end(self) -> None:
        if not self.is_done:
            raise TruncatedError("The events ended before the last one")
        if self.num_samples:  # an answer of text alone counts as silent
            self.audio.end()

    def _take(self, event: dict[str, Any]) -> None:
        try:
            for choice in event.get("choices") or ():
                delta = choice["delta"]
                audio = delta.get("audio") or {}
                self.text += audio.get("transcript") or delta.get("content") or ""
                if data := audio.get("data"):
                    self.audio.feed(samples_of(data))
                self.is_done = self.is_done or bool(choice.get("finish_reason"))
        except (AttributeError, KeyError, TypeError) as error:
            raise BodyError(f"An event is no chunk of a chat: {str(event)[:80]}") from error


class SpokenExchange(Exchange):
    """A chat's answer under way."""

    def __init__(self) -> None:
        super().__init__("pcm")
        self.answer = SpokenBody(PcmBody())
        self.first_text_s: float | None = None

    def _open(self) -> None:
        kind, _ = media_type(self.headers.get("content-type", ""))
        if kind != "text/event-stream":
            raise BodyError(f"{kind or 'Nothing that is named'} came in the place of events")
        self.body = self.answer  # samples of "pcm16" come at the rate that is assumed

    def take(self, data: bytes, now_s: float) -> None:
        super().take(data, now_s)
        if self.first_text_s is None and self.answer.text:
            self.first_text_s = now_s


@dataclass(frozen=True, slots=True)
class SpokenAnswer:
    """Outcome of one request.

    Attributes:
        first_text_s: arrival of the first text, on the record's clock; ``None``: no text came.
    """

    record: Record
    text: str
    first_text_s: float | None

    @property
    def is_heard(self) -> bool:
        """Whether it came whole, with text and audio."""
        return self.record.is_whole and self.first_text_s is not None


class SpokenChatClient(SpeechClient):
    """Converses with one server, over as many connections as are needed at a time."""

    async def answer(self, index: int, messages: Messages) -> SpokenAnswer:
        """Ask for the next message of a conversation; ``index`` is the request's seed."""
        fields = {"seed": index, **self.target.fields, "messages": list(messages)}
        request = request_bytes(self.target, fields)
        sent_s = time.monotonic()
        exchange = SpokenExchange()
        await self.carry(request, exchange)
        answer = exchange.answer
        record = record_of(index, answer.text, (sent_s, sent_s), exchange, self.target)
        return SpokenAnswer(record, answer.text, exchange.first_text_s)
