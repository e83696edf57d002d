"""Statistics of a stream, and its metrics.

`StreamStats` follows a stream as a listener would who plays from the first audio on and buffers
nothing.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from prometheus_client import CollectorRegistry

from antiphon.contracts.types import Ended, FinishReason, Usage
from antiphon.errors import InvalidRequestError, OverloadedError
from antiphon.telemetry.logs import audio_format
from antiphon.telemetry.metric_maker import OMNI_LABELS, MetricMaker

CONTINUITY_THRESHOLD_S = 0.1
"""A stream with fewer seconds of gaps counts as continuous, as in vLLM-Omni's benchmark."""

_LATENCY_BUCKETS_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.35, 0.6, 1, 2, 5, 10, 30)
_FACTOR_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 5)
_OMNI_PLACE = ("speech", "0")
_OMNI_S = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1, 2, 5, 10, 30, 60)
_OMNI_FACTOR_BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 5)


class RequestStats:
    """Times a request, from now on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self.usage = Usage()
        self.reason: FinishReason | None = None

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began_s

    def end(self, ended: Ended) -> None:
        self.usage, self.reason = ended.usage, ended.reason


Stats = TypeVar("Stats", bound=RequestStats)


@contextmanager
def outcome_of(stats: Stats, record: Callable[[Stats, str], None]) -> Generator[Stats, None, None]:
    """Call ``record`` with the reason of a request's end when the block is left.

    ``"refused"`` is no failure of the server, and must not cause an alarm.
    """
    reason = "error"
    try:
        yield stats
    except (GeneratorExit, asyncio.CancelledError):
        reason = "abort"
        raise
    except (InvalidRequestError, OverloadedError):
        reason = "refused"
        raise
    finally:
        record(stats, stats.reason or reason)


class StreamStats(RequestStats):
    """Times a stream.

    Delays by a slow listener are not counted, nor is the time in which all text that has arrived
    is spoken: a gap that begins then is no underrun.

    Attributes:
        first_audio_s: Time to first audio, without waiting for text; ``None``
            before that.
        busy_s: seconds in which the listener was waiting for more.
        underrun_s: Duration of all gaps.
    """

    def __init__(
        self, clock: Callable[[], float], on_audio: Callable[[float, bool], None] | None = None
    ) -> None:
        """Start now; ``on_audio`` takes the duration of each chunk, and whether it is the first."""
        super().__init__(clock)
        self._on_audio = on_audio
        self._asked_s = self._began_s
        self._wants_since_s: float | None = self._began_s  # audio to play; ``None``: not asked
        self._silent_at_s = 0.0
        self._waits_since_s: float | None = None
        self._waited_s = 0.0  # since the listener asked
        self._waited_until_s = 0.0
        self.first_audio_s: float | None = None
        self.audio_s = 0.0
        self.busy_s = 0.0
        self.num_underruns = 0
        self.underrun_s = 0.0

    @property
    def real_time_factor(self) -> float:
        """Seconds of work for a second of audio; 0 if there is none."""
        return self.busy_s / self.audio_s if self.audio_s else 0.0

    def ask(self) -> None:
        """The listener wants more."""
        self._asked_s = self._clock()
        self._waited_s = 0.0
        if self._wants_since_s is None:
            self._wants_since_s = self._asked_s

    def wait(self, is_waiting: bool) -> None:
        """From now on, nothing is left to do before more text comes; or there is."""
        now_s = self._clock()
        if is_waiting:
            if self._waits_since_s is None:
                self._waits_since_s = now_s
        elif self._waits_since_s is not None:
            self._waited_s += now_s - max(self._waits_since_s, self._asked_s)
            self._waits_since_s, self._waited_until_s = None, now_s

    def record_chunk(self, duration_s: float) -> None:
        """Audio of this duration has come; 0 for frames without audio yet."""
        now_s, asked_s = self._clock(), self._asked_s
        self._count_busy(now_s)
        if duration_s <= 0:
            return
        if self._wants_since_s is not None:
            asked_s, self._wants_since_s = self._wants_since_s, None
        if self._on_audio is not None:
            self._on_audio(duration_s, self.first_audio_s is None)
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
        self._count_busy(self._clock())
        super().end(ended)

    def _count_busy(self, now_s: float) -> None:
        """Count the time since the listener asked, but for that spent waiting for text."""
        if self._waits_since_s is not None:  # and still does: what comes was made before
            self.wait(False)
            self._waits_since_s = now_s
        self.busy_s += now_s - self._asked_s - self._waited_s
        self._asked_s, self._waited_s = now_s, 0.0


class StreamMetrics:
    """The metrics of streams, under our names and, where they mean the same, vLLM-Omni's.

    For vLLM-Omni's names, a server is one replica, and its pipeline one stage.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        ours = MetricMaker(registry, "antiphon_", "model")
        fault = ("voice", "format", "stage")
        self._active = ours.gauge("speech_active", "Streams open now.")
        self._waiting = ours.gauge("speech_waiting", "Those without audio so far.")
        self._ended = ours.counter("speech_ended", "Streams ended, by reason.", "reason")
        self._failed = ours.counter("speech_failed", "Streams that failed.", *fault)
        self._aborted = ours.counter("speech_aborted", "Streams whose listener left.", *fault)
        text = "From the request to its first audio, before encoding."
        self._first_audio_s = ours.histogram("first_audio_seconds", text, _LATENCY_BUCKETS_S)
        text = "Seconds of work for a second of audio, waiting listeners left out."
        self._real_time_factor = ours.histogram("real_time_factor", text, _FACTOR_BUCKETS)
        text = "Gaps in playback, for a client without a buffer."
        self._underruns = ours.counter("underruns", text)
        self._underrun_s = ours.counter("underrun_seconds", "Seconds of such gaps.")
        self._audio_s = ours.counter("audio_seconds", "Seconds of audio made.")
        self._input_tokens = ours.counter("input_tokens", "Text units read.")

        omni = MetricMaker(registry, "vllm_omni:", *OMNI_LABELS)
        text = "Requests whose audio is being made."
        self._omni_running = omni.gauge("num_requests_running", text)
        text = "Requests without audio so far."
        self._omni_waiting = omni.gauge("num_requests_waiting", text)
        text = "From a request to its end."
        self._omni_latency_s = omni.histogram("e2e_request_latency_s", text, _OMNI_S)
        text = "Requests completed."
        self._omni_success = omni.counter("requests_success", text, "finished_reason")
        self._omni_failed = omni.counter("requests_failed", "Requests that failed.", "reason")
        self._omni_prompt_tokens = omni.counter("prompt_tokens", "Text units read.")
        self._omni_tokens = omni.counter("generation_tokens", "Frames made.")
        self._omni_frames = omni.counter("audio_frames", "Frames made.")
        self._omni_ttfp_s = omni.histogram("audio_ttfp_s", "Time to the first audio.", _OMNI_S)
        self._omni_audio_s = omni.histogram("audio_duration_s", "Audio of a request.", _OMNI_S)
        self._omni_factor = omni.histogram("audio_rtf", "Real-time factor.", _OMNI_FACTOR_BUCKETS)
        self._omni_underrun_s = omni.histogram("audio_underrun_s", "Gaps of a request.", _OMNI_S)
        text = "Requests without gaps to speak of."
        self._omni_continuous = omni.counter("audio_continuity_ok", text, "threshold_ms")
        text = "Streams that were aborted."
        self._omni_aborted = omni.counter("speech_stream_aborted", text, "reason")
        text = "Streams that were completed."
        self._omni_completed = omni.counter("speech_stream_completed", text)

    @contextmanager
    def observe(
        self, model: str, voice_kind: str = "builtin"
    ) -> Generator[StreamStats, None, None]:
        """Measure a stream; the block reports its audio and its end."""
        place = (model, *_OMNI_PLACE)
        audio_s = self._audio_s.labels(model)

        def on_audio(duration_s: float, is_first: bool) -> None:
            audio_s.inc(duration_s)
            if is_first:
                self._waiting.labels(model).dec()
                self._omni_waiting.labels(*place).dec()
                self._omni_running.labels(*place).inc()

        def record(stats: StreamStats, reason: str) -> None:
            self._record(model, stats, reason, voice_kind)
            self._record_omni(place, stats, reason)

        self._active.labels(model).inc()
        self._waiting.labels(model).inc()
        self._omni_waiting.labels(*place).inc()
        stats = StreamStats(time.monotonic, on_audio)
        with outcome_of(stats, record):
            yield stats

    def _record(self, model: str, stats: StreamStats, reason: str, voice_kind: str) -> None:
        self._active.labels(model).dec()
        self._ended.labels(model, reason).inc()
        self._input_tokens.labels(model).inc(stats.usage.input_tokens)
        stage = "start" if stats.first_audio_s is None else "stream"
        if stats.first_audio_s is None:
            self._waiting.labels(model).dec()
        else:
            self._first_audio_s.labels(model).observe(stats.first_audio_s)
            if reason in ("stop", "length"):
                self._real_time_factor.labels(model).observe(stats.real_time_factor)
            self._underruns.labels(model).inc(stats.num_underruns)
            self._underrun_s.labels(model).inc(stats.underrun_s)
        faults = {"error": self._failed, "abort": self._aborted}
        if reason in faults:
            faults[reason].labels(model, voice_kind, audio_format.get(), stage).inc()

    def _record_omni(self, place: tuple[str, str, str], stats: StreamStats, reason: str) -> None:
        if stats.first_audio_s is None:
            self._omni_waiting.labels(*place).dec()
        else:
            self._omni_running.labels(*place).dec()
            self._omni_ttfp_s.labels(*place).observe(stats.first_audio_s)
        if reason == "refused":
            return
        self._omni_latency_s.labels(*place).observe(stats.elapsed_s)
        self._omni_prompt_tokens.labels(*place).inc(stats.usage.input_tokens)
        self._omni_tokens.labels(*place).inc(stats.usage.output_tokens)
        self._omni_frames.labels(*place).inc(stats.usage.output_tokens)
        if reason == "error":
            self._omni_failed.labels(*place, reason).inc()
        if reason in ("error", "abort"):
            self._omni_aborted.labels(*place, reason).inc()
            return
        self._omni_success.labels(*place, reason).inc()
        self._omni_completed.labels(*place).inc()
        self._omni_audio_s.labels(*place).observe(stats.audio_s)
        self._omni_factor.labels(*place).observe(stats.real_time_factor)
        self._omni_underrun_s.labels(*place).observe(stats.underrun_s)
        if stats.underrun_s <= CONTINUITY_THRESHOLD_S:
            self._omni_continuous.labels(*place, f"{CONTINUITY_THRESHOLD_S * 1000:g}").inc()
