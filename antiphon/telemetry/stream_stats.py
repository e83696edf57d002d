"""Follows one stream as a listener would who plays from the first audio on and buffers nothing."""

from collections.abc import Callable

from antiphon.types import Usage


class StreamStats:
    """Times a stream; what a slow listener holds up is not counted against the model.

    Attributes:
        first_audio_s: from the beginning to the first audio, ``None`` before that.
        audio_s: seconds of audio so far.
        busy_s: seconds in which the listener was waiting for more.
        num_underruns: how often the listener had nothing to play.
        underrun_s: for how long in all.
        usage: known at the end.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin now; ``clock`` gives seconds."""
        self._clock = clock
        self._began_s = self._asked_s = clock()
        self._silent_at_s = 0.0
        self.first_audio_s: float | None = None
        self.audio_s = 0.0
        self.busy_s = 0.0
        self.num_underruns = 0
        self.underrun_s = 0.0
        self.usage = Usage()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began_s

    @property
    def real_time_factor(self) -> float:
        """Seconds of work for a second of audio; 0 if there is none."""
        return self.busy_s / self.audio_s if self.audio_s else 0.0

    def ask(self) -> None:
        """The listener wants more."""
        self._asked_s = self._clock()

    def hear(self, duration_s: float) -> None:
        """Audio of this duration has come."""
        now_s = self._clock()
        self.busy_s += now_s - self._asked_s
        if self.first_audio_s is None:
            self.first_audio_s = now_s - self._began_s
            self._silent_at_s = now_s
        missed_s = now_s - self._silent_at_s
        # Who asks only when all would be played out is held up by something else than the model.
        if missed_s > 0 and self._asked_s <= self._silent_at_s:
            self.num_underruns += 1
            self.underrun_s += missed_s
        self._silent_at_s = max(self._silent_at_s, now_s) + duration_s
        self.audio_s += duration_s

    def end(self, usage: Usage) -> None:
        """The stream is complete."""
        self.busy_s += self._clock() - self._asked_s
        self.usage = usage
