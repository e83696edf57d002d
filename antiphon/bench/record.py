"""What became of one request, as its client saw it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["ok", "refused", "rejected", "failed", "broken", "invalid", "timeout"]
"""``ok``: all of the audio came; ``refused``: 429; ``rejected``: another 4xx; ``failed``: 5xx, or
an error that the server told in the midst of an answer; ``broken``: the connection could not be
made, or the answer ended before it was complete; ``invalid``: something else came than the audio
that was asked for; ``timeout``: the answer was not complete in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request; all times are seconds of one clock (`time.monotonic`).

    Attributes:
        index: its number within the load.
        due_s: when it should have been sent; a client that was late is part of the latency.
        sent_s: when it was sent.
        ended_s: when its response was complete, or broke.
        outcome: what became of it.
        status: of HTTP; 0 if there was no response.
        num_characters: of its text.
        first_byte_s: when the first byte of the response's body was there, audio or not.
        arrivals_s: when each piece of audio was there.
        durations_s: for how long each piece plays.
        first_sound_s: when the first sample that is not silence would be heard, if there is one.
        num_tokens: frames that the server says it made; ``None`` if it did not say.
        retry_after_s: for how long a refused client is asked to wait.
        message: of the error.
    """

    index: int
    due_s: float
    sent_s: float
    ended_s: float
    outcome: Outcome
    status: int
    num_characters: int
    first_byte_s: float | None = None
    arrivals_s: tuple[float, ...] = ()
    durations_s: tuple[float, ...] = ()
    first_sound_s: float | None = None
    num_tokens: int | None = None
    retry_after_s: float | None = None
    message: str = ""

    @property
    def audio_s(self) -> float:
        return sum(self.durations_s)


def outcome_of(status: int, *, is_complete: bool, fault: Outcome | None = None) -> Outcome:
    """Classify a response by its status, by whether its end was seen, and by what was wrong."""
    if status == 429:
        return "refused"
    if 400 <= status < 500:
        return "rejected"
    if status >= 500:
        return "failed"
    if fault is not None:
        return fault
    if not is_complete:
        return "broken"
    return "ok" if status == 200 else "invalid"
