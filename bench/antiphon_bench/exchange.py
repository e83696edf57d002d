"""One request under way: what has come back so far, when, and what is wrong with it."""

import asyncio
import math
import time
from collections.abc import Mapping

from antiphon_bench.bodies import DEFAULT_SAMPLE_RATE_HZ, Body, BodyError
from antiphon_bench.body_kinds import media_type, open_body
from antiphon_bench.event_body import samples_of
from antiphon_bench.record import Outcome

_MAX_ERROR_BYTES = 2000
_MAX_RATE_HZ = 768_000
_MAX_CHANNELS = 64


class Exchange:
    """A request that was sent; made while an event loop runs.

    Attributes:
        done: future that completes when the exchange has ended.
        status: HTTP status; 0 until there is a response.
        headers: headers of the response, by lower-case name.
        is_complete: whether the response ended, with everything that it announced.
        ended_s: time of the last data, on the clock of `time.monotonic`.
    """

    def __init__(self, response_format: str) -> None:
        self.done = asyncio.get_running_loop().create_future()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = False
        self.fault: Outcome | None = None
        self.message = ""
        self.ended_s: float | None = None
        self.arrivals_s: list[float] = []
        self.durations_s: list[float] = []
        self.body: Body | None = None
        self.error = bytearray()
        self._format = response_format
        self.rate_hz = DEFAULT_SAMPLE_RATE_HZ
        self.first_byte_s: float | None = None
        self._sound_arrived_s = 0.0

    @property
    def is_unanswered(self) -> bool:
        """Whether not even the head of a response came, and nothing else is known to be wrong."""
        return not self.status and self.fault is None

    @property
    def ends_with_connection(self) -> bool:
        """Whether only the end of the connection ends the response."""
        names = self.headers.keys()
        return bool(self.status) and not names & {"content-length", "transfer-encoding"}

    def restart(self) -> None:
        """Wait anew, for an answer over another connection."""
        self.done, self.ended_s = asyncio.get_running_loop().create_future(), None

    def begin(self, status: int) -> None:
        """Take the end of the response's head."""
        self.status = status
        if status != 200:
            return
        try:
            self._open()
        except BodyError as error:  # an error body in place of audio may contain the reason
            self._note(error.outcome, error.message)

    def take(self, data: bytes, now_s: float) -> None:
        """Take a part of the response's body, which has just arrived."""
        if self.first_byte_s is None:
            self.first_byte_s = now_s
        if self.body is None:
            self.error += data[: _MAX_ERROR_BYTES - len(self.error)]
            return
        num_before = self.body.num_samples
        was_silent = self.body.first_sound_sample is None
        try:
            self.body.feed(data)
        except BodyError as error:
            self.fail(error.outcome, error.message)
            return
        if num_new := self.body.num_samples - num_before:
            self.arrivals_s.append(now_s)
            self.durations_s.append(num_new / self._played_hz)
        if was_silent and self.body.first_sound_sample is not None:
            self._sound_arrived_s = now_s

    def take_base64(self, text: str, now_s: float) -> None:
        """Take audio that a message carries."""
        try:
            data = samples_of(text)
        except BodyError as error:
            self.fail(error.outcome, error.message)
            return
        self.take(data, now_s)

    def take_rate(self, rate_hz: object) -> None:
        """Set the sample rate that a message contains."""
        try:
            self.rate_hz = _number("sample rate", str(rate_hz), self.rate_hz, _MAX_RATE_HZ)
        except BodyError as error:
            self.fail(error.outcome, error.message)

    def first_sound_s(self) -> float | None:
        """Return when playback reaches the first sound, including the silence before it."""
        if self.body is None or self.body.first_sound_sample is None or not self.arrivals_s:
            return None
        silence_s = self.body.first_sound_sample / self._played_hz
        return max(self._sound_arrived_s, self.arrivals_s[0] + silence_s)

    def complete(self) -> None:
        """Take the end of the response, as it should be."""
        if self.fault is None and self.body is not None:
            try:
                self.body.end()
            except BodyError as error:
                self._note(error.outcome, error.message)
        self.is_complete = True
        self.end()

    def fail(self, fault: Outcome, message: str) -> None:
        """Wait for nothing more, since something is wrong."""
        self._note(fault, message)
        self.end()

    def end(self) -> None:
        """Wake the request that waits for the response."""
        if self.ended_s is None:
            self.ended_s = time.monotonic()
        if not self.done.done():
            self.done.set_result(None)

    def reason(self) -> str:
        """Return the fault and the server's error text; "" if there is none."""
        error_text = self.error.decode(errors="replace").strip()
        if not self.message and 300 <= self.status < 400:
            place = self.headers.get("location", "nowhere").partition("?")[0]  # no keys in queries
            self.message = f"HTTP {self.status} redirects to {place}"
        elif not self.message and not error_text and self.status not in (0, 200):
            self.message = f"HTTP {self.status}"
        return ": ".join(filter(None, (self.message, error_text)))

    def _note(self, fault: Outcome, message: str) -> None:
        if self.fault is None:
            self.fault, self.message = fault, message

    def _open(self) -> None:
        if (coding := self.headers.get("content-encoding", "identity")) != "identity":
            raise BodyError(f"The answer is compressed ({coding}), which was not asked for")
        content_type = self.headers.get("content-type", "")
        _, parameters = media_type(content_type)
        rate_hz = self.headers.get("x-sample-rate", parameters.get("rate"))
        channels = self.headers.get("x-channels", parameters.get("channels"))
        self.rate_hz = _number("sample rate", rate_hz, DEFAULT_SAMPLE_RATE_HZ, _MAX_RATE_HZ)
        num_channels = _number("number of channels", channels, 1, _MAX_CHANNELS)
        self.body = open_body(self._format, content_type, num_channels)

    @property
    def _played_hz(self) -> int:
        of_body = None if self.body is None else self.body.rate_hz
        return of_body or self.rate_hz


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long a refused client should wait; ``None`` if the headers have no duration."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            found_s = float(headers[name]) * unit_s
        except (KeyError, ValueError):  # a date depends on the server's clock
            continue
        if math.isfinite(found_s) and found_s >= 0:
            return found_s
    return None


def _number(name: str, text: str | None, usual: int, most: int) -> int:
    if text is None:
        return usual
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= most:
        raise BodyError(f"'{text}' is no {name}")
    return int(text)
