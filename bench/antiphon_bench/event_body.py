"""Reader of server-sent events that carry audio in base64, as they arrive."""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from antiphon_bench.bodies import BodyError, PcmBody, ToldError, TruncatedError

_LAST = ("done", "completed", "complete")


@dataclass(slots=True)
class EventBody:
    """Audio in events, and the usage at their end.

    Attributes:
        num_tokens: number of generated frames, once the server has reported it.
        is_done: whether an event marked itself as the last with audio.
    """

    audio: PcmBody
    num_tokens: int | None = None
    is_done: bool = False
    _rest: bytearray = field(default_factory=bytearray)
    _name: str = ""

    @property
    def num_samples(self) -> int:
        return self.audio.num_samples

    @property
    def first_sound_sample(self) -> int | None:
        return self.audio.first_sound_sample

    @property
    def rate_hz(self) -> int | None:
        return self.audio.rate_hz

    def feed(self, data: bytes) -> None:
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            self._take_line(line.decode(errors="replace").rstrip("\r"))

    def end(self) -> None:
        if not self.is_done:
            raise TruncatedError("The events ended before the last one")
        self.audio.end()

    def _take_line(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.strip()
        if not line:
            self._name = ""
        elif name == "event":
            self._name = value
        elif name == "data" and value == "[DONE]":
            self.is_done = True
        elif name == "data":
            self._take_data(value)

    def _take_data(self, text: str) -> None:
        try:
            event = json.loads(text)
        except ValueError as error:
            if self._name == "error":
                raise ToldError(text) from error
            raise BodyError(f"An event is no JSON: {text[:80]}") from error
        if not isinstance(event, dict):
            event = {"value": event}
        failure = event.get("error")
        if failure or "error" in (self._name, event.get("type")):
            raise ToldError(message_of(failure or event))
        self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        if isinstance(audio := event.get("audio"), str):
            self.audio.feed(samples_of(audio))
        usage = event.get("usage")
        if isinstance(usage, dict) and isinstance(made := usage.get("output_tokens"), int):
            self.num_tokens = made
        names = (self._name, str(event.get("type", "")))
        if event.get("finish_reason") or any(each.endswith(_LAST) for each in names):
            self.is_done = True


def samples_of(text: str) -> bytes:
    """Decode base64; raises BodyError if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BodyError(f"Audio is no base64: {error}") from error


def message_of(failure: Any) -> str:
    """Return the words of an error, in OpenAI's form or another."""
    if isinstance(failure, dict):
        failure = failure.get("message") or failure
    return failure if isinstance(failure, str) else json.dumps(failure)
