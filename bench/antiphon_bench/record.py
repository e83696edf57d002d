"""Client-side record of one request."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["ok", "refused", "rejected", "failed", "broken", "invalid", "timeout"]
"""``ok``: all of the audio came; ``refused``: 429; ``rejected``: another 4xx; ``failed``: 5xx, or
an error that the server sent in the midst of an answer; ``broken``: the connection could not be
made, or the answer ended before it was complete; ``invalid``: something else came than the audio
that was asked for; ``timeout``: the answer was not complete in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request; all times are seconds of one clock (`time.monotonic`).

    Attributes:
        index: number of the request within the load.
        due_s: due time; the delay of a late client is part of the latency.
        ended_s: time at which the response was complete, or broke.
        status: HTTP status; 0 if there was no response.
        first_byte_s: arrival of the first byte of the response's body, audio or not.
        first_sound_s: time at which playback reaches the first non-silent sample, if there is one.
        num_tokens: number of generated frames that the server reports; ``None``: not reported.
        retry_after_s: wait that the server asks a refused client for.
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
    def is_whole(self) -> bool:
        """Whether all of the audio came, and there was some."""
        return self.outcome == "ok" and bool(self.arrivals_s)

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
