"""Follows one stream as a listener would who plays from the first audio on and buffers nothing."""

from collections.abc import Callable

from antiphon.types import Ended, FinishReason, Usage


class StreamStats:
    """Times a stream; what a slow listener holds up is not counted against the model.

    Nor is the time in which all text that has come so far has been spoken: a gap that begins then
    is none of ours.

    Attributes:
        first_audio_s: from the beginning to the first audio, without waiting for text; ``None``
            before that.
        audio_s: seconds of audio so far.
        busy_s: seconds in which the listener was waiting for more.
        num_underruns: how often the listener had nothing to play.
        underrun_s: for how long in all.
        usage: known at the end.
        reason: why the stream ended; ``None`` before that.
    """

    def __init__(
        self, clock: Callable[[], float], on_audio: Callable[[float, bool], None] | None = None
    ) -> None:
        """Begin now.

        Args:
            clock: gives seconds.
            on_audio: called with the duration of each chunk, and whether it is the first.
        """
        self._clock = clock
        self._on_audio = on_audio
        self._began_s = self._asked_s = clock()
        self._silent_at_s = 0.0
        self._waits_since_s: float | None = None
        self._waited_s = 0.0  # since the listener asked
        self._waited_until_s = 0.0
        self._waited_before_audio_s = 0.0
        self.first_audio_s: float | None = None
        self.audio_s = 0.0
        self.busy_s = 0.0
        self.num_underruns = 0
        self.underrun_s = 0.0
        self.usage = Usage()
        self.reason: FinishReason | None = None

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
        self._waited_s = 0.0

    def wait(self, is_waiting: bool) -> None:
        """From now on, nothing is left to do before more text comes; or there is."""
        now_s = self._clock()
        if is_waiting:
            if self._waits_since_s is None:
                self._waits_since_s = now_s
        elif self._waits_since_s is not None:
            self._waited_s += now_s - max(self._waits_since_s, self._asked_s)
            self._waits_since_s, self._waited_until_s = None, now_s

    def hear(self, duration_s: float) -> None:
        """Audio of this duration has come."""
        if self._on_audio is not None:
            self._on_audio(duration_s, self.first_audio_s is None)
        now_s, asked_s = self._clock(), self._asked_s
        self._count_busy(now_s)
        if self.first_audio_s is None:
            self.first_audio_s = self.busy_s
            self._silent_at_s = now_s
        missed_s = now_s - self._silent_at_s
        # A listener who asks only when all would be played out is held up by something else than
        # the model; so is one whose audio ran out before more text came.
        is_ours = max(asked_s, self._waited_until_s) <= self._silent_at_s
        if missed_s > 0 and is_ours:
            self.num_underruns += 1
            self.underrun_s += missed_s
        self._silent_at_s = max(self._silent_at_s, now_s) + duration_s
        self.audio_s += duration_s

    def end(self, ended: Ended) -> None:
        """The stream is complete."""
        self._count_busy(self._clock())
        self.usage, self.reason = ended.usage, ended.reason

    def _count_busy(self, now_s: float) -> None:
        """Count the time since the listener asked, but for that spent waiting for text."""
        if self._waits_since_s is not None:  # and still does: what comes was made before
            self.wait(False)
            self._waits_since_s = now_s
        self.busy_s += now_s - self._asked_s - self._waited_s
        self._asked_s, self._waited_s = now_s, 0.0
